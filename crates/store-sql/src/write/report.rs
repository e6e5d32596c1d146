//! Hearing how runs ended: from owners, from owners that ask twice, and from those we had given up.

use std::collections::{HashMap, HashSet};

use bowline_model::event::EventData;
use bowline_model::host::Connection;
use bowline_model::job::{Fact, Refused as JobRefused};
use bowline_model::planted::{self, Mistake};
use bowline_model::run::{Refused as RunRefused, RunFact};
use bowline_model::{ErrorClass, EventKind, Labels, Lane, Outcome, RunError, RunId, RunStatus, Timestamp, WorkerName};
use bowline_store::{OutputRange, ReportAnswer, RunReport, StoreError, StoreResult};

use super::Desk;
use super::kept::{keep, let_go};
use super::output::add_result;
use crate::changes::{Changes, Heard, Telling};
use crate::db::{Col, Db, Row, Sql};
use crate::job_row::{JOB_COLUMNS, JobRow, count, job_columns};

/// A run with its job, loaded to be changed.
#[derive(Debug, Clone)]
pub struct RunRow {
    pub run: RunId,
    pub fence: u32,
    pub attempt: u32,
    pub status: RunStatus,
    pub worker: String,
    pub acked_seq: u64,
    pub last_seq: u64,
    /// Bytes of the details of all events that were reported for it.
    pub told_bytes: u64,
    pub lane: Lane,
    pub claimed_at: Timestamp,
    /// Only one agent executes what it asks for; other jobs go to whoever has the abilities.
    pub own_agent: bool,
    pub job: JobRow,
}

impl RunRow {
    pub fn read(row: &dyn Row) -> StoreResult<Self> {
        let at = JOB_COLUMNS;
        let (status, lane) = (row.int(at + 3)?, row.int(at + 7)?);
        Ok(Self {
            job: JobRow::read(row)?,
            run: RunId::from_uuid(row.id(at)?),
            fence: count(row.int(at + 1)?),
            attempt: count(row.int(at + 2)?),
            status: RunStatus::from_code(status)
                .ok_or_else(|| StoreError::Broken(format!("unknown run status {status}")))?,
            worker: row.text(at + 4)?,
            acked_seq: u64::try_from(row.int(at + 5)?).unwrap_or(0),
            last_seq: u64::try_from(row.int(at + 6)?).unwrap_or(0),
            told_bytes: u64::try_from(row.int(at + 10)?).unwrap_or(0),
            lane: Lane::from_code(lane).ok_or_else(|| StoreError::Broken(format!("unknown lane {lane}")))?,
            claimed_at: row.at(at + 8)?,
            own_agent: Labels::from_canonical(&row.text(at + 9)?)
                .is_ok_and(|requires| requires.get(Connection::AGENT_LABEL).is_some()),
        })
    }
}

/// Runs with their jobs. The job is always locked first, and jobs in the order of their numbers, so that two servers never
/// wait for each other in a circle.
pub const RUNS: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        ", r.id, r.fence, r.attempt, r.status, r.worker, r.acked_seq, r.last_seq, c.lane, r.claimed_at, c.requires, r.told_bytes
         from run r join job j on j.number = r.number join channel c on c.id = j.channel where r.id = ?1"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        ", r.id, r.fence, r.attempt, r.status, r.worker, r.acked_seq, r.last_seq, c.lane, r.claimed_at, c.requires, r.told_bytes
         from run r join job j on j.number = r.number join channel c on c.id = j.channel
         where r.id = any ($1::uuid[]) order by j.number for update of j, r"
    ),
};

/// The runs with these ids, each with its job, locked.
pub async fn load_runs(db: &mut impl Db, runs: Vec<uuid::Uuid>) -> StoreResult<HashMap<RunId, RunRow>> {
    let rows = db.query_many(RUNS, &[Col::Id(runs)], RunRow::read).await?;
    Ok(rows.into_iter().map(|row| (row.run, row)).collect())
}

/// Records how runs ended. The answers are in the order of the reports.
pub async fn report(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    reports: &[&RunReport],
) -> StoreResult<(Vec<ReportAnswer>, Vec<Heard>)> {
    let mut answers = vec![ReportAnswer::NotFound; reports.len()];
    let mut heard = Vec::new();
    // Two reports about one job are taken one after the other, each on what the one before left.
    let mut waiting: Vec<usize> = (0..reports.len()).collect();
    while !waiting.is_empty() {
        let runs = load_runs(db, waiting.iter().map(|n| *reports[*n].run.as_uuid()).collect()).await?;
        let mut seen: HashSet<i64> = HashSet::new();
        let mut changes = Changes::at(desk.now);
        let mut later = Vec::new();
        let (mut missing, mut found) = (Vec::new(), Vec::new());
        let mut stored: Vec<(RunId, &OutputRange)> = Vec::new();
        for n in waiting {
            let Some(row) = runs.get(&reports[n].run) else { continue };
            if seen.insert(row.job.number) {
                answers[n] = settle(desk, &mut changes, row, reports[n]);
                if let (ReportAnswer::Recorded(_) | ReportAnswer::Corrected(_), Some(result)) =
                    (answers[n], &reports[n].stored_result)
                    && reports[n].outcome == Outcome::Succeeded
                {
                    stored.extend(result.ranges.iter().map(|range| (row.run, range)));
                }
                match sight(row, reports[n], answers[n]) {
                    Sight::Lost => missing.push(row),
                    Sight::Found => found.push(*row.run.as_uuid()),
                    Sight::Same => {}
                }
            } else {
                later.push(n);
            }
        }
        heard.push(changes.write(db).await?);
        if !stored.is_empty() {
            add_result(db, desk.now, &stored).await?;
        }
        keep(db, desk, &missing).await?;
        heard.push(let_go(db, found).await?);
        waiting = later;
    }
    Ok((answers, heard))
}

