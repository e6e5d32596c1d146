//! Commands on hosts.

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::{HostName, InventoryName, JobId, TenantId};
use bowline_store::{
    ApprovalAnswer, ApprovalOrder, BlockAnswer, BlockRecord, Conducted, FleetRecord, FleetStore, HostLine, JobOrder,
    NewApproval, NewBlock, OrderAnswer, Page, ReleaseOrder, RunRecord, StoreResult, UnitFilter, UnitRecord,
    WaitingApproval,
};

use crate::command::Command;
use crate::{SqlLedger, read};

#[async_trait]
impl FleetStore for SqlLedger {
    async fn conduct(&self, thorough: bool) -> StoreResult<Conducted> {
        self.wish(|line| Command::Conduct(thorough, line)).await
    }

    async fn find_fleet(&self, tenant: TenantId, job: JobId) -> StoreResult<Option<FleetRecord>> {
        self.look(move |db| Box::pin(read::find_fleet(db, tenant, job))).await
    }

    async fn list_units(
        &self,
        tenant: TenantId,
        job: JobId,
        filter: UnitFilter,
        after: Option<i64>,
        limit: u32,
    ) -> StoreResult<Page<UnitRecord, i64>> {
        self.look(move |db| Box::pin(async move { read::list_units(db, tenant, job, &filter, after, limit).await }))
            .await
    }

    async fn list_unplanned(
        &self,
        tenant: TenantId,
        job: JobId,
        after: u64,
        limit: u32,
    ) -> StoreResult<Page<(i64, HostName), u64>> {
        self.look(move |db| Box::pin(read::list_unplanned(db, tenant, job, after, limit))).await
    }

    async fn find_unit(
        &self,
        tenant: TenantId,
        job: JobId,
        host: HostName,
    ) -> StoreResult<Option<(UnitRecord, Vec<RunRecord>)>> {
        self.look(move |db| Box::pin(async move { read::find_unit(db, tenant, job, &host).await })).await
    }

    async fn decide(&self, order: ApprovalOrder) -> StoreResult<ApprovalAnswer> {
        self.wish(|line| Command::Decide(order, line)).await
    }

    async fn list_targets(
        &self,
        tenant: TenantId,
        job: JobId,
        after: u64,
        limit: u32,
    ) -> StoreResult<Page<(i64, Option<HostName>), u64>> {
        self.look(move |db| Box::pin(read::list_targets(db, tenant, job, after, limit))).await
    }

    async fn retry_command(&self, order: JobOrder, approval: Option<NewApproval>) -> StoreResult<OrderAnswer> {
        self.wish(|line| Command::RetryHosts((order, approval.map(Box::new)), line)).await
    }

    async fn list_approvals(
        &self,
        tenant: TenantId,
        after: Option<i64>,
        limit: u32,
    ) -> StoreResult<Page<WaitingApproval, i64>> {
        self.look(move |db| Box::pin(read::list_approvals(db, tenant, after, limit))).await
    }

    async fn block(&self, block: NewBlock) -> StoreResult<BlockAnswer> {
        self.wish(|line| Command::Block(block, line)).await
    }

    async fn unblock(&self, tenant: TenantId, id: i64, by: Author, reason: Option<String>) -> StoreResult<bool> {
        self.wish(|line| Command::Unblock((tenant, id, by, reason), line)).await
    }

    async fn list_blocks(&self, tenant: TenantId) -> StoreResult<Vec<BlockRecord>> {
        self.look(move |db| Box::pin(read::list_blocks(db, tenant))).await
    }

    async fn host_queue(
        &self,
        tenant: TenantId,
        inventory: InventoryName,
        host: HostName,
    ) -> StoreResult<Option<HostLine>> {
        self.look(move |db| Box::pin(async move { read::host_queue(db, tenant, &inventory, &host).await })).await
    }

    async fn release_host(&self, order: ReleaseOrder) -> StoreResult<Option<u64>> {
        self.wish(|line| Command::Release(order, line)).await
    }
}
