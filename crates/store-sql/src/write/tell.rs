//! What executors tell about their runs: each number once, in any order, as often as they like.

use std::collections::BTreeMap;

use bowline_model::event::{Detail, EventData};
use bowline_model::planted::{self, Mistake};
use bowline_store::{StoreError, StoreResult, TellAnswer, ToldEvents};

use super::Desk;
use super::heartbeat::heartbeat;
use super::report::{is_its_own, load_runs};
use crate::changes::{Changes, Heard};
use crate::db::{Col, Db, Sql, Val};

/// Keeps the events that are new. Telling is a sign of life too.
pub async fn tell(db: &mut impl Db, desk: &mut Desk<'_>, told: &ToldEvents) -> StoreResult<(TellAnswer, Vec<Heard>)> {
    let runs = load_runs(db, vec![*told.run.as_uuid()]).await?;
    let Some(row) = runs.get(&told.run) else { return Ok((TellAnswer::NotFound, Vec::new())) };
    if told.tenant.is_some_and(|tenant| tenant != row.job.tenant) {
        return Ok((TellAnswer::NotFound, Vec::new()));
    }
    if !is_its_own(row, &told.worker, told.tenant) {
        return Ok((TellAnswer::NotYours, Vec::new()));
    }
    if told.fence.is_some_and(|fence| fence != row.fence) {
        return Ok((TellAnswer::Stale, Vec::new()));
    }
    let mut fresh: BTreeMap<u64, EventData> = BTreeMap::new();
    for event in &told.events {
        let detail = event.detail.parse::<Detail>();
        let detail = detail.map_err(|e| StoreError::Broken(format!("an event's detail is not JSON: {e}")))?;
        if fresh.get(&event.seq).is_some_and(|before| before.detail.as_ref() != Some(&detail)) {
            return Ok((TellAnswer::SeqConflict(event.seq), Vec::new()));
        }
        let data =
            EventData { run_id: Some(told.run), detail: Some(detail), told_at: event.at, ..EventData::default() };
        fresh.insert(event.seq, data);
    }
    let known = db
        .query_many(
            KNOWN,
            &[
                Col::Int(vec![row.job.number; fresh.len()]),
                Col::Int(vec![i64::from(row.fence); fresh.len()]),
                Col::Int(fresh.keys().map(|seq| i64::try_from(*seq).unwrap_or(i64::MAX)).collect()),
            ],
            |row| Ok((u64::try_from(row.int(0)?).unwrap_or(0), row.opt_text(1)?.unwrap_or_default())),
        )
        .await?;
    let mut duplicates = 0;
    for (seq, text) in known {
        let before: EventData = serde_json::from_str(&text).map_err(|e| StoreError::Broken(e.to_string()))?;
        if fresh.remove(&seq).is_some_and(|new| new.detail != before.detail) {
            return Ok((TellAnswer::SeqConflict(seq), Vec::new()));
        }
        duplicates += 1;
    }
    let mut changes = Changes::at(desk.now);
    for (seq, data) in &fresh {
        changes.tell_numbered(&row.job, row.fence, *seq, data);
    }
    let mut heard = vec![changes.write(db).await?];
    let mut added = fresh.len() as u64;
    if planted::on(Mistake::CountDuplicates) {
        added += duplicates;
    }
    let acked = advance_ack(db, row.job.number, row.fence, row.acked_seq).await?;
    let last = fresh.keys().next_back().copied().unwrap_or(0).max(row.last_seq).max(acked);
    let params = [
        Val::Id(*told.run.as_uuid()),
        Val::Int(i64::try_from(acked).unwrap_or(i64::MAX)),
        Val::Int(i64::try_from(last).unwrap_or(i64::MAX)),
    ];
    db.execute(ACK, &params).await?;
    let beat = bowline_store::Heartbeat { worker: told.worker.clone(), tenant: told.tenant, runs: vec![told.run] };
    let owner = row.status.is_active();
    if owner {
        heard.push(heartbeat(db, desk, &[&beat]).await?.1);
    }
    Ok((TellAnswer::Held { acked, added, owner }, heard))
}

/// How far the numbers go without a gap.
async fn advance_ack(db: &mut impl Db, number: i64, fence: u32, acked: u64) -> StoreResult<u64> {
    let mut acked = acked;
    loop {
        let from = i64::try_from(acked).unwrap_or(i64::MAX);
        let next =
            db.query(AFTER, &[Val::Int(number), Val::Int(i64::from(fence)), Val::Int(from)], |row| row.int(0)).await?;
        let before = acked;
        for seq in &next {
            if u64::try_from(*seq).ok() == Some(acked + 1) {
                acked += 1;
            } else {
                return Ok(acked);
            }
        }
        if acked == before {
            return Ok(acked);
        }
    }
}

const KNOWN: Sql = Sql::Each {
    sqlite: "select seq, data from event where number = ?1 and fence = ?2 and seq = ?3",
    postgres: "select e.seq, e.data from event e join unnest($1::bigint[], $2::bigint[], $3::bigint[]) as k (number, fence, seq)
                 on e.number = k.number and e.fence = k.fence and e.seq = k.seq where e.seq is not null",
};
const AFTER: Sql = Sql::Same(
    "select seq from event where number = $1 and fence = $2 and seq > $3 and seq is not null order by seq limit 1000",
);
const ACK: Sql = Sql::Same("update run set acked_seq = $2, last_seq = $3 where id = $1");
