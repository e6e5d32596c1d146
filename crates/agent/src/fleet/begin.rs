//! What comes before the beginning of any run that is really executed, and what is told when there is none.

use bowline_execute::{BeginError, Manifest, Secrets};
use bowline_model::{ErrorClass, RunId};
use bowline_protocol::{HostTask, Task};
use tokio::time::Instant;
use tracing::warn;

use crate::error::chain;
use crate::fleet::command::manifest;
use crate::fleet::outbox::Story;
use crate::fleet::refusal;
use crate::fleet::roster::{Executor, Go};
use crate::fleet::sealing::{NotGiven, unseal};
use crate::fleet::shared::Fleet;

/// What is to be executed, if it may begin now. Otherwise that it may not has been told. Waits for the disk.
pub(crate) fn prepare(fleet: &Fleet, task: &Task, wish: &HostTask, executor: Executor) -> Option<(Manifest, Secrets)> {
    let (run, fence) = (task.task_id, task.fence);
    let now = || (fleet.clock)();
    let refuse_as = |code: &str, class: ErrorClass, message: &str| {
        warn!(run.id = %run, "run {run} is not begun: {message}");
        fleet.tell(run, Story::not_begun(fence, now(), code, class, message));
        None
    };
    let refuse = |code: &str, message: &str| refuse_as(code, ErrorClass::Permanent, message);
    let mut manifest = match manifest(task, wish, fleet.allow_new_privileges) {
        Ok(manifest) => manifest,
        Err(error) => return refuse("BAD_COMMAND", &chain(&error)),
    };
    if let Err(error) = fleet.guard.admit(&wish.command.spec, executor, &mut manifest) {
        return refuse(error.code(), &chain(&error));
    }
    let own = match fleet.secrets.get(manifest.secrets.values()) {
        Ok(own) => own,
        Err(error) => return refuse("SECRET_MISSING", &chain(&error)),
    };
    let given = match unseal(fleet.opening.as_ref(), task, manifest.secrets.values()) {
        Ok(given) => given,
        Err(error @ NotGiven::Missing(_)) => return refuse("SECRET_MISSING", &chain(&error)),
        // The next hand-out is sealed anew, to the key we have then.
        Err(error) => return refuse_as("SECRET_UNREADABLE", ErrorClass::Transient, &chain(&error)),
    };
    let secrets = own.and(given.iter().map(|(name, value)| (name.as_str(), value.reveal())));
    match fleet.roster.begin(run, executor, Instant::now(), fleet.link.registration.terms().lease) {
        Go::Begin => Some((manifest, secrets)),
        Go::Canceled => {
            fleet.tell(run, Story::canceled(fence, now()));
            None
        }
        Go::NotOurs => {
            warn!(run.id = %run, "run {run} may be somebody else's by now; it is not begun");
            fleet.roster.done(run);
            None
        }
    }
}

/// The executor did not begin the run.
pub(crate) fn not_begun(fleet: &Fleet, run: RunId, fence: u32, error: &BeginError) {
    warn!(run.id = %run, "run {run} is not begun: {}", chain(error));
    // What has a directory has a story of its own, and it is told from there.
    if fleet.runs.find(run).is_none()
        && let Some(story) = refusal::story(fence, (fleet.clock)(), error)
    {
        fleet.tell(run, story);
    }
}
