//! `workers [list|drain|undrain]`: who executes runs.

use std::collections::BTreeMap;

use clap::Subcommand;
use serde::Deserialize;

use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{Cell, Column, Paint, Screen, Text};
use crate::whoami::joined;

#[derive(Debug, Clone, Subcommand)]
pub enum WorkersCommand {
    /// List the workers (the default)
    List,
    /// Let a worker finish its runs and take no new ones
    Drain {
        /// The worker's id
        id: String,
    },
    /// Let a drained worker take runs again
    Undrain {
        /// The worker's id
        id: String,
    },
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WorkerView {
    worker_id: Text,
    worker_type: Text,
    task_types: Vec<Text>,
    labels: Option<BTreeMap<String, Text>>,
    resources: Option<BTreeMap<String, Text>>,
    shares_agent_user: bool,
    slots: Text,
    running: Text,
    status: Text,
    seen_at: Text,
    draining: bool,
    builtin: bool,
}

const COLUMNS: [Column; 9] = [
    Column::left("WORKER").whole(),
    Column::left("TYPE"),
    Column::left("STATUS"),
    Column::right("RUNS"),
    Column::right("SLOTS"),
    Column::left("SEEN"),
    Column::left("TASKS"),
    Column::left("LABELS").spare(),
    Column::left("RESOURCES").spare(),
];

fn row(screen: &Screen, worker: &WorkerView) -> Vec<Cell> {
    // Older servers do not say how a worker is.
    let status = match (worker.draining, worker.status.as_str()) {
        (_, "offline") => Cell::painted("offline", Paint::Bad),
        (true, _) => Cell::painted("draining", Paint::Busy),
        (false, "busy") => Cell::painted("busy", Paint::Busy),
        (false, "") => Cell::painted("active", Paint::Good),
        (false, status) => Cell::painted(status, Paint::Good),
    };
    let kind = if worker.builtin { "built in" } else { worker.worker_type.as_str() };
    vec![
        (&worker.worker_id).into(),
        kind.into(),
        status,
        (&worker.running).into(),
        (&worker.slots).into(),
        screen.ago(&worker.seen_at).into(),
        joined(&worker.task_types).into(),
        labels_of(worker).into(),
        labels(worker.resources.as_ref()).into(),
    ]
}

/// Its labels, and a warning where its commands share its user.
fn labels_of(worker: &WorkerView) -> String {
    let labels = labels(worker.labels.as_ref());
    match (worker.shares_agent_user, labels.is_empty()) {
        (false, _) => labels,
        (true, true) => "shares_agent_user".to_owned(),
        (true, false) => format!("{labels} shares_agent_user"),
    }
}

/// Labels in one line.
pub fn labels(labels: Option<&BTreeMap<String, Text>>) -> String {
    let pairs = labels.into_iter().flatten().map(|(name, value)| format!("{}={value}", Text::new(name)));
    pairs.collect::<Vec<_>>().join(" ")
}

pub async fn run(client: &Client, screen: &mut Screen, command: Option<WorkersCommand>) -> Result<Exit, Failure> {
    match command.unwrap_or(WorkersCommand::List) {
        WorkersCommand::List => {
            let mut listing = Listing::new(screen, "workers", None, &COLUMNS, row);
            listing.read(client, Request::get(["workers"])).await?;
            listing.finish(
                "No workers. Make a token with `bowline token create --kind worker --name NAME` and start one with it.",
            )?;
        }
        WorkersCommand::Drain { id } => drain(client, screen, &id, true).await?,
        WorkersCommand::Undrain { id } => drain(client, screen, &id, false).await?,
    }
    Ok(Exit::Success)
}

async fn drain(client: &Client, screen: &mut Screen, id: &str, draining: bool) -> Result<(), Failure> {
    let body = serde_json::json!({ "draining": draining }).to_string();
    // Setting a thing to a value twice is setting it once.
    let request = Request::post(["workers", id, "drain"]).body(body).again(Again::Safe);
    let answer = client.call(&request).await?;
    if screen.json() {
        return screen.json_line(answer.text());
    }
    let what = if draining { "finishes its runs and takes no new ones" } else { "takes runs again" };
    screen.line(&format!("worker {} {what}", Text::new(id)))
}
