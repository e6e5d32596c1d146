//! Open connections: so many in all, so many from one address, and idle ones make room.
//!
//! *Idle*: no request is being answered on it. A connection that would be one too many takes the place of the one that has been
//! idle longest; if none is idle, it is closed at once. So a peer that opens connections and says nothing holds up nobody.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How many connections may be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub total: usize,
    /// From one address. Behind a proxy all come from one.
    pub per_address: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { total: 20_000, per_address: 15_000 }
    }
}

#[derive(Debug)]
struct Open {
    address: IpAddr,
    use_of: Arc<Use>,
    close: CancellationToken,
}

/// What a connection is used for. Each request notes it, so it takes no lock that all connections share.
#[derive(Debug)]
struct Use {
    /// Requests that are being answered.
    busy: AtomicUsize,
    /// Milliseconds between the start of the server and the end of the last request.
    idle_since: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    open: BTreeMap<u64, Open>,
    by_address: HashMap<IpAddr, usize>,
}

impl State {
    fn forget(&mut self, id: u64) -> Option<Open> {
        let open = self.open.remove(&id)?;
        if let Some(count) = self.by_address.get_mut(&open.address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&open.address);
            }
        }
        Some(open)
    }

    /// Closes the connection that has been idle longest, of one address or of all.
    fn make_room(&mut self, of: Option<IpAddr>) -> bool {
        let is_idle = |open: &Open| open.use_of.busy.load(Ordering::Acquire) == 0;
        let idle = self.open.iter().filter(|(_, open)| is_idle(open) && of.is_none_or(|ip| ip == open.address));
        let since = |open: &Open| open.use_of.idle_since.load(Ordering::Relaxed);
        let Some(id) = idle.min_by_key(|(_, open)| since(open)).map(|(id, _)| *id) else { return false };
        if let Some(open) = self.forget(id) {
            open.close.cancel();
        }
        true
    }
}

/// The connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: ConnectionLimits,
    started: Instant,
    stop: CancellationToken,
    state: Mutex<State>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    use_of: Arc<Use>,
    close: CancellationToken,
    all: Arc<Connections>,
}

impl Connections {
    /// They are all asked to close when `stop` is canceled.
    pub(crate) fn new(limits: ConnectionLimits, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self { limits, started: Instant::now(), stop, state: Mutex::default() })
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection from this address, unless there are too many and none of them is idle.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Arc<Connection>> {
        let mut state = self.state();
        let here = state.by_address.get(&address).copied().unwrap_or(0);
        let fits = if here >= self.limits.per_address {
            state.make_room(Some(address))
        } else {
            state.open.len() < self.limits.total || state.make_room(None)
        };
        if !fits {
            return None;
        }
        state.next += 1;
        let (id, close) = (state.next, self.stop.child_token());
        let use_of = Arc::new(Use { busy: AtomicUsize::new(0), idle_since: AtomicU64::new(self.now_ms()) });
        state.open.insert(id, Open { address, use_of: Arc::clone(&use_of), close: close.clone() });
        *state.by_address.entry(address).or_default() += 1;
        drop(state);
        Some(Arc::new(Connection { id, use_of, close, all: Arc::clone(self) }))
    }
}

impl Connection {
    /// Returns when the connection has to close: at once if it is to make room, after its request if the server stops.
    pub(crate) async fn closed(&self) -> Closed {
        self.close.cancelled().await;
        if self.all.stop.is_cancelled() { Closed::ByStop } else { Closed::ForRoom }
    }

    /// A request is being answered until what this returns is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.use_of.busy.fetch_add(1, Ordering::AcqRel);
        Busy(Arc::clone(self))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.state().forget(self.id);
    }
}

/// Why a connection has to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    ForRoom,
    ByStop,
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Connection>);

impl Busy {
    /// Lasts as long as the body: a stream is an answer until its end.
    pub(crate) fn until_sent(self, body: Body) -> Body {
        Body::new(Sending { body, _busy: self })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let Connection { use_of, all, .. } = &*self.0;
        use_of.idle_since.store(all.now_ms(), Ordering::Relaxed);
        use_of.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Sending {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, n])
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_is_idle_longest_makes_room() {
        let all = Connections::new(ConnectionLimits { total: 3, per_address: 2 }, CancellationToken::new());
        let first = all.admit(ip(1)).expect("room");
        let working = first.busy();
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        let second = all.admit(ip(1)).expect("room");
        // A third one of this address: the first is busy, so the second goes.
        let third = all.admit(ip(1)).expect("room is made");
        assert!(second.close.is_cancelled() && !first.close.is_cancelled());
        let answering = third.busy();
        assert!(all.admit(ip(1)).is_none(), "both are busy");
        let other = all.admit(ip(2)).expect("there is room for another address");
        let at_work = other.busy();
        assert!(all.admit(ip(3)).is_none(), "all three are busy");
        drop((working, answering, at_work));
        assert!(all.admit(ip(3)).is_some());
        assert!([&first, &third, &other].iter().any(|one| one.close.is_cancelled()));
        drop((first, second, third, other));
        let state = all.state();
        assert_eq!((state.open.len(), state.by_address.len()), (0, 0));
    }
}
