//! Channels: the lines of the queue, and which of them may have somebody waiting.
//!
//! The set of lines with work is a hint kept in memory: a line enters it after a commit that queued something there,
//! and leaves it when a claim found it empty. What other servers queue is found by a slow look at the index
//! ([`Channels::replace_active`]), so a lost hint costs time, never work.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_model::claim::ChannelHead;
use bowline_model::{Labels, Lane, TaskType, TenantId};
use bowline_store::{Observer, StoreError, StoreResult};

use crate::changes::AttemptEnded;
use crate::db::{Col, Db, Row, Sql, Val};

/// What makes a line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChannelKey {
    pub tenant: TenantId,
    pub lane: Lane,
    pub task_type: TaskType,
    pub requires: Labels,
}

#[derive(Debug, Default)]
struct State {
    by_key: HashMap<Arc<ChannelKey>, i64>,
    by_id: BTreeMap<i64, Arc<ChannelKey>>,
    /// Lines that may have work, with a number that changes whenever something is queued there.
    active: BTreeMap<i64, u64>,
    stamp: u64,
    turn: u64,
}

/// What a look at the queue brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// Somebody waits.
    pub work: bool,
    /// Somebody waits in a line that was not known to have work.
    pub news: bool,
}

/// A stamp that no line ever gets.
const NEVER: u64 = 0;

/// All lines this process knows.
#[derive(Debug, Default)]
pub struct Channels(Mutex<State>);

const ALL: Sql = Sql::Same("select id, tenant, lane, type, requires from channel");
const SOME: Sql = Sql::Each {
    sqlite: "select id, tenant, lane, type, requires from channel where id = ?1",
    postgres: "select id, tenant, lane, type, requires from channel where id = any ($1::bigint[])",
};
const ADD: Sql =
    Sql::Same("insert into channel (tenant, lane, type, requires) values ($1, $2, $3, $4) on conflict do nothing");
const FIND: Sql = Sql::Same("select id from channel where tenant = $1 and lane = $2 and type = $3 and requires = $4");
const ADD_MANY: Sql = Sql::Each {
    sqlite: "insert into channel (tenant, lane, type, requires) values (?1, ?2, ?3, ?4) on conflict do nothing",
    postgres: "insert into channel (tenant, lane, type, requires)
               select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[]) on conflict do nothing",
};
const FIND_MANY: Sql = Sql::Each {
    sqlite: "select id, tenant, lane, type, requires from channel
             where tenant = ?1 and lane = ?2 and type = ?3 and requires = ?4",
    postgres: "select c.id, c.tenant, c.lane, c.type, c.requires from channel c
               join unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[]) as k (tenant, lane, type, requires)
                 on c.tenant = k.tenant and c.lane = k.lane and c.type = k.type and c.requires = k.requires",
};
/// Jumps from line to line in the index instead of reading every row.
const WAITING: Sql = Sql::Same(
    "with recursive line (channel) as (
       select min(channel) from queue
       union all
       select (select min(q.channel) from queue q where q.channel > line.channel) from line where line.channel is not null
     )
     select channel from line where channel is not null",
);

impl Channels {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the figures which types of work have ended.
    pub fn tell(&self, observer: &Arc<dyn Observer>, ended: &[AttemptEnded]) {
        let state = self.state();
        for one in ended {
            if let Some(key) = state.by_id.get(&one.channel) {
                observer.attempt_ended(&key.task_type, one.job, one.age_ms);
            }
        }
    }

    pub fn id_of(&self, key: &ChannelKey) -> Option<i64> {
        self.state().by_key.get(key).copied()
    }

    /// Says that something was queued in these lines.
    pub fn queued(&self, ids: impl IntoIterator<Item = i64>) {
        let mut state = self.state();
        for id in ids {
            state.stamp += 1;
            let stamp = state.stamp;
            state.active.insert(id, stamp);
        }
    }

