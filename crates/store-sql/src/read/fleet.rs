//! Commands on hosts, read: how far they have come, host by host.

use std::collections::HashMap;

use bowline_model::fleet::{ApprovalState, HostLock, read_targets};
use bowline_model::idempotency::RequestHash;
use bowline_model::{HostName, InventoryName, JobId, JobState, JobStatus, RunId, RunStatus, TenantId, WorkerName};
use bowline_store::{
    ApprovalRecord, BlockedBy, FleetRecord, Page, RunRecord, StoreError, StoreResult, UnitFilter, UnitRecord, UnitRun,
    VoteRecord, WaitingApproval,
};

use super::jobs::{read_run, run_columns};
use crate::db::{Col, Db, Mode, Row, Sql, Val};
use crate::job_row::{count, kind_of, status_of};
use crate::write::read_tally;

pub(super) fn broken(e: impl std::fmt::Display) -> StoreError {
    StoreError::Broken(e.to_string())
}

fn whole(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

pub(super) fn lock_of(shared: bool) -> HostLock {
    if shared { HostLock::Shared } else { HostLock::Exclusive }
}

struct Found {
    number: i64,
    record: FleetRecord,
    planned: u64,
}

fn read_fleet(row: &dyn Row) -> StoreResult<Found> {
    let planned = whole(row.int(8)?);
    let approval = match row.opt_int(10)? {
        None => None,
        Some(_) => Some(read_approval(row, 10)?),
    };
    let record = FleetRecord {
        inventory: InventoryName::new(&row.text(1)?).map_err(broken)?,
        command: row.text(2)?,
        lock: lock_of(row.bool(3)?),
        selector: row.opt_text(4)?,
        rollout: serde_json::from_str(&row.text(5)?).map_err(broken)?,
        deadline_ms: row.opt_int(6)?.map(whole),
        total: whole(row.int(7)?),
        planned,
        stopped: row.opt_text(9)?,
        tally: Default::default(),
        approval,
    };
    Ok(Found { number: row.int(0)?, record, planned })
}

/// From the columns state, hash, quorum, four_eyes, requester, expires_at, retry, superseded.
fn read_approval(row: &dyn Row, at: usize) -> StoreResult<ApprovalRecord> {
    let state = row.int(at)?;
    Ok(ApprovalRecord {
        state: ApprovalState::from_code(state)
            .ok_or_else(|| broken(format!("unknown state {state} of an approval")))?,
        hash: RequestHash::from_bytes(row.bytes(at + 1)?.try_into().unwrap_or([0; 32])),
        quorum: count(row.int(at + 2)?),
        four_eyes: row.bool(at + 3)?,
        requester: row.text(at + 4)?,
        expires_at: row.opt_at(at + 5)?,
        retry: row.bool(at + 6)?,
        superseded: row.opt_text(at + 7)?,
        votes: Vec::new(),
    })
}

async fn votes(db: &mut impl Db, number: i64) -> StoreResult<Vec<VoteRecord>> {
    db.query(VOTES, &[Val::Int(number)], |row| {
        Ok(VoteRecord { by: row.text(0)?, yes: row.bool(1)?, reason: row.opt_text(2)?, at: row.at(3)? })
    })
    .await
}

async fn find(db: &mut impl Db, tenant: TenantId, job: JobId) -> StoreResult<Option<Found>> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Id(*job.as_uuid())];
    Ok(db.query(FLEET, &key, read_fleet).await?.into_iter().next())
}

/// A command and its tally, both of the same moment.
pub async fn find_fleet(db: &mut impl Db, tenant: TenantId, job: JobId) -> StoreResult<Option<FleetRecord>> {
    db.begin(Mode::Snapshot).await?;
    let found = fleet_and_tally(db, tenant, job).await;
    db.rollback().await;
    found
}

async fn fleet_and_tally(db: &mut impl Db, tenant: TenantId, job: JobId) -> StoreResult<Option<FleetRecord>> {
    let Some(Found { number, mut record, .. }) = find(db, tenant, job).await? else { return Ok(None) };
    record.tally = read_tally(db, number).await?;
    if let Some(approval) = &mut record.approval {
        approval.votes = votes(db, number).await?;
    }
    Ok(Some(record))
}

