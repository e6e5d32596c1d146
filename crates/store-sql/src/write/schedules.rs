//! Schedules, written: how far one was considered moves by compare-and-set, and the jobs come with it.

use bowline_model::event::EventData;
use bowline_model::planted::{self, Mistake};
use bowline_model::{EventKind, JobId, Timestamp};
use bowline_store::{Fired, Firing, NewJob, StoreResult, Submitted, Trigger, Triggered};

use super::Desk;
use super::submit::submit;
use crate::changes::{Changes, Heard};
use crate::db::{Db, Sql, Val};

/// A version of a schedule counts from now on, and from now on only: what its predecessor left is not its business. Time
/// that was considered already stays considered, whatever the clock says by now.
pub async fn begin_schedule(
    db: &mut impl Db,
    desk: &Desk<'_>,
    resource: i64,
    tenant: bowline_model::TenantId,
    version: u32,
) -> StoreResult<()> {
    let params = [Val::Int(resource), Val::Id(*tenant.as_uuid()), Val::Int(version.into()), Val::At(desk.now)];
    db.execute(BEGIN, &params).await.map(drop)
}

pub async fn forget_schedule(db: &mut impl Db, resource: i64) -> StoreResult<()> {
    db.execute(FORGET, &[Val::Int(resource)]).await.map(drop)
}

/// Each firing by itself; in one order for everybody, so that two servers never wait for each other in a circle.
pub async fn fire(db: &mut impl Db, desk: &mut Desk<'_>, firings: &[Firing]) -> StoreResult<(Vec<Fired>, Vec<Heard>)> {
    let mut order: Vec<usize> = (0..firings.len()).collect();
    order.sort_by_key(|n| firings[*n].resource);
    let mut answers = vec![Fired::Overtaken; firings.len()];
    let mut all_heard = Vec::new();
    for n in order {
        answers[n] = fire_one(db, desk, &firings[n], &mut all_heard).await?;
    }
    Ok((answers, all_heard))
}

async fn fire_one(
    db: &mut impl Db,
    desk: &mut Desk<'_>,
    firing: &Firing,
    all_heard: &mut Vec<Heard>,
) -> StoreResult<Fired> {
    let mut params = vec![
        Val::Int(firing.resource),
        Val::Int(firing.version.into()),
        Val::At(firing.to),
        Val::OptAt(firing.due_at),
        Val::Int(i64::try_from(firing.missed).unwrap_or(i64::MAX)),
    ];
    let moved = if planted::on(Mistake::ScheduleTwice) {
        // The mistake: nobody looks whether somebody else has considered these instants.
        db.execute(MOVE_ANYHOW, &params).await?
    } else {
        params.push(Val::At(firing.seen));
        db.execute(MOVE, &params).await?
    };
    if moved == 0 {
        return Ok(Fired::Overtaken);
    }
    let mut jobs: Vec<&(Timestamp, NewJob)> = firing.jobs.iter().collect();
    if firing.alone && !jobs.is_empty() {
        let keep = if alive(db, firing.resource).await?.is_some() { 0 } else { 1 };
        // Of several, the latest stands for all.
        jobs = jobs.split_off(jobs.len() - keep);
    }
    let passed_over = (firing.jobs.len() - jobs.len()) as u64;
    let (stored, heard) = submit(db, desk, &jobs.iter().map(|(_, job)| job).collect::<Vec<_>>()).await?;
    all_heard.extend(heard);
    if let (Some((instant, _)), Some(job)) = (jobs.last(), stored.last().map(id_of)) {
        let params = [Val::Int(firing.resource), Val::At(*instant), Val::At(desk.now), Val::Id(*job.as_uuid())];
        db.execute(FIRED, &params).await?;
    }
    all_heard.push(tell(db, desk, firing, passed_over).await?);
    Ok(Fired::Done { jobs: stored, passed_over })
}

