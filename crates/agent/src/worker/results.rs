//! Telling how a run ended: the same words again and again, until they are heard.
//!
//! The server takes a repetition for what it is, so an answer that got lost costs one more call and nothing else.

use bowline_model::{ErrorClass, RunError};
use bowline_protocol::{ResultAnswer, ResultRequest, ResultStatus};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use crate::error::chain;
use crate::server::client::{CallError, Refusal};
use crate::worker::shared::Shared;

/// Whether the server knows how the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Heard,
    /// The worker had to leave first.
    Undelivered,
}

/// Delivers a result, for as long as it takes or until the worker has to leave.
pub(crate) async fn deliver(shared: &Shared, mut result: ResultRequest) -> Told {
    let run = result.task_id;
    let mut backoff = shared.link.backoff();
    loop {
        let answer = tokio::select! {
            () = shared.link.end.cancelled() => return Told::Undelivered,
            answer = shared.link.client.result(&result) => answer,
        };
        let error = match answer {
            Ok(answer) => {
                heard(&result, answer.as_ref());
                return Told::Heard;
            }
            Err(CallError::Refused(refusal)) => match refused(shared, &mut result, refusal) {
                Some(told) => return told,
                None => continue,
            },
            Err(error) => error,
        };
        let pause = backoff.after(&error);
        let why = chain(&error);
        if backoff.is_first() {
            warn!(run.id = %run, "the result of task {run} cannot be delivered yet: {why}");
        } else {
            debug!(run.id = %run, "the result of task {run} cannot be delivered yet: {why}; again in {pause:?}");
        }
        tokio::select! {
            () = shared.link.end.cancelled() => return Told::Undelivered,
            () = sleep(pause) => {}
        }
    }
}

fn heard(result: &ResultRequest, answer: Option<&ResultAnswer>) {
    let (run, status) = (result.task_id, result.status);
    if answer.is_some_and(|answer| answer.late) {
        info!(run.id = %run, "task {run} ended late ({status:?}), and the job took it all the same");
    } else {
        debug!(run.id = %run, "the server knows that task {run} ended: {status:?}");
    }
}

/// What a no means. `None` when there is something better to say than the result that was refused.
fn refused(shared: &Shared, result: &mut ResultRequest, refusal: Refusal) -> Option<Told> {
    let run = result.task_id;
    match refusal.status {
        401 => {
            shared.link.fail_unauthorized(refusal);
            Some(Told::Undelivered)
        }
        409 if refusal.code == "STALE_LEASE" => {
            info!(run.id = %run, "task {run} was not ours any more when it ended; its end is kept as evidence");
            Some(Told::Heard)
        }
        // The server cannot take what the handler made of it. It must still hear that the run is over, or the task
        // would count as lost and be made again, with the same end.
        400 | 413 | 422 if result.status == ResultStatus::Success => {
            warn!(run.id = %run, "the server cannot take the result of task {run}: {refusal}");
            let message = format!("the server refused the handler's result: {refusal}");
            result.status = ResultStatus::Failure;
            result.result = None;
            result.error = Some(RunError::new(ErrorClass::Permanent, message));
            None
        }
        _ => {
            warn!(run.id = %run, "the server refused to hear how task {run} ended: {refusal}");
            Some(Told::Heard)
        }
    }
}
