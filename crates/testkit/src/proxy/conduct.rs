//! How the proxy is to behave, what it has counted, and where it leads: all that its connections share with the test.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::acceptor::Order;
use super::commit_faults::CommitFaults;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Conduct {
    pub hold_to_server: bool,
    pub hold_to_client: bool,
    pub latency: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub accepted: AtomicU64,
    pub open: AtomicU64,
    pub to_server: AtomicU64,
    pub to_client: AtomicU64,
}

pub(super) struct Shared {
    pub upstream: SocketAddr,
    /// Whether to read along.
    pub postgres: bool,
    pub conduct: watch::Sender<Conduct>,
    pub counters: Counters,
    pub faults: CommitFaults,
    /// Bytes that may still pass before the cut, if one is planned.
    allowance: Mutex<Option<u64>>,
    orders: UnboundedSender<Order>,
}

impl Shared {
    pub fn new(upstream: SocketAddr, postgres: bool, orders: UnboundedSender<Order>) -> Self {
        Self {
            upstream,
            postgres,
            conduct: watch::Sender::default(),
            counters: Counters::default(),
            faults: CommitFaults::default(),
            allowance: Mutex::new(None),
            orders,
        }
    }

    pub fn heal(&self) {
        self.faults.forget();
        self.set_allowance(None);
        self.conduct.send_replace(Conduct::default());
    }

    pub fn set_allowance(&self, bytes: Option<u64>) {
        *self.allowance.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
    }

    /// How many of `wanted` bytes may pass. When the allowance ends with them the cut is ordered, and the caller is to
    /// break off after them.
    pub fn spend(&self, wanted: usize) -> Spent {
        let mut allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = allowance.as_mut() else { return Spent { pass: wanted, then_break: false } };
        let pass = usize::try_from(*left).map_or(wanted, |left| left.min(wanted));
        *left -= pass as u64;
        let then_break = *left == 0;
        if then_break && pass > 0 {
            // The acceptor outlives its connections; if it is gone there is nothing left to cut.
            let _ = self.orders.send(Order::Cut(None));
        }
        Spent { pass, then_break }
    }
}

pub(super) struct Spent {
    pub pass: usize,
    pub then_break: bool,
}
