//! `activate`, `rollback`, `delete`: a person's orders about a resource. The reason is kept.

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Screen, Text};

/// Which resource.
#[derive(Debug, Clone, Args)]
struct Which {
    /// The kind, such as command
    kind: String,
    /// The name
    name: String,
}

// Its version is one of the resource, not of this program.
#[derive(Debug, Clone, Args)]
#[command(disable_version_flag = true)]
pub struct ActivateArgs {
    #[command(flatten)]
    which: Which,
    /// The version to activate
    version: u32,
    /// Why; it is kept
    #[arg(long)]
    reason: String,
}

#[derive(Debug, Clone, Args)]
pub struct RollbackArgs {
    #[command(flatten)]
    which: Which,
    /// Why; it is kept
    #[arg(long)]
    reason: String,
}

#[derive(Debug, Clone, Args)]
pub struct DeleteArgs {
    #[command(flatten)]
    which: Which,
    /// Why; it is kept
    #[arg(long)]
    reason: String,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    yes: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Activated {
    active: Text,
    before: Text,
    changed: bool,
}

impl Which {
    fn words(&self) -> String {
        format!("{} {}", Text::new(&self.kind), Text::new(&self.name))
    }

    fn order(&self, verb: &str) -> Request {
        Request::post(["resources", &self.kind, &self.name, verb])
    }
}

pub async fn activate(client: &Client, screen: &mut Screen, args: &ActivateArgs) -> Result<Exit, Failure> {
    let body = json!({"version": args.version, "reason": args.reason.trim()}).to_string();
    // Setting a thing to a value twice is setting it once.
    point(client, screen, &args.which, args.which.order("activate").again(Again::Safe).body(body)).await
}

pub async fn rollback(client: &Client, screen: &mut Screen, args: &RollbackArgs) -> Result<Exit, Failure> {
    let body = json!({"reason": args.reason.trim()}).to_string();
    point(client, screen, &args.which, args.which.order("rollback").body(body)).await
}

async fn point(client: &Client, screen: &mut Screen, which: &Which, request: Request) -> Result<Exit, Failure> {
    let answer = client.call(&request).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let done: Activated = answer.read()?;
    let what = match (done.changed, done.before.as_str()) {
        (false, _) => format!("v{} counts already", done.active),
        (true, "") => format!("v{} is active now", done.active),
        (true, before) => format!("v{} is active now, instead of v{before}", done.active),
    };
    screen.line(&format!("{}: {what}", which.words()))?;
    Ok(Exit::Success)
}

pub async fn delete(client: &Client, screen: &mut Screen, args: &DeleteArgs) -> Result<Exit, Failure> {
    let question = format!("Delete {} with all its versions? They cannot be brought back.", args.which.words());
    if !args.yes && !screen.confirm(&question)? {
        return Err(Failure::Declined);
    }
    let body = json!({"reason": args.reason.trim()}).to_string();
    let answer = client.call(&Request::delete(["resources", &args.which.kind, &args.which.name]).body(body)).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
    } else {
        screen.line(&format!("{} is deleted", args.which.words()))?;
    }
    Ok(Exit::Success)
}
