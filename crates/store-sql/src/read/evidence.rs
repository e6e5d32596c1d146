//! Runs that agents executed and the ledger does not know.

use bowline_model::{HostName, JobId, RunId, TenantId, WorkerName};
use bowline_store::{Page, StoreError, StoreResult, UnknownRun};

use crate::db::{Db, Row, Sql, Val};
use crate::job_row::count;

pub async fn list_unknown_runs(
    db: &mut impl Db,
    tenant: TenantId,
    before: Option<RunId>,
    limit: u32,
) -> StoreResult<Page<UnknownRun, RunId>> {
    let before = before.map_or(uuid::Uuid::max(), |run| *run.as_uuid());
    let params = [Val::Id(*tenant.as_uuid()), Val::Id(before), Val::Int(i64::from(limit) + 1)];
    let mut items = db.query(LIST, &params, read).await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = items.last().filter(|_| more).map(|last| last.run);
    Ok(Page { items, next })
}

fn read(row: &dyn Row) -> StoreResult<UnknownRun> {
    let broken = |what: String| StoreError::Broken(format!("a noted run cannot be read: {what}"));
    Ok(UnknownRun {
        run: RunId::from_uuid(row.id(0)?),
        unit: JobId::from_uuid(row.id(1)?),
        job: row.opt_id(2)?.map(JobId::from_uuid),
        attempt: count(row.int(3)?),
        agent: WorkerName::new(&row.text(4)?).map_err(|e| broken(e.to_string()))?,
        host: HostName::new(&row.text(5)?).map_err(|e| broken(e.to_string()))?,
        succeeded: row.bool(6)?,
        exit_code: row.opt_int(7)?.and_then(|code| i32::try_from(code).ok()),
        ended_at: row.at(8)?,
        reported_at: row.at(9)?,
    })
}

const LIST: Sql = Sql::Same(
    "select run, unit, job, attempt, agent, host, succeeded, exit_code, ended_at, reported_at from unknown_run
     where tenant = $1 and run < $2 order by run desc limit $3",
);
