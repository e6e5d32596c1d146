//! `blocks add`.

use bowline_model::Timestamp;
use clap::Args;
use serde::Serialize;

use super::list::BlockView;
use crate::client::{Again, Client, Request};
use crate::duration::Span;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::new_key;
use crate::output::Screen;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline blocks add --host db1 --reason 'disk is being replaced' --for 2h
  bowline blocks add --on site=fra --reason 'change freeze' --until 2026-01-02T06:00:00Z")]
pub struct AddArgs {
    #[command(flatten)]
    place: Place,
    /// The inventory that knows the hosts
    #[arg(long, value_name = "NAME", default_value = "main")]
    inventory: String,
    /// Only this command type; ad-hoc is every command that is not a type [default: every command]
    #[arg(long, value_name = "NAME")]
    command: Option<String>,
    /// Why; shown to those who are blocked
    #[arg(long)]
    reason: String,
    /// For this long, such as 2h [default: until it is lifted]
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "until")]
    span: Option<Span>,
    /// Until this moment
    #[arg(long, value_name = "RFC3339")]
    until: Option<Timestamp>,
}

/// One host, or those that a selector means.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
struct Place {
    /// This host
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// The hosts that this selector matches when a command is about to start, such as 'site=fra'
    #[arg(long, value_name = "SELECTOR")]
    on: Option<String>,
}

#[derive(Serialize)]
struct Body<'a> {
    inventory: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

pub async fn add(client: &Client, screen: &mut Screen, args: &AddArgs) -> Result<Exit, Failure> {
    let ahead = |span: Span| screen.now().plus_millis(i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
    let body = Body {
        inventory: &args.inventory,
        host: args.place.host.as_deref(),
        selector: args.place.on.as_deref(),
        command: args.command.as_deref(),
        reason: &args.reason,
        expires_at: args.until.or(args.span.map(ahead)),
    };
    let body = serde_json::to_string(&body).map_err(|error| Failure::Usage(error.to_string()))?;
    let request = Request::post(["blocks"]).body(body);
    let answer = client.call(&request.idempotency_key(Some(new_key())).again(Again::Safe)).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let block: BlockView = answer.read()?;
    let what = if block.command.is_empty() { "no command".to_owned() } else { format!("{} does not", block.command) };
    let verb = if block.command.is_empty() { "runs" } else { "run" };
    let until = if block.expires_at.is_empty() {
        format!("until `bowline blocks lift {}`", block.id)
    } else {
        format!("until {}", block.expires_at)
    };
    screen.line(&format!("block {}: {what} {verb} on {} {until}", block.id, block.place()))?;
    Ok(Exit::Success)
}
