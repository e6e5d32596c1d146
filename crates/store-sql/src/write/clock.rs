//! The clock that decides, as the ledger remembers it: the newest moment it was written to, and the last acceptance.

use bowline_model::event::EventData;
use bowline_model::job::{Fact, JobKind, JobState, Step};
use bowline_model::{EventKind, JobStatus, Lane, Timestamp};
use bowline_store::{ClockAccepted, ClockStatus, LedgerClock, StoreError, StoreResult};
use serde::{Deserialize, Serialize};

use super::Desk;
use super::submit::FOREVER;
use crate::changes::{Changes, Heard, Telling};
use crate::db::{Db, Sql, Val};
use crate::job_row::{JOB_COLUMNS, JobRow, job_columns};

/// Under which keys the ledger keeps them.
const SEEN: &str = "clock_seen";
const ACCEPTED: &str = "clock_accepted";
const MOVING: &str = "clock_moving";
/// Jobs of each sort that one transaction moves when a clock that was ahead is put right.
const PASS: usize = 1_000;

/// What is still to be moved after a clock was put back. Jobs are taken in the order of their numbers, so that each is taken
/// once and those that are locked are waited for.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Moving {
    /// By how much time went back; negative.
    by_us: i64,
    /// The last job that was looked at, for retries, and for commands and executions. `None`: all of them were.
    retries: Option<i64>,
    timers: Option<i64>,
}

impl Moving {
    /// Moves some of what is left.
    async fn pass(&mut self, db: &mut impl Db, desk: &mut Desk<'_>, now: Timestamp) -> StoreResult<Vec<Heard>> {
        let mut heard = Vec::new();
        if let Some(after) = self.timers {
            let (moved, next) = move_timers(db, self.by_us, now, after).await?;
            heard.push(moved);
            self.timers = next;
        }
        if let Some(after) = self.retries {
            let (freed, next) = free_retries(db, desk, now, after).await?;
            heard.push(freed);
            self.retries = next;
        }
        Ok(heard)
    }

    const fn is_done(&self) -> bool {
        self.retries.is_none() && self.timers.is_none()
    }

    async fn keep(&self, db: &mut impl Db) -> StoreResult<()> {
        if self.is_done() {
            return db.execute(REMOVE, &[Val::Text(MOVING)]).await.map(drop);
        }
        let text = serde_json::to_string(self).map_err(|error| StoreError::Broken(error.to_string()))?;
        put(db, MOVING, &text).await
    }
}

/// Tells the clock what the ledger knows, before anything is decided by it.
pub async fn learn_time(db: &mut impl Db, clock: &LedgerClock) -> StoreResult<()> {
    let mut known = value(db, SEEN).await?.and_then(|text| text.parse().ok()).map(Timestamp::from_micros);
    if known.is_none() {
        // A ledger from before it kept the time: its newest event.
        known = db.query(NEWEST, &[], |row| row.at(0)).await?.into_iter().next();
    }
    clock.learn(known, value(db, ACCEPTED).await?);
    Ok(())
}

/// Writes down how late it is, and goes on with what an accepted clock moves. `true`: there is more of that to do.
pub async fn note_time(db: &mut impl Db, desk: &mut Desk<'_>) -> StoreResult<(ClockStatus, bool, Vec<Heard>)> {
    let accepted = value(db, ACCEPTED).await?;
    if desk.clock.is_news(accepted.as_deref()) {
        desk.clock.accept(accepted);
    }
    let status = desk.clock.status();
    let (mut more, mut heard) = (false, Vec::new());
    if !status.is_held()
        && let Some(text) = db.query(LOCKED, &[Val::Text(MOVING)], |row| row.text(0)).await?.into_iter().next()
    {
        let mut moving: Moving =
            serde_json::from_str(&text).map_err(|error| StoreError::Broken(format!("{MOVING}: {error}")))?;
        let now = desk.now;
        heard = moving.pass(db, desk, now).await?;
        moving.keep(db).await?;
        more = !moving.is_done();
    }
    put(db, SEEN, &status.now.as_micros().to_string()).await?;
    Ok((status, more, heard))
}

