//! The audit trail, as those see it who may.

use async_trait::async_trait;
use bowline_model::audit::{AuditRecord, Chain, Deed, Head};
use bowline_store::{AuditFilter, AuditFrom, AuditStore, MaintenanceStore, Page, StoreResult};

use crate::command::Command;
use crate::{SqlLedger, read};

#[async_trait]
impl AuditStore for SqlLedger {
    async fn list_audit(
        &self,
        chain: Chain,
        filter: AuditFilter,
        from: AuditFrom,
        limit: u32,
    ) -> StoreResult<Page<AuditRecord, u64>> {
        self.look(move |db| Box::pin(async move { read::list_audit(db, chain, &filter, from, limit).await })).await
    }

    async fn record_audit(&self, entries: Vec<Deed>) -> StoreResult<()> {
        self.wish(|line| Command::RecordAudit(entries, line)).await
    }

    async fn audit_heads(&self) -> StoreResult<Vec<Head>> {
        let now = self.now().await?;
        self.look(move |db| Box::pin(read::audit_heads(db, now))).await
    }
}
