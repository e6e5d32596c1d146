//! The one way in which jobs and runs change in the ledger.
//!
//! A change is decided in `model` and collected here; [`Changes::write`] then writes all collected rows together. What
//! follows from a state is derived, not asked for: a job that is queued has a row in the queue, one that is pending has
//! a timer, one that is running has a lease, one that is dead has an open dead letter, and every change has its event.
//! So no caller can forget one of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_model::dead_letter::DeadLetterStatus;
use bowline_model::event::EventData;
use bowline_model::fleet::{ApprovalState, HostLock, Sweep};
use bowline_model::job::{JobKind, Place, Step};
use bowline_model::planted::{self, Mistake};
use bowline_model::{EventKind, JobStatus, Lane, RunError, RunId, RunStatus, TenantId, Timestamp, WorkerName};
use bowline_store::{StoreError, StoreResult};
use uuid::Uuid;

use crate::db::{Batch, Col, Db, Sql};
use crate::job_row::JobRow;
use crate::write::Diff;

/// A new lease and its run.
#[derive(Debug)]
pub struct NewRun {
    pub run: RunId,
    pub tenant: TenantId,
    pub number: i64,
    pub attempt: u32,
    pub fence: u32,
    pub worker: WorkerName,
    pub accepted: bool,
    pub deadline_at: Timestamp,
}

/// An event to be told.
#[derive(Debug)]
struct NewEvent {
    tenant: Uuid,
    number: Option<i64>,
    fence: Option<i64>,
    seq: Option<i64>,
    kind: EventKind,
    at: Timestamp,
    data: Option<String>,
}

#[derive(Debug)]
struct JobChange {
    number: i64,
    state: bowline_model::JobState,
    finished_at: Option<Timestamp>,
    result: Option<Arc<str>>,
    error: Option<String>,
}

#[derive(Debug)]
struct RunChange {
    run: Uuid,
    status: RunStatus,
    finished_at: Option<Timestamp>,
    error: Option<String>,
    last_seq: i64,
    exit_code: Option<i64>,
}

#[derive(Debug)]
struct NewDeadLetter {
    tenant: Uuid,
    lane: i64,
    number: i64,
    class: Option<&'static str>,
    error: Option<String>,
}

/// What will be written together.
#[derive(Debug)]
pub struct Changes {
    now: Timestamp,
    jobs: Vec<JobChange>,
    queue_add: Vec<(i64, i64, i64)>,
    queue_remove: Vec<(i64, i64, i64)>,
    timer_add: Vec<(Timestamp, i64, i64)>,
    timer_remove: Vec<(Timestamp, i64)>,
    deadline_add: Vec<(i64, Timestamp)>,
    deadline_remove: Vec<i64>,
    leases: Vec<NewRun>,
    lease_remove: Vec<Uuid>,
    runs: Vec<RunChange>,
    events: Vec<NewEvent>,
    ended: Vec<AttemptEnded>,
    dead: Vec<NewDeadLetter>,
    dead_close: Vec<(i64, DeadLetterStatus, Option<String>, Option<String>)>,
    /// Host, unit, shared, held.
    turn_add: Vec<(i64, i64, bool, bool)>,
    turn_hold: Vec<i64>,
    turn_wait: Vec<i64>,
    turn_remove: Vec<i64>,
    /// Hosts at whose turns somebody should look.
    hosts: Vec<i64>,
    tally: Tallied,
    /// Commands that have something to do, or no more.
    fleet_live: Vec<(i64, bool)>,
    fleet_sweep: Vec<(i64, Sweep, Option<String>)>,
    approvals: Vec<(i64, ApprovalState)>,
    /// Unit and block.
    blocked: Vec<(i64, i64)>,
    fleets: bool,
    /// For runs of workflows: the run, and the job that has ended or what is to be told.
    inbox: Vec<(i64, Option<i64>, Option<Cow<'static, str>>)>,
    /// Runs that hear nothing of what was said to them.
    inbox_clear: Vec<i64>,
}

/// How many more units of a command stand where: by command and status.
pub type Tallied = BTreeMap<(i64, i64), i64>;

/// A unit's place at its host, as it follows from its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtHost {
    Nowhere,
    Waiting,
    Held,
}

impl AtHost {
    const fn of(place: Place) -> Self {
        match place {
            Place::Host => Self::Waiting,
            Place::Queue | Place::Lease => Self::Held,
            Place::Timer(_) | Place::Nowhere => Self::Nowhere,
        }
    }
}

/// What is told beside the step itself.
#[derive(Debug, Default)]
pub struct Telling {
    pub fence: Option<u32>,
    pub data: EventData,
    pub error: Option<RunError>,
    pub result: Option<Arc<str>>,
}