fn read_unit(row: &dyn Row) -> StoreResult<UnitRecord> {
    let run = match row.opt_id(14)? {
        None => None,
        Some(id) => Some(UnitRun {
            id: RunId::from_uuid(id),
            status: RunStatus::from_code(row.int(15)?).ok_or_else(|| broken("unknown run status"))?,
            worker: WorkerName::new(&row.text(16)?).map_err(broken)?,
            started_at: row.opt_at(17)?,
            finished_at: row.opt_at(18)?,
            exit_code: row.opt_int(19)?.and_then(|code| i32::try_from(code).ok()),
        }),
    };
    let status = status_of(row.int(3)?)?;
    // One that was tried again since is not blocked any more.
    let blocked_by = match row.opt_int(20)?.filter(|_| status == JobStatus::Blocked) {
        None => None,
        Some(id) => {
            Some(BlockedBy { block: id, reason: row.text(21)?, by: row.text(22)?, expires_at: row.opt_at(23)? })
        }
    };
    let error = super::jobs::error_of(row.opt_text(10)?);
    Ok(UnitRecord {
        host_id: row.int(0)?,
        host: HostName::new(&row.text(1)?).map_err(broken)?,
        state: JobState {
            kind: kind_of(row.int(2)?)?,
            status,
            attempts: count(row.int(4)?),
            failures: count(row.int(5)?),
            losses: count(row.int(6)?),
            fence: count(row.int(7)?),
            due_at: row.opt_at(8)?,
        },
        result: row.opt_text(9)?,
        error,
        created_at: row.at(11)?,
        finished_at: row.opt_at(12)?,
        blocked_by,
        run,
    })
}

pub async fn list_units(
    db: &mut impl Db,
    tenant: TenantId,
    job: JobId,
    filter: &UnitFilter,
    after: Option<i64>,
    limit: u32,
) -> StoreResult<Page<UnitRecord, i64>> {
    let Some(fleet) = find(db, tenant, job).await? else { return Ok(Page { items: Vec::new(), next: None }) };
    let params = [
        Val::Int(fleet.number),
        Val::Int(after.unwrap_or(0)),
        Val::Int(i64::from(limit) + 1),
        Val::Int(filter.status.map_or(0, bowline_model::JobStatus::code)),
        Val::Text(filter.host.as_ref().map_or("", HostName::as_str)),
    ];
    let mut items = db.query(UNITS, &params, read_unit).await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = if more { items.last().map(|last| last.host_id) } else { None };
    Ok(Page { items, next })
}

pub async fn list_unplanned(
    db: &mut impl Db,
    tenant: TenantId,
    job: JobId,
    after: u64,
    limit: u32,
) -> StoreResult<Page<(i64, HostName), u64>> {
    let nothing = || Page { items: Vec::new(), next: None };
    let Some(fleet) = find(db, tenant, job).await? else { return Ok(nothing()) };
    let Some(targets) = db.query(TARGETS, &[Val::Int(fleet.number)], |row| row.bytes(0)).await?.into_iter().next()
    else {
        return Ok(nothing());
    };
    let targets = read_targets(&targets).map_err(broken)?;
    let from = usize::try_from(fleet.planned + after).unwrap_or(usize::MAX).min(targets.len());
    let to = from.saturating_add(limit as usize).min(targets.len());
    let names = names_of(db, &targets[from..to], NAMES).await?;
    let items = targets[from..to].iter().filter_map(|id| names.get(id).map(|name| (*id, name.clone()))).collect();
    let next = (to < targets.len()).then(|| after + (to - from) as u64);
    Ok(Page { items, next })
}

async fn names_of(db: &mut impl Db, hosts: &[i64], sql: Sql) -> StoreResult<HashMap<i64, HostName>> {
    let read = |row: &dyn Row| Ok((row.int(0)?, HostName::new(&row.text(1)?).map_err(broken)?));
    Ok(db.query_many(sql, &[Col::Int(hosts.to_vec())], read).await?.into_iter().collect())
}

pub async fn list_targets(
    db: &mut impl Db,
    tenant: TenantId,
    job: JobId,
    after: u64,
    limit: u32,
) -> StoreResult<Page<(i64, Option<HostName>), u64>> {
    let nothing = || Page { items: Vec::new(), next: None };
    let Some(fleet) = find(db, tenant, job).await? else { return Ok(nothing()) };
    let targets = db.query(TARGETS, &[Val::Int(fleet.number)], |row| row.bytes(0)).await?.into_iter().next();
    let targets = read_targets(&targets.unwrap_or_default()).map_err(broken)?;
    let from = usize::try_from(after).unwrap_or(usize::MAX).min(targets.len());
    let to = from.saturating_add(limit as usize).min(targets.len());
    let mut names = names_of(db, &targets[from..to], NAMES_THERE).await?;
    let items = targets[from..to].iter().map(|id| (*id, names.remove(id))).collect();
    let next = (to < targets.len()).then_some(to as u64);
    Ok(Page { items, next })
}

