//! The pool: which target has which connection, and who may make one more.
//!
//! A target without a connection costs nothing, not even an entry. One with a connection has an entry and a *keeper*: a
//! task that makes the connection, keeps it while it is used, and closes it when it is not. Whoever comes while it is made
//! waits for it, and shares its failure too.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::command::{RemoteCommand, RemoteExit};
use crate::connection::{Connection, Lease, Negotiation, connect};
use crate::error::{ConnectError, SshError};
use crate::exec;
use crate::identity::Identities;
use crate::known_hosts::KnownHosts;
use crate::output::OutputSink;
use crate::settings::{BadSettings, SshSettings};
use crate::target::{Endpoint, Target};

/// Runs commands on many targets, over connections it keeps.
///
/// Dropping it is closing it without waiting.
pub struct SshPool {
    shared: Arc<Shared>,
}

impl SshPool {
    /// Reads the key files. Connects to nobody.
    pub fn new(settings: SshSettings) -> Result<Self, BadSettings> {
        settings.check()?;
        Endpoint::of(&Target::new("localhost"), &settings.user).map_err(BadSettings::User)?;
        Ok(Self {
            shared: Arc::new(Shared {
                identities: Identities::load(&settings)?,
                known_hosts: Arc::new(KnownHosts::new(&settings.known_hosts, &settings.host_keys)),
                negotiation: Negotiation::new(&settings),
                handshakes: Semaphore::new(settings.handshakes_max),
                connections: Arc::new(Semaphore::new(settings.connections_max)),
                wanting: AtomicUsize::new(0),
                slots: Mutex::new(HashMap::new()),
                tasks: TaskTracker::new(),
                closing: CancellationToken::new(),
                settings,
            }),
        })
    }

    /// Runs a command and waits for its end. Its output goes to `sink` as it comes.
    ///
    /// `cancel` ends it: SIGTERM to the command and all in its process group, and after its grace SIGKILL. So does
    /// dropping the future, only that nobody hears how it went.
    pub async fn exec(
        &self,
        target: &Target,
        command: &RemoteCommand,
        sink: &mut dyn OutputSink,
        cancel: CancellationToken,
    ) -> Result<RemoteExit, SshError> {
        exec::exec(&self.shared, target, command, sink, cancel).await
    }

    /// Connections that are open or being made.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.lock().len()
    }

    /// Takes no more commands, waits for those that run, and closes all connections. Those who do not want to wait
    /// cancel their commands.
    pub async fn close(&self) {
        self.shared.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for SshPool {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl std::fmt::Debug for SshPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SshPool").field("connections", &self.connections()).finish_non_exhaustive()
    }
}

/// A server that lets us in and then hangs up is not called more often than this for one command.
const LOGINS_MAX: u32 = 3;

/// What all tasks of a pool share.
pub(crate) struct Shared {
    pub settings: SshSettings,
    pub identities: Identities,
    pub known_hosts: Arc<KnownHosts>,
    pub negotiation: Negotiation,
    pub handshakes: Semaphore,
    connections: Arc<Semaphore>,
    /// How many wait for a place among the connections.
    wanting: AtomicUsize,
    slots: Mutex<HashMap<Endpoint, Slot>>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

type Outcome = Option<Result<(), Arc<ConnectError>>>;

enum Slot {
    Connecting(Arc<watch::Sender<Outcome>>),
    Open(Arc<Connection>),
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<Endpoint, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        // Under the lock, so that every task is either waited for or not started.
        let _slots = self.lock();
        self.closing.cancel();
        self.tasks.close();
    }

    /// Starts a task that belongs to the pool. False if the pool takes no more.
    pub fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> bool {
        let _slots = self.lock();
        let open = !self.closing.is_cancelled();
        if open {
            self.tasks.spawn(task);
        }
        open
    }

    /// The same for what a task of the pool leaves to be done after it, also while the pool closes.
    pub fn start_after(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// The connection to `endpoint`: the one there is, or a new one.
    pub async fn lease(self: &Arc<Self>, endpoint: &Endpoint) -> Result<Lease, Arc<ConnectError>> {
        for _ in 0..LOGINS_MAX {
            let mut outcome = match self.look(endpoint)? {
                Found::Open(lease) => return Ok(lease),
                Found::Connecting(outcome) => outcome,
            };
            match outcome.wait_for(Option::is_some).await.as_deref() {
                // As long as we hold our end, the keeper holds the connection for us.
                Ok(Some(Ok(()))) => {
                    if let Found::Open(lease) = self.look(endpoint)? {
                        return Ok(lease);
                    }
                }
                Ok(Some(Err(error))) => return Err(Arc::clone(error)),
                Ok(None) | Err(_) => return Err(Arc::new(ConnectError::Failed)),
            }
        }
        Err(Arc::new(ConnectError::LostAfterLogin { times: LOGINS_MAX }))
    }

    fn look(self: &Arc<Self>, endpoint: &Endpoint) -> Result<Found, Arc<ConnectError>> {
        let mut slots = self.lock();
        if self.closing.is_cancelled() {
            return Err(Arc::new(ConnectError::Closed));
        }
        match slots.get(endpoint) {
            Some(Slot::Open(connection)) if connection.is_open() => return Ok(Found::Open(Lease::new(connection))),
            Some(Slot::Connecting(outcome)) => return Ok(Found::Connecting(outcome.subscribe())),
            _ => {}
        }
        let (outcome, waits) = watch::channel(None);
        let outcome = Arc::new(outcome);
        slots.insert(endpoint.clone(), Slot::Connecting(Arc::clone(&outcome)));
        let keeper = Keeper { shared: Arc::clone(self), endpoint: endpoint.clone(), outcome };
        self.tasks.spawn(keeper.run());
        Ok(Found::Connecting(waits))
    }

    /// A place among the connections. The one that was idle for the longest time makes room if need be.
    async fn place(&self) -> Result<OwnedSemaphorePermit, ConnectError> {
        if let Ok(place) = Arc::clone(&self.connections).try_acquire_owned() {
            return Ok(place);
        }
        let _wanting = Wanting::new(&self.wanting);
        self.make_room();
        Arc::clone(&self.connections).acquire_owned().await.map_err(|_| ConnectError::Closed)
    }

    fn make_room(&self) {
        let mut slots = self.lock();
        let idle = slots.iter().filter_map(|(endpoint, slot)| match slot {
            Slot::Open(connection) if connection.is_unused() => Some((connection.last_used_at(), endpoint)),
            _ => None,
        });
        let oldest = idle.min_by_key(|(last_used_at, _)| *last_used_at).map(|(_, endpoint)| endpoint.clone());
        if let Some(Slot::Open(connection)) = oldest.and_then(|endpoint| slots.remove(&endpoint)) {
            connection.retired.cancel();
        }
    }
}

enum Found {
    Open(Lease),
    Connecting(watch::Receiver<Outcome>),
}

struct Wanting<'a>(&'a AtomicUsize);

