//! After this agent was away: what became of its runs, and what the server has of them.

use std::collections::HashMap;
use std::sync::Arc;

use bowline_execute::{Found, Recovered, Standing};
use bowline_model::RunId;
use bowline_protocol::{RunHeard, RunNews};
use tracing::{error, info, warn};

use crate::error::chain;
use crate::fleet::error::FleetError;
use crate::fleet::roster::Executor;
use crate::fleet::shared::Fleet;
use crate::fleet::ship::{Books, RUNS_MAX, post};

/// Finds all runs again. The server is asked first how much it holds of each, so that no number is used twice. `None` when
/// the agent has to leave first.
pub(crate) async fn recover(fleet: &Arc<Fleet>) -> Result<Option<Books>, FleetError> {
    let Some(held) = ask(fleet).await else { return Ok(None) };
    let runs = Arc::clone(&fleet.runs);
    let known: HashMap<RunId, u64> = held.iter().map(|(run, heard)| (*run, heard.acknowledged)).collect();
    let look = move || runs.recover(|run| known.get(&run).copied().unwrap_or(0));
    let Recovered { found, unreadable, unsettled } = tokio::task::spawn_blocking(look)
        .await
        .map_err(|broken| FleetError::Recover(broken.into()))?
        .map_err(FleetError::Recover)?;
    for run in unreadable {
        error!("{} cannot be read and is left alone: {}", run.path.display(), run.error);
    }
    for (run, why) in unsettled {
        error!(run.id = %run, "run {run} cannot be brought to its end yet: {}", chain(&why));
    }
    let mut books = Books::default();
    for Found { run, standing, .. } in found {
        let heard = held.get(&run).filter(|heard| heard.refused.is_none());
        match standing {
            Standing::NeverStarted { .. } => {
                let runs = Arc::clone(&fleet.runs);
                match tokio::task::spawn_blocking(move || runs.give_back(run)).await {
                    Ok(Ok(())) => info!(run.id = %run, "run {run} was never started and is given back"),
                    Ok(Err(why)) => warn!(run.id = %run, "run {run} cannot be given back: {}", chain(&why)),
                    Err(broken) => error!(run.id = %run, "the agent broke at run {run}: {broken}"),
                }
                continue;
            }
            Standing::Running => {
                info!(run.id = %run, "run {run} has gone on meanwhile, and is watched again");
                fleet.roster.adopt(run, Executor::Local);
            }
            Standing::Ended(ended) => {
                info!(run.id = %run, "run {run} has ended meanwhile ({:?})", ended.outcome);
                if heard.is_some_and(|heard| !heard.ended) {
                    fleet.roster.adopt(run, Executor::Local);
                }
            }
        }
        if let Some(heard) = heard {
            books.learn(run, heard);
        }
    }
    Ok(Some(books))
}

/// What the server holds of the runs that have a directory.
async fn ask(fleet: &Fleet) -> Option<HashMap<RunId, RunHeard>> {
    let mut held = HashMap::new();
    let found = fleet.runs.list();
    for some in found.chunks(RUNS_MAX) {
        let nothing =
            |found: &Found| RunNews { run_id: found.run, fence: found.manifest.fence, events: Vec::new(), ended: None };
        held.extend(post(&fleet.link, some.iter().map(nothing).collect()).await?);
    }
    Some(held)
}
