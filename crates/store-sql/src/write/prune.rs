//! Retention: what is older than its time goes, in bites small enough that nobody notices.

use bowline_model::Timestamp;
use bowline_store::{Pruned, Retention, StoreResult};

use super::Desk;
use crate::db::{Col, Db, Row, Sql, Val};

const BITE: i64 = 500;

/// Removes one bite. Only jobs that have ended go, with their runs, events, keys and dead letters.
pub async fn prune(db: &mut impl Db, desk: &Desk<'_>, retention: &Retention) -> StoreResult<Pruned> {
    let mut pruned = Pruned::default();
    let old = desk.now.plus_millis(-retention.finished_jobs_ms);
    // Oldest first, and never past the first job that is still alive: everything above it may still be told about.
    let candidates = db.query(OLDEST, &[Val::Int(BITE)], read).await?;
    // Locked, and looked at again: somebody may just be retrying one of them.
    let candidates = db.query_many(LOCK, &[Col::Int(over(candidates, old))], read).await?;
    let going = over(candidates, old);
    if !going.is_empty() {
        let last = going.iter().max().copied().unwrap_or(0).to_string();
        db.execute(REMEMBER, &[Val::Text(&last)]).await?;
        pruned.jobs = going.len() as u64;
        for statement in [RUNS, DEAD_LETTERS, KEYS_OF_JOB, NAMES_OF_JOB] {
            db.execute_many(statement, &[Col::Int(going.clone())]).await?;
        }
        for statement in [EVENTS_OF_JOB, TOLD_OF_JOB] {
            pruned.events += db.execute_many(statement, &[Col::Int(going.clone())]).await?;
        }
        db.execute_many(JOBS, &[Col::Int(going)]).await?;
    }
    let stale = desk.now.plus_millis(-retention.events_ms);
    pruned.events += db.execute(NOTICES, &[Val::At(stale), Val::Int(BITE)]).await?;
    pruned.keys = db.execute(KEYS, &[Val::At(desk.now), Val::Int(BITE)]).await?;
    pruned.more = pruned.jobs == BITE.unsigned_abs() || pruned.keys == BITE.unsigned_abs();
    Ok(pruned)
}

fn read(row: &dyn Row) -> StoreResult<(i64, Option<Timestamp>)> {
    Ok((row.int(0)?, row.opt_at(1)?))
}

/// The jobs that ended before `old`, up to the first one that did not.
fn over(mut jobs: Vec<(i64, Option<Timestamp>)>, old: Timestamp) -> Vec<i64> {
    jobs.sort_unstable();
    let over = jobs.into_iter().take_while(|(_, finished)| finished.is_some_and(|at| at < old));
    over.map(|(number, _)| number).collect()
}

/// What lies open in the dead letters has ended, but waits for a person; it stays, and holds nobody else back.
const OLDEST: Sql = Sql::Same(
    "select number, finished_at from job j
     where not exists (select 1 from dead_letter d where d.number = j.number and d.status = 1)
     order by number limit $1",
);
/// Why two texts: SQLite has one writer at a time; there is nothing to lock.
const LOCK: Sql = Sql::Each {
    sqlite: "select number, finished_at from job where number = ?1",
    postgres: "select number, finished_at from job where number = any ($1::bigint[]) order by number for update",
};
/// So that no number is ever given twice. An old dead letter may go after younger jobs; the highest number counts.
const REMEMBER: Sql = Sql::Same(
    "insert into ledger (key, value) values ('numbers_pruned', $1)
     on conflict (key) do update set value = excluded.value
     where cast(ledger.value as bigint) < cast(excluded.value as bigint)",
);
const RUNS: Sql = Sql::Each {
    sqlite: "delete from run where number = ?1",
    postgres: "delete from run where number = any ($1::bigint[])",
};
const DEAD_LETTERS: Sql = Sql::Each {
    sqlite: "delete from dead_letter where number = ?1",
    postgres: "delete from dead_letter where number = any ($1::bigint[])",
};
/// While the job is still there to say which key it came with. 1 is an idempotency key.
const KEYS_OF_JOB: Sql = Sql::Each {
    sqlite: "delete from key where tenant = (select tenant from job where number = ?1) and scope = 1
               and key = (select idempotency_key from job where number = ?1)
               and job = (select id from job where number = ?1)",
    postgres: "delete from key k using job j where j.number = any ($1::bigint[]) and j.idempotency_key is not null
                 and k.tenant = j.tenant and k.scope = 1 and k.key = j.idempotency_key and k.job = j.id",
};
/// 2 is an external id.
const NAMES_OF_JOB: Sql = Sql::Each {
    sqlite: "delete from key where tenant = (select tenant from job where number = ?1) and scope = 2
               and key = (select external_id from job where number = ?1)
               and job = (select id from job where number = ?1)",
    postgres: "delete from key k using job j where j.number = any ($1::bigint[]) and j.external_id is not null
                 and k.tenant = j.tenant and k.scope = 2 and k.key = j.external_id and k.job = j.id",
};
/// The newest event stays, whatever its age: positions must never be given twice.
/// Two statements, each for one of the two partial indexes: the ledger's own events, and the executors'.
const EVENTS_OF_JOB: Sql = Sql::Each {
    sqlite: "delete from event where number = ?1 and seq is null and +position < (select max(position) from event)",
    postgres: "delete from event where number = any ($1::bigint[]) and seq is null",
};
const TOLD_OF_JOB: Sql = Sql::Each {
    sqlite: "delete from event where number = ?1 and seq is not null and +position < (select max(position) from event)",
    postgres: "delete from event where number = any ($1::bigint[]) and seq is not null",
};
const JOBS: Sql = Sql::Each {
    sqlite: "delete from job where number = ?1",
    postgres: "delete from job where number = any ($1::bigint[])",
};
const NOTICES: Sql = Sql::Each {
    sqlite: "delete from event where position in
               (select position from event where number is null and at < ?1 and
                position < (select max(position) from event) and position < (select min(position) + 100000 from event)
                order by position limit ?2)",
    postgres: "delete from event where (txid, position) in
               (select txid, position from event where number is null and at < $1 order by txid, position limit $2)",
};
const KEYS: Sql = Sql::Each {
    sqlite: "delete from key where (tenant, scope, key) in
               (select tenant, scope, key from key where expires_at <= ?1 order by expires_at limit ?2)",
    postgres: "delete from key where (tenant, scope, key) in
               (select tenant, scope, key from key where expires_at <= $1 order by expires_at limit $2)",
};
