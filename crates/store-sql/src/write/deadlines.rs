//! Plain jobs that did not end before their deadline: wherever they wait or run, they fail.

use std::collections::HashMap;

use bowline_model::event::EventData;
use bowline_model::job::{Fact, Place};
use bowline_model::run::RunFact;
use bowline_model::{ErrorClass, JobStatus, Lane, RunError, Timestamp};
use bowline_store::{StoreError, StoreResult};

use super::Desk;
use super::report::{RunRow, load_runs};
use crate::changes::{Changes, Heard, Telling};
use crate::db::{Col, Db, Sql, Val};
use crate::job_row::{JOB_COLUMNS, JobRow, job_columns};

/// Fails up to `limit` jobs whose deadline has passed. By a clock that is held no deadline passes.
pub async fn expire(db: &mut impl Db, desk: &mut Desk<'_>, limit: u32) -> StoreResult<(u64, Heard)> {
    if desk.clock.is_held() {
        return Ok((0, Heard::default()));
    }
    let params = [Val::At(desk.now), Val::Int(i64::from(limit))];
    let due =
        db.query(DUE, &params, |row| Ok((JobRow::read(row)?, row.int(JOB_COLUMNS)?, row.at(JOB_COLUMNS + 1)?))).await?;
    if due.is_empty() {
        return Ok((0, Heard::default()));
    }
    let owners = owners(db, due.iter().map(|(job, ..)| job)).await?;
    let mut changes = Changes::at(desk.now);
    let mut expired = 0;
    for (job, lane, at) in &due {
        let lane = Lane::from_code(*lane).ok_or_else(|| StoreError::Broken(format!("unknown lane {lane}")))?;
        expired += u64::from(fail(desk, &mut changes, job, lane, owners.get(&job.number), *at));
    }
    Ok((expired, changes.write(db).await?))
}

/// The runs that own those of these jobs that run, by job.
async fn owners<'a>(db: &mut impl Db, jobs: impl Iterator<Item = &'a JobRow>) -> StoreResult<HashMap<i64, RunRow>> {
    let running: Vec<i64> = jobs.filter(|job| job.state.place() == Place::Lease).map(|job| job.number).collect();
    if running.is_empty() {
        return Ok(HashMap::new());
    }
    let runs = db.query_many(LEASED, &[Col::Int(running)], |row| row.id(0)).await?;
    Ok(load_runs(db, runs).await?.into_values().map(|row| (row.job.number, row)).collect())
}

/// Ends one job, and the run that owns it. Whether there was anything to end.
fn fail(
    desk: &Desk<'_>,
    changes: &mut Changes,
    job: &JobRow,
    lane: Lane,
    owner: Option<&RunRow>,
    at: Timestamp,
) -> bool {
    let step = match job.state.on(&Fact::Expired, &job.policy, desk.now, 0.0) {
        Ok(step) => step,
        Err(refused) => {
            tracing::error!(job.id = %job.id, error = %refused, "removing the deadline of a job that cannot expire");
            changes.forget_deadline(job.number);
            return false;
        }
    };
    let error = RunError::new(ErrorClass::Deadline, format!("the job did not end before its deadline, {at}"));
    let mut data = EventData::default();
    if let Some(run) = owner
        && let Ok(status) = run.status.on(RunFact::DeadlinePassed)
    {
        changes.end_run(run.run, status, Some(&error), 0, None);
        data = EventData { run_id: Some(run.run), attempt: Some(run.attempt), outcome: Some(status), ..data };
    }
    let fence = owner.map(|run| run.fence);
    // One that somebody was canceling is canceled, and has no error.
    let error = (step.next.status == JobStatus::Failed).then_some(error);
    changes.advance(job, lane, step, Telling { fence, data, error, result: None });
    true
}

const DUE: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        ", c.lane, d.at from deadline d join job j on j.number = d.number join channel c on c.id = j.channel
         where d.at <= ?1 order by d.at, d.number limit ?2"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        ", c.lane, d.at from deadline d join job j on j.number = d.number join channel c on c.id = j.channel
         where d.at <= $1 order by d.at, d.number limit $2 for update of d, j skip locked"
    ),
};
const LEASED: Sql = Sql::Each {
    sqlite: "select run from lease where number = ?1",
    postgres: "select run from lease where number = any ($1::bigint[])",
};
