//! Giving up leases: silent workers, hand-outs nobody confirmed, runs that do not end.

use std::collections::HashMap;

use bowline_model::event::EventData;
use bowline_model::job::Fact;
use bowline_model::lease::{Lease, LeaseTimes, Verdict};
use bowline_model::run::RunFact;
use bowline_model::{ErrorClass, JobId, RunError, RunId, TenantId, WorkerName};
use bowline_store::{Listened, REAPED_NAMED_MAX, Reaped, ReapedRun, StoreResult};

use super::Desk;
use super::heartbeat::HELD_BY;
use super::kept::{keep, keep_all};
use super::report::{RunRow, load_runs};
use crate::changes::{Changes, Heard, Telling};
use crate::db::{Col, Db, Row, Sql, Val};

/// Judges every lease that could be over.
pub async fn reap(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    times: &LeaseTimes,
    listened: Listened,
) -> StoreResult<(Reaped, Heard)> {
    let at = desk.now.min(listened.until);
    // The statement finds candidates; the verdict is the model's.
    let params = [Val::At(at.plus_millis(-times.accept_ms)), Val::At(at.plus_millis(-times.deadline_grace_ms))];
    let candidates = db.query(CANDIDATES, &params, read_lease).await?;
    let suspects: Vec<uuid::Uuid> = candidates
        .into_iter()
        .filter(|(_, lease)| lease.verdict(times, listened.since, at) != Verdict::Valid)
        .map(|(run, _)| run)
        .take(5_000)
        .collect();
    let mut reaped = Reaped::default();
    let runs = load_runs(db, suspects.clone()).await?;
    // Judged once more now that they are locked: a heartbeat or a report may have come in between.
    let leases = db.query_many(LEASES, &[Col::Id(suspects)], read_lease).await?;
    let mut changes = Changes::at(desk.now);
    let (mut missing, mut overdue, mut named) = (Vec::new(), Vec::new(), Vec::new());
    for (run, lease) in leases {
        let verdict = lease.verdict(times, listened.since, at);
        let Some(row) = runs.get(&bowline_model::RunId::from_uuid(run)) else { continue };
        let counter = match verdict {
            Verdict::Lost => &mut reaped.lost,
            Verdict::Return => &mut reaped.returned,
            Verdict::Overdue => &mut reaped.overdue,
            Verdict::Valid => continue,
        };
        // By a clock that is not believed nobody is silent for too long, and nothing takes too long.
        if desk.clock.is_held() && verdict != Verdict::Return {
            continue;
        }
        *counter += 1;
        if named.len() < REAPED_NAMED_MAX {
            named.push((row, word(verdict)));
        }
        match verdict {
            Verdict::Lost => missing.push(row),
            Verdict::Overdue => overdue.push(run),
            Verdict::Return | Verdict::Valid => {}
        }
        give_up(desk, &mut changes, row, verdict, "its worker went silent");
    }
    let heard = changes.write(db).await?;
    keep(db, desk, &missing).await?;
    reaped.runs = name(db, &named).await?;
    if !overdue.is_empty() {
        reaped.unnamed = db.query_many(UNNAMED, &[Col::Id(overdue)], |row| row.int(0)).await?.len() as u64;
    }
    reaped.active =
        db.query(ACTIVE, &[], |row| row.int(0)).await?.first().map_or(0, |n| u64::try_from(*n).unwrap_or(0));
    Ok((reaped, heard))
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Lost => "lost",
        Verdict::Return => "unconfirmed",
        Verdict::Overdue => "overdue",
        Verdict::Valid => "valid",
    }
}