pub async fn find_unit(
    db: &mut impl Db,
    tenant: TenantId,
    job: JobId,
    host: &HostName,
) -> StoreResult<Option<(UnitRecord, Vec<RunRecord>)>> {
    let Some(fleet) = find(db, tenant, job).await? else { return Ok(None) };
    let key = [Val::Int(fleet.number), Val::Text(host.as_str())];
    let found = db.query(UNIT, &key, |row| Ok((read_unit(row)?, row.int(13)?))).await?;
    let Some((unit, number)) = found.into_iter().next() else { return Ok(None) };
    let runs = db.query(RUNS, &[Val::Int(number)], read_run).await?;
    Ok(Some((unit, runs)))
}

pub async fn list_approvals(
    db: &mut impl Db,
    tenant: TenantId,
    after: Option<i64>,
    limit: u32,
) -> StoreResult<Page<WaitingApproval, i64>> {
    let params = [Val::Id(*tenant.as_uuid()), Val::Int(after.unwrap_or(0)), Val::Int(i64::from(limit) + 1)];
    let mut items: Vec<WaitingApproval> = db
        .query(APPROVALS, &params, |row| {
            Ok(WaitingApproval {
                job: JobId::from_uuid(row.id(0)?),
                number: row.int(1)?,
                command: row.text(2)?,
                hosts: whole(row.int(3)?),
                created_at: row.at(4)?,
                approval: read_approval(row, 5)?,
            })
        })
        .await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    for item in &mut items {
        item.approval.votes = votes(db, item.number).await?;
    }
    let next = if more { items.last().map(|last| last.number) } else { None };
    Ok(Page { items, next })
}

macro_rules! unit_columns {
    ($rest:literal) => {
        Sql::Same(concat!(
            "select j.host, h.name, j.kind, j.status, j.attempts, j.failures, j.losses, j.fence, j.due_at, j.result, j.error,
                    j.created_at, j.finished_at, j.number, r.id, r.status, r.worker, r.started_at, r.finished_at, r.exit_code,
                    b.id, b.reason, b.by, b.expires_at
             from job j join host h on h.id = j.host
             left join run r on r.number = j.number and r.fence = j.fence
             left join block b on b.id = j.block
             where j.parent = $1 ",
            $rest
        ))
    };
}

const FLEET: Sql = Sql::Same(
    "select f.number, i.name, f.command, f.shared, f.selector, f.rollout, f.deadline_ms, f.total, f.planned, f.stopped,
            a.state, a.hash, a.quorum, a.four_eyes, a.requester, case when j.status = 1 then j.due_at else null end,
            a.retry, a.superseded
     from job j join fleet f on f.number = j.number join inventory i on i.id = f.inventory
     left join approval a on a.number = f.number
     where j.tenant = $1 and j.id = $2 and j.parent is null",
);
const VOTES: Sql = Sql::Same("select by, yes, reason, at from vote where number = $1 order by at, by");
const TARGETS: Sql = Sql::Same("select targets from fleet where number = $1");
const NAMES: Sql = Sql::Each {
    sqlite: "select id, name from host where id = ?1",
    postgres: "select id, name from host where id = any ($1::bigint[])",
};
const NAMES_THERE: Sql = Sql::Each {
    sqlite: "select id, name from host where id = ?1 and removed_at is null",
    postgres: "select id, name from host where id = any ($1::bigint[]) and removed_at is null",
};
const UNITS: Sql = unit_columns!(
    "and j.host > $2 and ($4 = 0 or j.status = $4) and ($5 = '' or h.name = $5) order by j.host limit $3"
);
const UNIT: Sql = unit_columns!("and h.name = $2 order by j.host desc limit 1");
const RUNS: Sql = Sql::Same(concat!("select ", run_columns!(), " from run r where r.number = $1 order by r.fence"));
/// 1 is an approval that is required.
const APPROVALS: Sql = Sql::Same(
    "select j.id, j.number, f.command, f.total, j.created_at, a.state, a.hash, a.quorum, a.four_eyes, a.requester, j.due_at,
            a.retry, a.superseded
     from approval a join job j on j.number = a.number join fleet f on f.number = a.number
     where a.tenant = $1 and a.state = 1 and a.number > $2 order by a.number limit $3",
);