/// From now on the clock is believed. What hangs on the time until now is moved along: leases keep what was left of them,
/// and where time goes back, nothing that was reckoned from the later time waits for it. Of many jobs some are moved with it, and
/// the others by [`note_time`].
pub async fn accept_clock(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
) -> StoreResult<(ClockAccepted, Option<String>, Vec<Heard>)> {
    let ClockStatus { now: before, clock: now, held_since } = desk.clock.status();
    if held_since.is_none() {
        return Ok((ClockAccepted { before, now: before, was_held: false }, None, Vec::new()));
    }
    let moved = now.as_micros().saturating_sub(before.as_micros());
    db.execute(LEASES, &[Val::Int(moved)]).await?;
    let heard = if moved < 0 {
        db.execute(SCHEDULES, &[Val::At(now)]).await?;
        db.execute(DEADLINES, &[Val::Int(moved), Val::At(now)]).await?;
        db.execute(KEPT, &[Val::Int(moved), Val::At(now)]).await?;
        db.execute(TOKENS, &[Val::Int(moved), Val::At(now)]).await?;
        db.execute(WAITS, &[Val::Int(moved), Val::At(now)]).await?;
        db.execute(WORKERS, &[Val::At(now)]).await?;
        db.execute(TOMBSTONES, &[Val::At(now)]).await?;
        let last = now.plus_millis(desk.key_ttl_ms);
        db.execute(KEYS, &[Val::At(last), Val::At(FOREVER)]).await?;
        db.execute(REQUEST_KEYS, &[Val::At(last)]).await?;
        let mut moving = Moving { by_us: moved, retries: Some(0), timers: Some(0) };
        let heard = moving.pass(db, desk, now).await?;
        moving.keep(db).await?;
        heard
    } else {
        Vec::new()
    };
    let accepted = now.as_micros().to_string();
    put(db, SEEN, &accepted).await?;
    put(db, ACCEPTED, &accepted).await?;
    Ok((ClockAccepted { before, now, was_held: true }, Some(accepted), heard))
}

/// Retries whose pause was reckoned from a time that is still to come are due now. A job that was handed out before waits for
/// nothing else, whether its attempt counted or was refused by a busy executor.
async fn free_retries(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    now: Timestamp,
    after: i64,
) -> StoreResult<(Heard, Option<i64>)> {
    let params = [
        Val::At(now),
        Val::Int(after),
        Val::Int(PASS as i64),
        Val::Int(JobStatus::Pending.code()),
        Val::Int(JobKind::Command.code()),
        Val::Int(JobKind::Workflow.code()),
    ];
    let waiting = db.query(RETRIES, &params, |row| Ok((JobRow::read(row)?, row.int(JOB_COLUMNS)?))).await?;
    let next = next_after(&waiting);
    let mut changes = Changes::at(now);
    for (job, lane) in waiting {
        let lane = Lane::from_code(lane).ok_or_else(|| StoreError::Broken(format!("unknown lane {lane}")))?;
        let due_at = job.state.due_at.unwrap_or(now);
        if let Ok(step) = job.state.on(&Fact::Due, &job.policy, due_at, desk.chance()) {
            changes.advance(&job, lane, step, Telling::default());
        }
    }
    Ok((changes.write(db).await?, next))
}

/// Commands that wait for approval or run since a time that is still to come, and runs of workflows, whatever they wait for:
/// those know best what they reckoned from which time.
async fn move_timers(db: &mut impl Db, by_us: i64, now: Timestamp, after: i64) -> StoreResult<(Heard, Option<i64>)> {
    let params = [
        Val::At(now),
        Val::Int(PASS as i64),
        Val::Int(JobKind::Command.code()),
        Val::Int(JobStatus::AwaitingApproval.code()),
        Val::Int(JobStatus::Running.code()),
        Val::Int(JobKind::Workflow.code()),
        Val::Int(JobStatus::Paused.code()),
        Val::Int(after),
    ];
    let waiting = db.query(TIMERS, &params, |row| Ok((JobRow::read(row)?, row.int(JOB_COLUMNS)?))).await?;
    let next = next_after(&waiting);
    let mut changes = Changes::at(now);
    for (job, lane) in waiting {
        let lane = Lane::from_code(lane).ok_or_else(|| StoreError::Broken(format!("unknown lane {lane}")))?;
        let event = match (job.state.kind, job.state.status) {
            (JobKind::Command, JobStatus::AwaitingApproval) => EventKind::JobAwaitsApproval,
            (JobKind::Command, _) => EventKind::JobOpened,
            _ => {
                changes.move_waits(job.number, now, by_us);
                continue;
            }
        };
        let due_at = job.state.due_at.map(|at| at.plus_micros(by_us));
        let step = Step { next: JobState { due_at, ..job.state.clone() }, event, retry_at: None };
        let reason = Some("the clock was put back, and what was reckoned from it with it".to_owned());
        let data = EventData { reason, ..EventData::default() };
        changes.advance(&job, lane, step, Telling { data, ..Telling::default() });
    }
    Ok((changes.write(db).await?, next))
}

/// After which job the next pass goes on; `None` if this one found the last.
fn next_after(found: &[(JobRow, i64)]) -> Option<i64> {
    found.last().filter(|_| found.len() == PASS).map(|(job, _)| job.number)
}

async fn value(db: &mut impl Db, key: &str) -> StoreResult<Option<String>> {
    Ok(db.query(VALUE, &[Val::Text(key)], |row| row.text(0)).await?.into_iter().next())
}

async fn put(db: &mut impl Db, key: &str, value: &str) -> StoreResult<()> {
    db.execute(PUT, &[Val::Text(key), Val::Text(value)]).await.map(drop)
}

const VALUE: Sql = Sql::Same("select value from ledger where key = $1");
const PUT: Sql =
    Sql::Same("insert into ledger (key, value) values ($1, $2) on conflict (key) do update set value = excluded.value");
