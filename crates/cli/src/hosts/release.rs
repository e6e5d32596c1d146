//! `hosts release HOST`: nothing runs there any more, whatever became of the run that went missing.

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::Where;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A host that several agents reach is reserved for a while when a run is lost there: it could still be running, and the next \
one would run next to it. Look on the host first; then

  bowline hosts release web1 --reason 'looked: the old process is gone'")]
pub struct ReleaseArgs {
    /// The host's name
    host: String,
    /// How you know that nothing runs there
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    place: Where,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ReleasedView {
    released: u64,
}

pub async fn release(client: &Client, screen: &mut Screen, args: &ReleaseArgs) -> Result<Exit, Failure> {
    let body = json!({"inventory": args.place.inventory, "reason": args.reason}).to_string();
    let answer = client.call(&Request::post(["hosts", &args.host, "release"]).body(body)).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let ReleasedView { released } = answer.read()?;
    match released {
        0 => screen.line(&format!("{} was not kept", args.host))?,
        1 => screen.line(&format!("{} is released; it was kept for a missing run", args.host))?,
        many => screen.line(&format!("{} is released; it was kept for {many} missing runs", args.host))?,
    }
    Ok(Exit::Success)
}
