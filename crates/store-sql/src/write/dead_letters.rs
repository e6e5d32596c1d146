//! Orders of people about dead letters. An entry is closed once, whoever is faster.

use std::sync::Arc;

use bowline_model::audit::Author;
use bowline_model::dead_letter::DeadLetterStatus;
use bowline_model::event::EventData;
use bowline_model::idempotency::RequestHash;
use bowline_model::planted::{self, Mistake};
use bowline_model::{EventKind, JobId, Labels, Lane, TaskType, TenantId};
use bowline_store::{Closed, DeadLetterChoice, DeadLetterOrder, NewJob, Origin, StoreError, StoreResult, Submitted};

use super::{Desk, submit};
use crate::changes::{Changes, Heard};
use crate::db::{Col, Db, Row, Sql, Val};
use crate::job_row::policy_of;

struct Entry {
    id: i64,
    number: i64,
    job: JobId,
    status: DeadLetterStatus,
    replayed_as: Option<JobId>,
    task_type: String,
    requires: String,
    priority: i64,
    policy: Option<String>,
    payload: Option<String>,
    trace_id: Option<String>,
    correlation_id: Option<String>,
    channel: i64,
}

fn read(row: &dyn Row) -> StoreResult<Entry> {
    Ok(Entry {
        id: row.int(0)?,
        number: row.int(1)?,
        job: JobId::from_uuid(row.id(2)?),
        status: DeadLetterStatus::from_code(row.int(3)?).unwrap_or(DeadLetterStatus::Purged),
        replayed_as: row.opt_id(4)?.map(JobId::from_uuid),
        task_type: row.text(5)?,
        requires: row.text(6)?,
        priority: row.int(7)?,
        policy: row.opt_text(8)?,
        payload: row.opt_text(9)?,
        trace_id: row.opt_text(10)?,
        correlation_id: row.opt_text(11)?,
        channel: row.int(12)?,
    })
}

/// Makes one new job of each chosen open entry.
pub async fn replay(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    order: &DeadLetterOrder,
) -> StoreResult<(Vec<Closed>, Vec<Heard>)> {
    let mut closed = Vec::new();
    let mut fresh: Vec<(Entry, NewJob)> = Vec::new();
    for chosen in choose(db, order).await? {
        let entry = match chosen {
            Ok(entry) => entry,
            Err(answer) => {
                closed.push(answer);
                continue;
            }
        };
        if entry.status.close(DeadLetterStatus::Replayed).is_err() && !planted::on(Mistake::ReplayTwice) {
            closed.push(Closed::Already { job: entry.job, status: entry.status, new_job: entry.replayed_as });
            continue;
        }
        let job = rebuild(desk, order.tenant, order.lane, &entry, &order.by)?;
        fresh.push((entry, job));
    }
    // The new jobs wait where the old ones did, whoever made that line.
    desk.channels.learn(db, &fresh.iter().map(|(entry, _)| entry.channel).collect::<Vec<_>>()).await?;
    let jobs: Vec<&NewJob> = fresh.iter().map(|(_, job)| job).collect();
    let (answers, mut heard) = submit(db, desk, &jobs).await?;
    let mut changes = Changes::at(desk.now);
    for ((entry, job), answer) in fresh.iter().zip(answers) {
        debug_assert!(matches!(answer, Submitted::Accepted { .. }), "a new id cannot be taken");
        close(db, desk, entry, DeadLetterStatus::Replayed, order, Some(job.id)).await?;
        let data = EventData {
            job_id: Some(job.id),
            reason: Some(order.reason.clone()),
            by: Some(order.by.to_string()),
            ..EventData::default()
        };
        changes.tell(order.tenant, Some(entry.number), None, EventKind::JobReplayed, data);
        closed.push(Closed::Replayed { job: entry.job, new_job: job.id });
    }
    heard.push(changes.write(db).await?);
    Ok((closed, heard))
}

/// Closes each chosen open entry for good.
pub async fn purge(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    order: &DeadLetterOrder,
) -> StoreResult<(Vec<Closed>, Vec<Heard>)> {
    let mut closed = Vec::new();
    let mut changes = Changes::at(desk.now);
    for chosen in choose(db, order).await? {
        let entry = match chosen {
            Ok(entry) => entry,
            Err(answer) => {
                closed.push(answer);
                continue;
            }
        };
        if entry.status.close(DeadLetterStatus::Purged).is_err() {
            closed.push(Closed::Already { job: entry.job, status: entry.status, new_job: entry.replayed_as });
            continue;
        }
        close(db, desk, &entry, DeadLetterStatus::Purged, order, None).await?;
        let data =
            EventData { reason: Some(order.reason.clone()), by: Some(order.by.to_string()), ..EventData::default() };
        changes.tell(order.tenant, Some(entry.number), None, EventKind::DeadLetterPurged, data);
        closed.push(Closed::Purged { job: entry.job });
    }
    Ok((closed, vec![changes.write(db).await?]))
}

