//! Runs that are going on, kept from one turn to the next.
//!
//! Only a convenience: a run that is not here is read again, and one that somebody else has moved on is noticed when its
//! next turn is refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_model::TenantId;
use bowline_workflow::flow::Flow;

/// Runs that are kept. Whoever waits for long is not among them.
const KEPT_MAX: usize = 10_000;

/// What must be known of a run beside its state.
#[derive(Debug, Clone)]
pub struct About {
    pub number: i64,
    pub tenant: TenantId,
    pub depth: u32,
    pub actor: Arc<str>,
    pub email: Option<Arc<str>>,
    pub trace_id: Option<Arc<str>>,
    pub correlation_id: Option<Arc<str>>,
}

/// A run at one of its versions.
#[derive(Debug)]
pub struct Kept {
    pub about: Arc<About>,
    pub flow: Flow,
    pub version: u64,
    /// Bytes recorded since its last snapshot, and how large that was.
    pub since_snapshot: usize,
    pub snapshot_size: usize,
}

#[derive(Debug, Default)]
pub struct Memory(Mutex<HashMap<i64, Kept>>);

impl Memory {
    fn kept(&self) -> MutexGuard<'_, HashMap<i64, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self, flow: i64) -> Option<Kept> {
        self.kept().remove(&flow)
    }

    /// Keeps a run until its next turn.
    pub fn keep(&self, run: Kept) {
        let mut kept = self.kept();
        if kept.len() >= KEPT_MAX
            && let Some(any) = kept.keys().next().copied()
        {
            kept.remove(&any);
        }
        kept.insert(run.about.number, run);
    }
}