/// What a report says about whether its run still goes on.
enum Sight {
    /// Whoever executed it does not know.
    Lost,
    /// It was missing, and has ended.
    Found,
    Same,
}

fn sight(row: &RunRow, report: &RunReport, answer: ReportAnswer) -> Sight {
    let heard = matches!(
        answer,
        ReportAnswer::Recorded(_) | ReportAnswer::Corrected(_) | ReportAnswer::Stale { evidence: true }
    );
    match report.outcome {
        _ if !heard || !row.job.state.kind.is_unit() => Sight::Same,
        Outcome::Failed(ErrorClass::Lost) if row.status.is_opinion() => Sight::Same,
        Outcome::Failed(ErrorClass::Lost) => Sight::Lost,
        _ if row.status.is_opinion() => Sight::Found,
        _ => Sight::Same,
    }
}

/// Whether this worker may speak about this run.
pub fn is_its_own(row: &RunRow, worker: &WorkerName, tenant: Option<bowline_model::TenantId>) -> bool {
    tenant.is_none_or(|tenant| tenant == row.job.tenant) && row.worker == worker.as_str()
}

fn settle(desk: &mut Desk<'_>, changes: &mut Changes, row: &RunRow, report: &RunReport) -> ReportAnswer {
    let foreign = report.tenant.is_some_and(|tenant| tenant != row.job.tenant);
    if foreign || report.job.is_some_and(|job| job != row.job.id) {
        return ReportAnswer::NotFound;
    }
    if !is_its_own(row, &report.worker, report.tenant) {
        return ReportAnswer::NotYours;
    }
    if report.fence.is_some_and(|fence| fence != row.fence) && !planted::on(Mistake::NoFenceOnFinish) {
        return ReportAnswer::Stale { evidence: false };
    }
    let next = match row.status.on(RunFact::Reported(report.outcome)) {
        Ok(next) => next,
        Err(RunRefused::Unchanged(_)) => return ReportAnswer::Duplicate,
        Err(RunRefused::Finished(status) | RunRefused::NotFrom(status)) => return ReportAnswer::Finished(status),
    };
    let late = row.status.is_opinion();
    let retry_after_ms = report.error.as_ref().and_then(|error| error.retry_after_ms);
    let fact = Fact::Reported { fence: row.fence, outcome: report.outcome, retry_after_ms };
    let error = error_of(report);
    // The fence says which run it is, and the kind that it succeeded: the common case needs no words.
    let plain = report.outcome == Outcome::Succeeded && !late;
    let data = EventData {
        run_id: (!plain).then_some(row.run),
        attempt: (!plain).then_some(row.attempt),
        outcome: (!plain).then_some(next),
        last_seq: (report.last_seq > 0).then_some(report.last_seq),
        ..EventData::default()
    };
    changes.end_run(row.run, next, error.as_ref(), report.last_seq, report.exit_code);
    let chance = desk.chance();
    match row.job.state.on(&fact, &row.job.policy, desk.now, chance) {
        Ok(step) => {
            let status = step.next.status;
            let result = (report.outcome == Outcome::Succeeded).then(|| report.result.clone()).flatten();
            changes.advance(&row.job, row.lane, step, Telling { fence: Some(row.fence), data, error, result });
            if late { ReportAnswer::Corrected(status) } else { ReportAnswer::Recorded(status) }
        }
        // The attempt's own record takes the truth; the job belongs to somebody else, or has ended.
        Err(JobRefused::StaleLease | JobRefused::Unchanged(_) | JobRefused::Finished(_) | JobRefused::NotFrom(_)) => {
            let data = EventData { class: error.as_ref().map(|e| e.class), error: error.map(|e| e.message), ..data };
            changes.tell(row.job.tenant, Some(row.job.number), Some(row.fence), EventKind::RunCorrected, data);
            ReportAnswer::Stale { evidence: true }
        }
    }
}

fn error_of(report: &RunReport) -> Option<RunError> {
    match report.outcome {
        Outcome::Failed(class) => {
            let silent = match class {
                ErrorClass::Timeout => "the run took longer than it may",
                _ => "the worker gave no reason",
            };
            // The outcome decides what sort of failure it is; the words come from outside and are cut to size.
            Some(RunError::new(class, report.error.as_ref().map_or(silent, |error| error.message.as_str())))
        }
        Outcome::Succeeded | Outcome::Canceled => None,
    }
}
