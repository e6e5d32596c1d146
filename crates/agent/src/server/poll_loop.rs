//! Asking for tasks, one long poll after the other, as many as there is room for.
//!
//! One poll is under way at a time. Never here: accepting or running anything; what a poll brings goes to its [`Taker`],
//! who decides when the next one may begin.

use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use crate::error::chain;
use crate::server::client::CallError;
use crate::server::link::Link;

/// The most that the protocol lets us ask for.
const TASKS_MAX: usize = 1_000;
/// An empty answer that comes sooner than this did not wait, whatever we asked for.
const WAITED: Duration = Duration::from_millis(500);

/// Whoever takes what polls bring.
pub(crate) trait Taker {
    /// Waits until there is room for one task at least, and says for how many.
    fn room(&self) -> impl Future<Output = usize> + Send;

    /// Takes tasks that arrived just now. [`ControlFlow::Break`] when nobody works on them any more.
    fn take(&self, tasks: Vec<Box<RawValue>>, received_at: Instant) -> impl Future<Output = ControlFlow<()>> + Send;
}

/// Polls until nothing more is taken.
pub(crate) async fn poll_loop(link: &Link, taker: &impl Taker) {
    let worker = link.worker();
    let mut backoff = link.backoff();
    loop {
        let asked_at = Instant::now();
        let answer = tokio::select! {
            () = link.no_more.cancelled() => return,
            answer = ask(link, taker) => answer,
        };
        let pause = match answer {
            Ok(tasks) if !tasks.is_empty() => {
                recovered(link, backoff.reset());
                if taker.take(tasks, Instant::now()).await.is_break() {
                    return;
                }
                continue;
            }
            Ok(_) if asked_at.elapsed() >= WAITED => {
                recovered(link, backoff.reset());
                continue;
            }
            Ok(_) => backoff.pause(),
            Err(CallError::Refused(refusal)) if matches!(refusal.status, 401 | 403) => {
                link.fail_unauthorized(refusal);
                return;
            }
            Err(CallError::Refused(refusal)) if refusal.status == 404 => {
                warn!(worker.id = %worker, "the server does not know worker {worker} any more; it registers again");
                tokio::select! {
                    () = link.no_more.cancelled() => return,
                    () = link.registration.again() => {}
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
            () = link.no_more.cancelled() => return,
            () = sleep(pause) => {}
        }
    }
}

/// Waits for room, then for tasks. Whoever drops this while the server is answering has accepted nothing, so nothing is
/// lost: what was handed out returns to the queue.
async fn ask(link: &Link, taker: &impl Taker) -> Result<Vec<Box<RawValue>>, CallError> {
    let room = taker.room().await;
    let (tasks, drain) = link.client.tasks(link.worker(), room.min(TASKS_MAX), link.settings.poll_wait).await?;
    if drain {
        link.drain();
    }
    Ok(tasks)
}

fn recovered(link: &Link, had_failed: bool) {
    if had_failed {
        link.reunited.notify_one();
        let worker = link.worker();
        info!(worker.id = %worker, "worker {worker} is asking for tasks again");
    }
}
