//! Resources, written: a version is added or the pointer is moved, and either is told with who and why.

use bowline_model::EventKind;
use bowline_model::event::EventData;
use bowline_model::resource::{ResourceKind, summary_of_changes};
use bowline_store::{
    Activated, Activation, Deleted, OnceKey, ResourceKey, ResourceOrder, ResourcePut, ResourceStored, StoreError,
    StoreResult,
};

use super::Desk;
use super::audit::{Changed, Diff};
use super::once::{Known, find_once, keep_once};
use super::schedules::{begin_schedule, forget_schedule};
use crate::changes::{Changes, Heard};
use crate::db::{Db, Sql, Val};
use crate::job_row::count;

struct Found {
    id: i64,
    active: Option<u32>,
    latest: u32,
}

/// The resource, locked.
async fn find(db: &mut impl Db, key: &ResourceKey) -> StoreResult<Option<Found>> {
    let params = [Val::Id(*key.tenant.as_uuid()), Val::Text(key.kind.as_str()), Val::Text(key.name.as_str())];
    let read = |row: &dyn crate::db::Row| {
        Ok(Found { id: row.int(0)?, active: row.opt_int(1)?.map(count), latest: count(row.int(2)?) })
    };
    Ok(db.query(LOCK, &params, read).await?.into_iter().next())
}

pub async fn put_resource(
    db: &mut impl Db,
    desk: &Desk<'_>,
    put: &ResourcePut,
) -> StoreResult<(ResourceStored, Heard)> {
    let key = &put.key;
    if put.seen.is_none_or(|seen| seen == 0) {
        let params = [
            Val::Id(*key.tenant.as_uuid()),
            Val::Text(key.kind.as_str()),
            Val::Text(key.name.as_str()),
            Val::At(desk.now),
        ];
        db.execute(MAKE, &params).await?;
    }
    let Some(found) = find(db, key).await? else {
        return Ok((ResourceStored::Overtaken { latest: 0 }, Heard::default()));
    };
    let latest = [Val::Int(found.id), Val::Int(found.latest.into()), Val::Text(&put.spec)];
    if !db.query(SAME, &latest, |_| Ok(())).await?.is_empty() {
        if let Some(source) = &put.source {
            let written = [Val::Int(found.id), Val::Int(found.latest.into()), Val::Text(source)];
            db.execute(REPLACE_SOURCE, &written).await?;
        }
        return say_unchanged(db, desk, put, &found).await;
    }
    if put.seen.is_some_and(|seen| seen != found.latest) {
        return Ok((ResourceStored::Overtaken { latest: found.latest }, Heard::default()));
    }
    let version = found.latest + 1;
    let active = if put.activate { Some(version) } else { found.active };
    let params = [
        Val::Int(found.id),
        Val::Int(version.into()),
        Val::Text(&put.spec),
        Val::OptText(put.note.as_deref()),
        Val::Text(&put.by),
        Val::At(desk.now),
        Val::OptText(put.source.as_deref()),
    ];
    let diff = diff_of(db, put, &found).await?;
    db.execute(ADD_VERSION, &params).await?;
    db.execute(ADVANCE, &[Val::Int(found.id), Val::Int(version.into()), Val::At(desk.now)]).await?;
    let mut told = format!("version {version}");
    if put.activate {
        point(db, desk, key, found.id, version, &put.by).await?;
        told.push_str(", active at once");
    }
    if let Some(note) = &put.note {
        told.push_str(": ");
        told.push_str(note);
    }
    let mut heard = tell(db, desk, key, EventKind::ResourceStored, &put.by, told).await?;
    heard.diffs.push(Diff { of: Changed::Resource(key.clone(), version), text: diff });
    Ok((ResourceStored::Stored { version, active }, heard))
}

