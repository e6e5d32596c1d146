//! The ways a store call can fail to be committed.

/// What became of a call that did not return `Ok`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Somebody else was faster; nothing was written. Ask again.
    #[error("another writer changed the same rows: {0}")]
    Conflict(String),
    /// The ledger cannot be reached, is full or too busy; nothing was written. Ask again later.
    #[error("the ledger is not available: {0}")]
    Unavailable(String),
    /// The answer to the commit was lost. It may be written, or not; ask again with the same key.
    #[error("the ledger did not say whether it stored this: {0}")]
    Unknown(String),
    /// A quota of the tenant is used up; nothing was written. Ask again when there is room.
    #[error("the quota {quota} of this tenant is used up: {used} of {max}")]
    Quota { quota: &'static str, used: u64, max: u64 },
    /// The tenant's share of what is shared is full; nothing was written. Ask again in a moment.
    #[error("{0}")]
    Busy(String),
    /// A mistake of ours. Nothing was written.
    #[error("the ledger refused a statement: {0}")]
    Broken(String),
}

impl StoreError {
    /// Whether asking again may help.
    pub const fn is_transient(&self) -> bool {
        !matches!(self, Self::Broken(_))
    }
}
