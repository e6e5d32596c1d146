//! The scheduler: starts what schedules say, once for each instant.
//!
//! Each tenant's schedules are considered in a task of their own: to resolve what one starts may take seconds, and others' schedules
//! do not wait for that.
//!
//! A reconciler like the others: woken by a bell or a timer, it asks the ledger which schedules are due, decides about their
//! instants by the ledger's own time (`ScheduleSpec::look`), and stores the jobs together with how far it has come. Another
//! server that decided the same is overtaken and stores nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_model::audit::Author;
use bowline_model::idempotency::{KeyScope, RequestHash};
use bowline_model::schedule::{Overlap, ScheduleSpec};
use bowline_model::{JobId, ResourceName, TenantId, Timestamp};
use bowline_store::{
    DueSchedules, Fired, Firing, Ledger, NewJob, Origin, ScheduleRecord, StoreError, StoreResult, Submitted, Trigger,
    Triggered,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::evaluations;
use crate::intake::{Intake, JobRequest, as_unknown};
use crate::rights;
use crate::starter::{StartError, Starter};
use crate::tenants::Tenants;

/// Schedules of one look at the ledger.
const BITE: u32 = 200;
/// Jobs that are stored together.
const JOBS_MAX: usize = 1_000;
/// Even when nothing is due, look this often: another server may have changed a schedule.
const SAFETY_NET: Duration = Duration::from_secs(1);
/// A schedule that is set aside is considered again after this: a person may have let it go on.
const ASIDE_MS: i64 = 5_000;
const AFTER_FAILURE: Duration = Duration::from_millis(250);
/// However soon something is due.
const LEAST_PAUSE: Duration = Duration::from_millis(2);
/// How often a lost answer is asked for before the caller is told to ask later.
const ASKS_MAX: u32 = 4;

/// Starts what is due.
#[derive(Debug)]
pub struct Scheduler {
    ledger: Arc<dyn Ledger>,
    starter: Arc<Starter>,
    intake: Arc<Intake>,
}

/// What came of one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looked {
    /// Jobs that were stored.
    pub started: u64,
    /// How long nothing is due.
    pub quiet: Duration,
}