/// An attempt that ended, for the figures.
#[derive(Debug, Clone, Copy)]
pub struct AttemptEnded {
    pub channel: i64,
    pub job: JobStatus,
    pub age_ms: i64,
}

/// What the rest of the process should hear of after the commit.
#[derive(Debug, Default)]
pub struct Heard {
    pub ended: Vec<AttemptEnded>,
    pub channels: Vec<i64>,
    pub timers: bool,
    pub events: bool,
    /// Hosts at whose turns somebody should look before the commit.
    pub hosts: Vec<i64>,
    /// To be added to the tallies before the commit.
    pub tally: Tallied,
    /// Commands on hosts may have something to do.
    pub fleets: bool,
    /// Something came in for runs of workflows.
    pub flows: bool,
    /// What changed in configuration, for its records in the audit trail.
    pub diffs: Vec<Diff>,
}

impl Changes {
    pub fn at(now: Timestamp) -> Self {
        Self {
            now,
            jobs: Vec::new(),
            queue_add: Vec::new(),
            queue_remove: Vec::new(),
            timer_add: Vec::new(),
            timer_remove: Vec::new(),
            deadline_add: Vec::new(),
            deadline_remove: Vec::new(),
            leases: Vec::new(),
            lease_remove: Vec::new(),
            runs: Vec::new(),
            events: Vec::new(),
            ended: Vec::new(),
            dead: Vec::new(),
            dead_close: Vec::new(),
            turn_add: Vec::new(),
            turn_hold: Vec::new(),
            turn_wait: Vec::new(),
            turn_remove: Vec::new(),
            hosts: Vec::new(),
            tally: Tallied::new(),
            fleet_live: Vec::new(),
            fleet_sweep: Vec::new(),
            approvals: Vec::new(),
            blocked: Vec::new(),
            fleets: false,
            inbox: Vec::new(),
            inbox_clear: Vec::new(),
        }
    }

    /// A job that has just been inserted takes its place.
    pub fn accepted(&mut self, job: &JobRow, kind: EventKind, data: EventData) {
        self.place(job, &job.state, None);
        self.count(job, None, &job.state);
        self.fleets |= job.state.kind == JobKind::Command;
        self.set_deadline(job, job.state.due_at.unwrap_or(self.now));
        self.tell(job.tenant, Some(job.number), None, kind, data);
    }

    /// A job moves on. `lane` is where its dead letter would go.
    pub fn advance(&mut self, job: &JobRow, lane: Lane, step: Step, telling: Telling) {
        let Telling { fence, mut data, error, result } = telling;
        data.due_at = step.next.due_at;
        let ended = step.next.status.is_terminal();
        self.place(job, &step.next, Some(&job.state));
        self.count(job, Some(&job.state), &step.next);
        match job.state.kind {
            JobKind::Command => self.advance_command(job, &step),
            JobKind::Workflow => self.advance_flow(job, &step),
            JobKind::Task | JobKind::Unit(_) => {}
        }
        match step.event {
            EventKind::JobRetried => self.set_deadline(job, self.now),
            _ if ended && job.policy.deadline_ms.is_some() => self.forget_deadline(job.number),
            _ => {}
        }
        if let Some(flow) = job.flow.filter(|_| ended) {
            self.inbox.push((flow, Some(job.number), None));
        }
        let tried_again = matches!(step.event, EventKind::RunFailed | EventKind::RunLost);
        if job.state.place() == Place::Lease && (ended || tried_again) {
            let age_ms = self.now.millis_since(job.created_at);
            self.ended.push(AttemptEnded { channel: job.channel, job: step.next.status, age_ms });
        }
        if step.next.status == JobStatus::Dead && job.state.status != JobStatus::Dead {
            self.dead.push(NewDeadLetter {
                tenant: *job.tenant.as_uuid(),
                lane: lane.code(),
                number: job.number,
                class: error.as_ref().map(|e| e.class.as_str()),
                error: error.as_ref().map(|e| e.message.clone()),
            });
        }
        if job.state.status == JobStatus::Dead && step.next.status != JobStatus::Dead {
            let to = if step.event == EventKind::JobRetried {
                DeadLetterStatus::Retried
            } else {
                DeadLetterStatus::Corrected
            };
            self.dead_close.push((job.number, to, data.by.clone(), data.reason.clone()));
        }
        self.jobs.push(JobChange {
            number: job.number,
            state: step.next,
            finished_at: ended.then_some(self.now),
            result,
            error: error.as_ref().and_then(|e| serde_json::to_string(e).ok()),
        });
        if let Some(error) = error {
            data.class = Some(error.class);
            data.error = Some(error.message);
        }
        self.tell(job.tenant, Some(job.number), fence, step.event, data);
    }

