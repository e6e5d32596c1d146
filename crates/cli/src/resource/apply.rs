//! `apply -f` and `validate -f`: everything is checked first, and changed together or not at all.

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::diff;
use super::documents::{Document, Files};
use super::plan::{Outcome, check_all, errors, named};
use super::wrong::{exit, tell};
use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hosts::Counts;
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

`kind: inventory` has hosts and groups as its spec. Hosts that it does not mention stay, unless the spec says \
`unmentioned: remove`.")]
pub struct ApplyArgs {
    #[command(flatten)]
    files: Files,
    /// Only say what would change, and show it as a diff
    #[arg(long)]
    dry_run: bool,
    /// Store new versions without activating them
    #[arg(long)]
    no_activate: bool,
    /// Why; kept with the new versions and as the reason in the audit trail
    #[arg(long, visible_alias = "reason")]
    note: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct ValidateArgs {
    #[command(flatten)]
    files: Files,
}

#[derive(Deserialize)]
struct Applied {
    results: Vec<Stored>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stored {
    outcome: Text,
    version: u64,
    hosts: Option<Counts>,
}

impl Stored {
    fn outcome(self) -> Outcome {
        let Self { outcome, version, hosts } = self;
        match (hosts, outcome.as_str()) {
            (Some(counts), _) => Outcome::Inventory(counts),
            (None, "created") => Outcome::Created { version },
            (None, "activated") => Outcome::Activated { version },
            (None, "unchanged") => Outcome::Unchanged,
            (None, _) => Outcome::Updated { version },
        }
    }
}

const COLUMNS: [Column; 3] = [Column::left("KIND"), Column::left("NAME").whole(), Column::left("OUTCOME")];

pub async fn apply(client: &Client, screen: &mut Screen, args: &ApplyArgs) -> Result<Exit, Failure> {
    let (documents, wrong) = args.files.read()?;
    let (result, exit) = (json!({"dry_run": args.dry_run, "results": []}), exit(&wrong));
    let checked = match check_all(client, &documents, wrong).await? {
        Ok(checked) => checked,
        Err(wrong) => return tell(screen, &wrong, result, exit),
    };
    if args.dry_run {
        let (outcomes, specs): (Vec<_>, Vec<_>) =
            checked.into_iter().map(|checked| (checked.outcome, checked.spec)).unzip();
        show(screen, &documents, &outcomes, true)?;
        if !screen.json() {
            diff::differences(client, screen, &documents, specs).await?;
        }
        screen.note("this was a dry run: nothing was changed");
        return Ok(Exit::Success);
    }
    let outcomes = match store(client, &documents, args).await {
        Ok(outcomes) => outcomes,
        Err(Failure::Refused(refusal)) => match named(&documents, &refusal) {
            Some(document) => return tell(screen, &errors(document, &refusal), result, exit),
            None => {
                screen.note("nothing was changed");
                return Err(Failure::Refused(refusal));
            }
        },
        Err(failure) => return Err(failure),
    };
    show(screen, &documents, &outcomes, false)?;
    let stored = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Created { .. } | Outcome::Updated { .. }));
    if args.no_activate && stored {
        screen.note(
            "the new versions are not active yet; `bowline activate KIND NAME VERSION --reason WHY` activates one",
        );
    }
    Ok(Exit::Success)
}

pub async fn validate(client: &Client, screen: &mut Screen, args: &ValidateArgs) -> Result<Exit, Failure> {
    let (documents, wrong) = args.files.read()?;
    let (count, exit) = (documents.len(), exit(&wrong));
    if let Err(wrong) = check_all(client, &documents, wrong).await? {
        return tell(screen, &wrong, json!({"valid": false, "documents": count}), exit);
    }
    if screen.json() {
        screen.json_line(&json!({"valid": true, "documents": count, "errors": []}).to_string())?;
    } else {
        screen.line(&format!("valid: {count} {}", if count == 1 { "document" } else { "documents" }))?;
    }
    Ok(Exit::Success)
}

/// All documents in one request: they are made true together, or none of them is.
async fn store(client: &Client, documents: &[Document], args: &ApplyArgs) -> Result<Vec<Outcome>, Failure> {
    let said: Vec<_> = documents
        .iter()
        .map(|document| {
            let Document { place, kind, name, spec, source, .. } = document;
            let mut said = json!({"kind": kind, "name": name, "spec": spec, "place": place.to_string()});
            if let Some(source) = source {
                said["source"] = json!(source);
            }
            said
        })
        .collect();
    let mut body = json!({"documents": said, "activate": !args.no_activate});
    if let Some(note) = &args.note {
        body["note"] = json!(note);
    }
    // Applying twice is applying once.
    let request = Request::post(["apply"]).again(Again::Safe).body(body.to_string());
    let Applied { results } = client.call(&request).await?.read()?;
    if results.len() != documents.len() {
        return Err(client.strange(format!("it answers {} of {} documents", results.len(), documents.len())));
    }
    Ok(results.into_iter().map(Stored::outcome).collect())
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
