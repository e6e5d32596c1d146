//! Agents and the output they bring.

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::{HostName, JobId, RunId, TenantId, WorkerName};
use bowline_store::{
    AgentEntry, AgentRecord, AgentStore, Enrolled, NewOutput, OutputAnswer, OutputOf, OutputRange, OutputStore,
    OutputStream, Page, RemoveAgent, RemovedAgent, SealingKeySet, StoreResult, TokenRecord,
};

use crate::command::{Command, Renewal};
use crate::{SqlLedger, read};

#[async_trait]
impl AgentStore for SqlLedger {
    async fn enroll_agent(
        &self,
        join: String,
        agent: AgentRecord,
        token: TokenRecord,
        by: Author,
    ) -> StoreResult<Enrolled> {
        self.wish(|line| Command::Enroll((join, Box::new(agent), Box::new(token), by), line)).await
    }

    async fn renew_agent(
        &self,
        tenant: TenantId,
        name: WorkerName,
        used: String,
        token: TokenRecord,
        overlap_ms: i64,
        by: Author,
    ) -> StoreResult<bool> {
        let renewal = Box::new(Renewal { tenant, name, used, token, overlap_ms, by });
        self.wish(|line| Command::RenewAgent(renewal, line)).await
    }

    async fn set_sealing_key(
        &self,
        tenant: TenantId,
        name: WorkerName,
        key: [u8; 32],
        by: Author,
    ) -> StoreResult<SealingKeySet> {
        self.wish(|line| Command::SetSealingKey((tenant, name, key, by), line)).await
    }

    async fn find_agent(&self, tenant: TenantId, name: WorkerName) -> StoreResult<Option<AgentRecord>> {
        self.look(move |db| Box::pin(async move { read::find_agent(db, tenant, &name).await })).await
    }

    async fn list_agents(
        &self,
        tenant: TenantId,
        after: Option<WorkerName>,
        limit: u32,
    ) -> StoreResult<Page<AgentEntry, WorkerName>> {
        self.look(move |db| Box::pin(async move { read::list_agents(db, tenant, after.as_ref(), limit).await })).await
    }

    async fn find_agent_entry(&self, tenant: TenantId, name: WorkerName) -> StoreResult<Option<AgentEntry>> {
        self.look(move |db| Box::pin(async move { read::find_agent_entry(db, tenant, &name).await })).await
    }

    async fn remove_agent(&self, request: RemoveAgent) -> StoreResult<Option<RemovedAgent>> {
        self.wish(|line| Command::RemoveAgent(Box::new(request), line)).await
    }
}

#[async_trait]
impl OutputStore for SqlLedger {
    async fn may_bring(
        &self,
        tenant: TenantId,
        worker: WorkerName,
        run: RunId,
        stream: OutputStream,
        end: u64,
    ) -> StoreResult<OutputAnswer> {
        self.look(move |db| Box::pin(async move { read::may_bring(db, tenant, &worker, run, stream, end).await })).await
    }

    async fn place_for_output(&self, identity: String, adopt: bool) -> StoreResult<String> {
        self.wish(|line| Command::PlaceForOutput((identity, adopt), line)).await
    }

    async fn add_output(&self, output: NewOutput) -> StoreResult<OutputAnswer> {
        self.wish(|line| Command::AddOutput(output, line)).await
    }

    async fn find_output(&self, tenant: TenantId, job: JobId, host: Option<HostName>) -> StoreResult<Option<OutputOf>> {
        self.look(move |db| Box::pin(async move { read::find_output(db, tenant, job, host.as_ref()).await })).await
    }

    async fn list_output(
        &self,
        run: RunId,
        stream: OutputStream,
        after: u64,
        limit: u32,
    ) -> StoreResult<Vec<OutputRange>> {
        self.look(move |db| Box::pin(read::list_output(db, run, stream, after, limit))).await
    }
}