impl<'a> Wanting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Makes one connection and looks after it until its end.
struct Keeper {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    outcome: Arc<watch::Sender<Outcome>>,
}

impl Keeper {
    async fn run(self) {
        let (connection, _place) = match self.connect().await {
            None => return,
            Some(Ok(connected)) => connected,
            Some(Err(error)) => {
                self.leave(None);
                self.outcome.send_replace(Some(Err(Arc::new(error))));
                return;
            }
        };
        let ours = {
            let mut slots = self.shared.lock();
            slots.insert(self.endpoint.clone(), Slot::Open(Arc::clone(&connection)));
            Lease::new(&connection)
        };
        self.outcome.send_replace(Some(Ok(())));
        // Those who waited take it before anybody can take it from them.
        self.outcome.closed().await;
        drop(ours);
        self.keep(&connection).await;
        self.leave(Some(&connection));
        connection.retired.cancel();
        tokio::select! {
            () = connection.unused() => connection.close().await,
            () = connection.ended() => {}
        }
    }

    /// `None` if everybody who wanted it has gone.
    async fn connect(&self) -> Option<Result<(Arc<Connection>, OwnedSemaphorePermit), ConnectError>> {
        let work = async {
            let place = self.shared.place().await?;
            let connection = connect(&self.shared, &self.endpoint).await?;
            Ok((Arc::new(connection), place))
        };
        let mut work = Box::pin(work);
        loop {
            tokio::select! {
                connected = &mut work => return Some(connected),
                () = self.shared.closing.cancelled() => return Some(Err(ConnectError::Closed)),
                () = self.outcome.closed() => {
                    let mut slots = self.shared.lock();
                    // Under the lock nobody can join.
                    if self.outcome.receiver_count() == 0 {
                        slots.remove(&self.endpoint);
                        return None;
                    }
                }
            }
        }
    }

    /// Returns when the connection is not to be used any more.
    async fn keep(&self, connection: &Arc<Connection>) {
        loop {
            let ended = tokio::select! {
                () = connection.ended() => true,
                () = connection.retired.cancelled() => true,
                () = self.shared.closing.cancelled() => true,
                () = connection.unused() => false,
            };
            // Somebody waits for the place of a connection that nobody uses.
            if ended || (self.shared.wanting.load(Ordering::Acquire) > 0 && self.retire_if_unused(connection)) {
                return;
            }
            let idle_until = connection.last_used_at() + self.shared.settings.idle_timeout;
            tokio::select! {
                () = connection.ended() => return,
                () = connection.retired.cancelled() => return,
                () = self.shared.closing.cancelled() => return,
                // Used, and unused again.
                () = connection.left() => continue,
                () = tokio::time::sleep_until(idle_until) => {}
            }
            let is_idle = connection.last_used_at() + self.shared.settings.idle_timeout <= Instant::now();
            if is_idle && self.retire_if_unused(connection) {
                return;
            }
        }
    }

    fn retire_if_unused(&self, connection: &Arc<Connection>) -> bool {
        let _slots = self.shared.lock();
        let unused = connection.is_unused();
        if unused {
            connection.retired.cancel();
        }
        unused
    }

    /// Clears our entry, if it still is ours.
    fn leave(&self, connection: Option<&Arc<Connection>>) {
        let mut slots = self.shared.lock();
        let Entry::Occupied(slot) = slots.entry(self.endpoint.clone()) else { return };
        let ours = match (slot.get(), connection) {
            (Slot::Open(open), Some(connection)) => Arc::ptr_eq(open, connection),
            (Slot::Connecting(outcome), None) => Arc::ptr_eq(outcome, &self.outcome),
            _ => false,
        };
        if ours {
            slot.remove();
        }
    }
}

/// However the keeper ends, nobody waits for it in vain.
impl Drop for Keeper {
    fn drop(&mut self) {
        self.leave(None);
    }
}
