//! `hosts export`.

use clap::Args;

use super::Where;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::text::is_unsafe;
use crate::output::{Output, Screen};

#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// yaml, json, csv, ansible-ini, ansible-yaml or ansible-json [default: what -o says, or yaml]
    #[arg(long)]
    format: Option<String>,
    #[command(flatten)]
    place: Where,
}

pub async fn export(client: &Client, screen: &mut Screen, args: &ExportArgs) -> Result<Exit, Failure> {
    let otherwise = if screen.output() == Some(Output::Json) { "json" } else { "yaml" };
    let format = args.format.as_deref().unwrap_or(otherwise);
    let request = Request::get(["inventories", &args.place.inventory, "export"]).query("format", format);
    let file = client.fetch(&request).await?;
    // A file for a program stays as it is; a terminal is not handed what it would obey.
    let text = if screen.is_terminal() { harmless(&file.text) } else { file.text };
    screen.bytes(text.as_bytes())?;
    for sentence in &file.left_out {
        screen.note(sentence.as_str());
    }
    let more = file.left_out_count.saturating_sub(file.left_out.len());
    if more > 0 {
        screen.note(&format!("and {more} more things that {format} cannot say"));
    }
    Ok(Exit::Success)
}

fn harmless(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !is_unsafe(*c)).collect()
}
