//! `dlq replay` and `dlq purge`: closing dead letters, one way or the other.
//!
//! A replay of everything could feed on itself: what is replayed may die again while it goes on. So `--all` means the
//! oldest ones up to `--limit`, and never more.

use std::collections::BTreeMap;

use bowline_model::{JobId, Lane};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::client::{Again, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job::new_key;
use crate::job_ref::JobRef;
use crate::listing::JsonList;
use crate::output::time::thousands;
use crate::output::{Cell, Column, Screen, Table, Text};

/// How many entries one request is about.
const CHUNK_MAX: usize = 100;

#[derive(Debug, Clone, Args)]
pub struct CloseArgs {
    /// webhook, critical, default or low
    lane: Lane,
    #[command(flatten)]
    choice: Choice,
    /// With --all: how many at most
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        conflicts_with = "jobs",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    limit: u64,
    /// Why; it is kept with the dead letter
    #[arg(long)]
    reason: String,
}

/// Which ones: by name, or all of them.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
struct Choice {
    /// The dead letter of this job; several may be named
    #[arg(long = "job", value_name = "JOB", num_args = 1..)]
    jobs: Vec<JobRef>,
    /// All open ones, oldest first, up to --limit
    #[arg(long)]
    all: bool,
}

impl CloseArgs {
    pub fn question(&self) -> String {
        let what = match self.choice.jobs.len() {
            0 => format!("up to {} open dead letters", thousands(self.limit)),
            1 => "this dead letter".to_owned(),
            many => format!("these {many} dead letters"),
        };
        format!("Purge {what} of the lane {}? They cannot be brought back.", self.lane)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Replay,
    Purge,
}

impl Verb {
    const fn path(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Purge => "purge",
        }
    }

    const fn done(self) -> &'static str {
        match self {
            Self::Replay => "replayed",
            Self::Purge => "purged",
        }
    }
}

#[derive(Serialize)]
struct Order<'a> {
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    job_ids: &'a [JobId],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    all: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    reason: &'a str,
}

#[derive(Deserialize)]
struct Outcomes {
    results: Vec<Box<RawValue>>,
    #[serde(default)]
    changed: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Outcome {
    job_id: Text,
    outcome: Text,
    new_job_id: Text,
    status: Text,
}

const COLUMNS: [Column; 3] = [Column::left("JOB").whole(), Column::left("OUTCOME"), Column::left("NOW").whole()];

pub async fn close(client: &Client, screen: &mut Screen, args: &CloseArgs, verb: Verb) -> Result<Exit, Failure> {
    let reason = args.reason.trim();
    let mut closing = Closing::default();
    if args.choice.all {
        let bar = screen.progress(args.limit, verb.path());
        while closing.handled < args.limit {
            let limit = (args.limit - closing.handled).min(CHUNK_MAX as u64);
            let order = Order { job_ids: &[], all: true, limit: Some(limit), reason };
            let handled = closing.send(client, screen, args.lane, verb, &order).await?;
            bar.advance(handled);
            if handled < limit {
                break;
            }
        }
        drop(bar);
    } else {
        let mut jobs = Vec::with_capacity(args.choice.jobs.len());
        for job in &args.choice.jobs {
            jobs.push(job.resolve(client).await?);
        }
        for job_ids in jobs.chunks(CHUNK_MAX) {
            let order = Order { job_ids, all: false, limit: None, reason };
            closing.send(client, screen, args.lane, verb, &order).await?;
        }
    }
    closing.finish(screen, args, verb)
}

/// What has been closed so far.
struct Closing {
    handled: u64,
    changed: u64,
    not_found: u64,
    table: Table,
    json: JsonList,
}

impl Default for Closing {
    fn default() -> Self {
        Self { handled: 0, changed: 0, not_found: 0, table: Table::new(&COLUMNS), json: JsonList::new("results") }
    }
}

impl Closing {
    /// Sends one order, shows its outcomes, and says how many there were.
    async fn send(
        &mut self,
        client: &Client,
        screen: &mut Screen,
        lane: Lane,
        verb: Verb,
        order: &Order<'_>,
    ) -> Result<u64, Failure> {
        let body = serde_json::to_string(order).map_err(|error| Failure::Usage(error.to_string()))?;
        // The oldest of now are not the oldest of a second time; the key makes both one request.
        let request = Request::post(["dlq", lane.as_str(), verb.path()]).body(body);
        let answer = client.call(&request.idempotency_key(Some(new_key())).again(Again::Safe)).await?;
        let outcomes: Outcomes = answer.read()?;
        let count = outcomes.results.len() as u64;
        self.handled += count;
        self.changed += outcomes.changed;
        let mut rows = Vec::with_capacity(outcomes.results.len());
        for result in &outcomes.results {
            let result: Outcome = serde_json::from_str(result.get()).map_err(|e| client.strange(e.to_string()))?;
            self.not_found += u64::from(result.outcome.as_str() == "not_found");
            let now = if result.new_job_id.is_empty() { &result.status } else { &result.new_job_id };
            rows.push(vec![Cell::from(&result.job_id), Cell::status(&result.outcome), now.into()]);
        }
        if screen.json() {
            self.json.add(screen, outcomes.results, BTreeMap::new(), answer)?;
            self.json.say("changed", self.changed);
        } else if !rows.is_empty() {
            let text = self.table.render(&rows, screen.width(), screen.color());
            screen.text(&text)?;
        }
        Ok(count)
    }

    fn finish(self, screen: &mut Screen, args: &CloseArgs, verb: Verb) -> Result<Exit, Failure> {
        let exit = if self.not_found == 0 { Exit::Success } else { Exit::Refused };
        if screen.json() {
            self.json.finish(screen)?;
            return Ok(exit);
        }
        if self.handled == 0 {
            screen.line(&format!("The lane {} has no open dead letters.", args.lane))?;
        } else {
            screen.line(&format!("{} {} of {}", verb.done(), thousands(self.changed), thousands(self.handled)))?;
        }
        if args.choice.all && self.handled == args.limit {
            screen.note("there may be more; run it again, or with a higher --limit");
        }
        Ok(exit)
    }
}
