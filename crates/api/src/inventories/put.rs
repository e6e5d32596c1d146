//! `PUT /inventories/{name}`: make a description true, all of it or nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use bowline_inventory::limits::{GROUPS_MAX, HOSTS_MAX};
use bowline_inventory::{Format, Tangled, check_nesting};
use bowline_model::audit::Author;
use bowline_model::host::{
    GROUP_VARS_BYTES_MAX, Group, GroupsInACircle, HOST_GROUPS_MAX, HOSTS_MAX as INVENTORY_HOSTS_MAX, Host, Inventory,
    NESTED_MAX, TooManyGroups, TooManyVars, VARS_BYTES_MAX, check_group_vars, check_groups,
};
use bowline_model::{GroupName, HostName, InventoryName, TenantId};
use bowline_store::{InventoryPut, PutAnswer, StoreError, Unmentioned};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::changes::{Changes, groups_after, telling};
use crate::app::App;
use crate::body::{JsonText, aside, parse_exact};
use crate::door::Known;
use crate::jobs::reason_of;
use crate::params::{Params, Part};
use crate::patience::Patience;
use crate::problem::Problem;

/// What happens to hosts and groups that a description does not mention.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Unmentioned")]
pub enum UnmentionedWord {
    #[default]
    Keep,
    Remove,
}

