//! `GET /resources/{kind}/{name}/diff`: what changed from one version to another, field by field.

use axum::Json;
use axum::extract::State;
use bowline_model::ResourceName;
use bowline_model::resource::{Change, ResourceKind, changes_between};
use bowline_store::StoreError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::view::{found, key};
use crate::app::App;
use crate::door::Known;
use crate::params::{NamedPair, Params};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiffQuery {
    /// The one before `to` unless given; 0 is before there was any.
    pub from: Option<u32>,
    /// The active one unless given; the latest, if none is active.
    pub to: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "VersionDiff")]
pub struct DiffAnswer {
    pub from: u32,
    pub to: u32,
    pub changes: Vec<Change>,
}

pub async fn diff(
    State(app): State<App>,
    known: Known,
    NamedPair(kind, name): NamedPair<ResourceKind, ResourceName>,
    Params(query): Params<DiffQuery>,
) -> Result<Json<DiffAnswer>, Problem> {
    let key = key(known.tenant()?, kind, name);
    let to = found(&app, key.clone(), query.to).await?.version;
    let from = query.from.unwrap_or(to.version - 1);
    let before = match from {
        0 => Value::Object(serde_json::Map::new()),
        from => value(&found(&app, key, Some(from)).await?.version.spec)?,
    };
    let changes = changes_between(&before, &value(&to.spec)?);
    Ok(Json(DiffAnswer { from, to: to.version, changes }))
}

fn value(spec: &str) -> Result<Value, Problem> {
    serde_json::from_str(spec).map_err(|error| StoreError::Broken(format!("a stored spec is no JSON: {error}")).into())
}