/// The chosen entries, locked; or what to say of a job that has none.
async fn choose(db: &mut impl Db, order: &DeadLetterOrder) -> StoreResult<Vec<Result<Entry, Closed>>> {
    let (tenant, lane) = (Val::Id(*order.tenant.as_uuid()), Val::Int(order.lane.code()));
    match &order.choice {
        DeadLetterChoice::Oldest(limit) => {
            let params = [tenant, lane, Val::Int(i64::from(*limit))];
            let rows = db.query(OLDEST_SEEN, &params, read).await?;
            lock_jobs(db, rows.iter().map(|entry| entry.number)).await?;
            let rows = db.query(OLDEST, &params, read).await?;
            Ok(rows.into_iter().map(Ok).collect())
        }
        DeadLetterChoice::Jobs(jobs) => {
            let mut chosen = Vec::with_capacity(jobs.len());
            for (n, job) in jobs.iter().enumerate() {
                // Naming a job twice is naming it once.
                if jobs[..n].contains(job) {
                    continue;
                }
                // A job may have died more than once; the newest entry is the one meant.
                let params = [tenant, lane, Val::Id(*job.as_uuid())];
                let rows = db.query(OF_JOB_SEEN, &params, read).await?;
                lock_jobs(db, rows.iter().map(|entry| entry.number)).await?;
                let rows = db.query(OF_JOB, &params, read).await?;
                chosen.push(rows.into_iter().next().ok_or(Closed::NotFound { job: *job }));
            }
            Ok(chosen)
        }
    }
}

/// A retry locks the job and looks at its letter afterwards; so do we, or both would find it open. What was read before
/// the lock may have been closed while we waited for it, so it is read again.
async fn lock_jobs(db: &mut impl Db, numbers: impl Iterator<Item = i64>) -> StoreResult<()> {
    let mut numbers: Vec<i64> = numbers.collect();
    numbers.sort_unstable();
    db.query_many(LOCK_JOBS, &[Col::Int(numbers)], |_| Ok(())).await.map(drop)
}

fn rebuild(desk: &mut Desk<'_>, tenant: TenantId, lane: Lane, entry: &Entry, by: &Author) -> StoreResult<NewJob> {
    let broken = |e: bowline_model::name::NotAName| StoreError::Broken(e.to_string());
    let entropy = desk.entropy();
    Ok(NewJob {
        fleet: None,
        flow: None,
        id: JobId::mint(desk.now, entropy),
        tenant,
        lane,
        task_type: TaskType::new(&entry.task_type).map_err(broken)?,
        requires: Labels::from_canonical(&entry.requires).map_err(broken)?,
        priority: i16::try_from(entry.priority).unwrap_or(0),
        payload: entry.payload.clone().unwrap_or_else(|| "null".to_owned()).into(),
        policy: entry.policy.as_deref().map(|text| policy_of(Some(text)).map(Arc::new)).transpose()?,
        run_at: None,
        keys: Vec::new(),
        hash: RequestHash::of_parts(&[]),
        origin: Origin {
            email: None,
            actor: Arc::clone(&by.name),
            request_id: "replay".into(),
            trace_id: entry.trace_id.as_deref().map(Into::into),
            correlation_id: entry.correlation_id.as_deref().map(Into::into),
            author: None,
        },
        replay_of: Some(entry.job),
    })
}

async fn close(
    db: &mut impl Db,
    desk: &Desk<'_>,
    entry: &Entry,
    to: DeadLetterStatus,
    order: &DeadLetterOrder,
    new_job: Option<JobId>,
) -> StoreResult<()> {
    let params = [
        Val::Int(entry.id),
        Val::Int(to.code()),
        Val::At(desk.now),
        Val::Text(&order.by),
        Val::Text(&order.reason),
        Val::OptId(new_job.map(|id| *id.as_uuid())),
    ];
    db.execute(CLOSE, &params).await.map(drop)
}

/// Why two texts: SQLite has one writer at a time; there is nothing to lock.
const LOCK_JOBS: Sql = Sql::Each {
    sqlite: "select 1 from job where number = ?1 and false",
    postgres: "select 1 from job where number = any ($1::bigint[]) order by number for update",
};

macro_rules! entry_columns {
    () => {
        "select d.id, d.number, j.id, d.status, d.replayed_as, c.type, c.requires, j.priority, j.policy, j.payload,
                j.trace_id, j.correlation_id, j.channel
         from dead_letter d join job j on j.number = d.number join channel c on c.id = j.channel
         where d.tenant = $1 and d.lane = $2 and j.tenant = $1 "
    };
}

const OLDEST_SEEN: Sql = Sql::Same(concat!(entry_columns!(), "and d.status = 1 order by d.id limit $3"));
const OF_JOB_SEEN: Sql = Sql::Same(concat!(entry_columns!(), "and j.id = $3 order by d.id desc limit 1"));
const OLDEST: Sql = Sql::Each {
    sqlite: concat!(entry_columns!(), "and d.status = 1 order by d.id limit $3"),
    postgres: concat!(entry_columns!(), "and d.status = 1 order by d.id limit $3 for update of d skip locked"),
};
const OF_JOB: Sql = Sql::Each {
    sqlite: concat!(entry_columns!(), "and j.id = $3 order by d.id desc limit 1"),
    postgres: concat!(entry_columns!(), "and j.id = $3 order by d.id desc limit 1 for update of d"),
};
const CLOSE: Sql = Sql::Same(
    "update dead_letter set status = $2, closed_at = $3, closed_by = $4, reason = $5, replayed_as = $6 where id = $1",
);