impl From<UnmentionedWord> for Unmentioned {
    fn from(word: UnmentionedWord) -> Self {
        match word {
            UnmentionedWord::Keep => Self::Keep,
            UnmentionedWord::Remove => Self::Remove,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "InventoryRequest")]
pub struct PutRequest {
    #[serde(default, deserialize_with = "bowline_model::shape::each_by_name")]
    pub hosts: Vec<Host>,
    #[serde(default, deserialize_with = "bowline_model::shape::each_by_name")]
    pub groups: Vec<Group>,
    /// What happens to hosts and groups that are not mentioned: `keep` unless given.
    #[serde(default)]
    pub unmentioned: UnmentionedWord,
    /// Why; kept in the audit trail.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub reason: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "InventoryPutQuery")]
pub struct PutQuery {
    /// Only say what would change.
    pub dry_run: bool,
}

/// What was done, or would be.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "InventoryStored")]
pub struct PutView {
    pub inventory: InventoryName,
    /// Nothing was changed; this is what would be.
    pub dry_run: bool,
    pub created: u64,
    pub changed: u64,
    pub unchanged: u64,
    pub removed: u64,
    /// Groups that were made, changed or removed.
    pub groups: u64,
    /// Of the inventory, afterwards.
    pub revision: i64,
    /// Of a dry run: the first names of each sort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<NamesView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "InventoryNames")]
pub struct NamesView {
    pub created: Vec<HostName>,
    pub changed: Vec<HostName>,
    pub removed: Vec<HostName>,
}

/// Names of each sort that a dry run shows.
const SHOWN_MAX: usize = 20;
/// How long a description may take to be read. That is our work, not the ledger's.
pub const READING_MAX: Duration = Duration::from_secs(20);
/// How long the ledger may take to make a description true. A large one takes its time, and the caller knows that.
const STORING_MAX: Duration = Duration::from_secs(40);

pub async fn put(
    State(app): State<App>,
    known: Known,
    Part(name): Part,
    Params(query): Params<PutQuery>,
    patience: Patience,
    JsonText(text): JsonText,
) -> Result<Json<PutView>, Problem> {
    let inventory = new_name(&name)?;
    let reading = aside(known.tenant()?, move || read(&text));
    let (content, unmentioned, reason) = patience.besides(READING_MAX, reading).await??;
    let wish = Wish { inventory, content, unmentioned, reason, dry_run: query.dry_run };
    make_true(&app, &known, &patience, wish).await.map(Json)
}

/// A text that is to become an inventory's name.
pub fn new_name(text: &str) -> Result<InventoryName, Problem> {
    InventoryName::new(text).map_err(|e| Problem::validation(e).with(json!({"field": "name"})))
}

fn read(text: &[u8]) -> Result<(Inventory, Unmentioned, Option<String>), Problem> {
    let request: PutRequest = parse_exact(text)?;
    let content = Inventory { hosts: request.hosts, groups: request.groups };
    check(&content)?;
    Ok((content, request.unmentioned.into(), reason_of(request.reason)?))
}

/// Whether a description makes sense by itself.
fn check(content: &Inventory) -> Result<(), Problem> {
    let bad =
        |place: String, what: String| Problem::validation(format!("{place}: {what}")).with(json!({"field": place}));
    for (what, len, max) in [("hosts", content.hosts.len(), HOSTS_MAX), ("groups", content.groups.len(), GROUPS_MAX)] {
        if len > max {
            return Err(bad(what.to_owned(), format!("at most {max}, there are {len}")));
        }
    }
    let mut seen = BTreeSet::new();
    if let Some((n, host)) = content.hosts.iter().enumerate().find(|(_, host)| !seen.insert(&host.name)) {
        return Err(bad(format!("hosts[{n}].name"), format!("{} is there twice", host.name)));
    }
    let mut seen = BTreeSet::new();
    if let Some((n, group)) = content.groups.iter().enumerate().find(|(_, group)| !seen.insert(&group.name)) {
        return Err(bad(format!("groups[{n}].name"), format!("{} is there twice", group.name)));
    }
    check_nesting(&content.groups).map_err(|tangled| bad("groups".to_owned(), tangled.to_string()))
}

/// A description that somebody wants to be true.
pub struct Wish {
    pub inventory: InventoryName,
    pub content: Inventory,
    pub unmentioned: Unmentioned,
    pub reason: Option<String>,
    pub dry_run: bool,
}

/// Makes it true, or says what that would change.
pub async fn make_true(app: &App, known: &Known, patience: &Patience, wish: Wish) -> Result<PutView, Problem> {
    let (tenant, Wish { inventory, mut content, unmentioned, reason, dry_run }) = (known.tenant()?, wish);
    for (n, host) in content.hosts.iter().enumerate() {
        host.connection.check().map_err(|why| {
            let field = format!("hosts[{n}].connection.{}", why.field());
            Problem::validation(format!("{field}: {why}")).with(json!({"field": field}))
        })?;
    }
    untangle(app, tenant, &inventory, &mut content, unmentioned).await?;
    if dry_run {
        let reading = app.engine.inventories.snapshot(tenant, &inventory);
        let before = patience.besides(STORING_MAX, reading).await?;
        let changes = Changes::between(before.as_deref(), &content, unmentioned);
        let first = |names: Vec<HostName>| names.into_iter().take(SHOWN_MAX).collect();
        return Ok(PutView {
            inventory,
            dry_run,
            created: changes.created.len() as u64,
            changed: changes.changed.len() as u64,
            unchanged: changes.unchanged,
            removed: changes.removed.len() as u64,
            groups: changes.groups,
            revision: before.map_or(0, |before| before.revision),
            names: Some(NamesView {
                created: first(changes.created),
                changed: first(changes.changed),
                removed: first(changes.removed),
            }),
        });
    }
    let room = app.engine.quotas.reserve_inventory(tenant, &content).map_err(StoreError::from)?;
    let content = Arc::new(content);
    let by = known.author();
    let put = InventoryPut { tenant, inventory: inventory.clone(), content, unmentioned, by, reason };
    let putting = room.storing(app.engine.ledger.put_inventory(put), PutAnswer::changes_something);
    match patience.besides(STORING_MAX, putting).await? {
        PutAnswer::Circle(group) => Err(circle(group)),
        PutAnswer::Done(counts) => Ok(PutView {
            inventory,
            dry_run,
            created: counts.created,
            changed: counts.changed,
            unchanged: counts.unchanged,
            removed: counts.removed,
            groups: counts.groups,
            revision: counts.revision,
            names: None,
        }),
    }
}

/// Holds a description against the groups that are there.
async fn untangle(
    app: &App,
    tenant: TenantId,
    inventory: &InventoryName,
    content: &mut Inventory,
    unmentioned: Unmentioned,
) -> Result<(), Problem> {
    let groups = app.engine.ledger.list_groups(tenant, inventory.clone()).await?;
    telling(content, &groups, unmentioned);
    // Asked here, and not left to the ledger: what spells out the nesting must not be handed one without end.
    let after: Vec<Group> = groups_after(&groups, content, unmentioned).into_values().cloned().collect();
    if !content.groups.is_empty() {
        check_groups(&after).map_err(too_many_groups)?;
    }
    check_nesting(&after).map_err(tangled)?;
    check_hosts(content, &after)?;
    if unmentioned == Unmentioned::Keep {
        check_count(app, tenant, inventory, &content.hosts).await?;
    }
    Ok(())
}

/// Whether an inventory has room for these hosts next to those it has. It is asked here, and not in the writer:
/// counting takes longer the more hosts there are. So requests at the same moment may pass it by their own hosts.
pub async fn check_count(
    app: &App,
    tenant: TenantId,
    inventory: &InventoryName,
    hosts: &[Host],
) -> Result<(), StoreError> {
    let found = app.engine.ledger.find_inventory(tenant, inventory.clone()).await?;
    let used = found.map_or(0, |record| record.hosts);
    let max = INVENTORY_HOSTS_MAX as u64;
    if hosts.is_empty() || used + hosts.len() as u64 <= max {
        return Ok(());
    }
    let mut new = 0;
    for host in hosts {
        let found = app.engine.ledger.find_host(tenant, inventory.clone(), host.name.clone()).await?;
        new += u64::from(found.is_none());
        if used + new > max {
            return Err(StoreError::Quota { quota: "hosts", used, max });
        }
    }
    Ok(())
}

/// Whether hosts and groups say no more than they may; `after` are the groups there will be.
pub fn check_hosts(content: &Inventory, after: &[Group]) -> Result<(), Problem> {
    content.check_host_groups().map_err(too_many_groups)?;
    check_vars(content, after)
}

fn too_many_groups(error: TooManyGroups) -> Problem {
    let details = match &error {
        TooManyGroups::Groups { count } => json!({"field": "groups", "count": count, "max": GROUPS_MAX}),
        TooManyGroups::Nested { count, largest } => {
            json!({"field": "groups.groups", "group": largest, "count": count, "max": NESTED_MAX})
        }
        TooManyGroups::OfHost { name, count } => {
            json!({"field": "hosts.groups", "host": name, "count": count, "max": HOST_GROUPS_MAX})
        }
    };
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "TOO_MANY_GROUPS", error).with(details)
}

/// Whether hosts and groups have no more variables than they may; `after` are the groups there will be.
fn check_vars(content: &Inventory, after: &[Group]) -> Result<(), Problem> {
    let checked = content.check_vars().and_then(|()| check_group_vars(after));
    checked.map_err(|too_many| {
        let details = match &too_many {
            TooManyVars::Host { name, bytes } => {
                json!({"field": "hosts.vars", "host": name, "bytes": bytes, "bytes_max": VARS_BYTES_MAX})
            }
            TooManyVars::Group { name, bytes } => {
                json!({"field": "groups.vars", "group": name, "bytes": bytes, "bytes_max": VARS_BYTES_MAX})
            }
            TooManyVars::Groups { bytes, largest } => {
                json!({"field": "groups.vars", "group": largest, "bytes": bytes, "bytes_max": GROUP_VARS_BYTES_MAX})
            }
        };
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "VARIABLES_TOO_LARGE", too_many).with(details)
    })
}

/// A document of an inventory, read and checked, to be made true together with others.
pub async fn inventory_put(
    app: &App,
    tenant: TenantId,
    by: Author,
    inventory: InventoryName,
    mut spec: Value,
    reason: Option<String>,
) -> Result<InventoryPut, Problem> {
    let unmentioned = match spec.as_object_mut().and_then(|spec| spec.remove("unmentioned")) {
        None => UnmentionedWord::default(),
        Some(word) => {
            serde_json::from_value(word).map_err(|error| Problem::validation(format!("spec.unmentioned: {error}")))?
        }
    };
    let unmentioned = unmentioned.into();
    let reading = aside(tenant, move || bowline_inventory::read(spec.to_string().as_bytes(), Format::Json));
    let mut content = reading.await?.map_err(|error| {
        Problem::validation(format!("this is not an inventory: {error}")).with(json!({"path": error.place().path}))
    })?;
    untangle(app, tenant, &inventory, &mut content, unmentioned).await?;
    Ok(InventoryPut { tenant, inventory, content: Arc::new(content), unmentioned, by, reason })
}

/// A group would be in itself.
pub fn circle(group: GroupName) -> Problem {
    tangled(GroupsInACircle(group).into())
}

/// The description is fine by itself; together with the groups that are there it is not.
fn tangled(found: Tangled) -> Problem {
    let message = format!("with the groups that are there already, {found}");
    match found {
        Tangled::Circle(GroupsInACircle(group)) => {
            Problem::conflict("GROUPS_IN_A_CIRCLE", message).with(json!({"group": group}))
        }
        Tangled::Woven => Problem::validation(message).with(json!({"field": "groups"})),
    }
}
