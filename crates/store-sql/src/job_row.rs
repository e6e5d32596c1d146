//! A job as the ledger's own logic needs it: the state to decide on, and the keys of the rows that follow from it.

use std::cell::RefCell;
use std::sync::Arc;

use bowline_model::{JobId, JobKind, JobPolicy, JobState, JobStatus, TenantId, Timestamp};
use bowline_store::{StoreError, StoreResult};

use crate::db::Row;

/// The columns every load of a job begins with, in the order [`JobRow::read`] reads them.
macro_rules! job_columns {
    () => {
        "j.number, j.id, j.tenant, j.channel, j.priority, j.status, j.attempts, j.failures, j.losses, j.fence, j.due_at, j.policy, j.created_at, j.kind, j.parent, j.host, j.flow"
    };
}
pub(crate) use job_columns;

/// How many columns those are.
pub const JOB_COLUMNS: usize = 17;

/// A job, loaded to be changed.
#[derive(Debug, Clone)]
pub struct JobRow {
    pub number: i64,
    pub id: JobId,
    pub tenant: TenantId,
    pub channel: i64,
    pub priority: i64,
    pub state: JobState,
    pub policy: Arc<JobPolicy>,
    pub created_at: Timestamp,
    /// The number of the command it is a unit of, and its host.
    pub parent: Option<i64>,
    pub host: Option<i64>,
    /// The number of the workflow's run that began it.
    pub flow: Option<i64>,
}

pub(crate) fn count(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

pub(crate) fn status_of(code: i64) -> StoreResult<JobStatus> {
    JobStatus::from_code(code).ok_or_else(|| StoreError::Broken(format!("unknown job status {code}")))
}

pub(crate) fn kind_of(code: i64) -> StoreResult<JobKind> {
    JobKind::from_code(code).ok_or_else(|| StoreError::Broken(format!("unknown job kind {code}")))
}

pub(crate) fn policy_of(text: Option<&str>) -> StoreResult<JobPolicy> {
    match text {
        None => Ok(JobPolicy::default()),
        Some(text) => {
            serde_json::from_str(text).map_err(|e| StoreError::Broken(format!("a stored policy does not parse: {e}")))
        }
    }
}

thread_local! {
    /// Most jobs have the default policy; it is made once.
    static DEFAULT_POLICY: Arc<JobPolicy> = Arc::new(JobPolicy::default());
    /// Units of one command all have the same one; it is read once.
    static LAST_POLICY: RefCell<Option<(String, Arc<JobPolicy>)>> = const { RefCell::new(None) };
}

fn shared_policy(text: String) -> StoreResult<Arc<JobPolicy>> {
    let known = LAST_POLICY.with_borrow(|last| match last {
        Some((known, policy)) if *known == text => Some(Arc::clone(policy)),
        _ => None,
    });
    if let Some(policy) = known {
        return Ok(policy);
    }
    let policy = Arc::new(policy_of(Some(&text))?);
    LAST_POLICY.set(Some((text, Arc::clone(&policy))));
    Ok(policy)
}

impl JobRow {
    pub fn read(row: &dyn Row) -> StoreResult<Self> {
        let policy = match row.opt_text(11)? {
            None => DEFAULT_POLICY.with(Arc::clone),
            Some(text) => shared_policy(text)?,
        };
        Ok(Self {
            number: row.int(0)?,
            id: JobId::from_uuid(row.id(1)?),
            tenant: TenantId::from_uuid(row.id(2)?),
            channel: row.int(3)?,
            priority: row.int(4)?,
            state: JobState {
                kind: kind_of(row.int(13)?)?,
                status: status_of(row.int(5)?)?,
                attempts: count(row.int(6)?),
                failures: count(row.int(7)?),
                losses: count(row.int(8)?),
                fence: count(row.int(9)?),
                due_at: row.opt_at(10)?,
            },
            policy,
            created_at: row.at(12)?,
            parent: row.opt_int(14)?,
            host: row.opt_int(15)?,
            flow: row.opt_int(16)?,
        })
    }

    /// The order within a channel: smaller is earlier.
    pub fn rank(&self) -> i64 {
        -self.priority
    }
}
