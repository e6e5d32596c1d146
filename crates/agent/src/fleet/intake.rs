//! From what a poll brought to runs that are ours.
//!
//! *Offer*: a task that arrived and took a slot. Polls go on while offers are being accepted, and everything that has
//! arrived meanwhile is accepted with one heartbeat.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use bowline_model::RunId;
use bowline_protocol::{HostTask, Task};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::fleet::dispatch::Dispatcher;
use crate::fleet::shared::Fleet;
use crate::server::confirm::{Confirmation, confirm};
use crate::server::poll_loop::Taker;

/// The only type of task that an agent takes.
pub(crate) const TASK_TYPE: &str = "bowline.command";
/// How many runs one heartbeat names.
const NAMED_MAX: usize = 10_000;

pub(crate) struct Offer {
    pub run: RunId,
    pub fence: u32,
    /// What to do, or why it cannot be read.
    pub wish: Result<Box<(Task, HostTask)>, String>,
}

/// What can be read of any task, also of one from a newer server.
#[derive(serde::Deserialize)]
struct Stub {
    task_id: RunId,
    #[serde(default)]
    fence: u32,
}

pub(crate) struct Arrived {
    pub at: Instant,
    pub offers: Vec<Offer>,
}

/// Takes what polls bring, and passes it on to the [`accept_loop`].
pub(crate) struct Desk {
    pub fleet: Arc<Fleet>,
    pub arrived: mpsc::Sender<Arrived>,
}

impl Taker for Desk {
    async fn room(&self) -> usize {
        let mut freed = self.fleet.roster.freed();
        loop {
            match self.fleet.roster.free() {
                0 => {
                    // The sender lives in the roster.
                    let _ = freed.changed().await;
                }
                free => return free,
            }
        }
    }

    async fn take(&self, tasks: Vec<Box<RawValue>>, at: Instant) -> ControlFlow<()> {
        let mut offers = Vec::with_capacity(tasks.len());
        for text in tasks {
            let Ok(stub) = serde_json::from_str::<Stub>(text.get()) else {
                warn!("a task without a readable task_id arrived and is left alone");
                continue;
            };
            let run = stub.task_id;
            if self.fleet.roster.offer(run) {
                offers.push(Offer { run, fence: stub.fence, wish: read(&text) });
            } else {
                warn!(run.id = %run, "run {run} arrived twice, or without a free slot, and is left alone");
            }
        }
        match self.arrived.send(Arrived { at, offers }).await {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

fn read(text: &RawValue) -> Result<Box<(Task, HostTask)>, String> {
    let task: Task =
        serde_json::from_str(text.get()).map_err(|error| format!("this agent cannot read the task: {error}"))?;
    if task.task_type.as_str() != TASK_TYPE {
        return Err(format!("agents take tasks of type {TASK_TYPE}, not {}", task.task_type));
    }
    let wish = serde_json::from_str(task.params.get())
        .map_err(|error| format!("this agent cannot read the command: {error}"))?;
    Ok(Box::new((task, wish)))
}

/// Accepts offers and has them begun, until nothing can arrive any more.
pub(crate) async fn accept_loop(fleet: Arc<Fleet>, mut arrived: mpsc::Receiver<Arrived>) {
    let mut dispatcher = Dispatcher::new(Arc::clone(&fleet));
    loop {
        let first = tokio::select! {
            () = fleet.link.end.cancelled() => return,
            first = arrived.recv() => first,
        };
        let Some(Arrived { at, mut offers }) = first else { break };
        while offers.len() < NAMED_MAX - 1_000
            && let Ok(more) = arrived.try_recv()
        {
            offers.extend(more.offers);
        }
        if offers.is_empty() {
            continue;
        }
        let runs: Vec<RunId> = offers.iter().map(|offer| offer.run).collect();
        let deadline = at + fleet.link.registration.terms().accept;
        let confirmation = confirm(&fleet.link, &runs, deadline).await;
        for (offer, canceled) in sort(&fleet, offers, confirmation) {
            dispatcher.begin(offer, canceled);
        }
    }
    dispatcher.finish().await;
}

/// Those that are ours, and whether somebody canceled them already. Silence about a run is not a yes.
fn sort(fleet: &Fleet, offers: Vec<Offer>, confirmation: Option<Confirmation>) -> Vec<(Offer, bool)> {
    let Some(Confirmation { answer, sent_at }) = confirmation else {
        offers.iter().for_each(|offer| fleet.roster.done(offer.run));
        return Vec::new();
    };
    let (renewed, stale): (HashSet<_>, HashSet<_>) = (answer.renewed.iter().collect(), answer.stale.iter().collect());
    let cancel: HashSet<_> = answer.cancel.iter().collect();
    let mut ours = Vec::with_capacity(offers.len());
    for offer in offers {
        let run = offer.run;
        let canceled = cancel.contains(&run);
        if (canceled || renewed.contains(&run)) && !stale.contains(&run) {
            fleet.roster.accept(run, sent_at, canceled);
            ours.push((offer, canceled));
        } else {
            info!(run.id = %run, "run {run} was given to somebody else before we could accept it; it is not begun");
            fleet.roster.done(run);
        }
    }
    ours
}
