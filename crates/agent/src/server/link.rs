//! A registration with a server, and the order in which it comes to its end.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline_model::{RetryPolicy, WorkerName};
use bowline_protocol::RegisterRequest;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::error::WorkerError;
use crate::server::backoff::Backoff;
use crate::server::client::{Client, Refusal};
use crate::server::registration::Registration;

/// How a link is to be: decided before the first call.
pub(crate) struct LinkSettings {
    pub registration: RegisterRequest,
    pub poll_wait: Duration,
    pub backoff: RetryPolicy,
}

pub(crate) struct Link {
    pub client: Client,
    pub settings: LinkSettings,
    pub registration: Registration,
    /// The closing sequence, in its order. The server asked us to leave:
    pub draining: CancellationToken,
    /// take nothing more;
    pub no_more: CancellationToken,
    /// what was not told by now will not be told.
    pub end: CancellationToken,
    /// The server was away and answers again; it may be another one by now.
    pub reunited: Notify,
    /// Something happened after which going on makes no sense.
    pub failed: CancellationToken,
    failure: Mutex<Option<WorkerError>>,
}

impl Link {
    pub fn new(client: Client, settings: LinkSettings, registration: Registration) -> Self {
        Self {
            client,
            settings,
            registration,
            draining: CancellationToken::new(),
            no_more: CancellationToken::new(),
            end: CancellationToken::new(),
            reunited: Notify::new(),
            failed: CancellationToken::new(),
            failure: Mutex::default(),
        }
    }

    pub fn worker(&self) -> &WorkerName {
        &self.settings.registration.worker_id
    }

    pub fn backoff(&self) -> Backoff {
        Backoff::new(&self.settings.backoff)
    }

    /// The server asks us to finish and leave.
    pub fn drain(&self) {
        if !self.draining.is_cancelled() {
            let worker = self.worker();
            info!(worker.id = %worker, "the server asks worker {worker} to finish and leave");
            self.draining.cancel();
        }
    }

    /// Ends everything. The first error is the one that is told.
    pub fn fail(&self, error: WorkerError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.cancel();
    }

    /// Ends everything: our token is not good any more.
    pub fn fail_unauthorized(&self, refusal: Refusal) {
        self.fail(WorkerError::Unauthorized { worker: self.worker().clone(), refusal });
    }

    pub fn take_failure(&self) -> Option<WorkerError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
