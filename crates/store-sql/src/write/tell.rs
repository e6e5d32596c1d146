//! What executors tell about their runs: each number once, in any order, as often as they like.

use std::collections::{BTreeMap, HashMap, HashSet};

use bowline_model::RunId;
use bowline_model::event::{Detail, EventData};
use bowline_model::planted::{self, Mistake};
use bowline_store::{EVENT_BYTES_MAX, Heartbeat, StoreError, StoreResult, TellAnswer, ToldEvents};

use super::Desk;
use super::heartbeat::heartbeat;
use super::report::{RunRow, is_its_own, load_runs};
use crate::changes::{Changes, Heard};
use crate::db::{Col, Db, Sql, Val};
use crate::job_row::count;

/// Keeps the events that are new, of many runs at once. Telling is a sign of life too, except for runs whose end comes in
/// the same transaction. The answers are in the order of the tellings.
pub async fn tell(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    told: &[&ToldEvents],
    ending: &HashSet<RunId>,
) -> StoreResult<(Vec<TellAnswer>, Vec<Heard>)> {
    let mut answers = vec![TellAnswer::NotFound; told.len()];
    let mut heard = Vec::new();
    // Two tellings about one run are taken one after the other, each on what the one before left.
    let mut waiting: Vec<usize> = (0..told.len()).collect();
    while !waiting.is_empty() {
        let mut seen: HashSet<RunId> = HashSet::new();
        let (now, later) = waiting.into_iter().partition(|n| seen.insert(told[*n].run));
        heard.extend(tell_round(db, desk, told, now, ending, &mut answers).await?);
        waiting = later;
    }
    Ok((answers, heard))
}

/// One telling for each of some runs.
async fn tell_round(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    told: &[&ToldEvents],
    round: Vec<usize>,
    ending: &HashSet<RunId>,
    answers: &mut [TellAnswer],
) -> StoreResult<Vec<Heard>> {
    let runs = load_runs(db, round.iter().map(|n| *told[*n].run.as_uuid()).collect()).await?;
    let mut tellings: Vec<Telling<'_>> = Vec::with_capacity(round.len());
    for n in round {
        match admit(told[n], runs.get(&told[n].run))? {
            Ok(telling) => tellings.push(Telling { place: n, ..telling }),
            Err(answer) => answers[n] = answer,
        }
    }
    let known = find_known(db, &tellings).await?;
    let mut duplicates = 0;
    tellings.retain_mut(|telling| match telling.forget_known(&known) {
        Ok(count) => {
            duplicates += count;
            let fits = telling.row.told_bytes.saturating_add(telling.bytes()) <= EVENT_BYTES_MAX;
            if !fits && !telling.fresh.is_empty() {
                answers[telling.place] = TellAnswer::Full;
                return false;
            }
            true
        }
        Err(seq) => {
            answers[telling.place] = TellAnswer::SeqConflict(seq);
            false
        }
    });
    let mut changes = Changes::at(desk.now);
    for telling in &tellings {
        for (seq, data) in &telling.fresh {
            changes.tell_numbered(&telling.row.job, telling.row.fence, *seq, data);
        }
    }
    let mut heard = vec![changes.write(db).await?];
    let mut acks: Vec<(uuid::Uuid, i64, i64, i64)> = Vec::with_capacity(tellings.len());
    let mut beats = Vec::new();
    for telling in &tellings {
        let row = telling.row;
        let acked = match telling.acked() {
            Some(acked) => acked,
            None => advance_ack(db, row.job.number, row.fence, row.acked_seq).await?,
        };
        let mut added = telling.fresh.len() as u64;
        if planted::on(Mistake::CountDuplicates) {
            added += duplicates;
        }
        let last = telling.fresh.keys().next_back().copied().unwrap_or(0).max(row.last_seq).max(acked);
        let bytes = telling.bytes();
        if (acked, last) != (row.acked_seq, row.last_seq) || bytes > 0 {
            let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            acks.push((*row.run.as_uuid(), signed(acked), signed(last), signed(bytes)));
        }
        let owner = row.status.is_active();
        answers[telling.place] = TellAnswer::Held { acked, added, owner };
        let told = told[telling.place];
        if owner && !ending.contains(&told.run) {
            beats.push(Heartbeat {
                worker: told.worker.clone(),
                tenant: told.tenant,
                runs: vec![told.run],
                bare: false,
            });
        }
    }
    let cols = [
        Col::Id(acks.iter().map(|ack| ack.0).collect()),
        Col::Int(acks.iter().map(|ack| ack.1).collect()),
        Col::Int(acks.iter().map(|ack| ack.2).collect()),
        Col::Int(acks.iter().map(|ack| ack.3).collect()),
    ];
    db.execute_many(ACK, &cols).await?;
    if !beats.is_empty() {
        heard.push(heartbeat(db, desk, &beats.iter().collect::<Vec<_>>()).await?.1);
    }
    Ok(heard)
}

/// One telling, on its way into the ledger.
struct Telling<'a> {
    place: usize,
    row: &'a RunRow,
    fresh: BTreeMap<u64, EventData>,
    /// How many bytes the detail of each has.
    sizes: HashMap<u64, usize>,
}