/// What a new version changes, against the active one or else the latest.
async fn diff_of(db: &mut impl Db, put: &ResourcePut, found: &Found) -> StoreResult<String> {
    let version = found.active.unwrap_or(found.latest);
    let before = db.query(SPEC, &[Val::Int(found.id), Val::Int(version.into())], |row| row.text(0)).await?;
    // What cannot be read any more is as good as nothing: the change itself must not fail for it.
    let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| serde_json::json!({}));
    let before = before.first().map_or_else(|| serde_json::json!({}), |text| read(text));
    Ok(summary_of_changes(&before, &read(&put.spec)).to_string())
}

async fn say_unchanged(
    db: &mut impl Db,
    desk: &Desk<'_>,
    put: &ResourcePut,
    found: &Found,
) -> StoreResult<(ResourceStored, Heard)> {
    let version = found.latest;
    if !put.activate || found.active == Some(version) {
        let answer = ResourceStored::Unchanged { version, active: found.active, activated: false };
        let heard = if put.activate { take_over(db, desk, &put.key, found, &put.by).await? } else { Heard::default() };
        return Ok((answer, heard));
    }
    point(db, desk, &put.key, found.id, version, &put.by).await?;
    let heard =
        tell(db, desk, &put.key, EventKind::ResourceActivated, &put.by, moved(found.active, version, None)).await?;
    Ok((ResourceStored::Unchanged { version, active: Some(version), activated: true }, heard))
}

/// What became of an activation under this key, if there was one.
pub async fn find_activation(
    db: &mut impl Db,
    key: &ResourceKey,
    once: Option<&OnceKey>,
) -> StoreResult<Option<Activated>> {
    Ok(match find_once(db, key.tenant, &operation(key), once).await? {
        None => None,
        Some(Known::Conflict) => Some(Activated::KeyConflict),
        Some(Known::Answered(answer)) => {
            let (version, before) =
                serde_json::from_str(&answer).map_err(|e| StoreError::Broken(format!("a kept answer: {e}")))?;
            Some(Activated::Replayed { version, before })
        }
    })
}

fn operation(key: &ResourceKey) -> String {
    format!("activate/{}/{}", key.kind, key.name)
}

pub async fn activate_resource(
    db: &mut impl Db,
    desk: &Desk<'_>,
    Activation { order, version, once, .. }: &Activation,
) -> StoreResult<(Activated, Heard)> {
    let version = *version;
    if let Some(known) = find_activation(db, &order.key, once.as_ref()).await? {
        return Ok((known, Heard::default()));
    }
    let Some(found) = find(db, &order.key).await? else { return Ok((Activated::NotFound, Heard::default())) };
    if db.query(HAS, &[Val::Int(found.id), Val::Int(version.into())], |_| Ok(())).await?.is_empty() {
        return Ok((Activated::NotFound, Heard::default()));
    }
    let answer = serde_json::to_string(&(version, found.active)).unwrap_or_default();
    keep_once(db, desk, order.key.tenant, &operation(&order.key), once.as_ref(), &answer).await?;
    if found.active == Some(version) {
        return Ok((Activated::Unchanged, take_over(db, desk, &order.key, &found, &order.by).await?));
    }
    point(db, desk, &order.key, found.id, version, &order.by).await?;
    let told = moved(found.active, version, order.reason.as_deref());
    let heard = tell(db, desk, &order.key, EventKind::ResourceActivated, &order.by, told).await?;
    Ok((Activated::Done { before: found.active }, heard))
}

pub async fn delete_resource(
    db: &mut impl Db,
    desk: &Desk<'_>,
    order: &ResourceOrder,
) -> StoreResult<(Deleted, Heard)> {
    let Some(found) = find(db, &order.key).await? else { return Ok((Deleted::NotFound, Heard::default())) };
    let jobs = db.query(USED_BY, &[Val::Int(found.id)], |row| row.int(0)).await?.first().copied().unwrap_or(0);
    if jobs > 0 {
        let jobs =
            if jobs == 1 { "a job that is not over".to_owned() } else { format!("{jobs} jobs that are not over") };
        return Ok((Deleted::InUse(jobs), Heard::default()));
    }
    if order.key.kind == ResourceKind::SecretRef
        && let Some(by) = who_names_secret(db, &order.key).await?
    {
        return Ok((Deleted::InUse(by), Heard::default()));
    }
    if order.key.kind == ResourceKind::Rabbitmq
        && let Some(trigger) = who_reads_from(db, &order.key).await?
    {
        return Ok((Deleted::InUse(format!("the trigger {trigger}")), Heard::default()));
    }
    if order.key.kind == ResourceKind::Schedule {
        forget_schedule(db, found.id).await?;
    }
    db.execute(DELETE_VERSIONS, &[Val::Int(found.id)]).await?;
    db.execute(DELETE, &[Val::Int(found.id)]).await?;
    let told = order.reason.clone().unwrap_or_default();
    Ok((Deleted::Done, tell(db, desk, &order.key, EventKind::ResourceDeleted, &order.by, told).await?))
}

