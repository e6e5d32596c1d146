//! Inventories, hosts and groups, written: a description is made true in one transaction, however long it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bowline_model::event::EventData;
use bowline_model::host::{
    GROUP_VARS_BYTES_MAX, GROUPS_MAX, Group, GroupTree, HOST_GROUPS_MAX, Host, NESTED_MAX, TooManyGroups, TooManyVars,
    check_group_vars, check_groups,
};
use bowline_model::resource::summary_of_changes;
use bowline_model::{EventKind, HostName, InventoryName, TenantId};
use bowline_store::{InventoryPut, PutAnswer, PutCounts, StoreError, StoreResult, Unmentioned};

use serde_json::{Map, Value, json};

use super::Desk;
use super::audit::{Changed, Diff};
use crate::changes::{Changes, Heard};
use crate::db::{Col, Db, Sql, Val};
use crate::host_row::{Texts, group, group_text, host, host_columns, vars_text};

/// Hosts, and groups, whose change a record in the audit trail looks into. The counts beside it say how many there were.
const LOOKED_INTO_MAX: usize = 50;

pub async fn put_inventory(db: &mut impl Db, desk: &Desk<'_>, put: &InventoryPut) -> StoreResult<(PutAnswer, Heard)> {
    let (inventory, revision) = ensure(db, desk, put.tenant, &put.inventory).await?;
    put.content.check_host_groups().map_err(too_many)?;
    // A description without a word about groups leaves them as they are, and they are not looked at.
    let about_groups = !put.content.groups.is_empty() || put.unmentioned == Unmentioned::Remove;
    let known: Vec<Group> =
        if about_groups { db.query(GROUPS, &[Val::Int(inventory)], group).await? } else { Vec::new() };
    let groups = GroupChanges::between(&known, put);
    // Before anything walks through them. What is taken away may be taken away from an inventory that has too many.
    if !put.content.groups.is_empty() {
        check_groups(groups.result.values().copied()).map_err(too_many)?;
    }
    if let Err(circle) = GroupTree::new(groups.result.iter().map(|(name, group)| (*name, &group.groups))) {
        return Ok((PutAnswer::Circle(circle.0), Heard::default()));
    }
    // Asked again here: two descriptions that fit one by one need not fit together.
    if !put.content.groups.is_empty()
        && let Err(TooManyVars::Groups { bytes, .. }) = check_group_vars(groups.result.values().copied())
    {
        let (used, max) = (bytes as u64, GROUP_VARS_BYTES_MAX as u64);
        return Err(StoreError::Quota { quota: "group_variables", used, max });
    }
    let mut diff = InventoryDiff::default();
    let mut counts = put_hosts(db, desk, inventory, put, &mut diff).await?;
    groups.describe(&known, &mut diff);
    counts.groups = groups.write(db, inventory).await?;
    counts.revision = revision;
    if counts.created + counts.changed + counts.removed + counts.groups == 0 {
        return Ok((PutAnswer::Done(counts), Heard::default()));
    }
    counts.revision += 1;
    let (about, why) = ((put.tenant, &put.inventory), put.reason.as_deref());
    let mut heard = tell(db, desk, inventory, about, &put.by, why, &counts).await?;
    let of = Changed::Inventory(put.tenant, put.inventory.clone(), counts.revision);
    heard.diffs.push(Diff { of, text: diff.summary().to_string() });
    Ok((PutAnswer::Done(counts), heard))
}

pub async fn remove_hosts(
    db: &mut impl Db,
    desk: &Desk<'_>,
    (tenant, name): (TenantId, &InventoryName),
    hosts: &[HostName],
    by: &str,
    reason: Option<&str>,
) -> StoreResult<(u64, Heard)> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Text(name.as_str())];
    let Some(inventory) = db.query(LOCK, &key, |row| row.int(0)).await?.into_iter().next() else {
        return Ok((0, Heard::default()));
    };
    let cols = [
        Col::Int(vec![inventory; hosts.len()]),
        Col::Text(hosts.iter().map(HostName::as_str).collect()),
        Col::At(vec![desk.now; hosts.len()]),
    ];
    let removed = db.execute_many(REMOVE, &cols).await?;
    if removed == 0 {
        return Ok((0, Heard::default()));
    }
    let counts = PutCounts { removed, ..PutCounts::default() };
    Ok((removed, tell(db, desk, inventory, (tenant, name), by, reason, &counts).await?))
}

