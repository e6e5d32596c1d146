//! `hosts queue HOST`: who is at a host, who waits for it, and for which missing runs it is kept.

use clap::Args;
use serde::Deserialize;

use super::Where;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Cell, Column, Paint, Screen, Table, Text};

#[derive(Debug, Clone, Args)]
pub struct QueueArgs {
    /// The host's name
    host: String,
    #[command(flatten)]
    place: Where,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TurnView {
    job_id: Text,
    job_number: Text,
    command: Text,
    lock: Text,
    held: bool,
    status: Text,
    since: Text,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct KeptView {
    run_id: Text,
    job_id: Text,
    agent: Text,
    until: Text,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct QueueView {
    kept: Vec<KeptView>,
    queue: Vec<TurnView>,
}

const COLUMNS: [Column; 7] = [
    Column::left("JOB").whole(),
    Column::left("COMMAND"),
    Column::left("TURN"),
    Column::left("LOCK"),
    Column::left("STATUS"),
    Column::left("SINCE"),
    Column::right("NUMBER").spare(),
];

fn row(screen: &Screen, turn: &TurnView) -> Vec<Cell> {
    let held = if turn.held { Cell::painted("at the host", Paint::Busy) } else { Cell::painted("waits", Paint::Quiet) };
    vec![
        (&turn.job_id).into(),
        (&turn.command).into(),
        held,
        (&turn.lock).into(),
        Cell::status(&turn.status),
        screen.ago(&turn.since).into(),
        (&turn.job_number).into(),
    ]
}

pub async fn queue(client: &Client, screen: &mut Screen, args: &QueueArgs) -> Result<Exit, Failure> {
    let request = Request::get(["hosts", &args.host, "queue"]).query("inventory", args.place.inventory.as_str());
    let answer = client.call(&request).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let QueueView { kept, queue } = answer.read()?;
    for KeptView { run_id, job_id, agent, until } in &kept {
        let of = if job_id.is_empty() { String::new() } else { format!(" of job {job_id}") };
        screen.line(&format!("kept until {until}: run {run_id}{of} went missing; agent {agent} had it"))?;
    }
    if !kept.is_empty() {
        screen.note(&format!("`bowline hosts release {} --reason …` if nothing runs there any more", args.host));
    }
    if !queue.is_empty() {
        let rows: Vec<Vec<Cell>> = queue.iter().map(|turn| row(screen, turn)).collect();
        let text = Table::new(&COLUMNS).render(&rows, screen.width(), screen.color());
        screen.text(&text)?;
    } else if kept.is_empty() {
        screen.line("Nothing runs on this host, and nothing waits for it.")?;
    }
    Ok(Exit::Success)
}
