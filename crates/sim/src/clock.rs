//! Virtual time as the ledger sees it.

use std::sync::Arc;

use bowline_model::Timestamp;
use bowline_store::Clock;
use tokio::time::Instant;

/// Passes with the runtime's virtual time, from a fixed beginning.
#[derive(Debug)]
pub struct SimClock {
    begin: Instant,
}

/// The moment every simulation begins.
const BEGIN_MS: i64 = 1_767_398_400_000;

impl SimClock {
    pub fn start() -> Arc<Self> {
        Arc::new(Self { begin: Instant::now() })
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.begin.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(BEGIN_MS * 1_000 + passed)
    }
}
