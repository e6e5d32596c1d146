//! `job get ID`.

use bowline_model::JobId;

use super::view::{JobDetail, RunView};
use crate::client::{Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;
use crate::workflow::waits;

pub async fn get(client: &Client, screen: &mut Screen, id: JobId) -> Result<Exit, Failure> {
    let answer = client.call(&Request::get(["jobs", &id.to_string()])).await?;
    if screen.json() {
        screen.json_line(answer.text())?;
    } else {
        show(screen, &answer.read()?)?;
    }
    Ok(Exit::Success)
}

/// Everything about a job.
pub fn show(screen: &mut Screen, detail: &JobDetail) -> Result<(), Failure> {
    let headline = detail.job.headline(screen.color());
    screen.line(&headline)?;
    let mut facts = detail.job.facts(screen, detail.command.as_ref());
    if let Some(run) = &detail.workflow {
        let version = run.version.map(|version| format!(" version {version}")).unwrap_or_default();
        facts = facts.with("workflow", format!("{}{version}, {} steps", run.name, run.steps));
        for line in waits(screen, run) {
            facts = facts.with("waits", line);
        }
    }
    screen.facts(&facts.with("begun by", &detail.job.begun_by))?;
    show_runs(screen, &detail.runs)
}

pub fn show_runs(screen: &mut Screen, runs: &[RunView]) -> Result<(), Failure> {
    if runs.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = runs.iter().map(|run| run.row(screen)).collect();
    screen.line("")?;
    screen.table(&RunView::COLUMNS, &rows)
}
