//! Virtual time as the ledger sees it, and as servers believe it to be.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bowline_model::Timestamp;
use bowline_store::Clock;
use tokio::time::Instant;

/// Passes with the runtime's virtual time, from a fixed beginning.
#[derive(Debug)]
pub struct SimClock {
    begin: Instant,
    /// How far it is ahead of the true time.
    ahead_ms: AtomicI64,
}

/// The moment every simulation begins.
const BEGIN_MS: i64 = 1_767_398_400_000;

impl SimClock {
    pub fn start() -> Arc<Self> {
        Arc::new(Self { begin: Instant::now(), ahead_ms: AtomicI64::new(0) })
    }

    /// Another clock of the same time, which can be wrong on its own.
    pub fn beside(&self) -> Arc<Self> {
        Arc::new(Self { begin: self.begin, ahead_ms: AtomicI64::new(0) })
    }

    /// From now on it is so far ahead of the true time, or behind it.
    pub fn jump(&self, ahead_ms: i64) {
        self.ahead_ms.store(ahead_ms, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.begin.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros((BEGIN_MS + self.ahead_ms.load(Ordering::SeqCst)) * 1_000 + passed)
    }
}