/// The inventory, locked, and its revision.
async fn ensure(db: &mut impl Db, desk: &Desk<'_>, tenant: TenantId, name: &InventoryName) -> StoreResult<(i64, i64)> {
    let key = [Val::Id(*tenant.as_uuid()), Val::Text(name.as_str()), Val::At(desk.now)];
    db.execute(ADD, &key).await?;
    let found = db.query(LOCK, &key[..2], |row| Ok((row.int(0)?, row.int(1)?))).await?;
    found.into_iter().next().ok_or_else(|| StoreError::Conflict("the inventory went away".to_owned()))
}

async fn put_hosts(
    db: &mut impl Db,
    desk: &Desk<'_>,
    inventory: i64,
    put: &InventoryPut,
    diff: &mut InventoryDiff,
) -> StoreResult<PutCounts> {
    // Whoever stands twice in a description is what the last line says.
    let wanted: BTreeMap<&HostName, &Host> = put.content.hosts.iter().map(|host| (&host.name, host)).collect();
    let key = [Col::Int(vec![inventory; wanted.len()]), Col::Text(wanted.keys().map(|name| name.as_str()).collect())];
    let known: HashMap<HostName, (i64, Host)> = db
        .query_many(HOSTS, &key, host)
        .await?
        .into_iter()
        .map(|record| (record.host.name.clone(), (record.id, record.host)))
        .collect();
    let mut counts = PutCounts::default();
    let (mut made, mut changed) = (Vec::new(), Vec::new());
    for host in wanted.values() {
        match known.get(&host.name) {
            Some((_, there)) if there == *host => counts.unchanged += 1,
            Some((id, there)) => {
                diff.host(&host.name, Some(there), Some(*host));
                changed.push((*id, *host, Texts::of(host)?));
            }
            None => {
                diff.host(&host.name, None, Some(*host));
                made.push((*host, Texts::of(host)?));
            }
        }
    }
    counts.created = made.len() as u64;
    counts.changed = changed.len() as u64;
    if !made.is_empty() {
        let cols = [
            Col::Int(vec![inventory; made.len()]),
            Col::Id(vec![*put.tenant.as_uuid(); made.len()]),
            Col::Text(made.iter().map(|(host, _)| host.name.as_str()).collect()),
            Col::Text(made.iter().map(|(_, texts)| texts.labels.as_str()).collect()),
            Col::Text(made.iter().map(|(_, texts)| texts.groups.as_str()).collect()),
            Col::OptText(made.iter().map(|(_, texts)| texts.vars.as_deref()).collect()),
            Col::Text(made.iter().map(|(_, texts)| texts.connection.as_str()).collect()),
            Col::At(vec![desk.now; made.len()]),
        ];
        db.execute_many(MAKE, &cols).await?;
    }
    if !changed.is_empty() {
        let cols = [
            Col::Int(changed.iter().map(|(id, ..)| *id).collect()),
            Col::Text(changed.iter().map(|(.., texts)| texts.labels.as_str()).collect()),
            Col::Text(changed.iter().map(|(.., texts)| texts.groups.as_str()).collect()),
            Col::OptText(changed.iter().map(|(.., texts)| texts.vars.as_deref()).collect()),
            Col::Text(changed.iter().map(|(.., texts)| texts.connection.as_str()).collect()),
            Col::At(vec![desk.now; changed.len()]),
        ];
        db.execute_many(CHANGE, &cols).await?;
    }
    if put.unmentioned == Unmentioned::Remove {
        let there = db.query(NAMES, &[Val::Int(inventory)], |row| row.text(0)).await?;
        let wanted: BTreeSet<&str> = wanted.keys().map(|name| name.as_str()).collect();
        let gone: Vec<&str> = there.iter().map(String::as_str).filter(|name| !wanted.contains(name)).collect();
        counts.removed = gone.len() as u64;
        let shown: Vec<&str> = gone.iter().copied().take(LOOKED_INTO_MAX).collect();
        let shown = [Col::Int(vec![inventory; shown.len()]), Col::Text(shown)];
        for record in db.query_many(HOSTS, &shown, host).await? {
            diff.host(&record.host.name, Some(&record.host), None);
        }
        let cols =
            [Col::Int(vec![inventory; gone.len()]), Col::Text(gone.clone()), Col::At(vec![desk.now; gone.len()])];
        db.execute_many(REMOVE, &cols).await?;
    }
    Ok(counts)
}

