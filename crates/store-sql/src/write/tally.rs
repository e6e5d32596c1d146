//! Tallies: how many units of a command stand where, without counting them.

use std::collections::HashMap;

use bowline_model::JobStatus;
use bowline_model::fleet::Tally;
use bowline_store::StoreResult;

use crate::changes::Tallied;
use crate::db::{Col, Db, Sql};
use crate::job_row::status_of;

/// Adds what this transaction changed. Comes last, so that nobody waits for these rows longer than a commit takes.
pub async fn write_tally(db: &mut impl Db, tallied: &mut Tallied) -> StoreResult<()> {
    let changed: Vec<((i64, i64), i64)> =
        std::mem::take(tallied).into_iter().filter(|(_, units)| *units != 0).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let cols = [
        Col::Int(changed.iter().map(|((number, _), _)| *number).collect()),
        Col::Int(changed.iter().map(|((_, status), _)| *status).collect()),
        Col::Int(changed.iter().map(|(_, units)| *units).collect()),
    ];
    db.execute_many(ADD, &cols).await.map(drop)
}

pub async fn read_tally(db: &mut impl Db, number: i64) -> StoreResult<Tally> {
    Ok(read_tallies(db, vec![number]).await?.remove(&number).unwrap_or_default())
}

/// The tallies of several commands. One that has none has no units yet.
pub async fn read_tallies(db: &mut impl Db, numbers: Vec<i64>) -> StoreResult<HashMap<i64, Tally>> {
    let mut counts: HashMap<i64, Vec<(JobStatus, u64)>> = HashMap::new();
    let asked = [Col::Int(numbers)];
    let found = db.query_many(SUM, &asked, |row| {
        Ok((row.int(0)?, status_of(row.int(1)?)?, u64::try_from(row.int(2)?).unwrap_or(0)))
    });
    for (number, status, units) in found.await? {
        if units > 0 {
            counts.entry(number).or_default().push((status, units));
        }
    }
    Ok(counts.into_iter().map(|(number, counts)| (number, counts.into_iter().collect())).collect())
}

/// Why two texts: SQLite has one writer. On PostgreSQL each connection has rows of its own, so that two writers that
/// count for the same command do not wait for each other.
const ADD: Sql = Sql::Each {
    sqlite: "insert into tally (number, slot, status, units) values (?1, 0, ?2, ?3)
             on conflict (number, slot, status) do update set units = units + excluded.units",
    postgres: "insert into tally (number, slot, status, units)
               select number, pg_backend_pid() % 64, status, units
               from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as k (number, status, units)
               order by number, status
               on conflict (number, slot, status) do update set units = tally.units + excluded.units",
};
const SUM: Sql = Sql::Each {
    sqlite: "select number, status, sum(units) from tally where number = ?1 group by number, status",
    postgres: "select number, status, sum(units)::bigint from tally where number = any ($1::bigint[])
               group by number, status",
};
