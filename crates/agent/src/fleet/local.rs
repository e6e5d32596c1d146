//! Runs on this very host, each under a keeper of its own.

use std::sync::Arc;

use bowline_execute::CancelError;
use bowline_model::{ErrorClass, RunId};
use bowline_protocol::{HostTask, Task};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::error::chain;
use crate::fleet::command::manifest;
use crate::fleet::outbox::Story;
use crate::fleet::refusal;
use crate::fleet::roster::{Executor, Go};
use crate::fleet::shared::Fleet;

/// Begins an accepted run, or tells why it was not begun. Waits for the disk.
pub(crate) fn begin(fleet: &Fleet, task: &Task, wish: &HostTask) {
    let (run, fence) = (task.task_id, task.fence);
    let now = || (fleet.clock)();
    let refuse = |code: &str, message: &str| {
        warn!(run.id = %run, "run {run} is not begun: {message}");
        fleet.tell(run, Story::not_begun(fence, now(), code, ErrorClass::Permanent, message));
    };
    let manifest = match manifest(task, wish, fleet.allow_new_privileges) {
        Ok(manifest) => manifest,
        Err(error) => return refuse("BAD_COMMAND", &chain(&error)),
    };
    let secrets = match fleet.secrets.get(manifest.secrets.values()) {
        Ok(secrets) => secrets,
        Err(error) => return refuse("SECRET_MISSING", &chain(&error)),
    };
    match fleet.roster.begin(run, Executor::Local, Instant::now(), fleet.link.registration.terms().lease) {
        Go::Begin => {}
        Go::Canceled => return fleet.tell(run, Story::canceled(fence, now())),
        Go::NotOurs => {
            warn!(run.id = %run, "run {run} may be somebody else's by now; it is not begun");
            return fleet.roster.done(run);
        }
    }
    match fleet.runs.begin(manifest, &secrets) {
        Ok(_) => {
            let command = wish.command.type_name();
            info!(run.id = %run, job.id = %task.job_id, "run {run} of {command} has begun");
        }
        Err(error) => {
            warn!(run.id = %run, "run {run} is not begun: {}", chain(&error));
            // What has a directory has a story of its own, and it is told from there.
            if fleet.runs.find(run).is_none()
                && let Some(story) = refusal::story(fence, now(), &error)
            {
                fleet.tell(run, story);
            }
        }
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
