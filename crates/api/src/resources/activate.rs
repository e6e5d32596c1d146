//! `POST /resources/{kind}/{name}/activate`: let another version count. The reason is kept.

use axum::Json;
use axum::extract::State;
use bowline_auth::Scope;
use bowline_model::ResourceName;
use bowline_model::resource::ResourceKind;
use bowline_store::{Activated, ResourceKey, ResourceOrder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::key;
use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::params::{Nameable, NamedPair, reason};
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActivateRequest {
    pub version: u32,
    /// Why. Kept for good.
    #[schemars(length(min = 3, max = 1000))]
    pub reason: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ResourceActivated")]
pub struct ActivatedView {
    pub kind: ResourceKind,
    pub name: ResourceName,
    /// The version that counts now.
    pub active: u32,
    /// The version that counted before, if there was one.
    pub before: Option<u32>,
    /// False when it counted already.
    pub changed: bool,
}

pub async fn activate(
    State(app): State<App>,
    known: Known,
    NamedPair(kind, name): NamedPair<ResourceKind, ResourceName>,
    Body(body): Body<ActivateRequest>,
) -> Result<Json<ActivatedView>, Problem> {
    let reason = reason(&body.reason)?;
    point(&app, &known, key(known.tenant()?, kind, name), body.version, reason).await.map(Json)
}

/// Moves the pointer.
pub async fn point(
    app: &App,
    known: &Known,
    key: ResourceKey,
    version: u32,
    reason: String,
) -> Result<ActivatedView, Problem> {
    let (kind, name) = (key.kind, key.name.clone());
    if kind.starts_jobs() {
        known.require(Scope::JobsWrite)?;
    }
    let order = ResourceOrder { key, by: known.author(), reason: Some(reason) };
    let (before, changed) = match app.engine.ledger.activate_resource(order, version).await? {
        Activated::Done { before } => (before, true),
        Activated::Unchanged => (Some(version), false),
        Activated::NotFound => {
            return Err(Problem::not_found(ResourceName::CODE, "resource, or it has no such version"));
        }
    };
    Ok(ActivatedView { kind, name, active: version, before, changed })
}
