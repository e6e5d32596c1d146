//! Asking for tasks, one long poll after the other, as many as there is room for.
//!
//! One poll is under way at a time, and what it brings is accepted before the next one begins. Never here: running
//! anything; accepted tasks leave through a channel.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use crate::accept::{Errand, Offer, accept};
use crate::client::CallError;
use crate::error::chain;
use crate::shared::Shared;

/// The most that the protocol lets us ask for.
const TASKS_MAX: usize = 1_000;
/// An empty answer that comes sooner than this did not wait, whatever we asked for.
const WAITED: Duration = Duration::from_millis(500);

/// Polls until the worker takes nothing more.
pub(crate) async fn poll_loop(shared: Arc<Shared>, errands: mpsc::Sender<Errand>) {
    let worker = shared.worker();
    let mut backoff = shared.backoff();
    loop {
        let asked_at = Instant::now();
        let answer = tokio::select! {
            () = shared.no_more.cancelled() => return,
            answer = ask(&shared) => answer,
        };
        let pause = match answer {
            Ok(tasks) if !tasks.is_empty() => {
                recovered(&shared, backoff.reset());
                let offers = Offer::take(&shared, &tasks, Instant::now());
                for errand in accept(&shared, offers).await {
                    if errands.send(errand).await.is_err() {
                        return;
                    }
                }
                continue;
            }
            Ok(_) if asked_at.elapsed() >= WAITED => {
                recovered(&shared, backoff.reset());
                continue;
            }
            Ok(_) => backoff.pause(),
            Err(CallError::Refused(refusal)) if matches!(refusal.status, 401 | 403) => {
                shared.fail_unauthorized(refusal);
                return;
            }
            Err(CallError::Refused(refusal)) if refusal.status == 404 => {
                warn!(worker.id = %worker, "the server does not know worker {worker} any more; it registers again");
                tokio::select! {
                    () = shared.no_more.cancelled() => return,
                    () = shared.registration.again() => {}
                }
                backoff.pause()
            }
            Err(error) => {
                let pause = backoff.after(&error);
                let why = chain(&error);
                if backoff.is_first() {
                    warn!(worker.id = %worker, "worker {worker} cannot ask for tasks and keeps trying: {why}");
                } else {
                    debug!(worker.id = %worker, "worker {worker} cannot ask for tasks: {why}; again in {pause:?}");
                }
                pause
            }
        };
        tokio::select! {
            () = shared.no_more.cancelled() => return,
            () = sleep(pause) => {}
        }
    }
}

/// Waits for room, then for tasks. Whoever drops this while the server is answering has accepted nothing, so nothing is
/// lost: what was handed out returns to the queue.
async fn ask(shared: &Shared) -> Result<Vec<Box<serde_json::value::RawValue>>, CallError> {
    let room = shared.hand.room().await;
    shared.client.tasks(shared.worker(), room.min(TASKS_MAX), shared.settings.poll_wait).await
}

fn recovered(shared: &Shared, had_failed: bool) {
    if had_failed {
        let worker = shared.worker();
        info!(worker.id = %worker, "worker {worker} is asking for tasks again");
    }
}
