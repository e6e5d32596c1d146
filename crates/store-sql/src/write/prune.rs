//! Retention: what is older than its time goes, in bites small enough that nobody notices.
//!
//! A sweep goes through the jobs by number, which is by age, up to the first one that is too young to have been over for
//! long enough. Jobs that live, and dead letters that wait for a person, are passed over. So are the units of a command that
//! lives, and a command while it has units: it goes in the sweep after theirs.
//! A definition of a workflow goes when its last run has gone, unless a resource says the same now: then runs of it are
//! likely to come.

use bowline_model::{RunId, Timestamp};
use bowline_store::{Position, PruneMark, Pruned, Retention, StoreResult};

use super::Desk;
use super::once::forget_once;
use crate::db::{Col, Db, Row, Sql, Val};
use crate::read::{position, signed};

const BITE: usize = 500;
/// A job that ended further ahead than this did so by a clock that was wrong and has been put right.
const AHEAD_MS: i64 = 10 * 60_000;

/// Removes one bite.
pub async fn prune(db: &mut impl Db, desk: &Desk<'_>, retention: &Retention, from: PruneMark) -> StoreResult<Pruned> {
    let (mut pruned, next_job) = prune_jobs(db, desk, retention, from.job).await?;
    let (definitions, next_definition) = prune_definitions(db, from.definition).await?;
    pruned.definitions = definitions;
    // Whichever is through waits at its end for the other.
    pruned.next = (next_job.is_some() || next_definition.is_some())
        .then(|| PruneMark { job: next_job.unwrap_or(i64::MAX), definition: next_definition.unwrap_or(i64::MAX) });
    let stale = desk.now.plus_millis(-retention.events_ms);
    let bite = [Val::At(stale), Val::Int(BITE as i64)];
    let gone = db.query(FORGOTTEN, &bite, |row| row.int(0)).await?;
    pruned.events += forget(db, &gone).await?;
    let notices = db.query(NOTICES, &bite, position).await?;
    remember_pruned(db, notices.iter().max().copied()).await?;
    let (epochs, numbers) = notices.iter().map(|p| (signed(p.epoch), signed(p.number))).unzip();
    pruned.events += db.execute_many(REMOVE_NOTICES, &[Col::Int(epochs), Col::Int(numbers)]).await?;
    forget_once(db, desk).await?;
    pruned.keys = db.execute(KEYS, &[Val::At(desk.now), Val::Int(BITE as i64)]).await?;
    Ok(pruned)
}

struct Candidate {
    number: i64,
    created_at: Timestamp,
    finished_at: Option<Timestamp>,
}

impl Candidate {
    fn read(row: &dyn Row) -> StoreResult<Self> {
        Ok(Self { number: row.int(0)?, created_at: row.at(1)?, finished_at: row.opt_at(2)? })
    }

    fn is_over_since(&self, old: Timestamp) -> bool {
        self.finished_at.is_some_and(|at| at < old)
    }

    fn has_ended_after(&self, ahead: Timestamp) -> bool {
        self.finished_at.is_some_and(|at| at > ahead)
    }
}

/// Jobs go with their runs, keys and closed dead letters; with their events, unless those are kept for longer.
async fn prune_jobs(
    db: &mut impl Db,
    desk: &Desk<'_>,
    retention: &Retention,
    from: i64,
) -> StoreResult<(Pruned, Option<i64>)> {
    let old = desk.now.plus_millis(-retention.finished_jobs_ms);
    let candidates = db.query(OLDEST, &[Val::Int(from), Val::Int(BITE as i64)], Candidate::read).await?;
    let full = candidates.len() == BITE;
    // Behind jobs that were accepted in a wrong future there are others that were accepted in the right present.
    let ahead = desk.now.plus_millis(AHEAD_MS);
    let passes = |last: &&Candidate| last.created_at < old || last.created_at > ahead;
    let next = candidates.last().filter(|_| full).filter(passes).map(|last| last.number);
    let chosen = candidates.iter().filter(|job| job.is_over_since(old) || job.has_ended_after(ahead));
    let chosen = chosen.map(|job| job.number).collect();
    // Locked, and looked at again: somebody may just be retrying one of them.
    let locked = db.query_many(LOCK, &[Col::Int(chosen)], Candidate::read).await?;
    let wrong: Vec<i64> = locked.iter().filter(|job| job.has_ended_after(ahead)).map(|job| job.number).collect();
    if !wrong.is_empty() {
        let now = vec![desk.now; wrong.len()];
        db.execute_many(ENDED_NOW, &[Col::Int(wrong), Col::At(now)]).await?;
    }
    let going: Vec<i64> = locked.iter().filter(|job| job.is_over_since(old)).map(|job| job.number).collect();
    let mut pruned = Pruned { jobs: going.len() as u64, ..Pruned::default() };
    let Some(last) = going.iter().max() else { return Ok((pruned, next)) };
    db.execute(REMEMBER_NUMBERS, &[Val::Text(&last.to_string())]).await?;
    let outputs = db.query_many(WITH_OUTPUT, &[Col::Int(going.clone())], |row| row.id(0)).await?;
    pruned.outputs = outputs.into_iter().map(RunId::from_uuid).collect();
    // While the runs are still there to say how much was reported for them.
    db.execute_many(KEEP_NAME, &[Col::Int(going.clone())]).await?;
    for statement in [
        OUTPUTS,
        RUNS,
        DEAD_LETTERS,
        KEYS_OF_JOB,
        NAMES_OF_JOB,
        FLEETS,
        TALLIES,
        APPROVALS,
        VOTES,
        FLOWS,
        FLOW_TURNS,
        FLOW_SNAPSHOTS,
        FLOW_WAITS,
        FLOW_INBOX,
    ] {
        db.execute_many(statement, &[Col::Int(going.clone())]).await?;
    }
    db.execute_many(JOBS, &[Col::Int(going.clone())]).await?;
    if retention.events_ms <= retention.finished_jobs_ms {
        pruned.events = forget(db, &going).await?;
    }
    Ok((pruned, next))
}

