//! Accepting what arrived, before anything of it starts.
//!
//! *Offer*: a task that arrived. *Errand*: an offer the server confirmed as ours.

use std::sync::Arc;

use bowline_model::{RunId, TaskType};
use bowline_protocol::{HeartbeatAnswer, Task};
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::server::confirm::{Confirmation, confirm};
use crate::worker::hand::Place;
use crate::worker::lease::Lease;
use crate::worker::shared::Shared;

/// A task that arrived and took a slot.
pub(crate) struct Offer {
    pub place: Place,
    pub received_at: Instant,
    /// What to do, or why it cannot be read.
    pub task: Result<Task, String>,
}

/// An offer that is ours.
pub(crate) struct Errand {
    pub offer: Offer,
    pub lease: Arc<Lease>,
    /// Somebody canceled it before it began: it must not start, and its end must be told.
    pub canceled: bool,
}

/// What can be read of any task, also of one from a newer server.
#[derive(serde::Deserialize)]
struct Stub {
    task_id: RunId,
    task_type: Option<String>,
}

impl Offer {
    /// Takes tasks in hand. Those that are there already, or were before, stay where they are.
    pub fn take(shared: &Shared, tasks: &[Box<RawValue>], received_at: Instant) -> Vec<Self> {
        let mut offers = Vec::with_capacity(tasks.len());
        for text in tasks {
            let Ok(stub) = serde_json::from_str::<Stub>(text.get()) else {
                warn!("a task without a readable task_id arrived and is left alone");
                continue;
            };
            let task = serde_json::from_str::<Task>(text.get())
                .map_err(|error| format!("this worker cannot read the task: {error}"))
                .and_then(|task| known(shared, task));
            let run = stub.task_id;
            match shared.hand.take(run) {
                Some(place) => offers.push(Self { place, received_at, task }),
                None => {
                    let kind = stub.task_type.unwrap_or_default();
                    warn!(run.id = %run, "task {run} ({kind}) arrived twice, or without a free slot, and is left alone");
                }
            }
        }
        offers
    }

    pub fn run(&self) -> RunId {
        self.place.run()
    }
}

fn known(shared: &Shared, task: Task) -> Result<Task, String> {
    let unknown = |kind: &TaskType| format!("worker {} has no handler for task type {kind}", shared.link.worker());
    if shared.handlers.find(&task.task_type).is_some() { Ok(task) } else { Err(unknown(&task.task_type)) }
}

/// Asks the server to confirm the offers, and returns those that are ours now. All came in one answer.
pub(crate) async fn accept(shared: &Shared, offers: Vec<Offer>) -> Vec<Errand> {
    let terms = shared.link.registration.terms();
    let Some(deadline) = offers.first().map(|offer| offer.received_at + terms.accept) else { return Vec::new() };
    let runs: Vec<RunId> = offers.iter().map(Offer::run).collect();
    match confirm(&shared.link, &runs, deadline).await {
        Some(Confirmation { answer, sent_at }) => {
            confirmed(offers, &answer, || Arc::new(Lease::new(terms.lease, sent_at)))
        }
        None => Vec::new(),
    }
}

/// Silence about a task is not a yes.
fn confirmed(offers: Vec<Offer>, answer: &HeartbeatAnswer, lease: impl Fn() -> Arc<Lease>) -> Vec<Errand> {
    let mut errands = Vec::with_capacity(offers.len());
    for offer in offers {
        let run = offer.run();
        let canceled = answer.cancel.contains(&run);
        if (canceled || answer.renewed.contains(&run)) && !answer.stale.contains(&run) {
            let lease = lease();
            offer.place.accept(Arc::clone(&lease));
            errands.push(Errand { offer, lease, canceled });
        } else {
            info!(run.id = %run, "task {run} was given to somebody else before we could accept it; it is not started");
        }
    }
    errands
}