/// Why a person's order to start something was not followed.
#[derive(Debug, thiserror::Error)]
pub enum TriggerError {
    #[error("there is no such schedule")]
    NotFound,
    #[error("no version of this schedule is active")]
    NotActive,
    #[error("its last job, {0}, is not over, and it has at most one at a time")]
    Busy(JobId),
    #[error("the schedule was changed meanwhile")]
    Overtaken,
    #[error("what this schedule starts needs the scope {0}")]
    Scope(&'static str),
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Scheduler {
    pub fn new(ledger: Arc<dyn Ledger>, starter: Arc<Starter>, intake: Arc<Intake>) -> Arc<Self> {
        Arc::new(Self { ledger, starter, intake })
    }

    /// Looks until the house closes.
    pub async fn serve(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        let mut bell = self.ledger.timer_wake().listen();
        let mut tenants = Tenants::new();
        loop {
            bell.forget();
            let began = Instant::now();
            let wait = match self.start_due(&mut tenants).await {
                Ok((has_started, quiet)) => tenants.pause(has_started, began.elapsed(), quiet.min(SAFETY_NET)),
                Err(error) => {
                    tracing::warn!(%error, "cannot evaluate schedules, retrying");
                    AFTER_FAILURE
                }
            };
            let is_idle = tenants.is_idle();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                (tenant, ended) = tenants.ended(), if !is_idle => match ended {
                    Some(Ok(Looked { quiet, .. })) if quiet != AFTER_FAILURE => tenants.rest(tenant, LEAST_PAUSE),
                    Some(Ok(_)) => tenants.rest(tenant, AFTER_FAILURE),
                    Some(Err(error)) => {
                        tracing::warn!(%tenant, "schedules of a tenant are late: {error}");
                        tenants.rest(tenant, AFTER_FAILURE);
                    }
                    None => {
                        tracing::error!(%tenant, "considering the schedules of a tenant failed: an internal error, retrying");
                        tenants.rest(tenant, SAFETY_NET);
                    }
                },
                () = tokio::time::sleep(wait) => {}
                () = bell.rung(), if is_idle => {}
            }
        }
        while !tenants.is_idle() {
            drop(tenants.ended().await);
        }
        Ok(())
    }

    /// Starts considering what is due of everybody of whom nothing is considered. Whether there was anything, and how long
    /// nothing is due.
    async fn start_due(self: &Arc<Self>, tenants: &mut Tenants<StoreResult<Looked>>) -> StoreResult<(bool, Duration)> {
        // What is due by a clock that is not believed may not be due.
        if self.ledger.clock_status().is_held() || tenants.is_full() {
            return Ok((false, SAFETY_NET));
        }
        let DueSchedules { due, next_at, now } = self.ledger.due_schedules(BITE, tenants.passed_over()).await?;
        let mut places: HashMap<TenantId, usize> = HashMap::new();
        let mut by_tenant: Vec<(TenantId, Vec<ScheduleRecord>)> = Vec::new();
        for record in due {
            let place = *places.entry(record.tenant).or_insert_with(|| {
                by_tenant.push((record.tenant, Vec::new()));
                by_tenant.len() - 1
            });
            by_tenant[place].1.push(record);
        }
        let mut has_started = false;
        for (tenant, due) in by_tenant {
            let scheduler = Arc::clone(self);
            let due = DueSchedules { due, next_at: None, now };
            has_started |= tenants.start(tenant, async move { scheduler.consider(due).await });
        }
        let quiet = next_at.map_or(SAFETY_NET, |at| until(now, at));
        Ok((has_started, quiet))
    }

    /// Considers every schedule that is due, once.
    pub async fn look(&self) -> StoreResult<Looked> {
        // What is due by a clock that is not believed may not be due.
        if self.ledger.clock_status().is_held() {
            return Ok(Looked { started: 0, quiet: SAFETY_NET });
        }
        let found = self.ledger.due_schedules(BITE, Vec::new()).await?;
        self.consider(found).await
    }

    /// Considers schedules that are due.
    async fn consider(&self, found: DueSchedules) -> StoreResult<Looked> {
        let mut next_at = found.next_at;
        let mut late = found.due.len() == BITE as usize;
        let (mut started, mut jobs, mut firings) = (0, 0, Vec::new());
        for record in &found.due {
            match self.decide(record, found.now).await {
                Ok(Some(firing)) => {
                    jobs += firing.jobs.len();
                    next_at = [next_at, firing.due_at].into_iter().flatten().min();
                    firings.push(firing);
                }
                Ok(None) => {}
                // It stays due; the others need not wait for it.
                Err(error) => {
                    tracing::warn!(schedule.name = %record.name, %error, "cannot evaluate a schedule, retrying");
                    late = true;
                }
            }
            if jobs >= JOBS_MAX {
                started += self.fire(std::mem::take(&mut firings)).await?;
                jobs = 0;
            }
        }
        started += self.fire(firings).await?;
        let quiet = match next_at {
            _ if late => AFTER_FAILURE,
            None => SAFETY_NET,
            Some(at) => until(found.now, at),
        };
        Ok(Looked { started, quiet })
    }

    /// What to do about a schedule now. An error is the ledger's; everything else is part of the answer.
    async fn decide(&self, record: &ScheduleRecord, now: Timestamp) -> StoreResult<Option<Firing>> {
        let Some(state) = &record.state else { return Ok(None) };
        let mut firing = Firing {
            resource: record.resource,
            tenant: record.tenant,
            name: record.name.clone(),
            version: record.version,
            seen: state.seen,
            to: state.seen.max(now),
            due_at: None,
            jobs: Vec::new(),
            alone: false,
            missed: 0,
            refused: None,
        };
        let spec: ScheduleSpec = match serde_json::from_str(&record.spec) {
            Ok(spec) => spec,
            // Nobody looks at it again before somebody has changed it.
            Err(error) => {
                firing.refused = Some((now, format!("the schedule cannot be read: {error}")));
                return Ok(Some(firing));
            }
        };
        let subject = || format!("schedule/{}@{}", record.name, record.version);
        let open = match evaluations::current().enter(record.tenant, subject) {
            Ok(open) => open,
            // Considered as far as now, without a look at the calendar; a new version is another subject.
            Err(aside) => {
                firing.refused = Some((now, aside.to_string()));
                firing.due_at = Some(now.plus_millis(ASIDE_MS));
                return Ok(Some(firing));
            }
        };
        let look = spec.look(state.seen, now);
        drop(open);
        firing.to = look.to;
        firing.due_at = look.again_at;
        firing.missed = look.missed;
        firing.alone = spec.overlap == Overlap::Skip;
        let Some(last) = look.fire.last() else { return Ok(Some(firing)) };
        // Its owner may have lost what it needs since the last instant.
        let needed = rights::needed_for(&spec.start);
        if let Err(lost) = rights::check(&*self.ledger, &record.owner, needed, now).await? {
            firing.refused = Some((*last, rights::lost_by_owner(&lost)));
            return Ok(Some(firing));
        }
        match self.starter.prepare(record.tenant, &spec.start, None).await {
            Ok(request) => {
                let job = |instant: &Timestamp| (*instant, self.job(record, &spec, &request, *instant, now));
                firing.jobs = look.fire.iter().map(job).collect();
            }
            Err(error) => match error.store() {
                Some(store) if !matches!(store, StoreError::Broken(_)) => return Err(store.clone()),
                _ => firing.refused = Some((*last, error.to_string())),
            },
        }
        Ok(Some(firing))
    }

    /// The job of an instant. Its owner asks for it.
    fn job(
        &self,
        record: &ScheduleRecord,
        spec: &ScheduleSpec,
        request: &JobRequest,
        instant: Timestamp,
        now: Timestamp,
    ) -> NewJob {
        let key = key_of(&record.name, instant);
        let due_at = spec.due_at(record.name.as_str(), instant);
        let request = JobRequest { run_at: Some(due_at).filter(|at| *at > now), ..request.clone() };
        let origin = Origin {
            email: None,
            actor: record.owner.as_str().into(),
            request_id: key.as_str().into(),
            trace_id: None,
            correlation_id: Some(format!("schedule/{}", record.name).into()),
            author: None,
        };
        // The same instant is the same ask, whatever the schedule says by then.
        let hash = RequestHash::of_parts(&[key.as_bytes()]);
        NewJob { keys: vec![(KeyScope::Schedule, key)], hash, ..self.intake.name_one(record.tenant, &origin, request) }
    }

    /// Stores what was decided. One that cannot be stored does not hold up the others.
    async fn fire(&self, firings: Vec<Firing>) -> StoreResult<u64> {
        if firings.is_empty() {
            return Ok(0);
        }
        match self.ledger.fire_schedules(firings.clone()).await {
            Ok(answers) => Ok(firings.iter().zip(answers).map(|(firing, fired)| told(firing, fired)).sum()),
            Err(StoreError::Conflict(_) | StoreError::Broken(_)) if firings.len() > 1 => {
                let mut started = 0;
                for firing in firings {
                    match self.ledger.fire_schedules(vec![firing.clone()]).await {
                        Ok(answers) => {
                            started += answers.into_iter().map(|fired| told(&firing, fired)).sum::<u64>();
                        }
                        Err(error) => {
                            tracing::warn!(schedule.name = %firing.name, %error, "cannot start what a schedule starts, retrying");
                        }
                    }
                }
                Ok(started)
            }
            // Nothing was stored, or all of it: the next look finds out, because it would be overtaken by itself.
            Err(error) => Err(error),
        }
    }

    /// Starts what a schedule starts, now, because a person says so. With a key, once for that key.
    pub async fn trigger(
        &self,
        tenant: TenantId,
        name: ResourceName,
        origin: &Origin,
        by: Author,
        key: Option<String>,
        reason: Option<String>,
    ) -> Result<Submitted, TriggerError> {
        let store = |error: StoreError| TriggerError::Start(error.into());
        let found = self.ledger.find_schedule(tenant, name).await.map_err(store)?;
        let record = found.ok_or(TriggerError::NotFound)?;
        if record.state.is_none() {
            return Err(TriggerError::NotActive);
        }
        let spec: ScheduleSpec = serde_json::from_str(&record.spec)
            .map_err(|e| store(StoreError::Broken(format!("schedule {} cannot be read: {e}", record.name))))?;
        // The credential of the request needs the rights, whoever owns the schedule. The server itself has no credential.
        if let (Some(_), Some(scope)) = (by.tenant, rights::missing(&by.scopes, rights::needed_for(&spec.start))) {
            return Err(TriggerError::Scope(scope));
        }
        let request = self.starter.prepare(tenant, &spec.start, None).await?;
        let request = JobRequest { idempotency_key: key, ..request };
        let trigger = Trigger {
            resource: record.resource,
            name: record.name,
            version: record.version,
            job: self.intake.name_one(tenant, origin, request),
            alone: spec.overlap == Overlap::Skip,
            by,
            reason,
        };
        let mut asks = 0;
        loop {
            match self.ledger.trigger_schedule(trigger.clone()).await {
                Ok(Triggered::Started(Submitted::Conflict { key, .. })) => {
                    return Err(StartError::Key { key }.into());
                }
                Ok(Triggered::Started(stored)) => return Ok(stored),
                Ok(Triggered::Busy(job)) => return Err(TriggerError::Busy(job)),
                Ok(Triggered::Overtaken) => return Err(TriggerError::Overtaken),
                // The job has its name already: asking again gives the same one.
                Err(StoreError::Unknown(_)) if asks < ASKS_MAX => {
                    asks += 1;
                    tokio::time::sleep(Duration::from_millis(50 << asks)).await;
                }
                // Once an answer was lost, a later refusal does not make it unsaid.
                Err(error) if asks > 0 => return Err(store(as_unknown(error))),
                Err(error) => return Err(store(error)),
            }
        }
    }
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    let micros = at.as_micros().saturating_sub(now.as_micros());
    Duration::from_micros(u64::try_from(micros).unwrap_or(0)).max(LEAST_PAUSE)
}

/// Under which name an instant is known.
fn key_of(name: &ResourceName, instant: Timestamp) -> String {
    format!("schedule/{name}/{instant}")
}

/// Says what came of a firing; how many jobs it was.
fn told(firing: &Firing, fired: Fired) -> u64 {
    let Fired::Done { jobs, .. } = fired else { return 0 };
    if let Some((instant, why)) = &firing.refused {
        tracing::warn!(schedule.name = %firing.name, schedule.instant = %instant, error = %why, "a schedule started nothing");
    }
    if firing.missed > 0 {
        tracing::warn!(
            schedule.name = %firing.name,
            missed = firing.missed,
            since = %firing.seen,
            "a schedule missed instants"
        );
    }
    jobs.iter().filter(|job| matches!(job, Submitted::Accepted { .. })).count() as u64
}
