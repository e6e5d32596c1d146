//! Asking whether what was handed to us is ours, before anything of it starts.
//!
//! A hand-out whose answer took too long may have been given to somebody else by now; only the answer to a heartbeat that
//! names it says that it was not. No answer within the accept time means no start: the task returns to the queue, and
//! nothing has happened.

use bowline_model::RunId;
use bowline_protocol::HeartbeatAnswer;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{debug, warn};

use crate::error::chain;
use crate::server::client::CallError;
use crate::server::link::Link;

/// What the server said about an offer, and when it was asked: leases count from there.
pub(crate) struct Confirmation {
    pub answer: HeartbeatAnswer,
    pub sent_at: Instant,
}

/// Names runs in a heartbeat, again and again until the deadline. `None`: not one of them may start.
pub(crate) async fn confirm(link: &Link, runs: &[RunId], deadline: Instant) -> Option<Confirmation> {
    let mut backoff = link.backoff();
    loop {
        let sent_at = Instant::now();
        let patience = link.registration.terms().heartbeat;
        let call = link.client.heartbeat(link.worker(), runs.to_vec(), patience);
        let error = match timeout_at(deadline, call).await {
            Ok(Ok(answer)) => {
                if answer.drain {
                    link.drain();
                }
                return Some(Confirmation { answer, sent_at });
            }
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        match error {
            Some(CallError::Refused(refusal)) if matches!(refusal.status, 401 | 403) => {
                link.fail_unauthorized(refusal);
                return None;
            }
            Some(CallError::Refused(refusal)) if refusal.status == 404 => {
                link.registration.forgotten();
                sleep_until((Instant::now() + backoff.pause()).min(deadline)).await;
            }
            Some(error) if error.is_passing() => {
                debug!("{} tasks cannot be accepted yet: {}", runs.len(), chain(&error));
                sleep_until((Instant::now() + backoff.after(&error)).min(deadline)).await;
            }
            Some(error) => {
                warn!("the server refused to hear about {} tasks; they are not started: {}", runs.len(), chain(&error));
                return None;
            }
            None => {}
        }
        if Instant::now() >= deadline {
            warn!("{} tasks could not be accepted in time; they are not started", runs.len());
            return None;
        }
        // Whoever is about to leave takes on nothing that it does not have yet.
        if link.no_more.is_cancelled() {
            return None;
        }
    }
}
