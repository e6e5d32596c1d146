//! `job list`.

use std::str::FromStr;

use bowline_model::{Lane, Timestamp};
use clap::Args;

use super::view::JobView;
use crate::client::{Client, Request};
use crate::duration::Span;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job_ref::JobRef;
use crate::listing::Listing;
use crate::output::{Cell, Column, Screen};

#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Only these: pending, queued, running, paused (sleeping, awaiting_approval, awaiting_event, stepping), blocked, canceling,
    /// success, failed, dead, canceled, error
    #[arg(long)]
    status: Option<String>,
    /// Only this lane: webhook, critical, default, low
    #[arg(long)]
    lane: Option<Lane>,
    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    task_type: Option<String>,
    /// Only executions of this workflow or blueprint
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Also what executions of workflows started
    #[arg(long)]
    children: bool,
    /// Only what this execution of a workflow started
    #[arg(long, value_name = "JOB")]
    parent: Option<JobRef>,
    #[command(flatten)]
    which: Which,
}

/// What all lists of jobs can be narrowed by.
#[derive(Debug, Clone, Args)]
pub struct Which {
    /// Only jobs of this actor: the name of a token, or as `whoami` says
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Only jobs that require this label
    #[arg(long, value_name = "NAME=VALUE")]
    label: Option<String>,
    /// Only jobs with this text in their type, workflow, command, error or a name of yours
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only jobs since this moment, or within this time, such as 2h
    #[arg(long, value_name = "RFC3339|DURATION")]
    since: Option<Moment>,
    /// Only jobs before this moment, or older than this, such as 2h
    #[arg(long, value_name = "RFC3339|DURATION")]
    until: Option<Moment>,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
}

/// A moment, or how long ago it was.
#[derive(Debug, Clone, Copy)]
pub enum Moment {
    At(Timestamp),
    Ago(Span),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(at) = text.parse() {
            return Ok(Self::At(at));
        }
        let bad = |_| "a moment such as 2026-01-31T12:00:00Z or a time such as 30m, 2h or 7d is expected".to_owned();
        text.parse().map(Self::Ago).map_err(bad)
    }
}

impl Moment {
    fn at(self, now: Timestamp) -> String {
        match self {
            Self::At(at) => at.to_string(),
            Self::Ago(span) => now.plus_millis(-i64::try_from(span.as_millis()).unwrap_or(i64::MAX)).to_string(),
        }
    }
}

impl Which {
    pub fn narrows(&self) -> bool {
        self.actor.is_some()
            || self.label.is_some()
            || self.text.is_some()
            || self.since.is_some()
            || self.until.is_some()
    }

    pub fn narrow(&self, screen: &Screen, request: Request) -> Request {
        request
            .query_if("actor", self.actor.clone())
            .query_if("label", self.label.clone())
            .query_if("text", self.text.clone())
            .query_if("created_after", self.since.map(|moment| moment.at(screen.now())))
            .query_if("created_before", self.until.map(|moment| moment.at(screen.now())))
    }
}

const COLUMNS: [Column; 7] = [
    Column::left("ID").whole(),
    Column::left("WHAT"),
    Column::left("LANE").spare(),
    Column::left("STATUS"),
    Column::right("TRIES"),
    Column::left("CREATED"),
    Column::right("NUMBER").spare(),
];

fn row(screen: &Screen, job: &JobView) -> Vec<Cell> {
    vec![
        (&job.id).into(),
        job.what().into(),
        (&job.lane).into(),
        Cell::status(&job.status_word()),
        job.tries().into(),
        screen.ago(&job.created_at).into(),
        (&job.number).into(),
    ]
}

pub async fn list(client: &Client, screen: &mut Screen, args: &ListArgs) -> Result<Exit, Failure> {
    let named = args.workflow.is_some() || args.parent.is_some();
    let filtered =
        args.status.is_some() || args.lane.is_some() || args.task_type.is_some() || named || args.which.narrows();
    let parent = match &args.parent {
        Some(parent) => Some(parent.resolve(client).await?.to_string()),
        None => None,
    };
    // Whoever names a parent wants its children.
    let no_children = !args.children && parent.is_none();
    let request = Request::get(["jobs"])
        .query_if("status", args.status.clone())
        .query_if("lane", args.lane.map(Lane::as_str))
        .query_if("type", args.task_type.clone())
        .query_if("workflow", args.workflow.clone())
        .query_if("parent", parent)
        .query_if("children", no_children.then_some("false"));
    let request = args.which.narrow(screen, request);
    let mut listing = Listing::new(screen, "jobs", Some(args.which.limit), &COLUMNS, row);
    listing.read(client, request).await?;
    listing.finish(if filtered {
        "No such jobs. `bowline job list` without filters shows all of them, --children also what workflows started."
    } else {
        "No jobs yet. Submit one with `bowline job submit echo --payload '{\"hello\":\"world\"}'`."
    })?;
    Ok(Exit::Success)
}

/// `workflow executions [NAME]`.
pub async fn executions(
    client: &Client,
    screen: &mut Screen,
    name: Option<&str>,
    status: Option<&str>,
    which: &Which,
) -> Result<Exit, Failure> {
    let request = Request::get(["jobs"])
        .query_if("status", status.map(str::to_owned))
        .query_if("workflow", name.map(str::to_owned))
        .query_if("type", name.is_none().then_some("bowline.workflow"));
    let request = which.narrow(screen, request);
    let mut listing = Listing::new(screen, "jobs", Some(which.limit), &COLUMNS, row);
    listing.read(client, request).await?;
    listing.finish(match name {
        Some(_) => "No such executions. `bowline workflow list` shows the workflows, `workflow run` starts one.",
        None => "No executions yet. Start one with `bowline workflow run FILE`.",
    })?;
    Ok(Exit::Success)
}
