//! Hosts, their groups, and the inventories that hold them.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::host::{Group, Host, Inventory};
use bowline_model::{GroupName, HostName, InventoryName, TenantId, Timestamp};

use crate::{Page, StoreResult};

/// An inventory, without what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InventoryRecord {
    pub id: i64,
    pub name: InventoryName,
    pub hosts: u64,
    pub groups: u64,
    /// Grows with every change of a host or group.
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A host as the ledger holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRecord {
    /// For people, and for clients that want whole numbers. Never given twice.
    pub id: i64,
    pub host: Host,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What happens to hosts and groups that a description does not mention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmentioned {
    Keep,
    Remove,
}

/// A description of an inventory, to be made true.
#[derive(Debug, Clone)]
pub struct InventoryPut {
    pub tenant: TenantId,
    pub inventory: InventoryName,
    pub content: Arc<Inventory>,
    pub unmentioned: Unmentioned,
    pub by: Author,
    /// Why; kept in the audit trail.
    pub reason: Option<String>,
}

/// What became of an [`InventoryPut`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutAnswer {
    Done(PutCounts),
    /// With the groups that are there already, this one would be in itself. Nothing was changed.
    Circle(GroupName),
}

impl PutAnswer {
    /// Whether anything was stored that was not there before.
    pub const fn changes_something(&self) -> bool {
        match self {
            Self::Done(counts) => counts.created + counts.changed + counts.groups > 0,
            Self::Circle(_) => false,
        }
    }
}

/// What was done to hosts, and whether anything was done at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PutCounts {
    pub created: u64,
    pub changed: u64,
    pub unchanged: u64,
    pub removed: u64,
    /// Groups that were made, changed or removed.
    pub groups: u64,
    pub revision: i64,
}

#[async_trait]
pub trait HostStore: Send + Sync {
    /// Makes a description true, all of it or nothing. An inventory that does not exist is made.
    async fn put_inventory(&self, put: InventoryPut) -> StoreResult<PutAnswer>;

    async fn find_inventory(&self, tenant: TenantId, name: InventoryName) -> StoreResult<Option<InventoryRecord>>;

    async fn list_inventories(&self, tenant: TenantId) -> StoreResult<Vec<InventoryRecord>>;

    /// The groups of an inventory, by name.
    async fn list_groups(&self, tenant: TenantId, inventory: InventoryName) -> StoreResult<Vec<Group>>;

    /// Hosts of an inventory, by name.
    async fn list_hosts(
        &self,
        tenant: TenantId,
        inventory: InventoryName,
        after: Option<HostName>,
        limit: u32,
    ) -> StoreResult<Page<HostRecord, HostName>>;

    async fn find_host(
        &self,
        tenant: TenantId,
        inventory: InventoryName,
        host: HostName,
    ) -> StoreResult<Option<HostRecord>>;

    /// Takes hosts out of an inventory; answers with how many were there.
    async fn remove_hosts(
        &self,
        tenant: TenantId,
        inventory: InventoryName,
        hosts: Vec<HostName>,
        by: Author,
        reason: Option<String>,
    ) -> StoreResult<u64>;
}