    /// The time of a plain job with a deadline starts at `from`.
    fn set_deadline(&mut self, job: &JobRow, from: Timestamp) {
        if job.state.kind == JobKind::Task
            && let Some(at) = job.policy.deadline_at(from)
        {
            self.deadline_add.push((job.number, at));
        }
    }

    pub fn forget_deadline(&mut self, number: i64) {
        self.deadline_remove.push(number);
    }

    /// What follows for a command on hosts.
    fn advance_command(&mut self, job: &JobRow, step: &Step) {
        let lives = |status| matches!(status, JobStatus::Running | JobStatus::Canceling);
        let (before, next) = (job.state.status, step.next.status);
        self.fleets = true;
        if lives(before) != lives(next) {
            self.fleet_live.push((job.number, lives(next)));
        }
        match step.event {
            EventKind::JobCancelRequested => self.fleet_sweep.push((job.number, Sweep::Cancel, None)),
            EventKind::JobDeadlinePassed => {
                let why = "it did not end before its deadline".to_owned();
                self.fleet_sweep.push((job.number, Sweep::Cancel, Some(why)));
            }
            EventKind::JobRetried => self.fleet_sweep.push((job.number, Sweep::Retry, None)),
            EventKind::JobApproved => self.approvals.push((job.number, ApprovalState::Approved)),
            EventKind::JobRejected => self.approvals.push((job.number, ApprovalState::Rejected)),
            EventKind::JobSuperseded => self.approvals.push((job.number, ApprovalState::Superseded)),
            EventKind::JobApprovalExpired => self.approvals.push((job.number, ApprovalState::Expired)),
            EventKind::JobCanceled if before == JobStatus::AwaitingApproval => {
                self.approvals.push((job.number, ApprovalState::Withdrawn));
            }
            _ => {}
        }
    }

