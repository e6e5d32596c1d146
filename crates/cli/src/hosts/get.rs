//! `hosts get NAME`.

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Where;
use super::view::HostView;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::readable;
use crate::output::{Facts, Screen, Text};
use crate::whoami::joined;
use crate::workers::labels;

/// Lines of variables that are shown.
const VARS_LINES_MAX: usize = 200;

#[derive(Debug, Clone, Args)]
pub struct GetArgs {
    /// The host's name
    name: String,
    #[command(flatten)]
    place: Where,
}

#[derive(Deserialize)]
struct HostDetail {
    host: HostView,
    #[serde(default)]
    all_groups: Vec<Text>,
    #[serde(default)]
    effective_vars: Option<Box<RawValue>>,
}

pub async fn get(client: &Client, screen: &mut Screen, args: &GetArgs) -> Result<Exit, Failure> {
    let request = Request::get(["hosts", &args.name]).query("inventory", &args.place.inventory);
    let answer = client.call(&request).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let HostDetail { host, all_groups, effective_vars } = answer.read()?;
    let vars = effective_vars.map(|vars| readable(vars.get(), VARS_LINES_MAX)).filter(|vars| vars != "{}");
    screen.facts(
        &Facts::new()
            .with("name", &host.name)
            .with("inventory", &host.inventory)
            .with("reached by", host.connection.words())
            .with("labels", labels(host.labels.as_ref()))
            .with("groups", joined(&host.groups))
            .with("all groups", joined(&all_groups))
            .with("created", screen.ago(&host.created_at))
            .with("changed", screen.ago(&host.updated_at))
            .lines("variables", &vars.unwrap_or_default()),
    )?;
    Ok(Exit::Success)
}
