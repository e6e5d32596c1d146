//! Resources and their versions, read.

use bowline_model::resource::ResourceKind;
use bowline_model::{ResourceName, TenantId};
use bowline_store::{
    ActiveStamp, OwnedResource, Page, ResourceKey, ResourceRecord, StoreError, StoreResult, VersionRecord,
};

use super::pages::within;
use crate::db::{Col, Db, Mode, Row, Sql, Val};
use crate::job_row::count;

/// Bytes of what people wrote, in one page of a list.
const PAGE_BYTES: u64 = 4 << 20;

fn version(row: &dyn Row, at: usize) -> StoreResult<VersionRecord> {
    Ok(VersionRecord {
        version: count(row.int(at)?),
        spec: row.text(at + 1)?.into(),
        note: row.opt_text(at + 2)?,
        by: row.text(at + 3)?,
        at: row.at(at + 4)?,
        source: row.opt_text(at + 5)?.map(Into::into),
    })
}

fn broken(what: String) -> StoreError {
    StoreError::Broken(format!("a stored resource cannot be read: {what}"))
}

fn resource(row: &dyn Row) -> StoreResult<ResourceRecord> {
    Ok(ResourceRecord {
        id: row.int(0)?,
        kind: row.text(1)?.parse().map_err(|e: bowline_model::resource::NotAKind| broken(e.to_string()))?,
        name: ResourceName::new(&row.text(2)?).map_err(|e| broken(e.to_string()))?,
        active: row.opt_int(3)?.map(count),
        latest: count(row.int(4)?),
        created_at: row.at(5)?,
        updated_at: row.at(6)?,
        owner: row.opt_text(13)?,
        version: version(row, 7)?,
    })
}

pub async fn find_resource(
    db: &mut impl Db,
    key: &ResourceKey,
    version: Option<u32>,
) -> StoreResult<Option<ResourceRecord>> {
    let params = [
        Val::Id(*key.tenant.as_uuid()),
        Val::Text(key.kind.as_str()),
        Val::Text(key.name.as_str()),
        Val::Int(version.map_or(-1, i64::from)),
    ];
    Ok(db.query(ONE, &params, resource).await?.into_iter().next())
}

pub async fn list_resources(
    db: &mut impl Db,
    tenant: TenantId,
    kind: ResourceKind,
    after: Option<&ResourceName>,
    limit: u32,
) -> StoreResult<Page<ResourceRecord, ResourceName>> {
    let params = [
        Val::Id(*tenant.as_uuid()),
        Val::Text(kind.as_str()),
        Val::Text(after.map_or("", ResourceName::as_str)),
        Val::Int(i64::from(limit) + 1),
    ];
    let sizes = db.query(SIZES, &params, |row| Ok((row.text(0)?, row.int(1)?))).await?;
    let Some(last) = within(PAGE_BYTES, &sizes[..sizes.len().min(limit as usize)]) else {
        return Ok(Page { items: Vec::new(), next: None });
    };
    let items = db.query(ALL, &[params[0], params[1], params[2], Val::Text(&last)], resource).await?;
    let next = match sizes.last() {
        Some((name, _)) if *name != last => Some(ResourceName::new(&last).map_err(|e| broken(e.to_string()))?),
        _ => None,
    };
    Ok(Page { items, next })
}

pub async fn list_active(
    db: &mut impl Db,
    kind: ResourceKind,
    after: i64,
    limit: u32,
) -> StoreResult<Page<(TenantId, ResourceRecord), i64>> {
    let params = [Val::Text(kind.as_str()), Val::Int(after), Val::Int(i64::from(limit) + 1)];
    let read = |row: &dyn Row| Ok((TenantId::from_uuid(row.id(14)?), resource(row)?));
    let mut items = db.query(ACTIVE, &params, read).await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = if more { items.last().map(|(_, last)| last.id) } else { None };
    Ok(Page { items, next })
}

pub async fn list_active_stamps(
    db: &mut impl Db,
    kind: ResourceKind,
    after: i64,
    limit: u32,
) -> StoreResult<Page<ActiveStamp, i64>> {
    let params = [Val::Text(kind.as_str()), Val::Int(after), Val::Int(i64::from(limit) + 1)];
    let read = |row: &dyn Row| {
        Ok(ActiveStamp {
            id: row.int(0)?,
            tenant: TenantId::from_uuid(row.id(1)?),
            name: ResourceName::new(&row.text(2)?).map_err(|e| broken(e.to_string()))?,
            version: count(row.int(3)?),
            owner: row.text(4)?,
        })
    };
    let mut items = db.query(STAMPS, &params, read).await?;
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = if more { items.last().map(|last| last.id) } else { None };
    Ok(Page { items, next })
}