    /// What a workflow's run should hear of.
    fn advance_flow(&mut self, job: &JobRow, step: &Step) {
        let message = match step.event {
            EventKind::FlowWoken if planted::on(Mistake::WakeForgotten) => return,
            EventKind::JobCancelRequested => CANCEL.into(),
            // It was over before it began, and hears nothing any more.
            EventKind::JobCanceled if job.state.status == JobStatus::Pending => {
                self.inbox_clear.push(job.number);
                return;
            }
            EventKind::JobRetried => RETRY.into(),
            // By the ledger's time: whoever hears it may have a clock that is behind.
            EventKind::JobDue | EventKind::FlowWoken => format!(r#"{{"is":"due","at":"{}"}}"#, self.now).into(),
            _ => return,
        };
        self.inbox.push((job.number, None, Some(message)));
    }

    /// Something for a workflow's run to hear, so that it goes on.
    pub fn go_on(&mut self, flow: i64) {
        self.inbox.push((flow, None, Some(GO_ON.into())));
    }

    /// The clock was put back: a workflow's run moves what it reckoned from a later time.
    pub fn move_waits(&mut self, flow: i64, after: Timestamp, by_us: i64) {
        let message = format!(r#"{{"is":"clock_moved","after":"{after}","by_us":{by_us}}}"#);
        self.inbox.push((flow, None, Some(message.into())));
    }

    /// Where the units of a command stand is counted, so that nobody has to count them.
    fn count(&mut self, job: &JobRow, before: Option<&bowline_model::JobState>, next: &bowline_model::JobState) {
        let Some(command) = job.parent else { return };
        if before.is_some_and(|before| before.status == next.status) {
            return;
        }
        if let Some(before) = before {
            *self.tally.entry((command, before.status.code())).or_default() -= 1;
            if before.status.is_terminal() {
                // Its command may be over already, and be wrong about how.
                self.fleet_live.push((command, true));
            }
        }
        *self.tally.entry((command, next.status.code())).or_default() += 1;
        self.fleets |= next.status.is_terminal();
    }

    /// A unit takes its place at the host, or leaves it.
    fn take_turn(&mut self, job: &JobRow, from: Option<Place>, to: Place) {
        let (JobKind::Unit(lock), Some(host)) = (job.state.kind, job.host) else { return };
        let shared = lock == HostLock::Shared;
        match (from.map_or(AtHost::Nowhere, AtHost::of), AtHost::of(to)) {
            (AtHost::Nowhere, AtHost::Held) => self.turn_add.push((host, job.number, shared, true)),
            (AtHost::Nowhere, AtHost::Waiting) => {
                self.turn_add.push((host, job.number, shared, false));
                // Where a unit is planned it has been asked already whether the host is free.
                if from.is_some() {
                    self.hosts.push(host);
                }
            }
            (AtHost::Waiting, AtHost::Held) => self.turn_hold.push(job.number),
            (AtHost::Waiting | AtHost::Held, AtHost::Nowhere) => {
                self.turn_remove.push(job.number);
                self.hosts.push(host);
            }
            // It asks for the host anew, and keeps its place in the line.
            (AtHost::Held, AtHost::Waiting) => {
                self.turn_wait.push(job.number);
                self.hosts.push(host);
            }
            (AtHost::Nowhere, AtHost::Nowhere) | (AtHost::Waiting, AtHost::Waiting) | (AtHost::Held, AtHost::Held) => {}
        }
    }

    fn place(&mut self, job: &JobRow, next: &bowline_model::JobState, before: Option<&bowline_model::JobState>) {
        let (from, to) = (before.map(bowline_model::JobState::place), next.place());
        self.take_turn(job, from, to);
        match from {
            Some(Place::Queue) => self.queue_remove.push((job.channel, job.rank(), job.number)),
            Some(Place::Timer(due)) => self.timer_remove.push((due, job.number)),
            Some(Place::Lease | Place::Host | Place::Nowhere) | None => {}
        }
        match to {
            Place::Queue => self.queue_add.push((job.channel, job.rank(), job.number)),
            // What is only a limit is not something that waits in a line.
            Place::Timer(due) if next.status != JobStatus::Pending => self.timer_add.push((due, job.number, 0)),
            Place::Timer(due) => self.timer_add.push((due, job.number, job.channel)),
            Place::Lease | Place::Host | Place::Nowhere => {}
        }
    }

    /// Remembers which block keeps a unit from running.
    pub fn block(&mut self, unit: i64, block: i64) {
        self.blocked.push((unit, block));
    }

    pub fn lease(&mut self, run: NewRun) {
        self.leases.push(run);
    }

    /// A run ended, or is taken for ended; its lease goes with it.
    pub fn end_run(
        &mut self,
        run: RunId,
        status: RunStatus,
        error: Option<&RunError>,
        last_seq: u64,
        exit_code: Option<i32>,
    ) {
        self.lease_remove.push(*run.as_uuid());
        self.runs.push(RunChange {
            run: *run.as_uuid(),
            status,
            finished_at: Some(self.now),
            error: error.and_then(|e| serde_json::to_string(e).ok()),
            last_seq: i64::try_from(last_seq).unwrap_or(i64::MAX),
            exit_code: exit_code.map(i64::from),
        });
    }

    pub fn tell(
        &mut self,
        tenant: TenantId,
        number: Option<i64>,
        fence: Option<u32>,
        kind: EventKind,
        data: EventData,
    ) {
        let data = if data.is_empty() { None } else { serde_json::to_string(&data).ok() };
        self.events.push(NewEvent {
            tenant: *tenant.as_uuid(),
            number,
            fence: fence.map(i64::from),
            seq: None,
            kind,
            at: self.now,
            data,
        });
    }

    /// An executor's own event, with its number.
    pub fn tell_numbered(&mut self, job: &JobRow, fence: u32, seq: u64, data: &EventData) {
        self.events.push(NewEvent {
            tenant: *job.tenant.as_uuid(),
            number: Some(job.number),
            fence: Some(i64::from(fence)),
            seq: i64::try_from(seq).ok(),
            kind: EventKind::RunProgressed,
            at: self.now,
            data: serde_json::to_string(data).ok(),
        });
    }

    /// Writes everything that was collected. `Conflict` when a row that must be there is not: somebody else moved it.
    pub async fn write(mut self, db: &mut impl Db) -> StoreResult<Heard> {
        let heard = Heard {
            ended: std::mem::take(&mut self.ended),
            channels: {
                let mut channels: Vec<i64> = self.queue_add.iter().map(|(channel, ..)| *channel).collect();
                channels.sort_unstable();
                channels.dedup();
                channels
            },
            timers: !self.timer_add.is_empty(),
            events: !self.events.is_empty(),
            hosts: std::mem::take(&mut self.hosts),
            tally: std::mem::take(&mut self.tally),
            fleets: self.fleets,
            flows: !self.inbox.is_empty(),
            diffs: Vec::new(),
        };
        let removed = if planted::on(Mistake::QueueTwice) { 0 } else { self.queue_remove.len() };
        let mut batch = Vec::with_capacity(12);
        if removed > 0 {
            batch.push((QUEUE_REMOVE, keys(&self.queue_remove)));
        }
        self.batch(&mut batch);
        self.fleet_batch(&mut batch);
        let changed = db.execute_batch(&batch).await?;
        // A row that must go and is not there means that the place and the state of a job have parted: nothing of it stays.
        match changed.first() {
            Some(gone) if removed > 0 && *gone != removed as u64 => {
                Err(StoreError::Conflict(format!("{removed} queue rows should go, {gone} were there")))
            }
            _ => Ok(heard),
        }
    }

    fn batch<'a>(&'a self, batch: &mut Batch<'a>) {
        if !self.timer_remove.is_empty() {
            batch.push((TIMER_REMOVE, timers(self.timer_remove.iter().copied())));
        }
        if !self.deadline_remove.is_empty() {
            batch.push((DEADLINE_REMOVE, vec![Col::Int(self.deadline_remove.clone())]));
        }
        if !self.deadline_add.is_empty() {
            let (numbers, moments) = self.deadline_add.iter().copied().unzip();
            batch.push((DEADLINE_ADD, vec![Col::Int(numbers), Col::At(moments)]));
        }
        if !self.queue_add.is_empty() {
            batch.push((QUEUE_ADD, keys(&self.queue_add)));
        }
        if !self.timer_add.is_empty() {
            let mut cols = timers(self.timer_add.iter().map(|(due, number, _)| (*due, *number)));
            cols.push(Col::Int(self.timer_add.iter().map(|(.., channel)| *channel).collect()));
            batch.push((TIMER_ADD, cols));
        }
        if !self.lease_remove.is_empty() {
            batch.push((LEASE_REMOVE, vec![Col::Id(self.lease_remove.clone())]));
        }
        if !self.leases.is_empty() {
            batch.push((LEASE_ADD, self.lease_columns()));
            batch.push((RUN_ADD, self.run_columns()));
        }
        if !self.runs.is_empty() {
            let runs = &self.runs;
            batch.push((
                RUN_END,
                vec![
                    Col::Id(runs.iter().map(|r| r.run).collect()),
                    Col::Int(runs.iter().map(|r| r.status.code()).collect()),
                    Col::OptAt(runs.iter().map(|r| r.finished_at).collect()),
                    Col::OptText(runs.iter().map(|r| r.error.as_deref()).collect()),
                    Col::Int(runs.iter().map(|r| r.last_seq).collect()),
                    Col::OptInt(runs.iter().map(|r| r.exit_code).collect()),
                ],
            ));
        }
        let (plain, with_outcome): (Vec<_>, Vec<_>) =
            self.jobs.iter().partition(|j| j.result.is_none() && j.error.is_none() && j.finished_at.is_none());
        if !plain.is_empty() {
            batch.push((JOB_MOVE, self.job_columns(&plain)));
        }
        if !with_outcome.is_empty() {
            let mut cols = self.job_columns(&with_outcome);
            cols.push(Col::OptAt(with_outcome.iter().map(|j| j.finished_at).collect()));
            cols.push(Col::OptText(with_outcome.iter().map(|j| j.result.as_deref()).collect()));
            cols.push(Col::OptText(with_outcome.iter().map(|j| j.error.as_deref()).collect()));
            batch.push((JOB_END, cols));
        }
        if !self.dead.is_empty() {
            let dead = &self.dead;
            batch.push((
                DEAD_ADD,
                vec![
                    Col::Id(dead.iter().map(|d| d.tenant).collect()),
                    Col::Int(dead.iter().map(|d| d.lane).collect()),
                    Col::Int(dead.iter().map(|d| d.number).collect()),
                    Col::At(vec![self.now; dead.len()]),
                    Col::OptText(dead.iter().map(|d| d.class).collect()),
                    Col::OptText(dead.iter().map(|d| d.error.as_deref()).collect()),
                ],
            ));
        }
        if !self.dead_close.is_empty() {
            let closed = &self.dead_close;
            batch.push((
                DEAD_CLOSE,
                vec![
                    Col::Int(closed.iter().map(|c| c.0).collect()),
                    Col::Int(closed.iter().map(|c| c.1.code()).collect()),
                    Col::At(vec![self.now; closed.len()]),
                    Col::OptText(closed.iter().map(|c| c.2.as_deref()).collect()),
                    Col::OptText(closed.iter().map(|c| c.3.as_deref()).collect()),
                ],
            ));
        }
        if !self.inbox_clear.is_empty() {
            batch.push((INBOX_CLEAR, vec![Col::Int(self.inbox_clear.clone())]));
        }
        if !self.inbox.is_empty() {
            let cols = vec![
                Col::Int(self.inbox.iter().map(|i| i.0).collect()),
                Col::OptInt(self.inbox.iter().map(|i| i.1).collect()),
                Col::OptText(self.inbox.iter().map(|i| i.2.as_deref()).collect()),
            ];
            batch.push((INBOX_ADD, cols));
        }
        if !self.events.is_empty() {
            let events = &self.events;
            batch.push((
                EVENT_ADD,
                vec![
                    Col::Id(events.iter().map(|e| e.tenant).collect()),
                    Col::OptInt(events.iter().map(|e| e.number).collect()),
                    Col::OptInt(events.iter().map(|e| e.fence).collect()),
                    Col::OptInt(events.iter().map(|e| e.seq).collect()),
                    Col::Text(events.iter().map(|e| e.kind.as_str()).collect()),
                    Col::At(events.iter().map(|e| e.at).collect()),
                    Col::OptText(events.iter().map(|e| e.data.as_deref()).collect()),
                ],
            ));
        }
    }

    fn fleet_batch<'a>(&'a self, batch: &mut Batch<'a>) {
        if !self.turn_remove.is_empty() {
            batch.push((TURN_REMOVE, vec![Col::Int(self.turn_remove.clone())]));
        }
        if !self.turn_wait.is_empty() {
            batch.push((TURN_WAIT, vec![Col::Int(self.turn_wait.clone())]));
        }
        if !self.turn_hold.is_empty() {
            batch.push((TURN_HOLD, vec![Col::Int(self.turn_hold.clone())]));
        }
        if !self.turn_add.is_empty() {
            let turns = &self.turn_add;
            let cols = vec![
                Col::Int(turns.iter().map(|t| t.0).collect()),
                Col::Int(turns.iter().map(|t| t.1).collect()),
                Col::Bool(turns.iter().map(|t| t.2).collect()),
                Col::Bool(turns.iter().map(|t| t.3).collect()),
            ];
            batch.push((TURN_ADD, cols));
        }
        if !self.fleet_live.is_empty() {
            let live = &self.fleet_live;
            batch.push((
                FLEET_LIVE,
                vec![Col::Int(live.iter().map(|f| f.0).collect()), Col::Bool(live.iter().map(|f| f.1).collect())],
            ));
        }
        if !self.fleet_sweep.is_empty() {
            let sweeps = &self.fleet_sweep;
            let cols = vec![
                Col::Int(sweeps.iter().map(|s| s.0).collect()),
                Col::Int(sweeps.iter().map(|s| s.1.code()).collect()),
                Col::OptText(sweeps.iter().map(|s| s.2.as_deref()).collect()),
            ];
            batch.push((FLEET_SWEEP, cols));
        }
        if !self.approvals.is_empty() {
            let decided = &self.approvals;
            let cols = vec![
                Col::Int(decided.iter().map(|a| a.0).collect()),
                Col::Int(decided.iter().map(|a| a.1.code()).collect()),
            ];
            batch.push((APPROVAL_END, cols));
        }
        if !self.blocked.is_empty() {
            let cols = vec![
                Col::Int(self.blocked.iter().map(|b| b.0).collect()),
                Col::Int(self.blocked.iter().map(|b| b.1).collect()),
            ];
            batch.push((BLOCKED, cols));
        }
    }