/// What nobody would otherwise hear of: instants without a job.
async fn tell(db: &mut impl Db, desk: &Desk<'_>, firing: &Firing, passed_over: u64) -> StoreResult<Heard> {
    let mut changes = Changes::at(desk.now);
    let mut say = |kind, told: String| {
        let reason = Some(format!("schedule {}: {told}", firing.name));
        changes.tell(firing.tenant, None, None, kind, EventData { reason, ..EventData::default() });
    };
    if firing.missed > 0 {
        say(EventKind::ScheduleMissed, format!("{} since {}", firing.missed, firing.seen));
    }
    if passed_over > 0 {
        say(EventKind::SchedulePassedOver, format!("{passed_over}, because its last job is not over"));
        let params = [Val::Int(firing.resource), Val::Int(i64::try_from(passed_over).unwrap_or(i64::MAX))];
        db.execute(PASS_OVER, &params).await?;
    }
    if let Some((instant, why)) = &firing.refused {
        say(EventKind::ScheduleRefused, format!("nothing was started for {instant}: {why}"));
        let params = [Val::Int(firing.resource), Val::At(*instant), Val::At(desk.now), Val::Text(why)];
        db.execute(REFUSE, &params).await?;
    }
    changes.write(db).await
}

const fn id_of(stored: &Submitted) -> JobId {
    match stored {
        Submitted::Accepted { id, .. }
        | Submitted::Replayed { id, .. }
        | Submitted::Pruned { id, .. }
        | Submitted::Conflict { id, .. } => *id,
    }
}

/// The last job of a schedule, if it is not over.
async fn alive(db: &mut impl Db, resource: i64) -> StoreResult<Option<JobId>> {
    let found = db.query(ALIVE, &[Val::Int(resource)], |row| row.id(0)).await?;
    Ok(found.into_iter().next().map(JobId::from_uuid))
}

pub async fn trigger(db: &mut impl Db, desk: &mut Desk<'_>, trigger: &Trigger) -> StoreResult<(Triggered, Vec<Heard>)> {
    if db.execute(HOLD, &[Val::Int(trigger.resource), Val::Int(trigger.version.into())]).await? == 0 {
        return Ok((Triggered::Overtaken, Vec::new()));
    }
    if trigger.alone
        && let Some(job) = alive(db, trigger.resource).await?
        && job != trigger.job.id
    {
        return Ok((Triggered::Busy(job), Vec::new()));
    }
    let (stored, heard) = submit(db, desk, &[&trigger.job]).await?;
    let Some(stored) = stored.into_iter().next() else {
        return Err(bowline_store::StoreError::Broken("a job was left without an answer".to_owned()));
    };
    if let Submitted::Accepted { id, .. } = &stored {
        db.execute(STARTED, &[Val::Int(trigger.resource), Val::Id(*id.as_uuid())]).await?;
    }
    Ok((Triggered::Started(stored), heard))
}

const BEGIN: Sql = Sql::Same(
    "insert into schedule (resource, tenant, version, seen, due_at, missed, passed_over) values ($1, $2, $3, $4, $4, 0, 0)
     on conflict (resource) do update set version = excluded.version, due_at = excluded.due_at,
       seen = case when schedule.seen > excluded.seen then schedule.seen else excluded.seen end",
);
const FORGET: Sql = Sql::Same("delete from schedule where resource = $1");
const MOVE: Sql = Sql::Same(
    "update schedule set seen = $3, due_at = $4, missed = missed + $5 where resource = $1 and version = $2 and seen = $6",
);
const MOVE_ANYHOW: Sql =
    Sql::Same("update schedule set seen = $3, due_at = $4, missed = missed + $5 where resource = $1 and version = $2");
const FIRED: Sql =
    Sql::Same("update schedule set fired_instant = $2, fired_at = $3, fired_job = $4 where resource = $1");
const STARTED: Sql = Sql::Same("update schedule set fired_job = $2 where resource = $1");
const PASS_OVER: Sql = Sql::Same("update schedule set passed_over = passed_over + $2 where resource = $1");
const REFUSE: Sql =
    Sql::Same("update schedule set refused_instant = $2, refused_at = $3, refused_why = $4 where resource = $1");
const ALIVE: Sql = Sql::Same(
    "select j.id from schedule s join job j on j.tenant = s.tenant and j.id = s.fired_job
     where s.resource = $1 and j.parent is null and j.finished_at is null",
);
/// Whoever starts something for a schedule comes one after the other.
const HOLD: Sql = Sql::Same("update schedule set version = version where resource = $1 and version = $2");