pub async fn list_owned(db: &mut impl Db, owners: &[String]) -> StoreResult<Vec<OwnedResource>> {
    let read = |row: &dyn Row| {
        Ok(OwnedResource {
            tenant: TenantId::from_uuid(row.id(0)?),
            kind: row.text(1)?.parse().map_err(|e: bowline_model::resource::NotAKind| broken(e.to_string()))?,
            name: ResourceName::new(&row.text(2)?).map_err(|e| broken(e.to_string()))?,
            owner: row.text(3)?,
        })
    };
    let mut owned = db.query_many(OWNED, &[Col::Text(owners.iter().map(String::as_str).collect())], read).await?;
    owned.sort_by(|a, b| (a.kind.as_str(), &a.name).cmp(&(b.kind.as_str(), &b.name)));
    Ok(owned)
}

/// By the ledger's own time.
pub async fn count_stopped(db: &mut impl Db) -> StoreResult<u64> {
    let now = db.begin(Mode::Snapshot).await?;
    let found = db.query(STOPPED, &[Val::At(now)], |row| row.int(0)).await;
    db.rollback().await;
    Ok(found?.first().map_or(0, |count| u64::try_from(*count).unwrap_or(0)))
}

pub async fn list_versions(
    db: &mut impl Db,
    key: &ResourceKey,
    before: Option<u32>,
    limit: u32,
) -> StoreResult<Option<Page<VersionRecord, u32>>> {
    let Some(found) = find_resource(db, key, None).await? else { return Ok(None) };
    let params =
        [Val::Int(found.id), Val::Int(before.map_or(i64::from(i32::MAX), i64::from)), Val::Int(i64::from(limit) + 1)];
    let sizes = db.query(VERSION_SIZES, &params, |row| Ok((row.int(0)?, row.int(1)?))).await?;
    let Some(last) = within(PAGE_BYTES, &sizes[..sizes.len().min(limit as usize)]) else {
        return Ok(Some(Page { items: Vec::new(), next: None }));
    };
    let items = db.query(VERSIONS, &[params[0], params[1], Val::Int(last)], |row| version(row, 0)).await?;
    let next = sizes.last().filter(|(version, _)| *version != last).map(|_| count(last));
    Ok(Some(Page { items, next }))
}

macro_rules! record {
    ($rest:literal) => {
        Sql::Same(concat!(
            "select r.id, r.kind, r.name, r.active, r.latest, r.created_at, r.updated_at,
                    v.version, v.spec, v.note, v.by, v.at, v.source, r.owner
             from resource r join resource_version v on v.resource = r.id
             where r.tenant = $1 and r.kind = $2 and ",
            $rest
        ))
    };
}

const ONE: Sql = record!("r.name = $3 and v.version = case when $4 < 0 then coalesce(r.active, r.latest) else $4 end");
const ALL: Sql = record!("r.name > $3 and r.name <= $4 and v.version = coalesce(r.active, r.latest) order by r.name");
/// Of what [`ALL`] would show.
const SIZES: Sql = Sql::Each {
    sqlite: "select r.name, octet_length(v.spec) + coalesce(octet_length(v.source), 0)
             from resource r join resource_version v on v.resource = r.id and v.version = coalesce(r.active, r.latest)
             where r.tenant = ?1 and r.kind = ?2 and r.name > ?3 order by r.name limit ?4",
    postgres: "select r.name, (octet_length(v.spec) + coalesce(octet_length(v.source), 0))::bigint
               from resource r join resource_version v on v.resource = r.id and v.version = coalesce(r.active, r.latest)
               where r.tenant = $1 and r.kind = $2 and r.name > $3 order by r.name limit $4",
};
const ACTIVE: Sql = Sql::Same(
    "select r.id, r.kind, r.name, r.active, r.latest, r.created_at, r.updated_at,
            v.version, v.spec, v.note, v.by, v.at, cast(null as text), r.owner, r.tenant
     from resource r join resource_version v on v.resource = r.id and v.version = r.active
     where r.kind = $1 and r.id > $2 order by r.id limit $3",
);
const STAMPS: Sql = Sql::Same(
    "select r.id, r.tenant, r.name, v.version, coalesce(r.owner, v.by)
     from resource r join resource_version v on v.resource = r.id and v.version = r.active
     where r.kind = $1 and r.id > $2 order by r.id limit $3",
);
const OWNED: Sql = Sql::Each {
    sqlite: "select tenant, kind, name, owner from resource where owner = ?1 and active is not null",
    postgres: "select tenant, kind, name, owner from resource where owner = any ($1::text[]) and active is not null",
};
const STOPPED: Sql = Sql::Same(
    "select count(*) from resource r join token t on r.owner = 'token:' || t.id
     where r.active is not null and (t.revoked_at is not null or t.expires_at <= $1)",
);
const VERSIONS: Sql = Sql::Same(
    "select version, spec, note, by, at, source from resource_version
     where resource = $1 and version < $2 and version >= $3 order by version desc",
);
/// Of what [`VERSIONS`] would show.
const VERSION_SIZES: Sql = Sql::Each {
    sqlite: "select version, octet_length(spec) + coalesce(octet_length(source), 0) from resource_version
             where resource = ?1 and version < ?2 order by version desc limit ?3",
    postgres: "select version, (octet_length(spec) + coalesce(octet_length(source), 0))::bigint from resource_version
               where resource = $1 and version < $2 order by version desc limit $3",
};
