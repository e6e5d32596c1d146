//! Agents: programs of ours that execute commands, each with a key of its own.

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::{Labels, TenantId, Timestamp, WorkerName};

use crate::{StoreResult, TokenRecord};

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
    /// The id of its credential.
    pub token: String,
    pub enrolled_at: Timestamp,
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
    /// Uses a join token up, once, and stores the agent with its own credential, all or nothing.
    async fn enroll_agent(
        &self,
        join: String,
        agent: AgentRecord,
        token: TokenRecord,
        by: Author,
    ) -> StoreResult<Enrolled>;
    /// Keeps the key to which secrets for an agent are sealed from now on; `false` if there is no such agent.
    async fn set_sealing_key(&self, tenant: TenantId, name: WorkerName, key: [u8; 32]) -> StoreResult<bool>;
    async fn find_agent(&self, tenant: TenantId, name: WorkerName) -> StoreResult<Option<AgentRecord>>;
}
