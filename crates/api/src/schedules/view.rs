//! How a schedule is shown.

use bowline_engine::rights;
use bowline_model::schedule::{ScheduleSpec, Zone};
use bowline_model::{JobId, ResourceName, Timestamp};
use bowline_store::{Refusal, ScheduleRecord, StoreError};
use schemars::JsonSchema;
use serde::Serialize;

use crate::actors::ActorView;
use crate::app::App;

#[derive(Debug, Serialize, JsonSchema)]
pub struct ScheduleView {
    pub name: ResourceName,
    /// The version that counts; the latest one if none was activated yet.
    pub version: u32,
    /// Whether a version counts at all. If not, nothing is started.
    pub active: bool,
    pub enabled: bool,
    pub description: Option<String>,
    pub cron: Option<String>,
    pub every_ms: Option<u64>,
    pub timezone: String,
    /// The next instant; `null` if there is none to wait for.
    pub next_at: Option<Timestamp>,
    /// The last instant that got a job, and when it got it.
    pub last_instant: Option<Timestamp>,
    pub last_fired_at: Option<Timestamp>,
    /// The last job, also if a person started it.
    pub last_job_id: Option<JobId>,
    /// The last instant for which nothing could be started.
    pub last_error: Option<ErrorView>,
    /// Instants that were missed and got no job.
    pub missed: u64,
    /// Instants that got no job because the last one was not over.
    pub passed_over: u64,
    /// Who applied it last. It starts jobs with the rights of that credential.
    pub owner: ActorView,
    /// Why it starts nothing, where its owner has lost the rights. Whoever applies it again takes it over.
    pub stopped: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ScheduleError")]
pub struct ErrorView {
    pub instant: Timestamp,
    pub at: Timestamp,
    pub message: String,
}

impl From<&Refusal> for ErrorView {
    fn from(refusal: &Refusal) -> Self {
        Self { instant: refusal.instant, at: refusal.at, message: refusal.why.clone() }
    }
}

impl ScheduleView {
    /// The schedule with the name of its owner, and whether the owner still has the rights.
    pub async fn of(app: &App, record: &ScheduleRecord, now: Timestamp) -> Result<Self, StoreError> {
        let mut view = Self::unowned(record, now);
        app.actors.fill(&mut view.owner).await;
        if let (Ok(spec), Some(_)) = (serde_json::from_str::<ScheduleSpec>(&record.spec), &record.state) {
            let needed = rights::needed_for(&spec.start);
            let lost = rights::check(&*app.engine.ledger, &record.owner, needed, now).await?.err();
            view.stopped = lost.as_ref().map(rights::lost_by_owner);
        }
        Ok(view)
    }

    fn unowned(record: &ScheduleRecord, now: Timestamp) -> Self {
        // One that cannot be read any more is shown without what it says; its error tells why.
        let spec: Option<ScheduleSpec> = serde_json::from_str(&record.spec).ok();
        let state = record.state.as_ref();
        let enabled = spec.as_ref().is_some_and(|spec| spec.enabled);
        let next_at = match (&spec, state) {
            (Some(spec), Some(state)) if enabled => spec.next_after(state.seen.max(now)),
            _ => None,
        };
        Self {
            name: record.name.clone(),
            version: record.version,
            active: state.is_some(),
            enabled,
            description: spec.as_ref().and_then(|spec| spec.description.clone()),
            cron: spec.as_ref().and_then(|spec| spec.cron.as_ref()).map(ToString::to_string),
            every_ms: spec.as_ref().and_then(|spec| spec.every_ms),
            timezone: spec.as_ref().map(|spec| spec.timezone.to_string()).unwrap_or_default(),
            next_at,
            last_instant: state.and_then(|state| state.fired).map(|(instant, _)| instant),
            last_fired_at: state.and_then(|state| state.fired).map(|(_, at)| at),
            last_job_id: state.and_then(|state| state.job),
            last_error: state.and_then(|state| state.refused.as_ref()).map(Into::into),
            missed: state.map_or(0, |state| state.missed),
            passed_over: state.map_or(0, |state| state.passed_over),
            owner: ActorView::unnamed(&record.owner),
            stopped: None,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Instant")]
pub struct InstantView {
    pub at: Timestamp,
    /// What the clock on the wall shows then, with its distance from UTC.
    pub local: String,
}

/// The next instants after a moment, as a clock in the zone shows them.
pub fn instants_of(
    zone: &Zone,
    after: Timestamp,
    count: usize,
    next: impl Fn(Timestamp) -> Option<Timestamp>,
) -> Vec<InstantView> {
    std::iter::successors(next(after), |at| next(*at))
        .take(count)
        .map(|at| InstantView { at, local: zone.local(at) })
        .collect()
}

/// The next instants of a schedule that counts and is enabled.
pub fn upcoming(record: &ScheduleRecord, now: Timestamp, count: usize) -> Vec<InstantView> {
    match (serde_json::from_str::<ScheduleSpec>(&record.spec), &record.state) {
        (Ok(spec), Some(state)) if spec.enabled => {
            instants_of(&spec.timezone, state.seen.max(now), count, |at| spec.next_after(at))
        }
        _ => Vec::new(),
    }
}