/// Two servers do not move the same jobs.
const LOCKED: Sql = Sql::Each {
    sqlite: "select value from ledger where key = ?1",
    postgres: "select value from ledger where key = $1 for update",
};
const REMOVE: Sql = Sql::Same("delete from ledger where key = $1");
const NEWEST: Sql = Sql::Same("select at from event order by position desc limit 1");
const LEASES: Sql = Sql::Each {
    sqlite: "update lease set renewed_at = renewed_at + ?1, deadline_at = deadline_at + ?1",
    postgres: "update lease set renewed_at = renewed_at + $1::bigint * interval '1 microsecond',
                                deadline_at = deadline_at + $1::bigint * interval '1 microsecond'",
};
/// Looked at again at once, from now on.
const SCHEDULES: Sql = Sql::Same("update schedule set seen = $1, due_at = $1 where seen > $1");
/// Deadlines that were counted from the later time.
const DEADLINES: Sql = Sql::Each {
    sqlite: "update deadline set at = at + ?1
             where exists (select 1 from job j where j.number = deadline.number and j.created_at > ?2)",
    postgres: "update deadline d set at = d.at + $1::bigint * interval '1 microsecond'
               from job j where j.number = d.number and j.created_at > $2",
};
const RETRIES: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        ", c.lane from timer t join job j on j.number = t.number join channel c on c.id = j.channel
         where t.due_at > ?1 and t.number > ?2 and j.updated_at > ?1 and j.status = ?4 and j.fence > 0
           and j.kind not in (?5, ?6)
         order by t.number limit ?3"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        ", c.lane from timer t join job j on j.number = t.number join channel c on c.id = j.channel
         where t.due_at > $1 and t.number > $2 and j.updated_at > $1 and j.status = $4 and j.fence > 0
           and j.kind not in ($5, $6)
         order by t.number limit $3 for update of t, j"
    ),
};
/// Hosts that are kept since a later time.
const KEPT: Sql = Sql::Each {
    sqlite: "update kept set since = since + ?1, until = until + ?1 where since > ?2",
    postgres: "update kept set since = since + $1::bigint * interval '1 microsecond',
                               until = until + $1::bigint * interval '1 microsecond' where since > $2",
};
/// Credentials whose life was counted from a later time.
const TOKENS: Sql = Sql::Each {
    sqlite: "update token set expires_at = expires_at + ?1 where created_at > ?2 and expires_at is not null",
    postgres: "update token set expires_at = expires_at + $1::bigint * interval '1 microsecond'
               where created_at > $2 and expires_at is not null",
};
/// Waits of workflows that others can end, as the runs themselves will reckon them.
const WAITS: Sql = Sql::Each {
    sqlite: "update flow_wait set since = since + ?1, expires_at = expires_at + ?1 where since > ?2",
    postgres: "update flow_wait set since = since + $1::bigint * interval '1 microsecond',
                                    expires_at = expires_at + $1::bigint * interval '1 microsecond' where since > $2",
};
/// A worker that was heard in the wrong future has been silent since now, unless it is heard again.
const WORKERS: Sql = Sql::Same("update worker set seen_at = $1 where seen_at > $1");
/// What is left of jobs that retention removed is kept from now on. Jobs themselves are put right by the pruner, a bite at a time.
const TOMBSTONES: Sql = Sql::Same("update gone set finished_at = $1 where finished_at > $1");
/// An idempotency key is kept for as long as if it had been given now, at most. 1 is an idempotency key; external ids are for
/// ever.
const KEYS: Sql = Sql::Same("update key set expires_at = $1 where expires_at > $1 and expires_at < $2 and scope = 1");
const REQUEST_KEYS: Sql = Sql::Same("update request_key set expires_at = $1 where expires_at > $1");
/// A command that waits for approval does so since its last change; one that runs began as long before its end as it may take.
const TIMERS: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        job_columns!(),
        ", c.lane from timer t join job j on j.number = t.number join channel c on c.id = j.channel
         where t.due_at > ?1 and t.number > ?8 and (
           (j.kind = ?3 and j.status = ?4 and j.updated_at > ?1)
           or (j.kind = ?3 and j.status = ?5
               and exists (select 1 from fleet f where f.number = j.number and j.due_at - f.deadline_ms * 1000 > ?1))
           or (j.kind = ?6 and j.status in (?5, ?7)))
         order by t.number limit ?2"
    ),
    postgres: concat!(
        "select ",
        job_columns!(),
        ", c.lane from timer t join job j on j.number = t.number join channel c on c.id = j.channel
         where t.due_at > $1 and t.number > $8 and (
           (j.kind = $3 and j.status = $4 and j.updated_at > $1)
           or (j.kind = $3 and j.status = $5
               and exists (select 1 from fleet f where f.number = j.number
                           and j.due_at - f.deadline_ms * interval '1 millisecond' > $1))
           or (j.kind = $6 and j.status in ($5, $7)))
         order by t.number limit $2 for update of t, j"
    ),
};
