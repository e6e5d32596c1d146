//! Intake: a wish becomes a job, once.
//!
//! The job's id is made here, before anything is stored. When the ledger does not say whether it stored the job, asking
//! again with the same id gives the same job; callers see an error only when nothing was promised.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_model::idempotency::{KeyScope, RequestHash};
use bowline_model::planted::{self, Mistake};
use bowline_model::{JobId, JobPolicy, Labels, Lane, TaskType, TenantId, Timestamp};
use bowline_store::{Clock, Ledger, NewFleet, NewFlow, NewJob, Origin, StoreError, StoreResult, Submitted, Usage};
use bowline_supervise::Meters;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::keyed::Keyed;
use crate::quotas::{QuotaExceeded, Quotas, usage_of};

/// What somebody asks for.
#[derive(Debug, Clone)]
pub struct JobRequest {
    /// Made before, by whoever needed it; otherwise it is made when the job is stored.
    pub id: Option<JobId>,
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
    /// For a command: its hosts, and the hash of what was asked for.
    pub fleet: Option<(Arc<NewFleet>, RequestHash)>,
    /// For a workflow: its run, and the hash of what was asked for.
    pub flow: Option<(Arc<NewFlow>, RequestHash)>,
}

/// The door for new jobs.
#[derive(Debug)]
pub struct Intake {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    meters: Arc<Meters>,
    quotas: Arc<Quotas>,
    /// How long plain jobs may take that do not say so themselves.
    deadline_ms: Option<u64>,
    mint: Mutex<Mint>,
}

/// Makes ids that sort in the order they were made, also within a millisecond.
#[derive(Debug)]
struct Mint {
    rng: StdRng,
    last: Timestamp,
    count: u32,
}

impl Mint {
    fn next(&mut self, now: Timestamp) -> JobId {
        // Time never goes back here; a clock that does would make ids that sort before older ones.
        if now.as_millis() > self.last.as_millis() {
            self.last = now;
            self.count = 0;
        } else if self.count == Self::COUNT_MAX {
            self.last = self.last.plus_millis(1);
            self.count = 0;
        } else {
            self.count += 1;
        }
        // 26 bits of counting in the places that sort first, 48 bits of chance behind them.
        let mut entropy: [u8; 10] = self.rng.random();
        let high = self.count >> 14;
        let low = self.count & 0x3fff;
        entropy[0] = (high >> 8) as u8 & 0x0f;
        entropy[1] = high as u8;
        entropy[2] = (low >> 8) as u8;
        entropy[3] = low as u8;
        JobId::mint(self.last, entropy)
    }

    const COUNT_MAX: u32 = (1 << 26) - 1;
}

/// How often a lost answer is asked for before the caller is told to ask later.
const ASKS_MAX: u32 = 4;

impl Intake {
    pub fn new(
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        meters: Arc<Meters>,
        quotas: Arc<Quotas>,
        seed: u64,
    ) -> Self {
        Self {
            ledger,
            clock,
            meters,
            quotas,
            deadline_ms: None,
            mint: Mutex::new(Mint { rng: StdRng::seed_from_u64(seed), last: Timestamp::default(), count: 0 }),
        }
    }

    /// Plain jobs that do not say how long they may take have this long.
    #[must_use]
    pub fn with_deadline(self, deadline_ms: Option<u64>) -> Self {
        Self { deadline_ms, ..self }
    }

    /// The policy of a job, with the server's deadline where it has none. It is no part of what was asked for: the same ask is
    /// the same job after the setting has changed.
    fn limited(&self, request: &JobRequest) -> Option<Arc<JobPolicy>> {
        let plain = request.fleet.is_none() && request.flow.is_none();
        let unlimited = request.policy.as_ref().is_none_or(|policy| policy.deadline_ms.is_none());
        match self.deadline_ms {
            Some(ms) if plain && unlimited => {
                let policy = request.policy.as_deref().cloned().unwrap_or_default();
                Some(Arc::new(JobPolicy { deadline_ms: Some(ms), ..policy }))
            }
            _ => request.policy.clone(),
        }
    }

