//! Resources: configuration that somebody wrote, kept version by version.
//!
//! A version never changes. Which one counts is a pointer, so going back is moving it.

use std::sync::Arc;

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::resource::ResourceKind;
use bowline_model::{ResourceName, TenantId, Timestamp};

use crate::{Applied, Applying, OnceKey, Page, StoreResult};

/// Which resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    pub tenant: TenantId,
    pub kind: ResourceKind,
    pub name: ResourceName,
}

/// A resource with one of its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRecord {
    pub id: i64,
    pub kind: ResourceKind,
    pub name: ResourceName,
    /// The version that counts; `None` when none was activated yet.
    pub active: Option<u32>,
    pub latest: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Of a schedule or trigger: who applied or activated it last. It starts jobs with their rights.
    pub owner: Option<String>,
    pub version: VersionRecord,
}

/// Which version of a resource counts. While it is the same, so is what the resource says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveStamp {
    pub id: i64,
    pub tenant: TenantId,
    pub name: ResourceName,
    pub version: u32,
    /// With whose rights a schedule or trigger starts jobs.
    pub owner: String,
}

/// A schedule or trigger that is active, by whose rights it starts jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedResource {
    pub tenant: TenantId,
    pub kind: ResourceKind,
    pub name: ResourceName,
    pub owner: String,
}

/// One version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRecord {
    pub version: u32,
    /// JSON; the same thing is always written the same way.
    pub spec: Arc<str>,
    /// The document it was applied from, as written: with its comments and in its order. It says the same as `spec`.
    pub source: Option<Arc<str>>,
    pub note: Option<String>,
    pub by: String,
    pub at: Timestamp,
}

/// A new version.
#[derive(Debug, Clone)]
pub struct ResourcePut {
    pub key: ResourceKey,
    /// JSON; the same thing is always written the same way.
    pub spec: Arc<str>,
    /// The document it comes from, as written, if there is one. If the latest version says the same already, its document
    /// is replaced by this one.
    pub source: Option<Arc<str>>,
    pub note: Option<String>,
    pub by: Author,
    /// Whether it counts from now on.
    pub activate: bool,
    /// The latest version the writer has seen: 0 for a resource that must not exist yet, `None` for whatever there is.
    pub seen: Option<u32>,
}

/// What became of a [`ResourcePut`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceStored {
    /// This version was made.
    Stored { version: u32, active: Option<u32> },
    /// The latest version says the same already. `activated` when it was not the active one and is now.
    Unchanged { version: u32, active: Option<u32>, activated: bool },
    /// Somebody stored this version meanwhile.
    Overtaken { latest: u32 },
}

/// A person's order about a resource. The reason is kept.
#[derive(Debug, Clone)]
pub struct ResourceOrder {
    pub key: ResourceKey,
    pub by: Author,
    pub reason: Option<String>,
}

/// An order to let a version count.
#[derive(Debug, Clone)]
pub struct Activation {
    pub order: ResourceOrder,
    pub version: u32,
    /// It was asked for as a rollback.
    pub rollback: bool,
    /// Carried out once for this key.
    pub once: Option<OnceKey>,
}

/// What became of an order to activate a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activated {
    /// It counts from now on; before, this one did.
    Done {
        before: Option<u32>,
    },
    Unchanged,
    NotFound,
    /// The same was asked for under this key before: this version counted from then on, and that one before.
    Replayed {
        version: u32,
        before: Option<u32>,
    },
    /// Something else was asked for under this key before.
    KeyConflict,
}

/// What became of an order to delete a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deleted {
    Done,
    /// Things that need it, in words.
    InUse(String),
    NotFound,
}

#[async_trait]
pub trait ResourceStore: Send + Sync {
    async fn put_resource(&self, put: ResourcePut) -> StoreResult<ResourceStored>;

    /// Makes all of these true, or none of them.
    async fn apply(&self, documents: Vec<Applying>) -> StoreResult<Applied>;

    /// A resource with this version; with the active one, or the latest if none is active, for `None`.
    async fn find_resource(&self, key: ResourceKey, version: Option<u32>) -> StoreResult<Option<ResourceRecord>>;

    /// Resources of a kind by name, each with the version that [`Self::find_resource`] would show.
    async fn list_resources(
        &self,
        tenant: TenantId,
        kind: ResourceKind,
        after: Option<ResourceName>,
        limit: u32,
    ) -> StoreResult<Page<ResourceRecord, ResourceName>>;

    /// The resources of a kind that count, of all tenants, each with its active version, in an order of the ledger's own: for
    /// the server itself, never for a caller.
    async fn list_active(
        &self,
        kind: ResourceKind,
        after: i64,
        limit: u32,
    ) -> StoreResult<Page<(TenantId, ResourceRecord), i64>>;

    /// Which versions of a kind count, as [`Self::list_active`] has them, without what they say.
    async fn list_active_stamps(
        &self,
        kind: ResourceKind,
        after: i64,
        limit: u32,
    ) -> StoreResult<Page<ActiveStamp, i64>>;

    /// The active schedules and triggers of these owners, of all tenants, by kind and name.
    async fn list_owned(&self, owners: Vec<String>) -> StoreResult<Vec<OwnedResource>>;

    /// How many active schedules and triggers there are whose owner is a token that was revoked or has expired.
    async fn count_stopped(&self) -> StoreResult<u64>;

    /// The versions of a resource, newest first, before this one.
    async fn list_versions(
        &self,
        key: ResourceKey,
        before: Option<u32>,
        limit: u32,
    ) -> StoreResult<Option<Page<VersionRecord, u32>>>;

    async fn activate_resource(&self, order: ResourceOrder, version: u32) -> StoreResult<Activated> {
        self.activate(Activation { order, version, rollback: false, once: None }).await
    }

    /// Lets a version count; with a key, once for that key.
    async fn activate(&self, activation: Activation) -> StoreResult<Activated>;

    /// What became of a request under this key, if there was one. Asked before a request is worked out from how things stand.
    async fn find_activation(&self, key: ResourceKey, once: OnceKey) -> StoreResult<Option<Activated>>;

    /// Deletes a resource with all versions, unless something needs it.
    async fn delete_resource(&self, order: ResourceOrder) -> StoreResult<Deleted>;
}
