//! `job hosts ID`: a command host by host.

use clap::Args;

use super::view::JobDetail;
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fleet::{Report, UnitView};
use crate::job_ref::OneJob;
use crate::listing::Listing;
use crate::output::Screen;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline job hosts ID
  bowline job hosts ID --status failed
  bowline job hosts ID --all -o json")]
pub struct HostsArgs {
    #[command(flatten)]
    job: OneJob,
    /// Only hosts with this status: new, pending, queued, running, canceling, success, failed, error, blocked, canceled
    #[arg(long)]
    status: Option<String>,
    /// Every host, not only the first fifty
    #[arg(long)]
    all: bool,
}

pub async fn hosts(client: &Client, screen: &mut Screen, args: &HostsArgs) -> Result<Exit, Failure> {
    let job = args.job.resolve(client).await?;
    let id = job.to_string();
    if args.status.is_some() || screen.json() {
        let limit = (!args.all).then_some(50);
        let request = Request::get(["jobs", &id, "hosts"]).query_if("status", args.status.clone());
        let mut listing = Listing::new(screen, "hosts", limit, &UnitView::COLUMNS, UnitView::row);
        listing.read(client, request).await?;
        listing.finish_with("--all shows every host", "No such hosts. `bowline job hosts ID` shows all of them.")?;
        return Ok(Exit::Success);
    }
    let detail: JobDetail = client.call(&Request::get(["jobs", &id])).await?.read()?;
    let Some(command) = detail.command else {
        return Err(Failure::Usage(format!(
            "job {id} is not a command, it runs on no hosts; `bowline job get {id}` shows it"
        )));
    };
    Report { all: args.all, good: true }.show(client, screen, job, &command.hosts).await?;
    screen.note(&command.progress(detail.job.end().is_some(), false));
    Ok(Exit::Success)
}
