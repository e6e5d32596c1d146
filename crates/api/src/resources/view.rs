//! How a resource is shown.

use bowline_model::resource::ResourceKind;
use bowline_model::{ResourceName, TenantId, Timestamp};
use bowline_store::{ResourceKey, ResourceRecord, VersionRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::actors::ActorView;
use crate::app::App;
use crate::params::Nameable;
use crate::problem::Problem;
use crate::views::raw;

#[derive(Debug, Serialize, JsonSchema)]
pub struct ResourceView {
    pub kind: ResourceKind,
    pub name: ResourceName,
    /// The version that counts; `null` when none was activated yet.
    pub active: Option<u32>,
    pub latest: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    #[serde(flatten)]
    pub shown: VersionView,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct VersionView {
    /// The version that is shown here.
    pub version: u32,
    pub note: Option<String>,
    /// Who wrote this version, and when.
    pub by: String,
    /// The same, with the name.
    pub actor: ActorView,
    pub at: Timestamp,
    /// What it says, with every default in its place.
    pub spec: Option<Box<RawValue>>,
    /// The document it was applied from, as written, if one was sent along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl From<VersionRecord> for VersionView {
    fn from(record: VersionRecord) -> Self {
        Self {
            version: record.version,
            note: record.note,
            actor: ActorView::unnamed(&record.by),
            by: record.by,
            at: record.at,
            spec: raw(Some(record.spec.to_string())),
            source: record.source.map(|source| source.to_string()),
        }
    }
}

impl From<ResourceRecord> for ResourceView {
    fn from(record: ResourceRecord) -> Self {
        Self {
            kind: record.kind,
            name: record.name,
            active: record.active,
            latest: record.latest,
            created_at: record.created_at,
            updated_at: record.updated_at,
            shown: record.version.into(),
        }
    }
}

/// A resource in one of its versions, or 404.
pub async fn found(app: &App, key: ResourceKey, version: Option<u32>) -> Result<ResourceRecord, Problem> {
    let found = app.engine.ledger.find_resource(key, version).await?;
    found.ok_or_else(|| match version {
        None => ResourceName::nothing(),
        Some(_) => Problem::not_found(ResourceName::CODE, "resource, or it has no such version"),
    })
}

pub fn key(tenant: TenantId, kind: ResourceKind, name: ResourceName) -> ResourceKey {
    ResourceKey { tenant, kind, name }
}