    /// Stores each job once. The answers are in the order of the requests.
    pub async fn submit(
        &self,
        tenant: TenantId,
        origin: &Origin,
        requests: Vec<JobRequest>,
    ) -> StoreResult<Vec<Submitted>> {
        self.store(self.name(tenant, origin, requests)).await
    }

    /// Stores jobs that have their names already, each once. The answers are in the order of the jobs.
    pub async fn store(&self, mut jobs: Vec<NewJob>) -> StoreResult<Vec<Submitted>> {
        let Some(tenant) = jobs.first().map(|job| job.tenant) else { return Ok(Vec::new()) };
        let taken: Vec<(JobId, Usage)> = jobs.iter().map(|job| (job.id, usage_of(job))).collect();
        let room = match self.quotas.reserve_usage(tenant, sum(taken.iter().map(|(_, usage)| *usage))) {
            Ok(room) => room.pending(),
            // What is stored already is answered whatever else waits.
            Err(QuotaExceeded { quota, used, max }) => {
                return match self.find_known(&jobs).await? {
                    Some(known) => Ok(vec![known]),
                    None => Err(StoreError::Quota { quota, used, max }),
                };
            }
        };
        let mut asks = 0;
        loop {
            // Kept only where an answer can get lost.
            let again = jobs.clone();
            match self.ledger.submit(std::mem::take(&mut jobs)).await {
                Ok(stored) => {
                    let fresh = stored.iter().filter(|s| matches!(s, Submitted::Accepted { .. })).count();
                    self.meters.jobs_accepted.inc_by(fresh as u64);
                    let others = stored.iter().zip(&taken).filter(|(answer, (id, _))| !is_stored_as(answer, *id));
                    room.give_back(sum(others.map(|(_, (_, usage))| *usage)));
                    return Ok(stored);
                }
                Err(error) if asks < ASKS_MAX && must_ask_again(&error, asks) => {
                    asks += 1;
                    tracing::warn!(jobs = again.len(), %error, "asking again whether jobs were stored");
                    jobs = again;
                    if planted::on(Mistake::UnknownIsFailure) {
                        // The mistake: taken for a failure, so it is a new ask under a new name.
                        let now = self.clock.now();
                        let mut mint = self.mint.lock().unwrap_or_else(PoisonError::into_inner);
                        jobs.iter_mut().for_each(|job| job.id = mint.next(now));
                    }
                    tokio::time::sleep(Duration::from_millis(50 << asks)).await;
                }
                Err(error) => {
                    self.meters.store_unavailable.inc();
                    if asks == 0 && !matches!(error, StoreError::Unknown(_)) {
                        room.give_back_all();
                    }
                    // Once an answer was lost, a later refusal does not make it unsaid: the first ask may be stored.
                    return Err(match error {
                        error if asks > 0 => as_unknown(error),
                        other => other,
                    });
                }
            }
        }
    }

    /// The job that a single request was stored as before.
    async fn find_known(&self, jobs: &[NewJob]) -> StoreResult<Option<Submitted>> {
        let [job] = jobs else { return Ok(None) };
        let keyed = Keyed { keys: job.keys.clone(), hash: job.hash };
        keyed.find(&*self.ledger, job.tenant).await
    }

    /// What became of a task that was sent before, if it has a key.
    pub async fn find_task(&self, tenant: TenantId, request: &JobRequest) -> StoreResult<Option<Submitted>> {
        let (key, external_id) = (request.idempotency_key.as_ref(), request.external_id.as_ref());
        match Keyed::new(key, external_id, || hash(request)) {
            Some(keyed) => keyed.find(&*self.ledger, tenant).await,
            None => Ok(None),
        }
    }

