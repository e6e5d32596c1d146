//! `POST /resources/{kind}/validate` and `/resources/{kind}/{name}/validate`: whether it could be stored. Nothing is.

use axum::Json;
use axum::extract::State;
use bowline_model::resource::ResourceKind;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::put::PutRequest;
use super::view::key;
use super::{source, spec};
use crate::app::App;
use crate::body::ExactBody;
use crate::door::Known;
use crate::params::{Named, NewName};
use crate::problem::Problem;
use crate::views::raw;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ResourceValid")]
pub struct ValidView {
    /// Always: what is not valid is answered with 422.
    pub valid: bool,
    /// What it says, with every default in its place.
    pub spec: Option<Box<RawValue>>,
    /// With a name: what storing it would do (create, update, nothing).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<&'static str>,
    /// With a name: the version there would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

pub async fn validate(
    State(app): State<App>,
    known: Known,
    Named(kind): Named<ResourceKind>,
    ExactBody(body): ExactBody<PutRequest>,
) -> Result<Json<ValidView>, Problem> {
    let spec = spec::read(&app, &known, kind, body.spec).await?;
    Ok(Json(ValidView { valid: true, spec: raw(Some(spec.canonical())), would: None, version: None }))
}

pub async fn validate_named(
    State(app): State<App>,
    known: Known,
    NewName(kind, name): NewName,
    ExactBody(body): ExactBody<PutRequest>,
) -> Result<Json<ValidView>, Problem> {
    let tenant = known.tenant()?;
    source::checked(tenant, body.source, kind, &name, &body.spec).await?;
    let canonical = spec::read(&app, &known, kind, body.spec).await?.canonical();
    let key = key(tenant, kind, name);
    let latest = match app.engine.ledger.find_resource(key.clone(), None).await? {
        None => None,
        Some(record) if record.version.version == record.latest => Some(record),
        Some(record) => app.engine.ledger.find_resource(key, Some(record.latest)).await?,
    };
    let (would, version) = match latest {
        None => ("create", 1),
        Some(record) if *record.version.spec == *canonical => ("nothing", record.latest),
        Some(record) => ("update", record.latest + 1),
    };
    Ok(Json(ValidView { valid: true, spec: raw(Some(canonical)), would: Some(would), version: Some(version) }))
}