/// One description by itself is checked before it comes here; two that fit one by one need not fit together.
fn too_many(error: TooManyGroups) -> StoreError {
    let (quota, used, max) = match error {
        TooManyGroups::Groups { count } => ("groups", count, GROUPS_MAX),
        TooManyGroups::Nested { count, .. } => ("nested_groups", count, NESTED_MAX),
        TooManyGroups::OfHost { count, .. } => ("host_groups", count, HOST_GROUPS_MAX),
    };
    StoreError::Quota { quota, used: used as u64, max: max as u64 }
}

/// Which groups there are to be, and which rows that takes.
struct GroupChanges<'a> {
    result: BTreeMap<&'a bowline_model::GroupName, &'a Group>,
    put: Vec<&'a Group>,
    removed: Vec<&'a str>,
}

impl<'a> GroupChanges<'a> {
    fn between(known: &'a [Group], put: &'a InventoryPut) -> Self {
        let before: BTreeMap<_, _> = known.iter().map(|group| (&group.name, group)).collect();
        let wanted: BTreeMap<_, _> = put.content.groups.iter().map(|group| (&group.name, group)).collect();
        let changed = wanted.values().copied().filter(|group| before.get(&group.name) != Some(group)).collect();
        let removed: Vec<&str> = match put.unmentioned {
            Unmentioned::Keep => Vec::new(),
            Unmentioned::Remove => {
                before.keys().filter(|name| !wanted.contains_key(*name)).map(|name| name.as_str()).collect()
            }
        };
        let mut result = before;
        result.retain(|name, _| !removed.contains(&name.as_str()));
        result.extend(wanted);
        Self { result, put: changed, removed }
    }

    fn describe(&self, known: &[Group], diff: &mut InventoryDiff) {
        let before = |name: &str| known.iter().find(|group| group.name.as_str() == name);
        for group in self.put.iter().take(LOOKED_INTO_MAX) {
            diff.group(group.name.as_str(), before(group.name.as_str()), Some(group));
        }
        for name in self.removed.iter().take(LOOKED_INTO_MAX) {
            diff.group(name, before(name), None);
        }
    }

    async fn write(&self, db: &mut impl Db, inventory: i64) -> StoreResult<u64> {
        if !self.put.is_empty() {
            let groups: Vec<String> = self.put.iter().map(|group| group_text(&group.groups)).collect();
            let vars: Vec<Option<String>> =
                self.put.iter().map(|group| vars_text(&group.vars)).collect::<StoreResult<_>>()?;
            let cols = [
                Col::Int(vec![inventory; self.put.len()]),
                Col::Text(self.put.iter().map(|group| group.name.as_str()).collect()),
                Col::Text(groups.iter().map(String::as_str).collect()),
                Col::OptText(vars.iter().map(Option::as_deref).collect()),
            ];
            db.execute_many(GROUP_PUT, &cols).await?;
        }
        let cols = [Col::Int(vec![inventory; self.removed.len()]), Col::Text(self.removed.clone())];
        db.execute_many(GROUP_REMOVE, &cols).await?;
        Ok((self.put.len() + self.removed.len()) as u64)
    }
}

/// What the first hosts and groups that change were, and what they are: by name, hosts and groups apart.
#[derive(Default)]
struct InventoryDiff {
    hosts: [Map<String, Value>; 2],
    groups: [Map<String, Value>; 2],
}

impl InventoryDiff {
    fn host(&mut self, name: &HostName, before: Option<&Host>, after: Option<&Host>) {
        note(&mut self.hosts, name.as_str(), before, after);
    }

    fn group(&mut self, name: &str, before: Option<&Group>, after: Option<&Group>) {
        note(&mut self.groups, name, before, after);
    }

    /// Field by field. Without a count: what was not looked into is not in it.
    fn summary(self) -> Value {
        let ([hosts_before, hosts_after], [groups_before, groups_after]) = (self.hosts, self.groups);
        let before = json!({"hosts": hosts_before, "groups": groups_before});
        let after = json!({"hosts": hosts_after, "groups": groups_after});
        let mut summary = summary_of_changes(&before, &after);
        json!({"changed": summary["changed"].take()})
    }
}

fn note<T: serde::Serialize>(sides: &mut [Map<String, Value>; 2], name: &str, before: Option<&T>, after: Option<&T>) {
    let is_full = sides.iter().any(|side| side.len() >= LOOKED_INTO_MAX);
    for (side, value) in sides.iter_mut().zip([before, after]) {
        // What cannot be written as JSON is as good as nothing: the change itself must not fail for it.
        if let Some(mut value) = value.filter(|_| !is_full).and_then(|value| serde_json::to_value(value).ok()) {
            value.as_object_mut().and_then(|fields| fields.remove("name"));
            side.insert(name.to_owned(), value);
        }
    }
}