    /// The lines that may have work, with the stamps to give back to [`Self::found_empty`], and whose turn it is. `fresh`
    /// are lines in which this very transaction has queued something.
    pub fn active(&self, fresh: &[i64]) -> (Vec<(ChannelHead, Arc<ChannelKey>, u64)>, u64) {
        let mut state = self.state();
        state.turn += 1;
        let turn = state.turn;
        let mut lines: BTreeMap<i64, u64> = fresh.iter().map(|id| (*id, NEVER)).collect();
        lines.extend(&state.active);
        let heads = lines
            .into_iter()
            .filter_map(|(id, stamp)| {
                let key = state.by_id.get(&id)?;
                Some((ChannelHead { channel: id, lane: key.lane, tenant: key.tenant }, Arc::clone(key), stamp))
            })
            .collect();
        (heads, turn)
    }

    /// Says that a line had nothing more, unless something was queued there since `stamp`.
    pub fn found_empty(&self, id: i64, stamp: u64) {
        let mut state = self.state();
        if state.active.get(&id) == Some(&stamp) {
            state.active.remove(&id);
        }
    }

    pub fn has_active(&self) -> bool {
        !self.state().active.is_empty()
    }

    fn remember(&self, lines: impl IntoIterator<Item = (i64, ChannelKey)>) {
        let mut state = self.state();
        for (id, key) in lines {
            let key = Arc::new(key);
            state.by_key.insert(Arc::clone(&key), id);
            state.by_id.insert(id, key);
        }
    }

    /// Learns all lines there are.
    pub async fn learn_all(&self, db: &mut impl Db) -> StoreResult<()> {
        self.remember(db.query(ALL, &[], read).await?.into_iter().flatten());
        Ok(())
    }

    /// Learns those of these lines that it does not know: other servers make lines, too.
    pub async fn learn(&self, db: &mut impl Db, ids: &[i64]) -> StoreResult<()> {
        let unknown: Vec<i64> = {
            let state = self.state();
            ids.iter().copied().filter(|id| !state.by_id.contains_key(id)).collect()
        };
        if !unknown.is_empty() {
            self.remember(db.query_many(SOME, &[Col::Int(unknown)], read).await?.into_iter().flatten());
        }
        Ok(())
    }

    /// Makes sure that these lines exist. Runs outside the transaction that queues into them, so that a rollback there
    /// cannot take a line away that others have heard of.
    pub async fn ensure<'a>(
        &self,
        db: &mut impl Db,
        keys: impl IntoIterator<Item = &'a ChannelKey>,
    ) -> StoreResult<()> {
        for key in keys {
            if self.id_of(key).is_some() {
                continue;
            }
            let requires = key.requires.canonical();
            let params = [
                Val::Id(*key.tenant.as_uuid()),
                Val::Int(key.lane.code()),
                Val::Text(key.task_type.as_str()),
                Val::Text(&requires),
            ];
            db.execute(ADD, &params).await?;
            if let Some(id) = db.query(FIND, &params, |row| row.int(0)).await?.first() {
                self.remember([(*id, key.clone())]);
            }
        }
        Ok(())
    }

    /// The same inside a transaction: `made` are lines that exist once it is committed, to be remembered then.
    pub async fn ensure_within(
        &self,
        db: &mut impl Db,
        keys: &[ChannelKey],
        made: &mut Vec<(i64, ChannelKey)>,
    ) -> StoreResult<HashMap<ChannelKey, i64>> {
        let mut ids: HashMap<ChannelKey, i64> = made.iter().map(|(id, key)| (key.clone(), *id)).collect();
        // Sorted, so that two servers make the same lines in the same order.
        let mut unknown: BTreeMap<(TenantId, i64, &str, String), &ChannelKey> = BTreeMap::new();
        for key in keys {
            if let Some(id) = self.id_of(key) {
                ids.insert(key.clone(), id);
            } else if !ids.contains_key(key) {
                let sorted = (key.tenant, key.lane.code(), key.task_type.as_str(), key.requires.canonical());
                unknown.insert(sorted, key);
            }
        }
        if unknown.is_empty() {
            return Ok(ids);
        }
        let cols = [
            Col::Id(unknown.keys().map(|key| *key.0.as_uuid()).collect()),
            Col::Int(unknown.keys().map(|key| key.1).collect()),
            Col::Text(unknown.keys().map(|key| key.2).collect()),
            Col::Text(unknown.keys().map(|key| key.3.as_str()).collect()),
        ];
        db.execute_many(ADD_MANY, &cols).await?;
        let found = db.query_many(FIND_MANY, &cols, read).await?;
        for (id, key) in found.into_iter().flatten() {
            made.push((id, key.clone()));
            ids.insert(key, id);
        }
        match keys.iter().find(|key| !ids.contains_key(*key)) {
            None => Ok(ids),
            Some(key) => Err(StoreError::Broken(format!("a line for {} cannot be made", key.task_type))),
        }
    }

    /// Lines that a transaction made, once it is committed.
    pub fn made(&self, lines: Vec<(i64, ChannelKey)>) {
        self.remember(lines);
    }

    /// Looks which lines have work, whoever queued it there.
    pub async fn replace_active(&self, db: &mut impl Db) -> StoreResult<Sight> {
        let waiting = db.query(WAITING, &[], |row| row.int(0)).await?;
        self.learn(db, &waiting).await?;
        let news = {
            let state = self.state();
            waiting.iter().any(|id| !state.active.contains_key(id))
        };
        let sight = Sight { work: !waiting.is_empty(), news };
        // The known ones too: a claim that looked before we did must not call them empty now.
        self.queued(waiting);
        Ok(sight)
    }
}