/// Definitions that nothing needs. They are held first and looked at again then: a run may just be beginning with one of them,
/// and holds it as well.
async fn prune_definitions(db: &mut impl Db, from: i64) -> StoreResult<(u64, Option<i64>)> {
    let bite = db.query(DEFINITIONS, &[Val::Int(from), Val::Int(BITE as i64)], |row| row.int(0)).await?;
    let next = bite.last().copied().filter(|_| bite.len() == BITE);
    let idle = db.query_many(IDLE_DEFINITIONS, &[Col::Int(bite)], |row| row.int(0)).await?;
    let removed = db.execute_many(REMOVE_DEFINITIONS, &[Col::Int(idle)]).await?;
    Ok((removed, next))
}

/// Removes the events of jobs that are gone, and then their names.
async fn forget(db: &mut impl Db, jobs: &[i64]) -> StoreResult<u64> {
    let mut removed = 0;
    // The ledger's own events and the executors', each by its own partial index.
    for (last, remove) in [(LAST_OWN, REMOVE_OWN), (LAST_TOLD, REMOVE_TOLD)] {
        let lasts = db.query_many(last, &[Col::Int(jobs.to_vec())], position).await?;
        remember_pruned(db, lasts.into_iter().max()).await?;
        removed += db.execute_many(remove, &[Col::Int(jobs.to_vec())]).await?;
    }
    db.execute_many(FORGET_NAME, &[Col::Int(jobs.to_vec())]).await?;
    Ok(removed)
}

/// Readers that were before this place have missed something, and are told so.
async fn remember_pruned(db: &mut impl Db, last: Option<Position>) -> StoreResult<()> {
    let Some(last) = last.filter(|last| *last > Position::default()) else { return Ok(()) };
    db.execute(REMEMBER_POSITION, &[Val::Text(&last.to_string())]).await.map(drop)
}

