//! `approvals show JOB`: what somebody would say yes to.

use bowline_model::JobId;

use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fleet::{self, ApprovalView, CommandView, PinnedView, UnitView};
use crate::job::JobDetail;
use crate::output::time::thousands;
use crate::output::{Facts, Screen};
use crate::workflow::{RunView, waits};

/// Hosts that are named.
const NAMES_MAX: u64 = 10;

pub async fn show(client: &Client, screen: &mut Screen, id: JobId) -> Result<Exit, Failure> {
    let answer = client.call(&Request::get(["jobs", &id.to_string()])).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
        return Ok(Exit::Success);
    }
    let detail: JobDetail = answer.read()?;
    match &detail.workflow {
        Some(run) => print_node(screen, &detail, run)?,
        None => drop(print(client, screen, id, &detail).await?),
    }
    Ok(Exit::Success)
}

/// Prints which nodes of a workflow wait.
pub fn print_node(screen: &mut Screen, detail: &JobDetail, run: &RunView) -> Result<(), Failure> {
    let headline = detail.job.headline(screen.color());
    screen.line(&headline)?;
    for line in waits(screen, run) {
        screen.line(&line)?;
    }
    Ok(())
}

/// Prints what would run, and hands over the approval it is about.
pub async fn print(
    client: &Client,
    screen: &mut Screen,
    id: JobId,
    detail: &JobDetail,
) -> Result<ApprovalView, Failure> {
    let (command, approval) = approval_of(id, detail)?;
    let mut units: Vec<UnitView> = Vec::new();
    fleet::read_units(client, id, None, NAMES_MAX, |page| units.extend(page)).await?;
    let mut names: Vec<String> = units.iter().map(|unit| unit.host.to_string()).collect();
    let more = command.hosts.total.saturating_sub(names.len() as u64);
    if more > 0 {
        names.push(format!("and {} more", thousands(more)));
    }
    let job = &detail.job;
    let headline = job.headline(screen.color());
    screen.line(&headline)?;
    let mut facts = Facts::new().with("id", &job.id);
    if let Some(pinned) = PinnedView::read(job.payload.as_deref()) {
        facts = pinned.facts(facts);
    }
    facts = command
        .facts(facts, screen, job.end().is_some())
        .with("on", names.join(", "))
        .with("asked by", approval.requester.or(&approval.requested_by))
        .with("asked", screen.ago(&job.created_at))
        .with("hash", &approval.hash);
    screen.facts(&facts)?;
    Ok(approval.clone())
}

/// The approval of a job that has one.
pub fn approval_of(id: JobId, detail: &JobDetail) -> Result<(&CommandView, &ApprovalView), Failure> {
    let found = detail.command.as_ref().and_then(|command| Some((command, command.approval.as_ref()?)));
    found.ok_or_else(|| Failure::Usage(format!("job {id} needs no approval; `bowline job get {id}` shows it")))
}
