//! Runs that are going on, kept from one turn to the next.
//!
//! Only a convenience: a run that is not here is read again, and one that somebody else has moved on is noticed when its
//! next turn is refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_model::{JobId, TenantId};
use bowline_workflow::flow::Flow;

/// Runs that are kept. Whoever waits for long is not among them.
const KEPT_MAX: usize = 10_000;
/// What is recorded of them, in bytes.
const KEPT_BYTES_MAX: usize = 128 << 20;

/// What must be known of a run beside its state.
#[derive(Debug, Clone)]
pub struct About {
    pub number: i64,
    pub job: JobId,
    pub tenant: TenantId,
    /// What the ledger calls the definition that it is pinned to.
    pub definition: i64,
    pub depth: u32,
    pub actor: Arc<str>,
    pub email: Option<Arc<str>>,
    pub trace_id: Option<Arc<str>>,
    pub correlation_id: Option<Arc<str>>,
}

impl About {
    /// Around everything that is done for the execution, so that what is logged meanwhile names it.
    pub fn span(&self) -> tracing::Span {
        tracing::info_span!("execution", job.id = %self.job)
    }
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

impl Kept {
    /// About as many bytes as it has as text.
    const fn size(&self) -> usize {
        self.since_snapshot + self.snapshot_size
    }
}

#[derive(Debug, Default)]
pub struct Memory(Mutex<Executions>);

#[derive(Debug, Default)]
struct Executions {
    by_number: HashMap<i64, Kept>,
    bytes: usize,
}

impl Executions {
    fn take(&mut self, flow: i64) -> Option<Kept> {
        let taken = self.by_number.remove(&flow)?;
        self.bytes = self.bytes.saturating_sub(taken.size());
        Some(taken)
    }
}

impl Memory {
    fn kept(&self) -> MutexGuard<'_, Executions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self, flow: i64) -> Option<Kept> {
        self.kept().take(flow)
    }

    /// Keeps a run until its next turn.
    pub fn keep(&self, run: Kept) {
        let mut kept = self.kept();
        while (kept.by_number.len() >= KEPT_MAX || kept.bytes + run.size() > KEPT_BYTES_MAX)
            && let Some(any) = kept.by_number.keys().next().copied()
        {
            kept.take(any);
        }
        kept.take(run.about.number);
        kept.bytes += run.size();
        kept.by_number.insert(run.about.number, run);
    }
}
