//! `GET /resources/{kind}/{name}`: a resource in the version that counts, or in another one.

use axum::Json;
use axum::extract::State;
use bowline_model::ResourceName;
use bowline_model::resource::ResourceKind;
use hyper::header::{ETAG, HeaderName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::{ResourceView, found, key};
use crate::app::App;
use crate::door::Known;
use crate::params::{NamedPair, Params};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ResourceQuery")]
pub struct GetQuery {
    /// The active one unless given; the latest, if none is active.
    pub version: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ResourceAnswer {
    pub resource: ResourceView,
}

pub async fn get(
    State(app): State<App>,
    known: Known,
    NamedPair(kind, name): NamedPair<ResourceKind, ResourceName>,
    Params(query): Params<GetQuery>,
) -> Result<([(HeaderName, String); 1], Json<ResourceAnswer>), Problem> {
    let record = found(&app, key(known.tenant()?, kind, name), query.version).await?;
    // What a writer sends back as `If-Match`, to store only on top of what it has seen.
    let seen = format!("\"{}\"", record.latest);
    let mut resource: ResourceView = record.into();
    app.actors.fill(&mut resource.shown.actor).await;
    Ok(([(ETAG, seen)], Json(ResourceAnswer { resource })))
}
