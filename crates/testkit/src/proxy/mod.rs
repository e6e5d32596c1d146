//! A network that fails on command: a TCP proxy between a client and a server, in the hands of the test.
//!
//! It can cut, swallow, delay and break off in the middle of a message. In front of PostgreSQL it also reads along, and
//! can lose the one answer that matters most: the one to COMMIT. Everything it does is counted, because a fault test
//! without evidence of the fault proves nothing.
//!
//! Never here: chance. A test that wants random faults draws them from its own seed and calls these methods.

mod acceptor;
mod commit_faults;
mod conduct;
mod relay;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::backstage::Backstage;
use crate::port;
use crate::url::Url;
use acceptor::Order;
use conduct::Shared;

/// Which way bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
    Both,
}

/// A proxy on a loopback port of its own, passing everything until told otherwise. Gone with this guard.
///
/// When a method returns, what it ordered is in effect.
pub struct ChaosProxy {
    address: SocketAddr,
    url: String,
    orders: UnboundedSender<Order>,
    shared: Arc<Shared>,
    /// Last, so that it is dropped last.
    _stage: Backstage,
}

impl ChaosProxy {
    /// Stands in front of the server in `upstream`, a URL or a bare `host:port`. A `postgres://` URL makes the proxy
    /// read along and enables the faults about COMMIT; connections that turn to TLS pass unread.
    ///
    /// The server need not run yet. While it does not, clients are accepted and then reset.
    ///
    /// # Panics
    /// If `upstream` names no address.
    #[must_use]
    pub fn start(upstream: &str) -> Self {
        let parsed = Url::parse(upstream).and_then(|url| Ok((url.address()?, url)));
        let (server, url) = parsed.unwrap_or_else(|error| panic!("cannot stand in front of {upstream:?}: {error:#}"));
        let (port, listener) = port::bind();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let (orders, inbox) = unbounded_channel();
        let shared = Arc::new(Shared::new(server, url.is_postgres(), orders.clone()));
        let stage = Backstage::run("chaos-proxy", {
            let shared = Arc::clone(&shared);
            move |stop| acceptor::run(listener, shared, inbox, stop)
        });
        Self { address, url: url.at(address).to_string(), orders, shared, _stage: stage }
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The upstream's URL, but through this proxy.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Breaks all connections with a reset, and refuses new ones until [`heal`](Self::heal).
    pub fn cut(&self) {
        self.order(Order::Cut);
    }

    /// Passes everything again: ends every fault this proxy was ordered, and forgets those that were still to come.
    /// Connections that were cut stay cut; bytes that a black hole held back arrive now.
    pub fn heal(&self) {
        self.shared.heal();
        self.order(Order::Listen);
    }

    /// Holds back everything that travels in `direction`, ends of connections included, until [`heal`](Self::heal). As
    /// on a real network nobody is told, and nothing is lost if it heals in time. New connections are accepted, but
    /// nothing comes through them. Replaces an earlier black hole.
    pub fn black_hole(&self, direction: Direction) {
        self.shared.conduct.send_modify(|conduct| {
            conduct.hold_to_server = direction != Direction::ToClient;
            conduct.hold_to_client = direction != Direction::ToServer;
        });
    }

    /// Everything arrives this much later, each way, in order and at full bandwidth. Zero ends it.
    pub fn latency(&self, latency: Duration) {
        self.shared.conduct.send_modify(|conduct| conduct.latency = latency);
    }

    /// Passes `bytes` more, of all connections and both directions together, and then cuts, wherever in a message that
    /// may be.
    pub fn cut_after_bytes(&self, bytes: u64) {
        if bytes == 0 {
            return self.cut();
        }
        self.shared.set_allowance(Some(bytes));
    }

    /// The next `n` transactions are committed, but their clients never learn: COMMIT reaches the server, its answer is
    /// swallowed and the connection reset. A COMMIT that the server answers with an error or a rollback does not count,
    /// its answer passes. Replaces what was left of an earlier order.
    ///
    /// # Panics
    /// If the upstream is not PostgreSQL.
    pub fn drop_next_commit_answers(&self, n: u64) {
        self.require_postgres();
        self.shared.faults.drop_next(n);
    }

    /// The next `n` transactions are not committed: the connection is reset before COMMIT is passed on. Comes before
    /// [`drop_next_commit_answers`](Self::drop_next_commit_answers), if both are ordered.
    ///
    /// # Panics
    /// If the upstream is not PostgreSQL.
    pub fn fail_next_commits(&self, n: u64) {
        self.require_postgres();
        self.shared.faults.fail_next(n);
    }

    /// How often an answer to COMMIT was swallowed since the start. Moves before the client can notice.
    #[must_use]
    pub fn commit_answers_dropped(&self) -> u64 {
        self.shared.faults.answers_dropped()
    }

    /// How often a COMMIT was withheld since the start. Moves before the client can notice.
    #[must_use]
    pub fn commits_failed(&self) -> u64 {
        self.shared.faults.commits_failed()
    }

    /// How many connections were accepted since the start.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.counters.accepted.load(Relaxed)
    }

    /// How many connections are open now.
    #[must_use]
    pub fn open_connections(&self) -> u64 {
        self.shared.counters.open.load(Relaxed)
    }

    #[must_use]
    pub fn bytes_to_server(&self) -> u64 {
        self.shared.counters.to_server.load(Relaxed)
    }

    #[must_use]
    pub fn bytes_to_client(&self) -> u64 {
        self.shared.counters.to_client.load(Relaxed)
    }

    fn order(&self, order: impl FnOnce(acceptor::Done) -> Order) {
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        self.orders.send(order(Some(done))).expect("the proxy runs as long as its guard lives");
        wait.recv().expect("the proxy carries out every order");
    }

    fn require_postgres(&self) {
        assert!(self.shared.postgres, "{} is not a postgres:// URL; this proxy cannot know a COMMIT", self.url);
    }
}
