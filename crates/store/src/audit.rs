//! The audit trail. A record of a change is written in the transaction of the change itself, so no caller can forget it.
//! [`AuditStore::record_audit`] is for what changes nothing in the ledger: a refused request, the check of a secret. No
//! call changes a record or removes one.

use async_trait::async_trait;
use bowline_model::Timestamp;
use bowline_model::audit::{AuditRecord, Chain, Deed, Head};

use crate::{Page, StoreResult};

/// Which records to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub actors: Option<Vec<String>>,
    pub action: Option<String>,
    /// The thing itself, or everything below it: `job` means every `job/…`.
    pub resource: Option<String>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

/// In which order, and where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditFrom {
    /// Oldest first, after this number.
    After(u64),
    /// Newest first, before this number; from the end for `None`.
    Before(Option<u64>),
}

#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Records of one chain.
    async fn list_audit(
        &self,
        chain: Chain,
        filter: AuditFilter,
        from: AuditFrom,
        limit: u32,
    ) -> StoreResult<Page<AuditRecord, u64>>;

    /// Appends entries about what changed nothing in the ledger.
    async fn record_audit(&self, entries: Vec<Deed>) -> StoreResult<()>;

    /// Where every chain ends now.
    async fn audit_heads(&self) -> StoreResult<Vec<Head>>;
}