    fn job_columns(&self, jobs: &[&JobChange]) -> Vec<Col<'static>> {
        vec![
            Col::Int(jobs.iter().map(|j| j.number).collect()),
            Col::Int(jobs.iter().map(|j| j.state.status.code()).collect()),
            Col::Int(jobs.iter().map(|j| j.state.attempts.into()).collect()),
            Col::Int(jobs.iter().map(|j| j.state.failures.into()).collect()),
            Col::Int(jobs.iter().map(|j| j.state.losses.into()).collect()),
            Col::Int(jobs.iter().map(|j| j.state.fence.into()).collect()),
            Col::OptAt(jobs.iter().map(|j| j.state.due_at).collect()),
            Col::At(vec![self.now; jobs.len()]),
        ]
    }

    fn lease_columns(&self) -> Vec<Col<'_>> {
        let leases = &self.leases;
        vec![
            Col::Id(leases.iter().map(|l| *l.run.as_uuid()).collect()),
            Col::Int(leases.iter().map(|l| l.number).collect()),
            Col::Text(leases.iter().map(|l| l.worker.as_str()).collect()),
            Col::Bool(leases.iter().map(|l| l.accepted).collect()),
            Col::At(vec![self.now; leases.len()]),
            Col::At(leases.iter().map(|l| l.deadline_at).collect()),
        ]
    }

    fn run_columns(&self) -> Vec<Col<'_>> {
        let leases = &self.leases;
        let status = |accepted| if accepted { RunStatus::Running } else { RunStatus::Starting };
        vec![
            Col::Id(leases.iter().map(|l| *l.run.as_uuid()).collect()),
            Col::Id(leases.iter().map(|l| *l.tenant.as_uuid()).collect()),
            Col::Int(leases.iter().map(|l| l.number).collect()),
            Col::Int(leases.iter().map(|l| l.attempt.into()).collect()),
            Col::Int(leases.iter().map(|l| l.fence.into()).collect()),
            Col::Int(leases.iter().map(|l| status(l.accepted).code()).collect()),
            Col::Text(leases.iter().map(|l| l.worker.as_str()).collect()),
            Col::At(vec![self.now; leases.len()]),
            Col::OptAt(leases.iter().map(|l| l.accepted.then_some(self.now)).collect()),
        ]
    }
}

