//! Agents: programs of ours that execute commands, each with a key of its own.

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::host::Connection;
use bowline_model::{Admission, HostName, Labels, TenantId, Timestamp, WorkerName};

use crate::{Page, StoreResult, TokenRecord, WorkerRecord};

/// An agent that has joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRecord {
    pub tenant: TenantId,
    pub name: WorkerName,
    /// Ed25519.
    pub public_key: [u8; 32],
    /// X25519: what secrets for it are sealed to. `None` until it has shown one.
    pub sealing_key: Option<[u8; 32]>,
    /// What its join token said about it. It has these whatever it says itself.
    pub labels: Labels,
    /// What its join token admitted it to.
    pub admission: Admission,
    /// The id of its credential.
    pub token: String,
    /// The credential that this one replaced, until it ends.
    pub token_before: Option<String>,
    pub enrolled_at: Timestamp,
}

impl AgentRecord {
    /// Whether a token of this id is the agent's own credential.
    pub fn has_credential(&self, token: &str) -> bool {
        self.token == token || self.token_before.as_deref() == Some(token)
    }

    /// Whether its join token lets it reach a host with this connection, whatever it says about itself.
    pub fn reaches(&self, host: &HostName, connection: &Connection) -> bool {
        connection.required_labels(host).iter().all(|(key, value)| match key {
            Connection::AGENT_LABEL => value == self.name.as_str(),
            Connection::REACH_LABEL => self.admission.admits_reach(value),
            _ => self.labels.get(key) == Some(value),
        })
    }
}

/// An agent with everything that is shown of it.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentEntry {
    pub agent: AgentRecord,
    /// When its credential ends.
    pub credential_expires_at: Option<Timestamp>,
    /// When its credential was revoked.
    pub credential_revoked_at: Option<Timestamp>,
    /// The id of the join token it enrolled with last.
    pub join_token: Option<String>,
    /// The id of the token with which that join token was made. `None`: by a service or by the server itself.
    pub join_token_made_by: Option<String>,
    /// As it registered; `None` if it never did.
    pub worker: Option<WorkerRecord>,
}

/// A person's request to remove an agent.
#[derive(Debug, Clone)]
pub struct RemoveAgent {
    pub tenant: TenantId,
    pub name: WorkerName,
    pub by: Author,
    pub reason: String,
}

/// What a removal came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedAgent {
    pub public_key: [u8; 32],
    /// The ids of its credentials, which have ended.
    pub credentials: Vec<String>,
    /// Runs it had accepted: what became of them is unknown.
    pub lost_runs: u64,
    /// Runs it had not accepted; they were returned to the queue.
    pub returned_runs: u64,
}

/// What became of a sealing key that an agent has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealingKeySet {
    /// The agent had none before.
    First,
    /// It takes the place of another one.
    Replaced,
    Unchanged,
    NotFound,
}

/// What became of an agent that wants to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enrolled {
    Done,
    /// The join token is used, revoked or expired.
    NotWelcome,
    /// Another agent, or a worker, has this name.
    NameTaken,
    /// Another agent has this key.
    KeyTaken,
}

#[async_trait]
pub trait AgentStore: Send + Sync {
    /// Uses a join token up, once, and stores the agent with its own credential, all or nothing. An agent that is there
    /// already and has the same key is admitted anew: it is what this join token says, and its old credentials end.
    async fn enroll_agent(
        &self,
        join: String,
        agent: AgentRecord,
        token: TokenRecord,
        by: Author,
    ) -> StoreResult<Enrolled>;
    /// Gives an agent a new credential in place of the one with the id `used`, which stays good for `overlap_ms`, so that a
    /// lost answer can be asked for again. `false` if `used` is not the agent's credential.
    async fn renew_agent(
        &self,
        tenant: TenantId,
        name: WorkerName,
        used: String,
        token: TokenRecord,
        overlap_ms: i64,
        by: Author,
    ) -> StoreResult<bool>;
    /// Keeps the key to which secrets for an agent are sealed from now on. A key that changes is recorded and told.
    async fn set_sealing_key(
        &self,
        tenant: TenantId,
        name: WorkerName,
        key: [u8; 32],
        by: Author,
    ) -> StoreResult<SealingKeySet>;
    async fn find_agent(&self, tenant: TenantId, name: WorkerName) -> StoreResult<Option<AgentRecord>>;
    /// Agents by name, from the one after `after`.
    async fn list_agents(
        &self,
        tenant: TenantId,
        after: Option<WorkerName>,
        limit: u32,
    ) -> StoreResult<Page<AgentEntry, WorkerName>>;
    /// One agent, as it is listed.
    async fn find_agent_entry(&self, tenant: TenantId, name: WorkerName) -> StoreResult<Option<AgentEntry>>;
    /// Removes an agent, all or nothing: its credentials end, the runs it had accepted are lost and the others are returned to
    /// the queue, and its name and key are free again. Hosts of lost runs are reserved even if it was their own agent: a new
    /// agent of this name does not know what runs there. `None` if there is no such agent.
    async fn remove_agent(&self, request: RemoveAgent) -> StoreResult<Option<RemovedAgent>>;
}
