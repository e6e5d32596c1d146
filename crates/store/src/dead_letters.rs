//! Dead letters, per lane.

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::dead_letter::DeadLetterStatus;
use bowline_model::{ErrorClass, JobId, Lane, TaskType, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Page, StoreResult};

/// An entry.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetter {
    pub id: i64,
    pub job: JobId,
    pub number: i64,
    pub lane: Lane,
    pub task_type: TaskType,
    pub at: Timestamp,
    pub status: DeadLetterStatus,
    pub attempts: u32,
    pub class: Option<ErrorClass>,
    pub error: Option<String>,
    pub closed_at: Option<Timestamp>,
    pub closed_by: Option<String>,
    pub reason: Option<String>,
    pub replayed_as: Option<JobId>,
}

/// Which open entries an order is about.
#[derive(Debug, Clone, PartialEq)]
pub enum DeadLetterChoice {
    Jobs(Vec<JobId>),
    /// All of the lane, oldest first, up to this many.
    Oldest(u32),
}

/// A person's order about dead letters. The reason is kept.
#[derive(Debug, Clone)]
pub struct DeadLetterOrder {
    pub tenant: TenantId,
    pub lane: Lane,
    pub choice: DeadLetterChoice,
    pub by: Author,
    pub reason: String,
}

/// What became of one entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closed {
    /// A new job was made of it.
    Replayed {
        job: JobId,
        new_job: JobId,
    },
    Purged {
        job: JobId,
    },
    /// Somebody was faster.
    Already {
        job: JobId,
        status: DeadLetterStatus,
        new_job: Option<JobId>,
    },
    NotFound {
        job: JobId,
    },
}

#[async_trait]
pub trait DeadLetterStore: Send + Sync {
    /// Entries of a lane, newest first.
    async fn list_dead_letters(
        &self,
        tenant: TenantId,
        lane: Lane,
        status: Option<DeadLetterStatus>,
        before: Option<i64>,
        limit: u32,
    ) -> StoreResult<Page<DeadLetter, i64>>;

    /// Makes one new job of each chosen open entry.
    async fn replay_dead_letters(&self, order: DeadLetterOrder) -> StoreResult<Vec<Closed>>;

    /// Closes each chosen open entry for good.
    async fn purge_dead_letters(&self, order: DeadLetterOrder) -> StoreResult<Vec<Closed>>;
}
