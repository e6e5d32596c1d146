//! Agents: programs of ours that execute commands, each with a key of its own.

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::{Admission, Labels, TenantId, Timestamp, WorkerName};

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
}