    /// The job that was stored under a key, if there is one.
    pub async fn find_asked(
        &self,
        tenant: TenantId,
        scope: KeyScope,
        key: String,
        hash: RequestHash,
    ) -> StoreResult<Option<Submitted>> {
        self.ledger.find_asked(tenant, scope, key, hash).await
    }

    /// A new id, which sorts after all that were made before it.
    pub fn mint(&self) -> JobId {
        let now = self.clock.now();
        self.mint.lock().unwrap_or_else(PoisonError::into_inner).next(now)
    }

    /// A job with its name, to be stored by somebody else.
    pub fn name_one(&self, tenant: TenantId, origin: &Origin, request: JobRequest) -> NewJob {
        self.name(tenant, origin, vec![request]).remove(0)
    }

    fn name(&self, tenant: TenantId, origin: &Origin, requests: Vec<JobRequest>) -> Vec<NewJob> {
        let now = self.clock.now();
        let mut mint = self.mint.lock().unwrap_or_else(PoisonError::into_inner);
        requests
            .into_iter()
            .map(|request| {
                let hashed = request.fleet.as_ref().map(|(_, h)| *h).or(request.flow.as_ref().map(|(_, h)| *h));
                let hash = hashed.unwrap_or_else(|| hash(&request));
                let policy = self.limited(&request);
                let keys = [
                    request.idempotency_key.map(|key| (KeyScope::Idempotency, key)),
                    request.external_id.map(|key| (KeyScope::External, key)),
                ];
                NewJob {
                    id: request.id.unwrap_or_else(|| mint.next(now)),
                    tenant,
                    lane: request.lane,
                    task_type: request.task_type,
                    requires: request.labels,
                    priority: request.priority,
                    payload: request.payload,
                    policy,
                    run_at: request.run_at,
                    keys: keys.into_iter().flatten().collect(),
                    hash,
                    origin: origin.clone(),
                    replay_of: None,
                    fleet: request.fleet.map(|(fleet, _)| fleet),
                    flow: request.flow.map(|(flow, _)| flow),
                }
            })
            .collect()
    }
}

/// Whether the job was stored by this submission, or by an equal one before whose answer was lost; not an earlier job, and not
/// nothing at all.
fn is_stored_as(answer: &Submitted, own: JobId) -> bool {
    match answer {
        Submitted::Accepted { .. } => true,
        Submitted::Replayed { id, .. } => *id == own,
        Submitted::Pruned { .. } | Submitted::Conflict { .. } => false,
    }
}

fn sum(usages: impl Iterator<Item = Usage>) -> Usage {
    usages.fold(Usage::default(), |sum, usage| Usage {
        queued_jobs: sum.queued_jobs.saturating_add(usage.queued_jobs),
        stored_bytes: sum.stored_bytes.saturating_add(usage.stored_bytes),
    })
}

/// A lost answer is asked for again; so is one that could not be asked for because the ledger is away.
const fn must_ask_again(error: &StoreError, asks: u32) -> bool {
    matches!(error, StoreError::Unknown(_)) || (asks > 0 && error.is_transient())
}

