//! What the ledger's threads share: which lines have work, and the bells.

use std::sync::Arc;

use bowline_model::fleet::MarginRules;
use bowline_store::{LedgerClock, Observer, Wake};

use crate::channels::Channels;
use crate::known::KnownResources;
use crate::standing::Standing;

/// What the ledger's threads share.
#[derive(Debug)]
pub struct Shared {
    pub clock: Arc<LedgerClock>,
    pub channels: Channels,
    pub work: Wake,
    pub events: Wake,
    pub timers: Wake,
    /// Rung when commands on hosts may have something to do.
    pub fleets: Wake,
    /// Rung when something came in for runs of workflows.
    pub flows: Wake,
    pub key_ttl_ms: i64,
    pub margin: MarginRules,
    /// Rung for other servers, where there are any.
    pub others: Wake,
    pub standing: Standing,
    pub known: KnownResources,
    pub observer: Option<Arc<dyn Observer>>,
}
