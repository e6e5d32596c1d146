//! `events`: what happened, and what is happening.

mod follow;
mod list;
mod view;

use bowline_model::Timestamp;
use clap::Args;

use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::job_ref::JobRef;
use crate::output::Screen;

pub use list::{LIMIT, list_of_job};
pub use view::EventView;

#[derive(Debug, Clone, Args)]
pub struct EventsArgs {
    /// Go on as events happen, until it is stopped
    #[arg(long, short)]
    follow: bool,
    /// Only events of this type, such as job_deadlettered; repeat for several
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only events of this severity or worse: info, warning, error
    #[arg(long)]
    severity: Option<String>,
    /// Only events of this job
    #[arg(long, value_name = "JOB")]
    job: Option<JobRef>,
    /// Only events of this trace
    #[arg(long, value_name = "ID")]
    trace_id: Option<String>,
    /// Only events of this actor: the name of a token, or as `whoami` says
    #[arg(long)]
    actor: Option<String>,
    /// Only events from this moment on, oldest first instead of newest first
    #[arg(long, value_name = "RFC3339")]
    since: Option<Timestamp>,
    /// How many [default: 50, with --follow as many as come]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

impl EventsArgs {
    /// Whether it goes on until it is stopped.
    pub const fn follows(&self) -> bool {
        self.follow
    }

    /// The job that was meant, once it is known.
    fn job_id(&self) -> Option<String> {
        self.job.as_ref().and_then(|job| if let JobRef::Id(id) = job { Some(id.to_string()) } else { None })
    }

    /// What both ways of reading ask for; `since` stands apart, because a stream goes on from its own position.
    fn filtered(&self, request: Request) -> Request {
        request
            .query_if("type", (!self.types.is_empty()).then(|| self.types.join(",")))
            .query_if("severity", self.severity.clone())
            .query_if("job_id", self.job_id())
            .query_if("trace_id", self.trace_id.clone())
            .query_if("actor", self.actor.clone())
    }
}

pub async fn run(client: &Client, screen: &mut Screen, mut args: EventsArgs) -> Result<Exit, Failure> {
    if let Some(job) = &args.job {
        args.job = Some(JobRef::Id(job.resolve(client).await?));
    }
    if args.follow { follow::follow(client, screen, &args).await } else { list::list(client, screen, &args).await }
}
