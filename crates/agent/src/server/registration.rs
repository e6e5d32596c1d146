//! Telling the server who we are, again whenever it has forgotten, and what it said about times.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_protocol::{RegisterAnswer, RegisterRequest, VERSION};
use tokio::sync::{Notify, watch};
use tracing::{debug, info, warn};

use crate::error::{WorkerError, chain};
use crate::server::backoff::Backoff;
use crate::server::client::{CallError, Client};

/// The times of the protocol, as the server set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub heartbeat: Duration,
    pub lease: Duration,
    pub accept: Duration,
    /// When to renew the credential, for agents.
    pub renew_after: Option<Duration>,
}

impl From<&RegisterAnswer> for Terms {
    fn from(answer: &RegisterAnswer) -> Self {
        // A zero would turn a loop into a storm.
        let time = |ms: u64| Duration::from_millis(ms.max(1));
        Self {
            heartbeat: time(answer.heartbeat_ms),
            lease: time(answer.lease_ms),
            accept: time(answer.accept_ms),
            renew_after: answer.renew_after_s.map(Duration::from_secs),
        }
    }
}

/// The registration in force. The lease loop renews it; everybody else only says that it is needed.
pub(crate) struct Registration {
    terms: watch::Sender<Terms>,
    forgotten: AtomicBool,
    wanted: Notify,
}

impl Registration {
    pub fn new(terms: Terms) -> Self {
        Self { terms: watch::Sender::new(terms), forgotten: AtomicBool::new(false), wanted: Notify::new() }
    }

    pub fn terms(&self) -> Terms {
        *self.terms.borrow()
    }

    /// The server does not know us any more.
    pub fn forgotten(&self) {
        self.forgotten.store(true, Ordering::SeqCst);
        self.wanted.notify_one();
    }

    pub fn is_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::SeqCst)
    }

    /// Waits until somebody finds that the server has forgotten us.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    pub fn renew(&self, terms: Terms) {
        self.forgotten.store(false, Ordering::SeqCst);
        self.terms.send_replace(terms);
    }

    /// Says that we are forgotten, and waits until we are not.
    pub async fn again(&self) {
        let mut renewed = self.terms.subscribe();
        self.forgotten();
        // The sender lives in `self`, so this ends by a renewal only.
        let _ = renewed.changed().await;
    }
}

/// Registers, for as long as it takes while the server is away or busy. A no is final; only a worker that was known
/// before (`again`) reads a 404 as a server that is not quite back yet.
pub(crate) async fn register(
    client: &Client,
    request: &RegisterRequest,
    mut backoff: Backoff,
    again: bool,
) -> Result<Terms, WorkerError> {
    let worker = &request.worker_id;
    loop {
        let error = match client.register(request).await {
            Ok(answer) if answer.protocol != VERSION => {
                return Err(WorkerError::OtherProtocol { server: answer.protocol, worker: VERSION });
            }
            Ok(answer) => {
                let (types, slots) = (request.task_types.len(), request.slots);
                info!(worker.id = %worker, "worker {worker} is registered for {types} task types with {slots} slots");
                if !answer.claimed_labels.is_empty() {
                    let labels = answer.claimed_labels.described();
                    warn!(worker.id = %worker, labels, "these labels decide nothing: they are not in this worker's token");
                }
                return Ok(Terms::from(&answer));
            }
            Err(error) => error,
        };
        match error {
            CallError::Refused(refusal) if !(again && refusal.status == 404) => {
                return Err(WorkerError::NotRegistered { worker: worker.clone(), refusal });
            }
            error => {
                let pause = backoff.after(&error);
                let why = chain(&error);
                if backoff.is_first() {
                    warn!(worker.id = %worker, "worker {worker} cannot register yet and keeps trying: {why}");
                } else {
                    debug!(worker.id = %worker, "worker {worker} cannot register yet: {why}; again in {pause:?}");
                }
                tokio::time::sleep(pause).await;
            }
        }
    }
}
