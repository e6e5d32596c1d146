//! `POST /resources/{kind}/{name}/rollback`: back to the version below the active one.
//!
//! *Below* means: the highest version number that is smaller than the active one. That follows from what is stored, and is
//! the same whoever asks. It is not always the version that was active before; who wants that one says so with `activate`.

use axum::Json;
use axum::extract::State;
use bowline_model::ResourceName;
use bowline_model::resource::ResourceKind;
use bowline_store::{Activation, ResourceOrder};
use hyper::HeaderMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::activate::{ActivatedView, point, show};
use super::view::{found, key};
use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::once::once_key;
use crate::params::{Nameable, NamedPair, reason};
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// Why. Kept for good.
    #[schemars(length(min = 3, max = 1000))]
    pub reason: String,
}

pub async fn rollback(
    State(app): State<App>,
    known: Known,
    NamedPair(kind, name): NamedPair<ResourceKind, ResourceName>,
    headers: HeaderMap,
    Body(body): Body<RollbackRequest>,
) -> Result<Json<ActivatedView>, Problem> {
    let reason = reason(&body.reason)?;
    let key = key(known.tenant()?, kind, name.clone());
    let once = once_key(&headers, &[b"rollback", reason.as_bytes()])?;
    // Where it goes follows from what is active, which the first request has changed.
    if let Some(once) = &once
        && let Some(before) = app.engine.ledger.find_activation(key.clone(), once.clone()).await?
    {
        return show(kind, name, 0, Some(once.key.clone()), before).map(Json);
    }
    let nothing_below = |message: &str| Problem::conflict("NO_EARLIER_VERSION", message);
    let record = found(&app, key.clone(), None).await?;
    let active =
        record.active.ok_or_else(|| nothing_below("no version is active, so there is none to go back from"))?;
    let below = app.engine.ledger.list_versions(key.clone(), Some(active), 1).await?;
    let below = below.ok_or_else(ResourceName::nothing)?.items.into_iter().next();
    let below = below.ok_or_else(|| nothing_below(&format!("there is no version below {active}")))?;
    let order = ResourceOrder { key, by: known.author(), reason: Some(reason) };
    point(&app, &known, Activation { order, version: below.version, rollback: true, once }).await.map(Json)
}