const OLDEST: Sql = Sql::Same(
    "select number, created_at, case when exists
       (select 1 from dead_letter d where d.number = j.number and d.status = 1)
       or exists (select 1 from job p where p.number = j.parent and p.finished_at is null)
       or exists (select 1 from job u where u.parent = j.number)
       or exists (select 1 from job p where p.number = j.flow and p.finished_at is null) then null else finished_at end
     from job j where number > $1 order by number limit $2",
);
/// Why two texts: SQLite has one writer at a time; there is nothing to lock.
const LOCK: Sql = Sql::Each {
    sqlite: "select number, created_at, finished_at from job where number = ?1",
    postgres: "select number, created_at, finished_at from job where number = any ($1::bigint[])
               order by number for update",
};
/// Jobs that ended in a wrong future are kept as if they had ended now.
const ENDED_NOW: Sql = Sql::Each {
    sqlite: "update job set finished_at = ?2 where number = ?1",
    postgres: "update job j set finished_at = k.now from unnest($1::bigint[], $2::timestamptz[]) as k (number, now)
               where j.number = k.number",
};
/// So that no number is ever given twice. An old job may go after younger ones; the highest number counts.
const REMEMBER_NUMBERS: Sql = Sql::Same(
    "insert into ledger (key, value) values ('numbers_pruned', $1)
     on conflict (key) do update set value = excluded.value
     where cast(ledger.value as bigint) < cast(excluded.value as bigint)",
);
/// An epoch, a hyphen and a number; the highest counts. SQLite knows one epoch only, `0`.
const REMEMBER_POSITION: Sql = Sql::Each {
    sqlite: "insert into ledger (key, value) values ('events_pruned', ?1)
             on conflict (key) do update set value = excluded.value
             where cast(substr(ledger.value, 3) as integer) < cast(substr(excluded.value, 3) as integer)",
    postgres: "insert into ledger (key, value) values ('events_pruned', $1)
               on conflict (key) do update set value = excluded.value
               where string_to_array(ledger.value, '-')::bigint[] < string_to_array(excluded.value, '-')::bigint[]",
};
const RUNS: Sql = Sql::Each {
    sqlite: "delete from run where number = ?1",
    postgres: "delete from run where number = any ($1::bigint[])",
};
const DEAD_LETTERS: Sql = Sql::Each {
    sqlite: "delete from dead_letter where number = ?1",
    postgres: "delete from dead_letter where number = any ($1::bigint[])",
};
const WITH_OUTPUT: Sql = Sql::Each {
    sqlite: "select r.id from run r where r.number = ?1 and exists (select 1 from output o where o.run = r.id)",
    postgres: "select r.id from run r where r.number = any ($1::bigint[])
                 and exists (select 1 from output o where o.run = r.id)",
};
/// While the runs are still there to say which it is.
const OUTPUTS: Sql = Sql::Each {
    sqlite: "delete from output where run in (select id from run where number = ?1)",
    postgres: "delete from output where run in (select id from run where number = any ($1::bigint[]))",
};
const FLEETS: Sql = Sql::Each {
    sqlite: "delete from fleet where number = ?1",
    postgres: "delete from fleet where number = any ($1::bigint[])",
};
const TALLIES: Sql = Sql::Each {
    sqlite: "delete from tally where number = ?1",
    postgres: "delete from tally where number = any ($1::bigint[])",
};
const APPROVALS: Sql = Sql::Each {
    sqlite: "delete from approval where number = ?1",
    postgres: "delete from approval where number = any ($1::bigint[])",
};
const VOTES: Sql = Sql::Each {
    sqlite: "delete from vote where number = ?1",
    postgres: "delete from vote where number = any ($1::bigint[])",
};
const FLOWS: Sql = Sql::Each {
    sqlite: "delete from flow where number = ?1",
    postgres: "delete from flow where number = any ($1::bigint[])",
};
const FLOW_TURNS: Sql = Sql::Each {
    sqlite: "delete from flow_turn where flow = ?1",
    postgres: "delete from flow_turn where flow = any ($1::bigint[])",
};
const FLOW_SNAPSHOTS: Sql = Sql::Each {
    sqlite: "delete from flow_snapshot where flow = ?1",
    postgres: "delete from flow_snapshot where flow = any ($1::bigint[])",
};
const FLOW_WAITS: Sql = Sql::Each {
    sqlite: "delete from flow_wait where flow = ?1",
    postgres: "delete from flow_wait where flow = any ($1::bigint[])",
};
const FLOW_INBOX: Sql = Sql::Each {
    sqlite: "delete from flow_inbox where flow = ?1",
    postgres: "delete from flow_inbox where flow = any ($1::bigint[])",
};
const DEFINITIONS: Sql = Sql::Same("select id from flow_definition where id > $1 order by id limit $2");
/// No run is pinned to it, and no resource says the same now. On SQLite the newest one stays until there is a newer one: what
/// one definition was called must never be the name of another.
const IDLE_DEFINITIONS: Sql = Sql::Each {
    sqlite: "select d.id from flow_definition d where d.id = ?1 and d.id < (select max(id) from flow_definition)
               and not exists (select 1 from flow f where f.definition = d.id)
               and not exists (select 1 from resource r
                               join resource_version v on v.resource = r.id and v.version = r.active
                               where r.tenant = d.tenant and r.kind in ('workflow', 'blueprint') and v.spec = d.body)",
    postgres: "select d.id from flow_definition d where d.id = any ($1::bigint[])
                 and not exists (select 1 from flow f where f.definition = d.id)
                 and not exists (select 1 from resource r
                                 join resource_version v on v.resource = r.id and v.version = r.active
                                 where r.tenant = d.tenant and r.kind in ('workflow', 'blueprint') and v.spec = d.body)
               order by d.id for update of d skip locked",
};
const REMOVE_DEFINITIONS: Sql = Sql::Each {
    sqlite: "delete from flow_definition where id = ?1",
    postgres: "delete from flow_definition d where d.id = any ($1::bigint[])
                 and not exists (select 1 from flow f where f.definition = d.id)",
};
/// The keys a job came with and those that later requests gave it. 1 is an idempotency key.
const KEYS_OF_JOB: Sql = Sql::Each {
    sqlite: "delete from key where scope = 1 and (tenant, job) in
               (select tenant, id from job where number = ?1 and parent is null)",
    postgres: "delete from key k using job j where j.number = any ($1::bigint[]) and j.parent is null
                 and k.job = j.id and k.tenant = j.tenant and k.scope = 1",
};
/// 2 is an external id: it stays, and says what the job was.
const NAMES_OF_JOB: Sql = Sql::Each {
    sqlite: "update key set number = j.number, status = j.status, created_at = j.created_at from job j
             where j.number = ?1 and j.parent is null and key.job = j.id and key.tenant = j.tenant and key.scope = 2",
    postgres: "update key k set number = j.number, status = j.status, created_at = j.created_at from job j
               where j.number = any ($1::bigint[]) and j.parent is null
                 and k.job = j.id and k.tenant = j.tenant and k.scope = 2",
};
/// Events name their job by its number only.
const KEEP_NAME: Sql = Sql::Each {
    sqlite: "insert into gone (number, id, tenant, trace_id, correlation_id, finished_at, host, actor, told_bytes)
             select j.number, coalesce(p.id, j.id), j.tenant, coalesce(p.trace_id, j.trace_id),
                    coalesce(p.correlation_id, p.request_id, j.correlation_id, j.request_id), j.finished_at, j.host, coalesce(p.actor, j.actor),
                    (select coalesce(sum(r.told_bytes), 0) from run r where r.number = j.number)
             from job j left join job p on p.number = j.parent where j.number = ?1",
    postgres: "insert into gone (number, id, tenant, trace_id, correlation_id, finished_at, host, actor, told_bytes)
               select j.number, coalesce(p.id, j.id), j.tenant, coalesce(p.trace_id, j.trace_id),
                      coalesce(p.correlation_id, p.request_id, j.correlation_id, j.request_id), j.finished_at, j.host, coalesce(p.actor, j.actor),
                      (select coalesce(sum(r.told_bytes), 0)::bigint from run r where r.number = j.number)
               from job j left join job p on p.number = j.parent where j.number = any ($1::bigint[])",
};
const FORGOTTEN: Sql = Sql::Same("select number from gone where finished_at < $1 order by finished_at limit $2");
const FORGET_NAME: Sql = Sql::Each {
    sqlite: "delete from gone where number = ?1
             and not exists (select 1 from event where number = ?1 and seq is null)
             and not exists (select 1 from event where number = ?1 and seq is not null)",
    postgres: "delete from gone where number = any ($1::bigint[])",
};
const LAST_OWN: Sql = Sql::Each {
    sqlite: "select 0, max(position) from event where number = ?1 and seq is null",
    postgres: "select txid, position from event where number = any ($1::bigint[]) and seq is null
               order by txid desc, position desc limit 1",
};
const LAST_TOLD: Sql = Sql::Each {
    sqlite: "select 0, max(position) from event where number = ?1 and seq is not null",
    postgres: "select txid, position from event where number = any ($1::bigint[]) and seq is not null
               order by txid desc, position desc limit 1",
};
/// On SQLite the newest event stays until there is a newer one: positions must never be given twice.
const REMOVE_OWN: Sql = Sql::Each {
    sqlite: "delete from event where number = ?1 and seq is null and +position < (select max(position) from event)",
    postgres: "delete from event where number = any ($1::bigint[]) and seq is null",
};
const REMOVE_TOLD: Sql = Sql::Each {
    sqlite: "delete from event where number = ?1 and seq is not null and +position < (select max(position) from event)",
    postgres: "delete from event where number = any ($1::bigint[]) and seq is not null",
};
const JOBS: Sql = Sql::Each {
    sqlite: "delete from job where number = ?1",
    postgres: "delete from job where number = any ($1::bigint[])",
};
const NOTICES: Sql = Sql::Each {
    sqlite: "select 0, position from event where number is null and at < ?1
             and +position < (select max(position) from event) order by at limit ?2",
    postgres: "select txid, position from event where number is null and at < $1 order by at limit $2",
};
const REMOVE_NOTICES: Sql = Sql::Each {
    sqlite: "delete from event where position = ?2 and ?1 = 0",
    postgres: "delete from event e using unnest($1::bigint[], $2::bigint[]) as old (txid, position)
               where e.txid = old.txid and e.position = old.position",
};
const KEYS: Sql = Sql::Each {
    sqlite: "delete from key where (tenant, scope, key) in
               (select tenant, scope, key from key where expires_at <= ?1 order by expires_at limit ?2)",
    postgres: "delete from key where (tenant, scope, key) in
               (select tenant, scope, key from key where expires_at <= $1 order by expires_at limit $2)",
};
