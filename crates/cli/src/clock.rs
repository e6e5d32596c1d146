//! `clock show|accept`: the clock that decides.

use clap::Subcommand;
use serde::Deserialize;

use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Facts, Screen, Text};

#[derive(Debug, Clone, Subcommand)]
pub enum ClockCommand {
    /// Show the server's clock, and whether it is trusted
    Show,
    /// Trust a clock that is far from the ledger's last known time; expiry, retention, misfires and timeouts continue
    Accept {
        /// Why, for the audit trail
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ClockView {
    held: bool,
    now: Text,
    clock: Text,
    says: Text,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AcceptedView {
    changed: bool,
    before: Text,
    now: Text,
}

pub async fn run(client: &Client, screen: &mut Screen, command: ClockCommand) -> Result<Exit, Failure> {
    match command {
        ClockCommand::Show => {
            let answer = client.call(&Request::get(["clock"])).await?;
            if screen.json() {
                screen.json_line(answer.text())?;
                return Ok(Exit::Success);
            }
            let clock: ClockView = answer.read()?;
            let state = if clock.held { "held" } else { "believed" };
            let facts = Facts::new().with("clock", &clock.clock).with("ledger", &clock.now).with("state", state);
            screen.facts(&facts)?;
            if clock.held {
                screen.note(clock.says.as_ref());
            }
        }
        ClockCommand::Accept { reason } => {
            let body = serde_json::json!({ "reason": reason }).to_string();
            // Accepting what is accepted changes nothing, so a lost answer can be asked for again.
            let answer = client.call(&Request::post(["clock", "accept"]).body(body).again(Again::Safe)).await?;
            if screen.json() {
                screen.json_line(answer.text())?;
                return Ok(Exit::Success);
            }
            let accepted: AcceptedView = answer.read()?;
            if accepted.changed {
                screen
                    .line(&format!("accepted: the ledger's time went from {} to {}", accepted.before, accepted.now))?;
            } else {
                screen.line("nothing to accept: the clock is believed already")?;
            }
        }
    }
    Ok(Exit::Success)
}
