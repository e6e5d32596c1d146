//! Runs on this very host, each under a keeper of its own.

use std::sync::Arc;

use bowline_execute::CancelError;
use bowline_model::RunId;
use bowline_protocol::{HostTask, Task};
use tokio::sync::mpsc;
use tracing::{error, info};

use crate::error::chain;
use crate::fleet::begin::{not_begun, prepare};
use crate::fleet::roster::Executor;
use crate::fleet::shared::Fleet;

/// Begins an accepted run, or tells why it was not begun. Waits for the disk.
pub(crate) fn begin(fleet: &Fleet, task: &Task, wish: &HostTask) {
    let run = task.task_id;
    let Some((manifest, secrets)) = prepare(fleet, task, wish, Executor::Local) else { return };
    match fleet.runs.begin(manifest, &secrets) {
        Ok(_) => {
            let command = wish.command.type_name();
            info!(run.id = %run, job.id = %task.job_id, "run {run} of {command} has begun");
        }
        Err(error) => not_begun(fleet, run, task.fence, &error),
    }
}

/// Asks keepers to end what was canceled.
pub(crate) async fn cancel_loop(fleet: Arc<Fleet>, mut cancels: mpsc::UnboundedReceiver<RunId>) {
    loop {
        let run = tokio::select! {
            () = fleet.link.end.cancelled() => return,
            run = cancels.recv() => run,
        };
        let Some(run) = run else { return };
        let runs = Arc::clone(&fleet.runs);
        match tokio::task::spawn_blocking(move || runs.cancel(run)).await {
            Ok(Ok(())) => info!(run.id = %run, "run {run} was canceled; its command is asked to end"),
            // It has ended and is confirmed, or it is about to be begun: then the next heartbeat says it again.
            Ok(Err(CancelError::Unknown(_))) => fleet.roster.cancel_again(run),
            Ok(Err(error)) => {
                error!(run.id = %run, "run {run} cannot be canceled yet: {}", chain(&error));
                fleet.roster.cancel_again(run);
            }
            Err(broken) => error!(run.id = %run, "the agent broke at the cancellation of run {run}: {broken}"),
        }
    }
}
