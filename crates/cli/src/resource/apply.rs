//! `apply -f` and `validate -f`: everything is checked first, and changed only if all of it is valid.

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::documents::{Document, Files, INVENTORY};
use super::plan::{Outcome, check_all, import, invalid};
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Cell, Column, Paint, Screen, Text};

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline apply -f commands.yaml
  bowline apply -f fleet/ --dry-run
  bowline get command restart-nginx | bowline apply -f -

A document has kind, name and spec; several stand in one file with --- between them:
  kind: command
  name: restart-nginx
  spec:
    argv: [systemctl, restart, nginx]

`kind: inventory` has hosts and groups as its spec. Hosts that it does not mention stay, unless the spec says
`unmentioned: remove`.")]
pub struct ApplyArgs {
    #[command(flatten)]
    files: Files,
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
    /// Store new versions, but let those count that count now
    #[arg(long)]
    no_activate: bool,
    /// A note for whoever reads the versions later
    #[arg(long)]
    note: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct ValidateArgs {
    #[command(flatten)]
    files: Files,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stored {
    outcome: Text,
    version: u64,
    activated: bool,
}

const COLUMNS: [Column; 3] = [Column::left("KIND"), Column::left("NAME").whole(), Column::left("OUTCOME")];

pub async fn apply(client: &Client, screen: &mut Screen, args: &ApplyArgs) -> Result<Exit, Failure> {
    let documents = args.files.read()?;
    let Some(checked) = check_all(client, screen, &documents).await? else { return Ok(invalid(screen)) };
    if args.dry_run {
        let outcomes: Vec<_> = checked.into_iter().map(|checked| checked.outcome).collect();
        show(screen, &documents, &outcomes, true)?;
        screen.note("this was a dry run: nothing was changed");
        return Ok(Exit::Success);
    }
    let mut outcomes = Vec::with_capacity(documents.len());
    for document in &documents {
        match store(client, document, args).await {
            Ok(outcome) => outcomes.push(outcome),
            Err(failure) => {
                // What was done stays done, so it is told.
                show(screen, &documents, &outcomes, false)?;
                let remark = format!("{} was not applied, nor what follows it", document.words());
                screen.note(Text::new(&remark).as_str());
                return Err(failure);
            }
        }
    }
    show(screen, &documents, &outcomes, false)?;
    let stored = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Created { .. } | Outcome::Updated { .. }));
    if args.no_activate && stored {
        screen.note(
            "the new versions do not count yet; `bowline activate KIND NAME VERSION --reason WHY` lets one count",
        );
    }
    Ok(Exit::Success)
}

pub async fn validate(client: &Client, screen: &mut Screen, args: &ValidateArgs) -> Result<Exit, Failure> {
    let documents = args.files.read()?;
    let valid = check_all(client, screen, &documents).await?.is_some();
    let count = documents.len();
    if screen.json() {
        screen.json_line(&json!({"valid": valid, "documents": count}).to_string())?;
    } else if valid {
        screen.line(&format!("valid: {count} {}", if count == 1 { "document" } else { "documents" }))?;
    }
    Ok(if valid { Exit::Success } else { Exit::Refused })
}

async fn store(client: &Client, document: &Document, args: &ApplyArgs) -> Result<Outcome, Failure> {
    if document.kind == INVENTORY {
        return client.call(&import(document, false)).await?.read().map(Outcome::Inventory);
    }
    let mut body = json!({"spec": document.spec, "activate": !args.no_activate});
    if let Some(note) = &args.note {
        body["note"] = json!(note);
    }
    let request = Request::put(["resources", &document.kind, &document.name]).body(body.to_string());
    let Stored { outcome, version, activated } = client.call(&request).await?.read()?;
    Ok(match (outcome.as_str(), version) {
        ("unchanged", _) if activated => Outcome::Activated { version },
        ("unchanged", _) => Outcome::Unchanged,
        (_, 1) => Outcome::Created { version },
        _ => Outcome::Updated { version },
    })
}

fn show(screen: &mut Screen, documents: &[Document], outcomes: &[Outcome], dry_run: bool) -> Result<(), Failure> {
    let both = || documents.iter().zip(outcomes);
    if screen.json() {
        let results: Vec<_> = both().map(|(document, outcome)| outcome.as_json(document)).collect();
        return screen.json_line(&json!({"dry_run": dry_run, "results": results}).to_string());
    }
    if outcomes.is_empty() {
        return Ok(());
    }
    let rows: Vec<Vec<Cell>> = both()
        .map(|(document, outcome)| {
            let paint = if outcome.is_change() { Paint::Good } else { Paint::Quiet };
            vec![Cell::new(&document.kind), Cell::new(&document.name), Cell::painted(outcome.words(), paint)]
        })
        .collect();
    screen.table(&COLUMNS, &rows)
}
