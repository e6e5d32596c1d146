//! Intake: a wish becomes a job, once.
//!
//! The job's id is made here, before anything is stored. When the ledger does not say whether it stored the job, asking
//! again with the same id gives the same job; callers see an error only when nothing was promised.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_model::idempotency::{KeyScope, RequestHash};
use bowline_model::planted::{self, Mistake};
use bowline_model::{JobId, JobPolicy, Labels, Lane, TaskType, TenantId, Timestamp};
use bowline_store::{Clock, Ledger, NewJob, Origin, StoreError, StoreResult, Submitted};
use bowline_supervise::Meters;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// What somebody asks for.
#[derive(Debug, Clone)]
pub struct JobRequest {
    pub lane: Lane,
    pub task_type: TaskType,
    pub labels: Labels,
    pub priority: i16,
    /// JSON, exactly as written.
    pub payload: Arc<str>,
    pub policy: Option<Arc<JobPolicy>>,
    pub run_at: Option<Timestamp>,
    pub idempotency_key: Option<String>,
    pub external_id: Option<String>,
}

/// The door for new jobs.
#[derive(Debug)]
pub struct Intake {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    meters: Arc<Meters>,
    rng: Mutex<StdRng>,
}

/// How often a lost answer is asked for before the caller is told to ask later.
const ASKS_MAX: u32 = 4;

impl Intake {
    pub fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, meters: Arc<Meters>, seed: u64) -> Self {
        Self { ledger, clock, meters, rng: Mutex::new(StdRng::seed_from_u64(seed)) }
    }

    /// Stores each job once. The answers are in the order of the requests.
    pub async fn submit(
        &self,
        tenant: TenantId,
        origin: &Origin,
        requests: Vec<JobRequest>,
    ) -> StoreResult<Vec<Submitted>> {
        let mut jobs = self.name(tenant, origin, requests);
        let mut asks = 0;
        loop {
            // Kept only where an answer can get lost.
            let again = jobs.clone();
            match self.ledger.submit(std::mem::take(&mut jobs)).await {
                Ok(stored) => {
                    let fresh = stored.iter().filter(|s| matches!(s, Submitted::Accepted { .. })).count();
                    self.meters.jobs_accepted.inc_by(fresh as u64);
                    return Ok(stored);
                }
                Err(StoreError::Unknown(why)) if asks < ASKS_MAX => {
                    asks += 1;
                    tracing::warn!("asking again whether {} jobs were stored: {why}", again.len());
                    jobs = again;
                    if planted::on(Mistake::UnknownIsFailure) {
                        // The mistake: taken for a failure, so it is a new ask under a new name.
                        let now = self.clock.now();
                        for job in &mut jobs {
                            job.id = JobId::mint(now, self.entropy());
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(50 << asks)).await;
                }
                Err(error) => {
                    self.meters.store_unavailable.inc();
                    return Err(error);
                }
            }
        }
    }

    fn entropy(&self) -> [u8; 10] {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    fn name(&self, tenant: TenantId, origin: &Origin, requests: Vec<JobRequest>) -> Vec<NewJob> {
        let now = self.clock.now();
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        requests
            .into_iter()
            .map(|request| {
                let hash = hash(&request);
                let keys = [
                    request.idempotency_key.map(|key| (KeyScope::Idempotency, key)),
                    request.external_id.map(|key| (KeyScope::External, key)),
                ];
                NewJob {
                    id: JobId::mint(now, rng.random()),
                    tenant,
                    lane: request.lane,
                    task_type: request.task_type,
                    requires: request.labels,
                    priority: request.priority,
                    payload: request.payload,
                    policy: request.policy,
                    run_at: request.run_at,
                    keys: keys.into_iter().flatten().collect(),
                    hash,
                    origin: origin.clone(),
                    replay_of: None,
                }
            })
            .collect()
    }
}

/// What was asked for, without the keys. Only requests with a key are ever compared.
fn hash(request: &JobRequest) -> RequestHash {
    if request.idempotency_key.is_none() && request.external_id.is_none() {
        return RequestHash::from_bytes([0; 32]);
    }
    let policy = request.policy.as_ref().and_then(|p| serde_json::to_vec(&**p).ok()).unwrap_or_default();
    let run_at = request.run_at.map(|at| at.as_micros().to_be_bytes());
    RequestHash::of_parts(&[
        request.task_type.as_str().as_bytes(),
        request.lane.as_str().as_bytes(),
        request.labels.canonical().as_bytes(),
        &request.priority.to_be_bytes(),
        request.payload.as_bytes(),
        &policy,
        run_at.as_ref().map_or(&[], |bytes| bytes.as_slice()),
    ])
}
