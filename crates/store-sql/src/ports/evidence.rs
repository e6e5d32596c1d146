//! What agents executed, told to a ledger that may have lost it.

use async_trait::async_trait;
use bowline_model::{RunId, TenantId};
use bowline_store::{Evidence, EvidenceStore, EvidenceTaken, Page, StoreResult, UnknownRun};

use crate::command::Command;
use crate::{SqlLedger, read};

#[async_trait]
impl EvidenceStore for SqlLedger {
    async fn take_evidence(&self, evidence: Evidence) -> StoreResult<EvidenceTaken> {
        self.wish(|line| Command::TakeEvidence(Box::new(evidence), line)).await
    }

    async fn list_unknown_runs(
        &self,
        tenant: TenantId,
        before: Option<RunId>,
        limit: u32,
    ) -> StoreResult<Page<UnknownRun, RunId>> {
        self.look(move |db| Box::pin(read::list_unknown_runs(db, tenant, before, limit))).await
    }
}