/// What an error says after the answer to an earlier, equal request was lost: the earlier one may be stored, so a refusal of
/// the later one must not read as "nothing was written".
pub(crate) fn as_unknown(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(why) | StoreError::Conflict(why) | StoreError::Busy(why) => StoreError::Unknown(why),
        StoreError::Quota { quota, used, max } => {
            StoreError::Unknown(format!("the quota {quota} is used up ({used} of {max})"))
        }
        other => other,
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

#[cfg(test)]
mod tests {
    use bowline_model::JobStatus;
    use bowline_store::ManualClock;
    use bowline_store_sql::{SqlLedger, SqlSettings};

    use super::*;
    use crate::quotas::QuotaLimits;

    #[test]
    fn a_refusal_after_a_lost_answer_does_not_say_that_nothing_was_written() {
        let why = || "why".to_owned();
        for refused in [
            StoreError::Conflict(why()),
            StoreError::Unavailable(why()),
            StoreError::Busy(why()),
            StoreError::Quota { quota: "queued_jobs", used: 2, max: 1 },
            StoreError::Unknown(why()),
        ] {
            assert!(matches!(as_unknown(refused.clone()), StoreError::Unknown(_)), "{refused:?}");
        }
        // A mistake of ours stays one.
        assert!(matches!(as_unknown(StoreError::Broken(why())), StoreError::Broken(_)));
    }

    fn request() -> JobRequest {
        JobRequest {
            id: None,
            lane: Lane::Default,
            task_type: TaskType::new("echo").expect("a name"),
            labels: Labels::default(),
            priority: 0,
            payload: "{}".into(),
            policy: None,
            run_at: None,
            idempotency_key: None,
            external_id: None,
            fleet: None,
            flow: None,
        }
    }

    #[tokio::test]
    async fn a_job_without_a_deadline_has_the_servers() {
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000)) as Arc<dyn Clock>;
        let ledger = SqlLedger::open_memory_alone(&SqlSettings::new(Arc::clone(&clock))).expect("a ledger");
        let (ledger, quotas) = (Arc::new(ledger), Quotas::new(QuotaLimits::default()));
        let intake = Intake::new(ledger, clock, Meters::new(), quotas, 7);
        let deadline = |intake: &Intake, own: Option<u64>| {
            let policy = own.map(|ms| Arc::new(JobPolicy { deadline_ms: Some(ms), ..JobPolicy::default() }));
            intake.limited(&JobRequest { policy, ..request() }).and_then(|policy| policy.deadline_ms)
        };
        assert_eq!((deadline(&intake, None), deadline(&intake, Some(9_000))), (None, Some(9_000)));
        let intake = intake.with_deadline(Some(5_000));
        assert_eq!((deadline(&intake, None), deadline(&intake, Some(9_000))), (Some(5_000), Some(9_000)));
    }

    #[test]
    fn a_millisecond_that_is_full_of_ids_borrows_from_the_next() {
        let at = Timestamp::from_millis(5);
        let mut mint = Mint { rng: StdRng::seed_from_u64(7), last: at, count: Mint::COUNT_MAX - 1 };
        let last = mint.next(at);
        assert_eq!((mint.last, mint.count), (at, Mint::COUNT_MAX));
        let next = mint.next(at);
        assert_eq!((mint.last, mint.count), (Timestamp::from_millis(6), 0));
        assert!(next > last);
    }

    #[test]
    fn only_a_job_of_this_submission_counts_as_stored_by_it() {
        let at = Timestamp::from_millis(1);
        let [own, other] = [[1; 10], [2; 10]].map(|random| JobId::mint(at, random));
        let (number, status) = (1, JobStatus::Queued);
        assert!(is_stored_as(&Submitted::Accepted { id: own, number, status, at }, own));
        assert!(is_stored_as(&Submitted::Replayed { id: own, number, status, at }, own), "its answer was lost");
        assert!(!is_stored_as(&Submitted::Replayed { id: other, number, status, at }, own), "an earlier job");
    }

    #[test]
    fn a_lost_answer_is_asked_for_until_the_ledger_gives_one() {
        let why = || "why".to_owned();
        for asks in [0, 1] {
            assert!(must_ask_again(&StoreError::Unknown(why()), asks));
            assert_eq!(must_ask_again(&StoreError::Unavailable(why()), asks), asks > 0);
            assert!(!must_ask_again(&StoreError::Broken(why()), asks));
        }
    }

    #[test]
    fn ids_sort_in_the_order_they_were_made_whatever_the_clock_does() {
        let mut mint = Mint { rng: StdRng::seed_from_u64(7), last: Timestamp::default(), count: 0 };
        let times = [5, 5, 5, 6, 6, 4, 4, 7];
        let ids: Vec<JobId> =
            (0..50_000).map(|n| mint.next(Timestamp::from_millis(times[n % 8] + n as i64 / 8_000))).collect();
        assert!(ids.is_sorted());
        let unique: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len());
    }
}
