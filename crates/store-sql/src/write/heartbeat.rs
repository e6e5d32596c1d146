//! Signs of life: renewing leases, and telling workers what to stop.

use std::borrow::Cow;
use std::collections::HashMap;

use bowline_model::event::EventData;
use bowline_model::lease::UNNAMED_MAX_MS;
use bowline_model::{EventKind, JobPolicy, JobStatus, RunId, TenantId};
use bowline_store::{BeatAnswer, Heartbeat, StoreResult};

use super::Desk;
use crate::changes::{Changes, Heard};
use crate::db::{Col, Db, Sql, Val};
use crate::job_row::count;

struct Held {
    run: RunId,
    number: i64,
    fence: u32,
    tenant: TenantId,
    worker: String,
    accepted: bool,
    canceling: bool,
}

/// Renews the leases these heartbeats name. An expired lease that was already taken away is not brought back.
pub async fn heartbeat(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    beats: &[&Heartbeat],
) -> StoreResult<(Vec<Vec<(RunId, BeatAnswer)>>, Heard)> {
    let beats = name_all(db, beats).await?;
    let beats: &[&Heartbeat] = &beats.iter().map(Cow::as_ref).collect::<Vec<_>>();
    let named: Vec<uuid::Uuid> = beats.iter().flat_map(|b| &b.runs).map(|r| *r.as_uuid()).collect();
    let held: HashMap<RunId, Held> = db
        .query_many(HELD, &[Col::Id(named)], |row| {
            Ok(Held {
                run: RunId::from_uuid(row.id(0)?),
                number: row.int(1)?,
                fence: count(row.int(2)?),
                tenant: TenantId::from_uuid(row.id(3)?),
                worker: row.text(4)?,
                accepted: row.bool(5)?,
                canceling: row.int(6)? == JobStatus::Canceling.code(),
            })
        })
        .await?
        .into_iter()
        .map(|h| (h.run, h))
        .collect();
    let stopped = stopped_meanwhile(db, beats, &held).await?;
    let mut changes = Changes::at(desk.now);
    let mut renewed: Vec<uuid::Uuid> = Vec::new();
    let mut confirmed: Vec<uuid::Uuid> = Vec::new();
    let mut answers = Vec::with_capacity(beats.len());
    for beat in beats {
        let mut own = Vec::with_capacity(beat.runs.len());
        for run in &beat.runs {
            let lease = held
                .get(run)
                .filter(|h| h.worker == beat.worker.as_str() && beat.tenant.is_none_or(|tenant| tenant == h.tenant));
            let Some(lease) = lease else {
                let theirs = stopped.get(run).is_some_and(|worker| worker == beat.worker.as_str());
                own.push((*run, if theirs { BeatAnswer::Cancel } else { BeatAnswer::Stale }));
                continue;
            };
            if !renewed.contains(run.as_uuid()) {
                renewed.push(*run.as_uuid());
                if !lease.accepted {
                    confirmed.push(*run.as_uuid());
                    let data = EventData { run_id: Some(*run), ..EventData::default() };
                    changes.tell(lease.tenant, Some(lease.number), Some(lease.fence), EventKind::RunAccepted, data);
                }
            }
            own.push((*run, if lease.canceling { BeatAnswer::Cancel } else { BeatAnswer::Renewed }));
        }
        answers.push(own);
    }
    let now = vec![desk.now; renewed.len()];
    db.execute_many(RENEW, &[Col::Id(renewed), Col::At(now)]).await?;
    bound_unnamed(db, beats).await?;
    let now = vec![desk.now; confirmed.len()];
    db.execute_many(CONFIRM, &[Col::Id(confirmed), Col::At(now)]).await?;
    touch_workers(db, desk, beats).await?;
    Ok((answers, changes.write(db).await?))
}

/// The heartbeats of workers that name no runs, with everything the ledger gave them.
async fn name_all<'a>(db: &mut impl Db, beats: &[&'a Heartbeat]) -> StoreResult<Vec<Cow<'a, Heartbeat>>> {
    let mut named = Vec::with_capacity(beats.len());
    for beat in beats {
        let Some(tenant) = beat.tenant.filter(|_| beat.bare) else {
            named.push(Cow::Borrowed(*beat));
            continue;
        };
        let key = [Val::Id(*tenant.as_uuid()), Val::Text(beat.worker.as_str())];
        let runs = db.query(HELD_BY, &key, |row| Ok(RunId::from_uuid(row.id(0)?))).await?;
        named.push(Cow::Owned(Heartbeat { runs, ..(*beat).clone() }));
    }
    Ok(named)
}

/// A worker that names no runs renews also those whose hand-out never reached it. So their time is bounded, unless the
/// job itself says how long it may take.
async fn bound_unnamed(db: &mut impl Db, beats: &[&Heartbeat]) -> StoreResult<()> {
    let runs: Vec<uuid::Uuid> = beats.iter().filter(|b| b.bare).flat_map(|b| &b.runs).map(|r| *r.as_uuid()).collect();
    if runs.is_empty() {
        return Ok(());
    }
    let milliseconds = |value: u64| Col::Int(vec![i64::try_from(value).unwrap_or(i64::MAX); runs.len()]);
    let (bound, usual) = (milliseconds(UNNAMED_MAX_MS), milliseconds(JobPolicy::TIMEOUT_DEFAULT_MS));
    db.execute_many(BOUND, &[Col::Id(runs), bound, usual]).await.map(drop)
}