async fn tell(
    db: &mut impl Db,
    desk: &Desk<'_>,
    inventory: i64,
    (tenant, name): (TenantId, &InventoryName),
    by: &str,
    why: Option<&str>,
    counts: &PutCounts,
) -> StoreResult<Heard> {
    db.execute(TOUCH, &[Val::Int(inventory), Val::At(desk.now)]).await?;
    let PutCounts { created, changed, removed, groups, .. } = counts;
    let mut reason =
        format!("{name}: {created} hosts added, {changed} changed, {removed} removed, {groups} groups changed");
    if let Some(why) = why {
        reason.push_str(": ");
        reason.push_str(why);
    }
    let mut changes = Changes::at(desk.now);
    let data = EventData { by: Some(by.to_owned()), reason: Some(reason), ..EventData::default() };
    changes.tell(tenant, None, None, EventKind::InventoryChanged, data);
    changes.write(db).await
}

const ADD: Sql = Sql::Same(
    "insert into inventory (tenant, name, revision, created_at, updated_at) values ($1, $2, 0, $3, $3)
     on conflict do nothing",
);
/// One description at a time is made true, so that two do not interleave.
const LOCK: Sql = Sql::Each {
    sqlite: "select id, revision from inventory where tenant = ?1 and name = ?2",
    postgres: "select id, revision from inventory where tenant = $1 and name = $2 for update",
};
const TOUCH: Sql = Sql::Same("update inventory set revision = revision + 1, updated_at = $2 where id = $1");
const HOSTS: Sql = Sql::Each {
    sqlite: concat!(
        "select ",
        host_columns!(),
        " from host h where h.inventory = ?1 and h.name = ?2 and h.removed_at is null"
    ),
    postgres: concat!(
        "select ",
        host_columns!(),
        " from unnest($1::bigint[], $2::text[]) as k (inventory, name)
         join host h on h.inventory = k.inventory and h.name = k.name and h.removed_at is null"
    ),
};
const NAMES: Sql = Sql::Same("select name from host where inventory = $1 and removed_at is null order by name");
const MAKE: Sql = Sql::Each {
    sqlite: "insert into host (inventory, tenant, name, labels, groups, vars, connection, created_at, updated_at)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)",
    postgres: "insert into host (inventory, tenant, name, labels, groups, vars, connection, created_at, updated_at)
               select inventory, tenant, name, labels, groups, vars, connection, at, at
               from unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                           $8::timestamptz[])
                 as k (inventory, tenant, name, labels, groups, vars, connection, at)",
};
const CHANGE: Sql = Sql::Each {
    sqlite: "update host set labels = ?2, groups = ?3, vars = ?4, connection = ?5, updated_at = ?6 where id = ?1",
    postgres: "update host h set labels = k.labels, groups = k.groups, vars = k.vars, connection = k.connection,
                                 updated_at = k.at
               from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
                 as k (id, labels, groups, vars, connection, at)
               where h.id = k.id",
};
const REMOVE: Sql = Sql::Each {
    sqlite: "update host set removed_at = ?3 where inventory = ?1 and name = ?2 and removed_at is null",
    postgres: "update host h set removed_at = k.at
               from unnest($1::bigint[], $2::text[], $3::timestamptz[]) as k (inventory, name, at)
               where h.inventory = k.inventory and h.name = k.name and h.removed_at is null",
};
const GROUPS: Sql = Sql::Same("select name, groups, vars from host_group where inventory = $1 order by name");
const GROUP_PUT: Sql = Sql::Each {
    sqlite: "insert into host_group (inventory, name, groups, vars) values (?1, ?2, ?3, ?4)
             on conflict (inventory, name) do update set groups = excluded.groups, vars = excluded.vars",
    postgres: "insert into host_group (inventory, name, groups, vars)
               select * from unnest($1::bigint[], $2::text[], $3::text[], $4::text[])
               on conflict (inventory, name) do update set groups = excluded.groups, vars = excluded.vars",
};
const GROUP_REMOVE: Sql = Sql::Each {
    sqlite: "delete from host_group where inventory = ?1 and name = ?2",
    postgres: "delete from host_group g using unnest($1::bigint[], $2::text[]) as k (inventory, name)
               where g.inventory = k.inventory and g.name = k.name",
};
