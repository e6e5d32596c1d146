//! Open connections: so many in all, so many from one address, and idle ones make room.
//!
//! *Idle*: no request is being answered on it. A connection that would be one too many takes the place of the one that has been
//! idle longest; if none is idle, it is closed at once. So a peer that opens connections and says nothing holds up nobody.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::Pin;
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
    /// Requests that are being answered.
    busy: usize,
    idle_since: Instant,
    close: CancellationToken,
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
        let idle = self.open.iter().filter(|(_, open)| open.busy == 0 && of.is_none_or(|ip| ip == open.address));
        let Some(id) = idle.min_by_key(|(_, open)| open.idle_since).map(|(id, _)| *id) else { return false };
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
    state: Mutex<State>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    close: CancellationToken,
    all: Arc<Connections>,
}

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default() })
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
        let (id, close) = (state.next, CancellationToken::new());
        state.open.insert(id, Open { address, busy: 0, idle_since: Instant::now(), close: close.clone() });
        *state.by_address.entry(address).or_default() += 1;
        drop(state);
        Some(Arc::new(Connection { id, close, all: Arc::clone(self) }))
    }
}

impl Connection {
    /// Returns when the connection has to make room.
    pub(crate) async fn closed(&self) {
        self.close.cancelled().await;
    }

    /// A request is being answered until what this returns is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        if let Some(open) = self.all.state().open.get_mut(&self.id) {
            open.busy += 1;
        }
        Busy(Arc::clone(self))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.state().forget(self.id);
    }
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
        if let Some(open) = self.0.all.state().open.get_mut(&self.0.id) {
            open.busy -= 1;
            open.idle_since = Instant::now();
        }
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
        let all = Connections::new(ConnectionLimits { total: 3, per_address: 2 });
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
