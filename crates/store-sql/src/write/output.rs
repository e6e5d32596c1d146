//! Where output is, written: the place of all of it, and a range once, and nothing else at its place.

use bowline_model::{RunId, Timestamp};
use bowline_store::{NewOutput, OutputAnswer, OutputRange, OutputStream, StoreError, StoreResult};

use super::Desk;
use crate::db::{Db, Sql, Val};
use crate::read::{held_to, judge_range};

pub async fn add_output(db: &mut impl Db, desk: &Desk<'_>, output: &NewOutput) -> StoreResult<OutputAnswer> {
    let range = &output.range;
    let end = range.begins.saturating_add(range.bytes);
    let asked = (output.run, output.stream, end);
    let (allowed, max) = judge_range(db, desk.now, output.tenant, &output.worker, asked).await?;
    if !matches!(allowed, OutputAnswer::Held { .. }) {
        return Ok(allowed);
    }
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    // Ranges that overlap are stored whole, each of them, so it is their sum that counts. One that is there already adds nothing.
    let place = [Val::Id(*output.run.as_uuid()), Val::Int(output.stream.code()), Val::Int(signed(range.begins))];
    if db.query(THERE, &place, |row| row.int(0)).await?.is_empty() {
        let sum = db.query(SUM, &place[..2], |row| row.opt_int(0)).await?;
        let stored = sum.into_iter().flatten().sum::<i64>().cast_unsigned();
        if stored.saturating_add(range.bytes) > max {
            return Ok(OutputAnswer::TooLong { max });
        }
    }
    let params = [
        Val::Id(*output.run.as_uuid()),
        Val::Int(output.stream.code()),
        Val::Int(signed(range.begins)),
        Val::Int(signed(range.bytes)),
        Val::Bytes(&range.sha256),
        Val::Int(range.encoding.code()),
        Val::Text(&range.key),
        Val::At(desk.now),
    ];
    let added = db.execute(ADD, &params).await? == 1;
    if !added {
        let there = db.query(THERE, &params[..3], |row| Ok((row.int(0)?, row.bytes(1)?))).await?;
        let same = there.first().is_some_and(|(bytes, hash)| *bytes == signed(range.bytes) && *hash == range.sha256);
        if !same {
            return Ok(OutputAnswer::Conflict);
        }
    }
    let stored = held_to(db, output.run, output.stream).await?;
    Ok(OutputAnswer::Held { stored, added })
}

/// Where the results of runs are that were just reported. The objects are durable already.
pub async fn add_result(db: &mut impl Db, now: Timestamp, ranges: &[(RunId, &OutputRange)]) -> StoreResult<()> {
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    for (run, range) in ranges {
        let params = [
            Val::Id(*run.as_uuid()),
            Val::Int(OutputStream::Result.code()),
            Val::Int(signed(range.begins)),
            Val::Int(signed(range.bytes)),
            Val::Bytes(&range.sha256),
            Val::Int(range.encoding.code()),
            Val::Text(&range.key),
            Val::At(now),
        ];
        db.execute(ADD, &params).await?;
    }
    Ok(())
}

/// Among servers that start at once, one is first, and the others hear of its place.
pub async fn place_for_output(db: &mut impl Db, identity: &str, adopt: bool) -> StoreResult<String> {
    db.execute(if adopt { ADOPT } else { CLAIM }, &[Val::Text(identity)]).await?;
    let found = db.query(PLACE, &[], |row| row.text(0)).await?;
    found.into_iter().next().ok_or_else(|| StoreError::Broken("the place for output was not kept".to_owned()))
}

const CLAIM: Sql = Sql::Same("insert into ledger (key, value) values ('objects', $1) on conflict do nothing");
const ADOPT: Sql = Sql::Same(
    "insert into ledger (key, value) values ('objects', $1) on conflict (key) do update set value = excluded.value",
);
const PLACE: Sql = Sql::Same("select value from ledger where key = 'objects'");
const ADD: Sql = Sql::Same(
    "insert into output (run, stream, begins, bytes, sha256, encoding, key, at)
     values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict do nothing",
);
const SUM: Sql = Sql::Each {
    sqlite: "select sum(bytes) from output where run = ?1 and stream = ?2",
    postgres: "select sum(bytes)::bigint from output where run = $1 and stream = $2",
};
const THERE: Sql = Sql::Same("select bytes, sha256 from output where run = $1 and stream = $2 and begins = $3");
