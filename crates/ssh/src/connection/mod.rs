//! One connection to one target: how it is made, how it is shared, how it ends.

mod algorithms;
mod backoff;
mod cord;
mod dial;
mod gatekeeper;
mod handshake;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use russh::client::{Handle, Msg};
use russh::{Channel, Disconnect};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use algorithms::Negotiation;
pub(crate) use backoff::pause_before;
pub(crate) use dial::connect;
use gatekeeper::Gatekeeper;

/// How long a goodbye may take.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Connection {
    handle: Handle<Gatekeeper>,
    ties: Ties,
    /// How many commands the server lets us run at once, as far as we know.
    pub sessions: Arc<Semaphore>,
    /// The same as a number.
    sessions_max: AtomicUsize,
    users: AtomicUsize,
    last_used_at: Mutex<Instant>,
    /// Told when the last user leaves.
    unused: Notify,
    /// Nobody new may use it; it closes when its users are gone.
    pub retired: CancellationToken,
}

/// What a connection shares with the task that speaks for it.
#[derive(Clone, Default)]
pub(crate) struct Ties {
    /// Cuts the socket, whatever the task is doing with it.
    cut: CancellationToken,
    /// The task has ended.
    ended: CancellationToken,
    farewell: Arc<OnceLock<String>>,
}

impl Ties {
    /// Why the connection ended, as far as anybody said.
    pub fn reason(&self) -> String {
        self.farewell.get().cloned().unwrap_or_else(|| "nobody said why".to_owned())
    }
}

impl Connection {
    fn new(handle: Handle<Gatekeeper>, ties: Ties, sessions_max: usize) -> Self {
        Self {
            handle,
            ties,
            sessions: Arc::new(Semaphore::new(sessions_max)),
            sessions_max: AtomicUsize::new(sessions_max),
            users: AtomicUsize::new(0),
            last_used_at: Mutex::new(Instant::now()),
            unused: Notify::new(),
            retired: CancellationToken::new(),
        }
    }

    /// Whether it may be used, as far as one can know without asking the server.
    pub fn is_open(&self) -> bool {
        !self.retired.is_cancelled() && !self.ties.ended.is_cancelled() && !self.handle.is_closed()
    }

    pub fn is_unused(&self) -> bool {
        self.users.load(Ordering::Acquire) == 0
    }

    pub fn last_used_at(&self) -> Instant {
        *self.last_used_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn ended(&self) {
        self.ties.ended.cancelled().await;
    }

    pub fn reason(&self) -> String {
        self.ties.reason()
    }

    /// Returns when it is not used, be it for a moment.
    pub async fn unused(&self) {
        while !self.is_unused() {
            self.unused.notified().await;
        }
    }

    /// Returns when its last user has left, be it before the call.
    pub async fn left(&self) {
        self.unused.notified().await;
    }

    /// The server refused a session to whoever has this turn, so it allows fewer than we thought. False if we thought one.
    pub fn allows_fewer(&self, turn: OwnedSemaphorePermit) -> bool {
        let fewer = |sessions: usize| (sessions > 1).then(|| sessions - 1);
        let fewer = self.sessions_max.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer).is_ok();
        if fewer {
            turn.forget();
        }
        fewer
    }

    pub async fn open_session(&self) -> Result<Channel<Msg>, russh::Error> {
        self.handle.channel_open_session().await
    }

    /// Says goodbye if the server listens, and hangs up in any case.
    pub async fn close(&self) {
        let farewell = async {
            let _ = self.handle.disconnect(Disconnect::ByApplication, "", "").await;
            self.ended().await;
        };
        let _ = tokio::time::timeout(FAREWELL_TIMEOUT, farewell).await;
        self.ties.cut.cancel();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.ties.cut.cancel();
    }
}

/// The right to use a connection. As long as there is one, it is not closed for being idle.
pub(crate) struct Lease(Arc<Connection>);

impl Lease {
    /// To be called where nobody decides about the connection's end at the same time: under the pool's lock.
    pub fn new(connection: &Arc<Connection>) -> Self {
        connection.users.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(connection))
    }

    pub fn connection(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl std::ops::Deref for Lease {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.0.last_used_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        if self.0.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.unused.notify_one();
        }
    }
}
