//! Turns at hosts: who is there, who waits, and who is next.
//!
//! Whoever looks at the turns of a host holds its row in `host_lock` until the commit, so that two servers never give one
//! host away twice, and nobody joins a line in the moment its last holder leaves.

use std::collections::BTreeMap;

use bowline_model::Lane;
use bowline_model::fleet::{HostLock, Turn, grant};
use bowline_model::job::Fact;
use bowline_store::{StoreError, StoreResult};

use super::Desk;
use crate::changes::{Changes, Heard, Telling};
use crate::db::{Col, Db, Sql};
use crate::job_row::{JOB_COLUMNS, JobRow, job_columns};

/// All turns at these hosts, in the order they came, behind the runs they are kept for. The hosts are locked; they are locked in one order by everybody.
pub async fn turns_at(db: &mut impl Db, hosts: &[i64]) -> StoreResult<BTreeMap<i64, Vec<Turn>>> {
    let key = [Col::Int(hosts.to_vec())];
    db.query_many(LOCK, &key, |_| Ok(())).await?;
    let mut turns: BTreeMap<i64, Vec<Turn>> = BTreeMap::new();
    for sql in [KEPT, TURNS] {
        let found = db.query_many(sql, &key, |row| {
            let lock = if row.bool(2)? { HostLock::Shared } else { HostLock::Exclusive };
            Ok((row.int(0)?, Turn { unit: row.int(1)?, lock, held: row.bool(3)? }))
        });
        for (host, turn) in found.await? {
            turns.entry(host).or_default().push(turn);
        }
    }
    Ok(turns)
}

/// Makes sure that these hosts can be locked.
pub async fn know_hosts(db: &mut impl Db, hosts: &[i64]) -> StoreResult<()> {
    db.execute_many(KNOW, &[Col::Int(hosts.to_vec())]).await.map(drop)
}

/// Gives these hosts to whoever is next.
pub async fn admit(db: &mut impl Db, desk: &mut Desk<'_>, mut hosts: Vec<i64>) -> StoreResult<Heard> {
    hosts.sort_unstable();
    hosts.dedup();
    let turns = turns_at(db, &hosts).await?;
    let mut next: Vec<i64> = turns.values().flat_map(|line| grant(line)).collect();
    next.sort_unstable();
    if next.is_empty() {
        return Ok(Heard::default());
    }
    let units = db.query_many(UNITS, &[Col::Int(next)], |row| Ok((JobRow::read(row)?, row.int(JOB_COLUMNS)?))).await?;
    let mut changes = Changes::at(desk.now);
    for (unit, lane) in &units {
        let lane = Lane::from_code(*lane).ok_or_else(|| StoreError::Broken(format!("unknown lane {lane}")))?;
        match unit.state.on(&Fact::HostGranted, &unit.policy, desk.now, 0.0) {
            Ok(step) => changes.advance(unit, lane, step, Telling::default()),
            Err(refused) => {
                tracing::error!(job.id = %unit.id, error = %refused, "a unit whose turn it is cannot have its host");
            }
        }
    }
    changes.write(db).await
}

/// Hosts where somebody waits, nobody is, and which are kept for nobody: left over when a server died between two steps, or skipped a locked unit.
pub async fn forgotten_hosts(db: &mut impl Db, limit: i64) -> StoreResult<Vec<i64>> {
    db.query(FORGOTTEN, &[crate::db::Val::Int(limit)], |row| row.int(0)).await
}

const KNOW: Sql = Sql::Each {
    sqlite: "insert into host_lock (host, fence) values (?1, 0) on conflict do nothing",
    postgres: "insert into host_lock (host, fence) select host, 0 from unnest($1::bigint[]) as k (host)
               order by host on conflict do nothing",
};
/// Why two texts: SQLite has one writer at a time; there is nothing to lock.
const LOCK: Sql = Sql::Each {
    sqlite: "select host from host_lock where host = ?1 and 1 = 0",
    postgres: "select host from host_lock where host = any ($1::bigint[]) order by host for update",
};
const KEPT: Sql = Sql::Each {
    sqlite: "select host, unit, shared, 1 from kept where host = ?1",
    postgres: "select host, unit, shared, true from kept where host = any ($1::bigint[])",
};
const TURNS: Sql = Sql::Each {
    sqlite: "select host, unit, shared, held from turn where host = ?1 order by ticket",
    postgres: "select host, unit, shared, held from turn where host = any ($1::bigint[]) order by host, ticket",
};
/// One that is locked is just leaving the line, and whoever locked it will look at the line again.
const UNITS: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        ", c.lane from job j join channel c on c.id = j.channel where j.number = ?1"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        ", c.lane from job j join channel c on c.id = j.channel
         where j.number = any ($1::bigint[]) order by j.number for update of j skip locked"
    ),
};
const FORGOTTEN: Sql = Sql::Same(
    "select distinct w.host from turn w where not w.held
       and not exists (select 1 from turn h where h.host = w.host and h.held)
       and not exists (select 1 from kept k where k.host = w.host) limit $1",
);
