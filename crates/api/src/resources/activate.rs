//! `POST /resources/{kind}/{name}/activate`: let another version count. The reason is kept.

use axum::Json;
use axum::extract::State;
use bowline_auth::Scope;
use bowline_model::ResourceName;
use bowline_model::resource::ResourceKind;
use bowline_store::{Activated, Activation, ResourceOrder};
use hyper::HeaderMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::key;
use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::jobs::key_conflict;
use crate::once::once_key;
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
    headers: HeaderMap,
    Body(body): Body<ActivateRequest>,
) -> Result<Json<ActivatedView>, Problem> {
    let reason = reason(&body.reason)?;
    let once = once_key(&headers, &[b"activate", &body.version.to_be_bytes(), reason.as_bytes()])?;
    let order = ResourceOrder { key: key(known.tenant()?, kind, name), by: known.author(), reason: Some(reason) };
    let activation = Activation { order, version: body.version, rollback: false, once };
    point(&app, &known, activation).await.map(Json)
}

/// Moves the pointer.
pub async fn point(app: &App, known: &Known, activation: Activation) -> Result<ActivatedView, Problem> {
    let (kind, name, version) = (activation.order.key.kind, activation.order.key.name.clone(), activation.version);
    if kind.starts_jobs() {
        known.require(Scope::JobsWrite)?;
    }
    let key = activation.once.as_ref().map(|once| once.key.clone());
    show(kind, name, version, key, app.engine.ledger.activate(activation).await?)
}

/// What became of it, on this face.
pub fn show(
    kind: ResourceKind,
    name: ResourceName,
    version: u32,
    key: Option<String>,
    activated: Activated,
) -> Result<ActivatedView, Problem> {
    let (active, before, changed) = match activated {
        Activated::Done { before } => (version, before, true),
        Activated::Unchanged => (version, Some(version), false),
        Activated::Replayed { version, before } => (version, before, false),
        Activated::NotFound => {
            return Err(Problem::not_found(ResourceName::CODE, "resource, or it has no such version"));
        }
        Activated::KeyConflict => return Err(key_conflict(&key.unwrap_or_default())),
    };
    Ok(ActivatedView { kind, name, active, before, changed })
}
