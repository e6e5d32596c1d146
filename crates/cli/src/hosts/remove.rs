//! `hosts remove NAME...`.

use clap::Args;

use super::Where;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Screen, Text};

#[derive(Debug, Clone, Args)]
pub struct RemoveArgs {
    /// The hosts' names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Why; kept in the audit trail
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    place: Where,
}

pub async fn remove(client: &Client, screen: &mut Screen, args: &RemoveArgs) -> Result<Exit, Failure> {
    let (mut exit, mut results) = (Exit::Success, Vec::new());
    for name in &args.names {
        let request = Request::delete(["hosts", name])
            .query("inventory", &args.place.inventory)
            .query_if("reason", args.reason.clone());
        let removed = match client.call(&request).await {
            Ok(_) => true,
            // One that is not there does not hold up the others.
            Err(Failure::Refused(refusal)) if refusal.code.as_str() == "HOST_NOT_FOUND" => false,
            Err(failure) => return Err(failure),
        };
        if !removed {
            exit = Exit::Refused;
        }
        if screen.json() {
            results.push(serde_json::json!({ "name": name, "removed": removed }));
        } else {
            let outcome = if removed { "removed" } else { "is not there" };
            screen.line(&format!("host {} {outcome}", Text::new(name)))?;
        }
    }
    if screen.json() {
        screen.json_line(&serde_json::json!({ "results": results }).to_string())?;
    }
    Ok(exit)
}