fn keys(rows: &[(i64, i64, i64)]) -> Vec<Col<'static>> {
    vec![
        Col::Int(rows.iter().map(|r| r.0).collect()),
        Col::Int(rows.iter().map(|r| r.1).collect()),
        Col::Int(rows.iter().map(|r| r.2).collect()),
    ]
}

fn timers(rows: impl Iterator<Item = (Timestamp, i64)>) -> Vec<Col<'static>> {
    let (moments, numbers) = rows.unzip();
    vec![Col::At(moments), Col::Int(numbers)]
}

/// What runs of workflows hear from the ledger itself, as `workflow` writes it.
const CANCEL: &str = r#"{"is":"cancel"}"#;
const RETRY: &str = r#"{"is":"retry"}"#;
const GO_ON: &str = r#"{"is":"go_on"}"#;

pub(crate) const INBOX_ADD: Sql = Sql::Each {
    sqlite: "insert into flow_inbox (flow, child, body) values (?1, ?2, ?3)",
    postgres: "insert into flow_inbox (flow, child, body)
               select flow, child, body from unnest($1::bigint[], $2::bigint[], $3::text[]) with ordinality
                 as k (flow, child, body, place) order by place",
};
const INBOX_CLEAR: Sql = Sql::Each {
    sqlite: "delete from flow_inbox where flow = ?1",
    postgres: "delete from flow_inbox where flow = any ($1::bigint[])",
};
const TURN_ADD: Sql = Sql::Each {
    sqlite: "insert into turn (host, unit, shared, held) values (?1, ?2, ?3, ?4)",
    postgres: "insert into turn (host, unit, shared, held)
               select host, unit, shared, held
               from unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::boolean[]) with ordinality
                 as k (host, unit, shared, held, place) order by place",
};
const TURN_HOLD: Sql = Sql::Each {
    sqlite: "update turn set held = 1 where unit = ?1",
    postgres: "update turn set held = true where unit = any ($1::bigint[])",
};
const TURN_WAIT: Sql = Sql::Each {
    sqlite: "update turn set held = 0 where unit = ?1",
    postgres: "update turn set held = false where unit = any ($1::bigint[])",
};
const TURN_REMOVE: Sql = Sql::Each {
    sqlite: "delete from turn where unit = ?1",
    postgres: "delete from turn where unit = any ($1::bigint[])",
};
const FLEET_LIVE: Sql = Sql::Each {
    sqlite: "update fleet set live = ?2 where number = ?1",
    postgres: "update fleet f set live = k.live from unnest($1::bigint[], $2::boolean[]) as k (number, live)
               where f.number = k.number",
};
const FLEET_SWEEP: Sql = Sql::Each {
    sqlite: "update fleet set sweep = ?2, swept = 0, stopped = ?3 where number = ?1",
    postgres: "update fleet f set sweep = k.sweep, swept = 0, stopped = k.stopped
               from unnest($1::bigint[], $2::bigint[], $3::text[]) as k (number, sweep, stopped)
               where f.number = k.number",
};
const APPROVAL_END: Sql = Sql::Each {
    sqlite: "update approval set state = ?2 where number = ?1",
    postgres: "update approval a set state = k.state from unnest($1::bigint[], $2::bigint[]) as k (number, state)
               where a.number = k.number",
};
const BLOCKED: Sql = Sql::Each {
    sqlite: "update job set block = ?2 where number = ?1",
    postgres: "update job j set block = k.block from unnest($1::bigint[], $2::bigint[]) as k (number, block)
               where j.number = k.number",
};
const QUEUE_ADD: Sql = Sql::Each {
    sqlite: "insert into queue (channel, rank, number) values (?1, ?2, ?3) on conflict do nothing",
    postgres: "insert into queue (channel, rank, number)
               select * from unnest($1::bigint[], $2::bigint[], $3::bigint[]) on conflict do nothing",
};
const QUEUE_REMOVE: Sql = Sql::Each {
    sqlite: "delete from queue where channel = ?1 and rank = ?2 and number = ?3",
    postgres: "delete from queue q using unnest($1::bigint[], $2::bigint[], $3::bigint[]) as k (channel, rank, number)
               where q.channel = k.channel and q.rank = k.rank and q.number = k.number",
};
const TIMER_ADD: Sql = Sql::Each {
    sqlite: "insert into timer (due_at, number, channel) values (?1, ?2, ?3) on conflict do nothing",
    postgres: "insert into timer (due_at, number, channel)
               select * from unnest($1::timestamptz[], $2::bigint[], $3::bigint[]) on conflict do nothing",
};
const TIMER_REMOVE: Sql = Sql::Each {
    sqlite: "delete from timer where due_at = ?1 and number = ?2",
    postgres: "delete from timer t using unnest($1::timestamptz[], $2::bigint[]) as k (due_at, number)
               where t.due_at = k.due_at and t.number = k.number",
};
const DEADLINE_ADD: Sql = Sql::Each {
    sqlite: "insert into deadline (number, at) values (?1, ?2) on conflict (number) do update set at = excluded.at",
    postgres: "insert into deadline (number, at) select * from unnest($1::bigint[], $2::timestamptz[])
               on conflict (number) do update set at = excluded.at",
};
const DEADLINE_REMOVE: Sql = Sql::Each {
    sqlite: "delete from deadline where number = ?1",
    postgres: "delete from deadline where number = any ($1::bigint[])",
};
const LEASE_ADD: Sql = Sql::Each {
    sqlite: "insert into lease (run, number, worker, accepted, renewed_at, deadline_at) values (?1, ?2, ?3, ?4, ?5, ?6)",
    postgres: "insert into lease (run, number, worker, accepted, renewed_at, deadline_at)
               select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::boolean[], $5::timestamptz[], $6::timestamptz[])",
};
const LEASE_REMOVE: Sql = Sql::Each {
    sqlite: "delete from lease where run = ?1",
    postgres: "delete from lease where run = any ($1::uuid[])",
};
const RUN_ADD: Sql = Sql::Each {
    sqlite: "insert into run (id, tenant, number, attempt, fence, status, worker, claimed_at, started_at)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    postgres: "insert into run (id, tenant, number, attempt, fence, status, worker, claimed_at, started_at)
               select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
                                    $7::text[], $8::timestamptz[], $9::timestamptz[])",
};
const RUN_END: Sql = Sql::Each {
    sqlite: "update run set status = ?2, finished_at = ?3, error = ?4, last_seq = max(last_seq, ?5),
                            exit_code = ?6 where id = ?1",
    postgres: "update run r set status = k.status, finished_at = k.finished_at, error = k.error,
                                last_seq = greatest(r.last_seq, k.last_seq), exit_code = k.exit_code
               from unnest($1::uuid[], $2::bigint[], $3::timestamptz[], $4::text[], $5::bigint[], $6::bigint[])
                 as k (id, status, finished_at, error, last_seq, exit_code)
               where r.id = k.id",
};
const JOB_MOVE: Sql = Sql::Each {
    sqlite: "update job set status = ?2, attempts = ?3, failures = ?4, losses = ?5, fence = ?6, due_at = ?7,
                            updated_at = ?8, finished_at = null where number = ?1",
    postgres: "update job j set status = k.status, attempts = k.attempts, failures = k.failures, losses = k.losses,
                                fence = k.fence, due_at = k.due_at, updated_at = k.updated_at, finished_at = null
               from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
                           $7::timestamptz[], $8::timestamptz[])
                 as k (number, status, attempts, failures, losses, fence, due_at, updated_at)
               where j.number = k.number",
};
const JOB_END: Sql = Sql::Each {
    sqlite: "update job set status = ?2, attempts = ?3, failures = ?4, losses = ?5, fence = ?6, due_at = ?7,
                            updated_at = ?8, finished_at = ?9, result = ?10, error = ?11 where number = ?1",
    postgres: "update job j set status = k.status, attempts = k.attempts, failures = k.failures, losses = k.losses,
                                fence = k.fence, due_at = k.due_at, updated_at = k.updated_at,
                                finished_at = k.finished_at, result = k.result::json, error = k.error
               from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
                           $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[])
                 as k (number, status, attempts, failures, losses, fence, due_at, updated_at, finished_at, result, error)
               where j.number = k.number",
};
const DEAD_ADD: Sql = Sql::Each {
    sqlite: "insert into dead_letter (tenant, lane, number, at, class, error, status) values (?1, ?2, ?3, ?4, ?5, ?6, 1)",
    postgres: "insert into dead_letter (tenant, lane, number, at, class, error, status)
               select *, 1 from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::text[], $6::text[])",
};
const DEAD_CLOSE: Sql = Sql::Each {
    sqlite: "update dead_letter set status = ?2, closed_at = ?3, closed_by = ?4, reason = ?5 where number = ?1 and status = 1",
    postgres:
        "update dead_letter d set status = k.status, closed_at = k.closed_at, closed_by = k.closed_by, reason = k.reason
               from unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::text[], $5::text[])
                 as k (number, status, closed_at, closed_by, reason)
               where d.number = k.number and d.status = 1",
};
/// The order of the stream is (transaction, position): see docs/decisions/0005.
const EVENT_ADD: Sql = Sql::Each {
    sqlite: "insert into event (tenant, number, fence, seq, kind, at, data) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    postgres: "insert into event (txid, tenant, number, fence, seq, kind, at, data)
               select (select pg_current_xact_id()::text::bigint), tenant, number, fence, seq, kind, at, data::json
               from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::timestamptz[], $7::text[])
                 as k (tenant, number, fence, seq, kind, at, data)",
};