/// `None` for a line that only another version of us understands; that one will serve it.
fn read(row: &dyn Row) -> StoreResult<Option<(i64, ChannelKey)>> {
    let (id, tenant) = (row.int(0)?, TenantId::from_uuid(row.id(1)?));
    let lane = Lane::from_code(row.int(2)?);
    let (task_type, requires) = (TaskType::new(&row.text(3)?), Labels::from_canonical(&row.text(4)?));
    let (Some(lane), Ok(task_type), Ok(requires)) = (lane, task_type, requires) else { return Ok(None) };
    Ok(Some((id, ChannelKey { tenant, lane, task_type, requires })))
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::*;

    /// Two lines, 1 and 2.
    fn channels() -> Channels {
        let channels = Channels::default();
        channels.made([1, 2].map(line).into());
        channels
    }

    fn line(id: i64) -> (i64, ChannelKey) {
        let key = ChannelKey {
            tenant: TenantId::mint(Timestamp::from_millis(1), [1; 10]),
            lane: Lane::Default,
            task_type: TaskType::new(&format!("type-{id}")).expect("a type"),
            requires: Labels::default(),
        };
        (id, key)
    }

    /// Lines that may have work, with their stamps.
    fn active(channels: &Channels, fresh: &[i64]) -> Vec<(i64, u64)> {
        channels.active(fresh).0.into_iter().map(|(head, _, stamp)| (head.channel, stamp)).collect()
    }

    #[test]
    fn a_line_has_work_until_it_is_found_empty() {
        let channels = channels();
        assert!(!channels.has_active() && active(&channels, &[]).is_empty());
        assert_eq!((channels.id_of(&line(2).1), channels.id_of(&line(3).1)), (Some(2), None));
        channels.queued([2]);
        let found = active(&channels, &[]);
        assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2]);
        assert!(channels.has_active());
        channels.found_empty(2, found[0].1);
        assert!(!channels.has_active());
    }

    #[test]
    fn what_is_queued_while_somebody_looks_is_not_called_empty() {
        let channels = channels();
        channels.queued([1, 2]);
        let before = active(&channels, &[]);
        channels.queued([1]);
        for (id, stamp) in before {
            channels.found_empty(id, stamp);
        }
        assert_eq!(active(&channels, &[]).iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn lines_that_a_transaction_queued_into_are_its_own_until_it_is_committed() {
        let channels = channels();
        let fresh = active(&channels, &[1]);
        assert_eq!(fresh, [(1, NEVER)]);
        assert!(!channels.has_active());
        // Committed, and queued into by another one: what the first found out about it says nothing any more.
        channels.queued([1]);
        channels.found_empty(1, NEVER);
        assert!(channels.has_active());
        assert!(active(&channels, &[77]).iter().all(|(id, _)| *id == 1), "a line that nobody knows is passed over");
    }

    #[test]
    fn lanes_take_turns_from_claim_to_claim() {
        let channels = channels();
        let turns = [(); 3].map(|()| channels.active(&[]).1);
        assert!(turns[0] < turns[1] && turns[1] < turns[2], "{turns:?}");
    }
}
