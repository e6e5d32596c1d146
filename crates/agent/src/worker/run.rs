//! One task's life in this worker, from its acceptance to the moment the server knows how it ended.
//!
//! Enters: an [`Errand`]. Leaves: a result at the server, or nothing where nothing true can be said.
//! Whatever the handler does (panics, blocks its thread, ignores that it should stop), the rest of the worker goes on.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bowline_model::{ErrorClass, RunError, RunId};
use bowline_protocol::{ResultRequest, ResultStatus, Task};
use serde_json::value::RawValue;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{Instrument, info, info_span, warn};

use crate::worker::accept::Errand;
use crate::worker::context::TaskContext;
use crate::worker::handlers::{Finished, Handler};
use crate::worker::lease::{Lease, StopReason};
use crate::worker::progress::Progress;
use crate::worker::results::{Told, deliver};
use crate::worker::shared::Shared;
use crate::worker::task_error::TaskError;

/// How long a handler that must stop has for tidying up, before it is dropped where it stands.
pub(crate) const TIDY_UP: Duration = Duration::from_secs(2);
/// How long a result waits for the progress before it. People like to read things in their order, but not at any price.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// How a handler ended.
#[derive(Debug)]
enum Ended {
    Returned(Finished),
    Panicked(String),
    /// It did not stop in time.
    Dropped,
}

/// How the run ended.
#[derive(Debug)]
enum End {
    Success(Box<RawValue>),
    Failure(RunError),
    Canceled,
}

/// Carries out an errand. Gives the run back if its end could not be told.
pub(crate) async fn carry_out(shared: Arc<Shared>, errand: Errand) -> Option<RunId> {
    let Errand { offer, lease, canceled } = errand;
    let run = offer.run();
    let task = match offer.task {
        Ok(task) => Arc::new(task),
        Err(reason) => {
            warn!(run.id = %run, "task {run} cannot be done: {reason}");
            let end = if canceled { End::Canceled } else { End::Failure(TaskError::handler(reason).into_run_error()) };
            lease.finish();
            return undelivered(run, deliver(&shared, request(run, None, end, 0)).await);
        }
    };
    let progress = Progress::new(run, task.fence, Arc::clone(&shared.unheard_bytes));
    let tell = async {
        let end = match shared.handlers.find(&task.task_type) {
            Some(handler) if !canceled => {
                let ends_at = offer.received_at + Duration::from_millis(task.timeout_ms);
                let context = TaskContext::new(Arc::clone(&task), Arc::clone(&lease), Arc::clone(&progress), ends_at);
                execute(&shared, handler, context, &lease, ends_at).await
            }
            _ => Some(End::Canceled),
        };
        let last_seq = progress.close();
        let told = match end {
            Some(end) => {
                // Trouble on the way is no reason to wait longer; the events go on being sent beside the result.
                let _ = timeout(SETTLE_MAX, progress.settled()).await;
                deliver(&shared, request(run, Some(&task), end, last_seq)).await
            }
            None => Told::Heard,
        };
        drop(offer.place);
        told
    };
    let (told, ()) = tokio::join!(tell, progress.ship(&shared));
    undelivered(run, told)
}

fn undelivered(run: RunId, told: Told) -> Option<RunId> {
    (told == Told::Undelivered).then_some(run)
}

/// Runs the handler, and stops it when it has to.
async fn execute(
    shared: &Shared,
    handler: Handler,
    context: TaskContext,
    lease: &Lease,
    ends_at: Instant,
) -> Option<End> {
    let run = context.task_id();
    let span = info_span!("task", run.id = %run, task.type = %context.task_type(), attempt = context.attempt());
    // A set of one: dropping it, for whatever reason, drops the handler too.
    let mut work = JoinSet::new();
    work.spawn(async move { handler(context).await }.instrument(span));
    let mut drop_at: Option<Instant> = None;
    let (mut timed_out, mut cut_off, mut leaving) = (false, !shared.settings.stop_when_cut_off, false);
    let ended = loop {
        let drop_by = |at: Instant| Some(drop_at.map_or(at, |earlier| earlier.min(at)));
        tokio::select! {
            biased;
            Some(joined) = work.join_next() => break ended(joined),
            () = sleep_until(drop_at.unwrap_or(ends_at)), if drop_at.is_some() => break Ended::Dropped,
            () = sleep_until(ends_at), if !timed_out => {
                timed_out = true;
                lease.stop(StopReason::TimedOut);
                drop_at = drop_by(Instant::now() + TIDY_UP);
            }
            // A heartbeat may have moved the moment meanwhile; then there is nothing to do but to wait for the new one.
            () = sleep_until(lease.safe_until()), if !cut_off => if Instant::now() >= lease.safe_until() {
                cut_off = true;
                lease.stop(StopReason::CutOff);
                drop_at = drop_by(lease.expires_at());
            },
            () = shared.leaving.cancelled(), if !leaving => {
                leaving = true;
                lease.stop(StopReason::Leaving);
                drop_at = drop_by(Instant::now() + TIDY_UP);
            }
        }
    };
    let reason = lease.finish();
    let end = judge(ended, reason);
    match (&end, reason) {
        (None, Some(reason)) => info!(run.id = %run, "task {run} was stopped ({reason:?}) and is not reported"),
        (Some(End::Failure(error)), _) => {
            info!(run.id = %run, "task {run} failed ({}): {}", error.class.as_str(), error.message);
        }
        _ => {}
    }
    end
}

