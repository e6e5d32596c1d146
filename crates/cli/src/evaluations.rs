//! `evaluations …`: those that ended the server twice and are set aside, and the way back.

use clap::Subcommand;
use serde::Deserialize;

use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Screen, Text};

#[derive(Debug, Clone, Subcommand)]
pub enum EvaluationsCommand {
    /// List evaluations that are set aside
    List,
    /// Resume an evaluation
    ///
    /// It was set aside because the server ended twice while it was evaluated. If that happens again, it is set aside again.
    Resume {
        /// The subject, as `evaluations list` shows it
        subject: String,
    },
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct EvaluationView {
    subject: Text,
    set_aside_at: Text,
}

const COLUMNS: [Column; 2] = [Column::left("SUBJECT").whole(), Column::left("SET ASIDE")];

fn row(screen: &Screen, evaluation: &EvaluationView) -> Vec<Cell> {
    vec![(&evaluation.subject).into(), screen.ago(&evaluation.set_aside_at).into()]
}

pub async fn run(client: &Client, screen: &mut Screen, command: EvaluationsCommand) -> Result<Exit, Failure> {
    match command {
        EvaluationsCommand::List => {
            let mut listing = Listing::new(screen, "set_aside", None, &COLUMNS, row);
            listing.read(client, Request::get(["evaluations"])).await?;
            listing.finish("No evaluation is set aside.")?;
        }
        EvaluationsCommand::Resume { subject } => {
            let body = serde_json::json!({ "subject": subject }).to_string();
            let answer = client.call(&Request::post(["evaluations", "resume"]).body(body)).await?;
            if screen.json() {
                screen.json_line(answer.text())?;
            } else {
                screen.line(&format!("{subject} is resumed"))?;
            }
        }
    }
    Ok(Exit::Success)
}