/// Who would miss a secret: a command type or a broker as it counts now, or a command that is under way.
async fn who_names_secret(db: &mut impl Db, key: &ResourceKey) -> StoreResult<Option<String>> {
    // As the canonical form of a command writes it.
    let named = format!("\"secret://{}\"", key.name);
    let wanted = [Val::Id(*key.tenant.as_uuid()), Val::Text(ResourceKind::Command.as_str()), Val::Text(&named)];
    if let Some(command) = db.query(NAMED_BY, &wanted, |row| row.text(0)).await?.into_iter().next() {
        return Ok(Some(format!("the command type {command}")));
    }
    // As the canonical form of a broker writes it.
    let of_broker = format!("\"secret_ref\":\"{}\"", key.name);
    let wanted = [Val::Id(*key.tenant.as_uuid()), Val::Text(ResourceKind::Rabbitmq.as_str()), Val::Text(&of_broker)];
    if let Some(broker) = db.query(NAMED_BY, &wanted, |row| row.text(0)).await?.into_iter().next() {
        return Ok(Some(format!("the broker {broker}")));
    }
    let wanted = [Val::Id(*key.tenant.as_uuid()), Val::Text(&named)];
    let jobs = db.query(SECRET_OF_JOBS, &wanted, |row| row.int(0)).await?.first().copied().unwrap_or(0);
    Ok((jobs > 0).then(|| format!("commands that are not over: {jobs}")))
}

/// The trigger that reads from a broker, as it counts now.
async fn who_reads_from(db: &mut impl Db, key: &ResourceKey) -> StoreResult<Option<String>> {
    // As the canonical form of a trigger writes it.
    let named = format!("\"rabbitmq\":{{\"broker\":\"{}\"", key.name);
    let wanted = [Val::Id(*key.tenant.as_uuid()), Val::Text(ResourceKind::Trigger.as_str()), Val::Text(&named)];
    Ok(db.query(NAMED_BY, &wanted, |row| row.text(0)).await?.into_iter().next())
}

fn moved(before: Option<u32>, version: u32, reason: Option<&str>) -> String {
    let mut told = match before {
        Some(before) => format!("version {version} instead of {before}"),
        None => format!("version {version}"),
    };
    if let Some(reason) = reason {
        told.push_str(": ");
        told.push_str(reason);
    }
    told
}

/// What starts jobs does so with the rights of the one who applied it last, also if nothing else has changed.
async fn take_over(
    db: &mut impl Db,
    desk: &Desk<'_>,
    key: &ResourceKey,
    found: &Found,
    by: &str,
) -> StoreResult<Heard> {
    let (true, Some(active)) = (key.kind.starts_jobs(), found.active) else { return Ok(Heard::default()) };
    if db.execute(TAKE_OVER, &[Val::Int(found.id), Val::Text(by)]).await? == 0 {
        return Ok(Heard::default());
    }
    tell(db, desk, key, EventKind::ResourceActivated, by, format!("version {active}, taken over by {by}")).await
}