/// Runs that were given up while nobody could hear of them, and whose jobs somebody has canceled meanwhile: whoever is
/// still at one of them is to stop, however late. By run, with its worker.
async fn stopped_meanwhile(
    db: &mut impl Db,
    beats: &[&Heartbeat],
    held: &HashMap<RunId, Held>,
) -> StoreResult<HashMap<RunId, String>> {
    let unknown: Vec<uuid::Uuid> =
        beats.iter().flat_map(|b| &b.runs).filter(|run| !held.contains_key(run)).map(|run| *run.as_uuid()).collect();
    if unknown.is_empty() {
        return Ok(HashMap::new());
    }
    let cols = [Col::Id(unknown)];
    let found = db.query_many(STOPPED, &cols, |row| Ok((RunId::from_uuid(row.id(0)?), row.text(1)?))).await?;
    Ok(found.into_iter().collect())
}

/// A worker that beats is alive, whether it has runs or not.
async fn touch_workers(db: &mut impl Db, desk: &Desk<'_>, beats: &[&Heartbeat]) -> StoreResult<()> {
    let mut known: Vec<(TenantId, &str)> =
        beats.iter().filter_map(|b| b.tenant.map(|tenant| (tenant, b.worker.as_str()))).collect();
    known.sort_unstable();
    known.dedup();
    let cols = [
        Col::Id(known.iter().map(|k| *k.0.as_uuid()).collect()),
        Col::Text(known.iter().map(|k| k.1).collect()),
        Col::At(vec![desk.now; known.len()]),
    ];
    db.execute_many(TOUCH, &cols).await?;
    let mut naming: Vec<(TenantId, &str)> = beats
        .iter()
        .filter(|b| !b.bare && !b.runs.is_empty())
        .filter_map(|b| b.tenant.map(|tenant| (tenant, b.worker.as_str())))
        .collect();
    naming.sort_unstable();
    naming.dedup();
    let cols =
        [Col::Id(naming.iter().map(|k| *k.0.as_uuid()).collect()), Col::Text(naming.iter().map(|k| k.1).collect())];
    db.execute_many(NAMES_RUNS, &cols).await.map(drop)
}

const HELD: Sql = Sql::Each {
    sqlite: "select l.run, l.number, j.fence, j.tenant, l.worker, l.accepted, j.status
             from lease l join job j on j.number = l.number where l.run = ?1",
    postgres: "select l.run, l.number, j.fence, j.tenant, l.worker, l.accepted, j.status
               from lease l join job j on j.number = l.number
               where l.run = any ($1::uuid[]) order by j.number for update of j, l",
};
pub(super) const HELD_BY: Sql = Sql::Same(
    "select l.run from lease l join job j on j.number = l.number where j.tenant = $1 and l.worker = $2 order by l.number",
);
/// The second is how long from the hand-out, the third the default timeout: a job that has it says nothing itself.
const BOUND: Sql = Sql::Each {
    sqlite:
        "update lease set deadline_at = min(deadline_at, (select r.claimed_at from run r where r.id = run) + ?2 * 1000)
             where run = ?1 and exists (select 1 from job j where j.number = lease.number
               and coalesce(j.policy ->> 'timeout_ms', ?3) = ?3)",
    postgres: "update lease l set deadline_at = least(l.deadline_at, r.claimed_at + k.bound * interval '1 millisecond')
               from unnest($1::uuid[], $2::bigint[], $3::bigint[]) as k (run, bound, usual), run r, job j
               where l.run = k.run and r.id = l.run and j.number = l.number
                 and coalesce((j.policy::json ->> 'timeout_ms')::bigint, k.usual) = k.usual",
};
/// 20 is `lost`; 12 is `canceled`, for a job.
const STOPPED: Sql = Sql::Each {
    sqlite: "select r.id, r.worker from run r join job j on j.number = r.number
             where r.id = ?1 and r.status = 20 and j.status = 12",
    postgres: "select r.id, r.worker from run r join job j on j.number = r.number
               where r.id = any ($1::uuid[]) and r.status = 20 and j.status = 12",
};
const RENEW: Sql = Sql::Each {
    sqlite: "update lease set renewed_at = ?2, accepted = 1 where run = ?1",
    postgres: "update lease l set renewed_at = k.now, accepted = true
               from unnest($1::uuid[], $2::timestamptz[]) as k (run, now) where l.run = k.run",
};
/// 2 is `starting`, 3 is `running`.
const CONFIRM: Sql = Sql::Each {
    sqlite: "update run set status = 3, started_at = ?2 where id = ?1 and status = 2",
    postgres: "update run r set status = 3, started_at = k.now
               from unnest($1::uuid[], $2::timestamptz[]) as k (id, now) where r.id = k.id and r.status = 2",
};
const TOUCH: Sql = Sql::Each {
    sqlite: "update worker set seen_at = ?3 where tenant = ?1 and name = ?2",
    postgres: "update worker w set seen_at = k.now from unnest($1::uuid[], $2::text[], $3::timestamptz[]) as k (tenant, name, now)
               where w.tenant = k.tenant and w.name = k.name",
};
/// Once is enough: only the first such heartbeat writes.
const NAMES_RUNS: Sql = Sql::Each {
    sqlite: "update worker set names_runs = 1 where tenant = ?1 and name = ?2 and names_runs = 0",
    postgres: "update worker w set names_runs = true from unnest($1::uuid[], $2::text[]) as k (tenant, name)
               where w.tenant = k.tenant and w.name = k.name and not w.names_runs",
};
