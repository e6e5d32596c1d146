//! Requests that are carried out once for their key, where they make no job that could have the key.

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::idempotency::RequestHash;
use bowline_model::{TenantId, Timestamp};

use crate::{BlockAnswer, Closed, DeadLetterOrder, JobOrder, NewApproval, NewBlock, OrderAnswer, StoreResult};

/// A caller's key for a request, and what was requested under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceKey {
    pub key: String,
    pub hash: RequestHash,
}

/// A request that can be made under a key.
#[derive(Debug, Clone)]
pub enum OnceRequest {
    RetryJob(JobOrder),
    RetryCommand(JobOrder, Option<Box<NewApproval>>),
    Block(NewBlock),
    Unblock { tenant: TenantId, block: i64, by: Author, reason: Option<String> },
    Replay(DeadLetterOrder),
    Purge(DeadLetterOrder),
}

/// What became of a [`OnceRequest`].
#[derive(Debug, Clone, PartialEq)]
pub enum OnceOutcome {
    Retry(OrderAnswer),
    Block(BlockAnswer),
    /// Whether there was such a block.
    Unblock(bool),
    DeadLetters(Vec<Closed>),
}

/// The answer to a request under a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Once {
    Done(OnceOutcome),
    /// The same was requested under this key before, by this author at this time, with this outcome. Nothing was done now.
    Replayed {
        outcome: OnceOutcome,
        by: String,
        at: Timestamp,
    },
    /// Something else was requested under this key before.
    KeyConflict,
}

#[async_trait]
pub trait OnceStore: Send + Sync {
    /// Carries a request out, unless it was carried out under this key before. Key and outcome are stored with the effect. A
    /// request that was refused is not remembered, and may be made again under its key.
    async fn carry_out_once(&self, key: OnceKey, request: OnceRequest) -> StoreResult<Once>;
}
