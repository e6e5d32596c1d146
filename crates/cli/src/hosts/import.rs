//! `hosts import FILE|-`.

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use super::Where;
use crate::client::{Answer, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::time::thousands;
use crate::output::{Screen, Text};
use crate::source;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline hosts import fleet.csv --dry-run
  bowline hosts import /etc/ansible/hosts --replace
  ansible-inventory -i aws_ec2.yaml --list | bowline hosts import - --format ansible-json")]
pub struct ImportArgs {
    /// The file; - is standard input
    file: PathBuf,
    /// yaml, json, csv, ansible-ini, ansible-yaml or ansible-json [default: guessed from name and content]
    #[arg(long)]
    format: Option<String>,
    /// Remove hosts and groups that the file does not mention
    #[arg(long)]
    replace: bool,
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
    /// Skip the confirmation prompt before hosts are removed
    #[arg(long, short)]
    yes: bool,
    /// Why; kept in the audit trail
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    place: Where,
}

/// What was done to an inventory, or would be.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub struct Counts {
    pub created: u64,
    pub changed: u64,
    pub unchanged: u64,
    pub removed: u64,
    pub groups: u64,
    names: Names,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Names {
    created: Vec<Text>,
    changed: Vec<Text>,
    removed: Vec<Text>,
}

impl Counts {
    pub fn is_change(&self) -> bool {
        self.created + self.changed + self.removed + self.groups > 0
    }
}

/// In one line: `3 created, 1 changed, 12 unchanged, 2 groups changed`.
pub fn counts(counts: &Counts) -> String {
    let mut words = Vec::new();
    for (count, word) in [
        (counts.created, "created"),
        (counts.changed, "changed"),
        (counts.unchanged, "unchanged"),
        (counts.removed, "removed"),
        (counts.groups, if counts.groups == 1 { "group changed" } else { "groups changed" }),
    ] {
        if count > 0 {
            words.push(format!("{} {word}", thousands(count)));
        }
    }
    if words.is_empty() { "nothing there, nothing said".to_owned() } else { words.join(", ") }
}

pub async fn import(client: &Client, screen: &mut Screen, args: &ImportArgs) -> Result<Exit, Failure> {
    let text = source::read(&args.file)?;
    if args.replace && !args.dry_run && !args.yes {
        let would: Counts = send(client, args, &text, true).await?.read()?;
        let question = format!(
            "{} hosts of the inventory {} are not in this file and would be removed. Go on?",
            thousands(would.removed),
            Text::new(&args.place.inventory)
        );
        if would.removed > 0 && !screen.confirm(&question)? {
            return Err(Failure::Declined);
        }
    }
    let answer = send(client, args, &text, args.dry_run).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let done: Counts = answer.read()?;
    if args.dry_run {
        for (word, names, count) in [
            ("+", &done.names.created, done.created),
            ("~", &done.names.changed, done.changed),
            ("-", &done.names.removed, done.removed),
        ] {
            for name in names {
                screen.line(&format!("{word} {name}"))?;
            }
            let more = count.saturating_sub(names.len() as u64);
            if more > 0 {
                screen.line(&format!("{word} … and {} more", thousands(more)))?;
            }
        }
    }
    screen.line(&format!("inventory {}: {}", Text::new(&args.place.inventory), counts(&done)))?;
    if args.dry_run {
        screen.note("this was a dry run: nothing was changed");
    }
    Ok(Exit::Success)
}

async fn send(client: &Client, args: &ImportArgs, text: &str, dry_run: bool) -> Result<Answer, Failure> {
    let name = args.file.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.filter(|_| !source::is_stdin(&args.file));
    // A description means the same twice.
    let request = Request::post(["inventories", &args.place.inventory, "import"])
        .again(crate::client::Again::Safe)
        .query_if("format", args.format.clone())
        .query_if("file", name)
        .query_if("unmentioned", args.replace.then_some("remove"))
        .query_if("dry_run", dry_run.then_some("true"))
        .query_if("reason", args.reason.clone())
        .file(text);
    client.call(&request).await
}
