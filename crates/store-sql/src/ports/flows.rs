//! Runs of workflows.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_model::{JobId, TenantId};
use bowline_store::{
    FlowAnswer, FlowOrder, FlowRecord, FlowStore, Inbox, InboxPart, NewSignal, Page, Signaled, StoreResult, StoredFlow,
    TurnAnswer, TurnOrder, WaitKind, WaitPlace, WaitRecord,
};

use crate::command::Command;
use crate::{SqlLedger, read};

#[async_trait]
impl FlowStore for SqlLedger {
    async fn keep_definition(&self, tenant: TenantId, hash: [u8; 32], body: Arc<str>) -> StoreResult<i64> {
        self.wish(|line| Command::KeepDefinition((tenant, hash, body), line)).await
    }

    async fn find_definition(&self, id: i64) -> StoreResult<Option<String>> {
        self.look(move |db| Box::pin(read::find_definition(db, id))).await
    }

    async fn flow_inbox(&self, limit: u32, part: InboxPart) -> StoreResult<Inbox> {
        self.look(move |db| Box::pin(read::flow_inbox(db, limit, part))).await
    }

    async fn flow_sizes(&self, flows: Vec<i64>, until_step: Option<u32>) -> StoreResult<Vec<(i64, u64)>> {
        self.look(move |db| Box::pin(read::flow_sizes(db, flows, until_step))).await
    }

    async fn load_flows(&self, flows: Vec<i64>, until_step: Option<u32>) -> StoreResult<Vec<StoredFlow>> {
        self.look(move |db| Box::pin(read::load_flows(db, flows, until_step))).await
    }

    async fn turn_flows(&self, turns: Vec<TurnOrder>) -> StoreResult<Vec<TurnAnswer>> {
        self.wish(|line| Command::Turn(turns, line)).await
    }

    async fn steer_flow(&self, order: FlowOrder) -> StoreResult<FlowAnswer> {
        self.wish(|line| Command::Steer(order, line)).await
    }

    async fn signal_flows(&self, signal: NewSignal) -> StoreResult<Signaled> {
        self.wish(|line| Command::Signal(signal, line)).await
    }

    async fn count_waiting(&self, tenant: TenantId, name: Arc<str>, key: Option<String>) -> StoreResult<u64> {
        self.look(move |db| Box::pin(read::count_waiting(db, tenant, name, key))).await
    }

    async fn spread_signals(&self) -> StoreResult<bool> {
        // Nothing is written where there is nothing to do.
        if !self.look(move |db| Box::pin(read::has_signals(db))).await? {
            return Ok(false);
        }
        self.wish(|line| Command::SpreadSignals((), line)).await
    }

    async fn find_flow(&self, tenant: TenantId, job: JobId) -> StoreResult<Option<FlowRecord>> {
        self.look(move |db| Box::pin(read::find_flow(db, tenant, job))).await
    }

    async fn flow_number(&self, tenant: TenantId, job: JobId) -> StoreResult<Option<i64>> {
        self.look(move |db| Box::pin(read::flow_number(db, tenant, job))).await
    }

    async fn flow_records(
        &self,
        tenant: TenantId,
        job: JobId,
        from_step: u32,
        after: u64,
        limit: u32,
    ) -> StoreResult<Page<String, u64>> {
        self.look(move |db| Box::pin(read::flow_records(db, tenant, job, from_step, after, limit))).await
    }

    async fn list_waits(
        &self,
        tenant: TenantId,
        kind: WaitKind,
        after: Option<WaitPlace>,
        limit: u32,
    ) -> StoreResult<Page<WaitRecord, WaitPlace>> {
        self.look(move |db| Box::pin(read::list_waits(db, tenant, kind, after, limit))).await
    }
}
