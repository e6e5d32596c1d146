//! Inventories, hosts and groups, read.

use bowline_model::host::Group;
use bowline_model::{HostName, InventoryName, TenantId};
use bowline_store::{HostRecord, InventoryRecord, Page, StoreError, StoreResult};

use super::pages::within;
use crate::db::{Db, Row, Sql, Val};
use crate::host_row::{group, host, host_columns};

fn inventory(row: &dyn Row) -> StoreResult<InventoryRecord> {
    Ok(InventoryRecord {
        id: row.int(0)?,
        name: InventoryName::new(&row.text(1)?).map_err(|e| StoreError::Broken(e.to_string()))?,
        revision: row.int(2)?,
        created_at: row.at(3)?,
        updated_at: row.at(4)?,
        hosts: u64::try_from(row.int(5)?).unwrap_or(0),
        groups: u64::try_from(row.int(6)?).unwrap_or(0),
    })
}

pub async fn find_inventory(
    db: &mut impl Db,
    tenant: TenantId,
    name: &InventoryName,
) -> StoreResult<Option<InventoryRecord>> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Text(name.as_str())];
    Ok(db.query(INVENTORY, &key, inventory).await?.into_iter().next())
}

pub async fn list_inventories(db: &mut impl Db, tenant: TenantId) -> StoreResult<Vec<InventoryRecord>> {
    db.query(INVENTORIES, &[Val::Id(*tenant.as_uuid())], inventory).await
}

pub async fn list_groups(db: &mut impl Db, tenant: TenantId, name: &InventoryName) -> StoreResult<Vec<Group>> {
    db.query(GROUPS, &[Val::Id(*tenant.as_uuid()), Val::Text(name.as_str())], group).await
}

pub async fn list_hosts(
    db: &mut impl Db,
    tenant: TenantId,
    inventory: &InventoryName,
    after: Option<&HostName>,
    limit: u32,
) -> StoreResult<Page<HostRecord, HostName>> {
    let params = [
        Val::Id(*tenant.as_uuid()),
        Val::Text(inventory.as_str()),
        Val::Text(after.map_or("", HostName::as_str)),
        Val::Int(i64::from(limit) + 1),
    ];
    let sizes = db.query(SIZES, &params, |row| Ok((row.text(0)?, row.int(1)?))).await?;
    let Some(last) = within(PAGE_BYTES, &sizes[..sizes.len().min(limit as usize)]) else {
        return Ok(Page { items: Vec::new(), next: None });
    };
    // A host that came in between is on this page, too.
    let items = db.query(HOSTS, &[params[0], params[1], params[2], Val::Text(&last), params[3]], host).await?;
    let next = match sizes.last() {
        Some((name, _)) if *name != last => {
            Some(HostName::new(&last).map_err(|error| StoreError::Broken(error.to_string()))?)
        }
        _ => None,
    };
    Ok(Page { items, next })
}

/// Bytes of what is said of hosts, in one page of a list.
const PAGE_BYTES: u64 = 4 << 20;

pub async fn find_host(
    db: &mut impl Db,
    tenant: TenantId,
    inventory: &InventoryName,
    name: &HostName,
) -> StoreResult<Option<HostRecord>> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Text(inventory.as_str()), Val::Text(name.as_str())];
    Ok(db.query(HOST, &key, host).await?.into_iter().next())
}

macro_rules! inventory_record {
    ($rest:literal) => {
        Sql::Same(concat!(
            "select i.id, i.name, i.revision, i.created_at, i.updated_at,
               (select count(*) from host h where h.inventory = i.id and h.removed_at is null),
               (select count(*) from host_group g where g.inventory = i.id)
             from inventory i where i.tenant = $1 ",
            $rest
        ))
    };
}

const INVENTORY: Sql = inventory_record!("and i.name = $2");
const INVENTORIES: Sql = inventory_record!("order by i.name");
const GROUPS: Sql = Sql::Same(
    "select g.name, g.groups, g.vars from inventory i join host_group g on g.inventory = i.id
     where i.tenant = $1 and i.name = $2 order by g.name",
);
const HOSTS: Sql = Sql::Same(concat!(
    "select ",
    host_columns!(),
    " from inventory i join host h on h.inventory = i.id and h.removed_at is null
     where i.tenant = $1 and i.name = $2 and h.name > $3 and h.name <= $4 order by h.name limit $5"
));
/// Why two texts: each engine has its own way to know a length without reading the text.
const SIZES: Sql = Sql::Each {
    sqlite: "select h.name, octet_length(h.name) + octet_length(h.labels) + octet_length(h.groups)
                    + octet_length(h.connection) + coalesce(octet_length(h.vars), 0)
             from inventory i join host h on h.inventory = i.id and h.removed_at is null
             where i.tenant = ?1 and i.name = ?2 and h.name > ?3 order by h.name limit ?4",
    postgres: "select h.name, (octet_length(h.name) + octet_length(h.labels) + octet_length(h.groups)
                      + octet_length(h.connection) + coalesce(octet_length(h.vars), 0))::bigint
               from inventory i join host h on h.inventory = i.id and h.removed_at is null
               where i.tenant = $1 and i.name = $2 and h.name > $3 order by h.name limit $4",
};
const HOST: Sql = Sql::Same(concat!(
    "select ",
    host_columns!(),
    " from inventory i join host h on h.inventory = i.id and h.removed_at is null
     where i.tenant = $1 and i.name = $2 and h.name = $3"
));
