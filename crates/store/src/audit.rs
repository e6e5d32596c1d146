//! The audit trail: read by those who may, written by nobody. Records come with the deeds they are about, in the same
//! transaction; there is no call that writes one, changes one or takes one away.

use async_trait::async_trait;
use bowline_model::Timestamp;
use bowline_model::audit::{AuditRecord, Chain, Head};

use crate::{Page, StoreResult};

/// Which records to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub actor: Option<String>,
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

    /// Where every chain ends now.
    async fn audit_heads(&self) -> StoreResult<Vec<Head>>;
}