async fn point(
    db: &mut impl Db,
    desk: &Desk<'_>,
    key: &ResourceKey,
    id: i64,
    version: u32,
    by: &str,
) -> StoreResult<()> {
    let changed = db.execute(POINT, &[Val::Int(id), Val::Int(version.into()), Val::At(desk.now)]).await?;
    if changed != 1 {
        return Err(StoreError::Conflict("the resource went away".to_owned()));
    }
    if key.kind.starts_jobs() {
        db.execute(TAKE_OVER, &[Val::Int(id), Val::Text(by)]).await?;
    }
    if key.kind == ResourceKind::Schedule {
        begin_schedule(db, desk, id, key.tenant, version).await?;
    }
    Ok(())
}

async fn tell(
    db: &mut impl Db,
    desk: &Desk<'_>,
    key: &ResourceKey,
    kind: EventKind,
    by: &str,
    told: String,
) -> StoreResult<Heard> {
    let reason = if told.is_empty() {
        format!("{} {}", key.kind, key.name)
    } else {
        format!("{} {}: {told}", key.kind, key.name)
    };
    let mut changes = Changes::at(desk.now);
    changes.tell(
        key.tenant,
        None,
        None,
        kind,
        EventData { by: Some(by.to_owned()), reason: Some(reason), ..EventData::default() },
    );
    let mut heard = changes.write(db).await?;
    // What is due, and when, may be something else now; so may which queues are read, and where.
    heard.timers |= key.kind.starts_jobs() || key.kind == ResourceKind::Rabbitmq;
    Ok(heard)
}

const MAKE: Sql = Sql::Same(
    "insert into resource (tenant, kind, name, active, latest, created_at, updated_at)
     values ($1, $2, $3, null, 0, $4, $4) on conflict do nothing",
);
/// Writers of one resource come one after the other.
const LOCK: Sql = Sql::Each {
    sqlite: "select id, active, latest from resource where tenant = ?1 and kind = ?2 and name = ?3",
    postgres: "select id, active, latest from resource where tenant = $1 and kind = $2 and name = $3 for update",
};
const SAME: Sql = Sql::Same("select 1 from resource_version where resource = $1 and version = $2 and spec = $3");
const SPEC: Sql = Sql::Same("select spec from resource_version where resource = $1 and version = $2");
const HAS: Sql = Sql::Same("select 1 from resource_version where resource = $1 and version = $2");
const ADD_VERSION: Sql = Sql::Same(
    "insert into resource_version (resource, version, spec, note, by, at, source) values ($1, $2, $3, $4, $5, $6, $7)",
);
const REPLACE_SOURCE: Sql = Sql::Same(
    "update resource_version set source = $3
     where resource = $1 and version = $2 and (source is null or source <> $3)",
);
const ADVANCE: Sql = Sql::Same("update resource set latest = $2, updated_at = $3 where id = $1");
const POINT: Sql = Sql::Same("update resource set active = $2, updated_at = $3 where id = $1");
const TAKE_OVER: Sql = Sql::Same("update resource set owner = $2 where id = $1 and (owner is null or owner <> $2)");
const USED_BY: Sql = Sql::Same(
    "select count(*) from fleet f join job j on j.number = f.number where f.resource = $1 and j.finished_at is null",
);
const NAMED_BY: Sql = Sql::Each {
    sqlite: "select r.name from resource r join resource_version v on v.resource = r.id and v.version = r.active
             where r.tenant = ?1 and r.kind = ?2 and instr(v.spec, ?3) > 0 order by r.name limit 1",
    postgres: "select r.name from resource r join resource_version v on v.resource = r.id and v.version = r.active
               where r.tenant = $1 and r.kind = $2 and strpos(v.spec, $3) > 0 order by r.name limit 1",
};
const SECRET_OF_JOBS: Sql = Sql::Each {
    sqlite: "select count(*) from fleet f join job j on j.number = f.number
             where j.tenant = ?1 and j.finished_at is null and instr(j.payload, ?2) > 0",
    postgres: "select count(*) from fleet f join job j on j.number = f.number
               where j.tenant = $1 and j.finished_at is null and strpos(j.payload::text, $2) > 0",
};
const DELETE_VERSIONS: Sql = Sql::Same("delete from resource_version where resource = $1");
const DELETE: Sql = Sql::Same("delete from resource where id = $1");
