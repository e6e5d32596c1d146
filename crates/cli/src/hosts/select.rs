//! `hosts select EXPR`.

use clap::Args;
use serde::Deserialize;

use super::Where;
use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::time::thousands;
use crate::output::{Screen, Text};

#[derive(Debug, Clone, Args)]
#[command(after_help = "A selector:
  web*  db[1:20]          hosts or groups whose name looks like this
  @prod                   hosts of this group, and of the groups in it
  role=web  role!=web     hosts whose label has this value, or has not
  a & b   a | b   !a      both, either, not; ( ) first this; all is everybody")]
pub struct SelectArgs {
    /// Which hosts, such as 'role=web & site!=fra'
    #[arg(value_name = "EXPR")]
    selector: String,
    #[command(flatten)]
    place: Where,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Chosen {
    count: u64,
    hosts: Vec<Text>,
}

pub async fn select(client: &Client, screen: &mut Screen, args: &SelectArgs) -> Result<Exit, Failure> {
    let body = serde_json::json!({ "selector": args.selector }).to_string();
    let request = Request::post(["inventories", &args.place.inventory, "select"]).again(Again::Safe).body(body);
    let answer = client.call(&request).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let chosen: Chosen = answer.read()?;
    for name in &chosen.hosts {
        screen.line(name.as_str())?;
    }
    let more = chosen.count.saturating_sub(chosen.hosts.len() as u64);
    if more > 0 {
        screen.line(&format!("… and {} more", thousands(more)))?;
    }
    let hosts = if chosen.count == 1 { "host" } else { "hosts" };
    screen.note(&format!("{} {hosts}", thousands(chosen.count)));
    Ok(Exit::Success)
}