/// The runs with the job and the host that people know.
async fn name(db: &mut impl Db, runs: &[(&RunRow, &'static str)]) -> StoreResult<Vec<ReapedRun>> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let ids = runs.iter().map(|(row, _)| *row.run.as_uuid()).collect();
    let found = db.query_many(NAMES, &[Col::Id(ids)], |row| Ok((row.id(0)?, (row.id(1)?, row.opt_text(2)?)))).await?;
    let mut found: HashMap<uuid::Uuid, (uuid::Uuid, Option<String>)> = found.into_iter().collect();
    let named = runs.iter().map(|(row, verdict)| {
        let (job, host) = found.remove(row.run.as_uuid()).unwrap_or((*row.job.id.as_uuid(), None));
        ReapedRun { run: row.run, job: JobId::from_uuid(job), worker: row.worker.clone(), host, verdict }
    });
    Ok(named.collect())
}

fn read_lease(row: &dyn Row) -> StoreResult<(uuid::Uuid, Lease)> {
    Ok((row.id(0)?, Lease { accepted: row.bool(1)?, renewed_at: row.at(2)?, deadline_at: row.at(3)? }))
}

/// Runs whose hand-out never reached the worker go back to the queue; they do not count as attempts.
pub async fn give_back(db: &mut impl Db, desk: &mut Desk<'_>, runs: Vec<uuid::Uuid>) -> StoreResult<Heard> {
    let rows = load_runs(db, runs).await?;
    let mut changes = Changes::at(desk.now);
    let mut rows: Vec<RunRow> = rows.into_values().filter(|row| row.status.is_active()).collect();
    rows.sort_by_key(|row| row.job.number);
    for row in &mut rows {
        // The worker says itself that it did not begin.
        row.status = bowline_model::RunStatus::Starting;
        give_up(desk, &mut changes, row, Verdict::Return, "the hand-out did not reach its worker");
    }
    changes.write(db).await
}

/// Runs of workers whose names begin like this are over: their process is gone, and we know it.
pub async fn reclaim(db: &mut impl Db, desk: &mut Desk<'_>, prefix: &str) -> StoreResult<(u64, Heard)> {
    let runs = db.query(BY_WORKER, &[Val::Text(prefix)], |row| row.id(0)).await?;
    let rows = load_runs(db, runs).await?;
    let mut rows: Vec<RunRow> = rows.into_values().collect();
    rows.sort_by_key(|row| row.job.number);
    let mut changes = Changes::at(desk.now);
    for row in &rows {
        give_up(desk, &mut changes, row, Verdict::Lost, "the server it ran in stopped");
    }
    Ok((rows.len() as u64, changes.write(db).await?))
}

/// Ends what a worker of a tenant holds: what it had accepted is lost, the rest is returned to the queue. Says how many of each.
pub async fn give_up_all(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    tenant: TenantId,
    worker: &WorkerName,
    why: &str,
) -> StoreResult<(u64, u64, Heard)> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Text(worker.as_str())];
    let held = db.query(HELD_BY, &key, |row| row.id(0)).await?;
    let runs = load_runs(db, held.clone()).await?;
    // Read once more now that they are locked: one may have been accepted or have ended in between.
    let leases = db.query_many(LEASES, &[Col::Id(held)], read_lease).await?;
    let (mut lost, mut returned) = (Vec::new(), 0);
    let mut changes = Changes::at(desk.now);
    for (run, lease) in leases {
        let Some(row) = runs.get(&RunId::from_uuid(run)) else { continue };
        if lease.accepted {
            lost.push(row);
            give_up(desk, &mut changes, row, Verdict::Lost, why);
        } else {
            returned += 1;
            give_up(desk, &mut changes, row, Verdict::Return, why);
        }
    }
    let heard = changes.write(db).await?;
    keep_all(db, desk, &lost).await?;
    Ok((lost.len() as u64, returned, heard))
}

fn give_up(desk: &mut Desk<'_>, changes: &mut Changes, row: &RunRow, verdict: Verdict, why: &str) {
    let fence = row.fence;
    let (fact, run_fact, error) = match verdict {
        Verdict::Return => (Fact::Returned { fence }, RunFact::Returned, None),
        Verdict::Overdue => (
            Fact::DeadlinePassed { fence },
            RunFact::DeadlinePassed,
            Some(RunError::new(ErrorClass::Timeout, "the run took longer than it may and did not stop when told")),
        ),
        Verdict::Lost | Verdict::Valid => {
            (Fact::LeaseExpired { fence }, RunFact::LeaseExpired, Some(RunError::new(ErrorClass::Lost, why)))
        }
    };
    let Ok(status) = row.status.on(run_fact) else { return };
    let chance = desk.chance();
    match row.job.state.on(&fact, &row.job.policy, desk.now, chance) {
        Ok(step) => {
            let data = EventData {
                run_id: Some(row.run),
                attempt: Some(row.attempt),
                outcome: Some(status),
                reason: Some(why.to_owned()),
                ..EventData::default()
            };
            changes.end_run(row.run, status, error.as_ref(), 0, None);
            changes.advance(&row.job, row.lane, step, Telling { fence: Some(fence), data, error, result: None });
        }
        Err(refused) => {
            tracing::error!(job.id = %row.job.id, run.id = %row.run, error = %refused, "a run has a lease that its job does not know");
        }
    }
}

const CANDIDATES: Sql =
    Sql::Same("select run, accepted, renewed_at, deadline_at from lease where renewed_at < $1 or deadline_at < $2");
const LEASES: Sql = Sql::Each {
    sqlite: "select run, accepted, renewed_at, deadline_at from lease where run = ?1",
    postgres: "select run, accepted, renewed_at, deadline_at from lease where run = any ($1::uuid[]) order by number",
};
const NAMES: Sql = Sql::Each {
    sqlite: "select r.id, coalesce(p.id, j.id), h.name from run r join job j on j.number = r.number
             left join job p on p.number = j.parent left join host h on h.id = j.host where r.id = ?1",
    postgres: "select r.id, coalesce(p.id, j.id), h.name from run r join job j on j.number = r.number
               left join job p on p.number = j.parent left join host h on h.id = j.host where r.id = any ($1::uuid[])",
};
const UNNAMED: Sql = Sql::Each {
    sqlite: "select r.number from run r join worker w on w.tenant = r.tenant and w.name = r.worker
             where r.id = ?1 and not w.names_runs",
    postgres: "select r.number from run r join worker w on w.tenant = r.tenant and w.name = r.worker
               where r.id = any ($1::uuid[]) and not w.names_runs",
};
const ACTIVE: Sql = Sql::Same("select count(*) from lease");
/// Not `like`: names may hold its wildcards, and SQLite's does not tell capitals from small letters.
const BY_WORKER: Sql =
    Sql::Same("select run from lease where substr(worker, 1, length(cast($1 as text))) = cast($1 as text)");
