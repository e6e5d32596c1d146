//! What the loops and tasks of one worker share.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_model::{RetryPolicy, WorkerName};
use bowline_protocol::RegisterRequest;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::client::{Client, Refusal};
use crate::error::WorkerError;
use crate::hand::Hand;
use crate::handlers::Handlers;
use crate::registration::Registration;

/// What the builder decided.
pub(crate) struct Settings {
    pub registration: RegisterRequest,
    pub poll_wait: Duration,
    pub grace: Duration,
    pub stop_when_cut_off: bool,
    pub backoff: RetryPolicy,
}

pub(crate) struct Shared {
    pub client: Client,
    pub settings: Settings,
    pub handlers: Handlers,
    pub registration: Registration,
    pub hand: Arc<Hand>,
    /// Bytes of progress that no server holds yet, of all tasks together.
    pub unheard_bytes: Arc<AtomicUsize>,
    /// The closing sequence, in its order. The server asked us to leave:
    pub draining: CancellationToken,
    /// take nothing more;
    pub no_more: CancellationToken,
    /// handlers must stop;
    pub leaving: CancellationToken,
    /// what was not told by now will not be told.
    pub end: CancellationToken,
    /// Something happened after which going on makes no sense.
    pub failed: CancellationToken,
    failure: Mutex<Option<WorkerError>>,
}

impl Shared {
    pub fn new(client: Client, settings: Settings, handlers: Handlers, registration: Registration) -> Arc<Self> {
        let slots = usize::try_from(settings.registration.slots).unwrap_or(usize::MAX);
        Arc::new(Self {
            client,
            settings,
            handlers,
            registration,
            hand: Hand::new(slots),
            unheard_bytes: Arc::default(),
            draining: CancellationToken::new(),
            no_more: CancellationToken::new(),
            leaving: CancellationToken::new(),
            end: CancellationToken::new(),
            failed: CancellationToken::new(),
            failure: Mutex::default(),
        })
    }

    pub fn worker(&self) -> &WorkerName {
        &self.settings.registration.worker_id
    }

    pub fn backoff(&self) -> Backoff {
        Backoff::new(&self.settings.backoff)
    }

    /// Ends the worker. The first error is the one that is told.
    pub fn fail(&self, error: WorkerError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.cancel();
    }

    /// Ends the worker: its token is not good any more.
    pub fn fail_unauthorized(&self, refusal: Refusal) {
        self.fail(WorkerError::Unauthorized { worker: self.worker().clone(), refusal });
    }

    pub fn take_failure(&self) -> Option<WorkerError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