fn ended(joined: Result<Finished, JoinError>) -> Ended {
    match joined {
        Ok(finished) => Ended::Returned(finished),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => Ended::Panicked(panic_message(panic)),
            Err(_) => Ended::Dropped,
        },
    }
}

fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned());
    // A payload may panic once more when it is dropped.
    let _ = std::panic::catch_unwind(AssertUnwindSafe(|| drop(panic)));
    text
}

/// What to tell the server; `None` for nothing.
///
/// `Ok` is the truth, whatever was asked before: the work is done, and doing it again would do it twice. An error after
/// the handler was asked to stop says that it did stop. A task that is not ours and was not finished is not ours to
/// speak about: its lease runs out, or has.
fn judge(ended: Ended, reason: Option<StopReason>) -> Option<End> {
    match (ended, reason) {
        (Ended::Returned(Ok(result)), _) => Some(End::Success(result)),
        (Ended::Panicked(message), _) => {
            Some(End::Failure(RunError::new(ErrorClass::Handler, format!("the handler panicked: {message}"))))
        }
        (Ended::Returned(Err(_)) | Ended::Dropped, Some(StopReason::Canceled)) => Some(End::Canceled),
        (Ended::Returned(Err(_)) | Ended::Dropped, Some(StopReason::Stale | StopReason::CutOff)) => None,
        (Ended::Returned(Err(_)) | Ended::Dropped, Some(StopReason::TimedOut)) => {
            Some(End::Failure(RunError::new(ErrorClass::Timeout, "the task took longer than it may")))
        }
        (Ended::Returned(Err(_)) | Ended::Dropped, Some(StopReason::Leaving)) => {
            let message = "the worker had to leave before the task was done";
            Some(End::Failure(RunError::new(ErrorClass::Transient, message)))
        }
        (Ended::Returned(Err(error)), None) => Some(End::Failure(error.into_run_error())),
        // Nobody asked, so the runtime itself is going down.
        (Ended::Dropped, None) => None,
    }
}

fn request(run: RunId, task: Option<&Task>, end: End, last_seq: u64) -> ResultRequest {
    let (status, result, error) = match end {
        End::Success(result) => (ResultStatus::Success, Some(result), None),
        End::Failure(error) => (ResultStatus::Failure, None, Some(error)),
        End::Canceled => (ResultStatus::Canceled, None, None),
    };
    let (job_id, fence) = (task.map(|task| task.job_id), task.map(|task| task.fence));
    ResultRequest { task_id: run, job_id, fence, status, result, error, last_seq }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use serde_json::value::to_raw_value;

    use super::*;

    /// Every way to end, for every reason to stop.
    #[test]
    fn what_is_told_depends_on_how_it_ended_and_on_what_was_asked() {
        use StopReason as R;
        let mut table = String::new();
        for reason in [None, Some(R::Canceled), Some(R::Stale), Some(R::CutOff), Some(R::TimedOut), Some(R::Leaving)] {
            let finished = to_raw_value(&1).unwrap();
            let ways = [
                ("ok", Ended::Returned(Ok(finished))),
                ("error", Ended::Returned(Err(TaskError::permanent("no")))),
                ("panic", Ended::Panicked("oh".to_owned())),
                ("dropped", Ended::Dropped),
            ];
            for (way, ended) in ways {
                let told = match judge(ended, reason) {
                    Some(End::Success(_)) => "success",
                    Some(End::Failure(error)) => error.class.as_str(),
                    Some(End::Canceled) => "canceled",
                    None => "-",
                };
                write!(table, "{way} {told}; ").unwrap();
            }
            writeln!(table, "if {reason:?}").unwrap();
        }
        assert_eq!(
            table,
            "ok success; error permanent; panic handler; dropped -; if None\n\
             ok success; error canceled; panic handler; dropped canceled; if Some(Canceled)\n\
             ok success; error -; panic handler; dropped -; if Some(Stale)\n\
             ok success; error -; panic handler; dropped -; if Some(CutOff)\n\
             ok success; error timeout; panic handler; dropped timeout; if Some(TimedOut)\n\
             ok success; error transient; panic handler; dropped transient; if Some(Leaving)\n"
        );
    }
}