impl Telling<'_> {
    /// Of the details that are new.
    fn bytes(&self) -> u64 {
        self.fresh.keys().filter_map(|seq| self.sizes.get(seq)).map(|bytes| *bytes as u64).sum()
    }

    /// Takes out what the ledger holds already; says how much that was, or which number means something else there.
    fn forget_known(&mut self, known: &HashMap<(i64, u32, u64), EventData>) -> Result<u64, u64> {
        let (number, fence) = (self.row.job.number, self.row.fence);
        let there: Vec<u64> =
            self.fresh.keys().copied().filter(|seq| known.contains_key(&(number, fence, *seq))).collect();
        for seq in &there {
            let new = self.fresh.remove(seq);
            if new.is_some_and(|new| known.get(&(number, fence, *seq)).is_some_and(|old| old.detail != new.detail)) {
                return Err(*seq);
            }
        }
        Ok(there.len() as u64)
    }

    /// How far the numbers go without a gap, if that can be said without looking: nothing is held beyond the gap.
    fn acked(&self) -> Option<u64> {
        if self.row.last_seq > self.row.acked_seq {
            return None;
        }
        let mut acked = self.row.acked_seq;
        while self.fresh.contains_key(&(acked + 1)) {
            acked += 1;
        }
        Some(acked)
    }
}

/// Whether this worker may tell this, and what of it is to be looked at.
fn admit<'a>(told: &ToldEvents, row: Option<&'a RunRow>) -> StoreResult<Result<Telling<'a>, TellAnswer>> {
    let Some(row) = row else { return Ok(Err(TellAnswer::NotFound)) };
    if told.tenant.is_some_and(|tenant| tenant != row.job.tenant) {
        return Ok(Err(TellAnswer::NotFound));
    }
    if !is_its_own(row, &told.worker, told.tenant) {
        return Ok(Err(TellAnswer::NotYours));
    }
    if told.fence.is_some_and(|fence| fence != row.fence) {
        return Ok(Err(TellAnswer::Stale));
    }
    let mut fresh: BTreeMap<u64, EventData> = BTreeMap::new();
    for event in &told.events {
        let detail = event.detail.parse::<Detail>();
        let detail = detail.map_err(|e| StoreError::Broken(format!("an event's detail is not JSON: {e}")))?;
        if fresh.get(&event.seq).is_some_and(|before| before.detail.as_ref() != Some(&detail)) {
            return Ok(Err(TellAnswer::SeqConflict(event.seq)));
        }
        let data =
            EventData { run_id: Some(told.run), detail: Some(detail), told_at: event.at, ..EventData::default() };
        fresh.insert(event.seq, data);
    }
    let sizes = told.events.iter().map(|event| (event.seq, event.detail.len())).collect();
    Ok(Ok(Telling { place: 0, row, fresh, sizes }))
}

/// What the ledger holds under these numbers. Numbers beyond the last one ever told are not there, and are not asked for.
async fn find_known(db: &mut impl Db, tellings: &[Telling<'_>]) -> StoreResult<HashMap<(i64, u32, u64), EventData>> {
    let mut asked: Vec<(i64, i64, i64)> = Vec::new();
    for telling in tellings {
        let seqs = telling.fresh.keys().filter(|seq| **seq <= telling.row.last_seq);
        asked.extend(seqs.map(|seq| {
            (telling.row.job.number, i64::from(telling.row.fence), i64::try_from(*seq).unwrap_or(i64::MAX))
        }));
    }
    if asked.is_empty() {
        return Ok(HashMap::new());
    }
    let cols = [
        Col::Int(asked.iter().map(|key| key.0).collect()),
        Col::Int(asked.iter().map(|key| key.1).collect()),
        Col::Int(asked.iter().map(|key| key.2).collect()),
    ];
    let found = db
        .query_many(KNOWN, &cols, |row| {
            let data = serde_json::from_str(&row.opt_text(3)?.unwrap_or_default());
            let data: EventData = data.map_err(|e| StoreError::Broken(e.to_string()))?;
            Ok(((row.int(0)?, count(row.int(1)?), u64::try_from(row.int(2)?).unwrap_or(0)), data))
        })
        .await?;
    Ok(found.into_iter().collect())
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
    sqlite: "select number, fence, seq, data from event where number = ?1 and fence = ?2 and seq = ?3",
    postgres: "select e.number, e.fence, e.seq, e.data from event e join unnest($1::bigint[], $2::bigint[], $3::bigint[]) as k (number, fence, seq)
                 on e.number = k.number and e.fence = k.fence and e.seq = k.seq where e.seq is not null",
};
const AFTER: Sql = Sql::Same(
    "select seq from event where number = $1 and fence = $2 and seq > $3 and seq is not null order by seq limit 1000",
);
const ACK: Sql = Sql::Each {
    sqlite: "update run set acked_seq = ?2, last_seq = ?3, told_bytes = told_bytes + ?4 where id = ?1",
    postgres: "update run r set acked_seq = k.acked, last_seq = k.last, told_bytes = r.told_bytes + k.bytes
               from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) as k (id, acked, last, bytes)
               where r.id = k.id",
};
