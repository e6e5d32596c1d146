//! What tenants use, and evaluations that are set aside.

use async_trait::async_trait;
use bowline_model::TenantId;
use bowline_model::audit::Author;
use bowline_store::{BoundsStore, SetAsideRecord, StoreResult};

use crate::command::Command;
use crate::{SqlLedger, read};

#[async_trait]
impl BoundsStore for SqlLedger {
    async fn queued_by_tenant(&self) -> StoreResult<Vec<(TenantId, u64)>> {
        self.look(move |db| Box::pin(read::queued_by_tenant(db))).await
    }

    async fn stored_by_tenant(&self) -> StoreResult<Vec<(TenantId, u64)>> {
        self.look(move |db| Box::pin(read::stored_by_tenant(db))).await
    }

    async fn set_aside(&self, subjects: Vec<(TenantId, String)>) -> StoreResult<()> {
        self.wish(|line| Command::SetAside(subjects, line)).await
    }

    async fn resume_evaluation(&self, tenant: TenantId, subject: String, by: Author) -> StoreResult<bool> {
        self.wish(|line| Command::ResumeEvaluation((tenant, subject, by), line)).await
    }

    async fn list_set_aside(&self, tenant: Option<TenantId>) -> StoreResult<Vec<SetAsideRecord>> {
        self.look(move |db| Box::pin(read::list_set_aside(db, tenant))).await
    }
}
