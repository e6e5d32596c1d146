//! Who executes which run.

use std::sync::Arc;

use bowline_model::host::Connection;
use bowline_model::{ErrorClass, RunId};
use bowline_protocol::HostTask;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::{Instrument, error, warn};

use crate::fleet::intake::Offer;
use crate::fleet::local;
use crate::fleet::outbox::Story;
use crate::fleet::remote;
use crate::fleet::shared::Fleet;
use crate::fleet::simulate;
use crate::fleet::span::run_span;

/// How many runs are brought to disk and begun side by side.
const BEGINNING_MAX: usize = 16;

/// Has accepted runs begun, each by the executor that its host needs.
pub(crate) struct Dispatcher {
    fleet: Arc<Fleet>,
    places: Arc<Semaphore>,
    beginning: JoinSet<()>,
}

impl Dispatcher {
    pub fn new(fleet: Arc<Fleet>) -> Self {
        Self { fleet, places: Arc::new(Semaphore::new(BEGINNING_MAX)), beginning: JoinSet::new() }
    }

    pub fn begin(&mut self, offer: Offer, canceled: bool) {
        while let Some(begun) = self.beginning.try_join_next() {
            if let Err(broken) = begun {
                error!("the agent broke at the beginning of a run, which will count as lost: {broken}");
            }
        }
        let Offer { run, fence, wish } = offer;
        let now = (self.fleet.clock)();
        if canceled {
            return self.fleet.tell(run, Story::canceled(fence, now));
        }
        let (task, wish) = match wish {
            Ok(wish) => *wish,
            Err(message) => return self.refuse(run, fence, "UNREADABLE", ErrorClass::Handler, &message),
        };
        let span = run_span(run, task.job_id, &wish.host.name);
        let entered = span.enter();
        match (&wish.host.connection, &self.fleet.remotes) {
            (Connection::Agent { .. }, _) if !is_here(&self.fleet, &wish) => {
                let message = format!("this is agent {}, which is not on host {}", self.fleet.name(), wish.host.name);
                self.refuse(run, fence, "OTHER_AGENT", ErrorClass::Permanent, &message);
            }
            (Connection::Agent { .. }, _) => {
                let (fleet, places) = (Arc::clone(&self.fleet), Arc::clone(&self.places));
                drop(entered);
                self.beginning.spawn(async move {
                    let Ok(_place) = places.acquire_owned().await else { return };
                    let begin = move || span.in_scope(|| local::begin(&fleet, &task, &wish));
                    let begun = tokio::task::spawn_blocking(begin).await;
                    if let Err(broken) = begun {
                        error!(run.id = %run, "the agent broke at the beginning of run {run}: {broken}");
                    }
                });
            }
            (Connection::Ssh { .. }, Some(remotes)) => {
                let (fleet, remotes) = (Arc::clone(&self.fleet), Arc::clone(remotes));
                drop(entered);
                let work = remote::carry_out(fleet, remotes, Arc::clone(&self.places), task, wish);
                self.beginning.spawn(work.instrument(span));
            }
            (Connection::Simulate { .. }, _) if self.fleet.plays => {
                let cue = simulate::Cue {
                    run,
                    fence,
                    host: wish.host.name,
                    attempt: task.attempt,
                    timeout_ms: task.timeout_ms,
                };
                // The stage is there as long as the agent is.
                let _ = self.fleet.stage.send(simulate::Order::Play(cue));
            }
            (Connection::Ssh { .. } | Connection::Simulate { .. }, _) => {
                let message = format!("agent {} cannot reach host {}", self.fleet.name(), wish.host.name);
                self.refuse(run, fence, "OUT_OF_REACH", ErrorClass::Permanent, &message);
            }
        }
    }

    /// Waits for what is being begun, and for what is executed over SSH.
    pub async fn finish(mut self) {
        while self.beginning.join_next().await.is_some() {}
    }

    fn refuse(&self, run: RunId, fence: u32, code: &str, class: ErrorClass, message: &str) {
        warn!(run.id = %run, "run {run} is not begun: {message}");
        self.fleet.tell(run, Story::not_begun(fence, (self.fleet.clock)(), code, class, message));
    }
}

/// A command for another machine must not be executed on this one, whoever sent it.
fn is_here(fleet: &Fleet, wish: &HostTask) -> bool {
    let required = wish.host.connection.required_labels(&wish.host.name);
    required.get(Connection::AGENT_LABEL) == Some(fleet.name().as_str())
}
