//! `POST /resources/{kind}/{name}/rollback`: back to the version below the active one.
//!
//! *Below* means: the highest version number that is smaller than the active one. That follows from what is stored, and is
//! the same whoever asks. It is not always the version that was active before; who wants that one says so with `activate`.

use axum::Json;
use axum::extract::State;
use bowline_model::ResourceName;
use bowline_model::resource::ResourceKind;
use schemars::JsonSchema;
use serde::Deserialize;

use super::activate::{ActivatedView, point};
use super::view::{found, key};
use crate::app::App;
use crate::body::Body;
use crate::door::Known;
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
    Body(body): Body<RollbackRequest>,
) -> Result<Json<ActivatedView>, Problem> {
    let reason = reason(&body.reason)?;
    let key = key(known.tenant()?, kind, name);
    let nothing_below = |message: &str| Problem::conflict("NO_EARLIER_VERSION", message);
    let record = found(&app, key.clone(), None).await?;
    let active =
        record.active.ok_or_else(|| nothing_below("no version is active, so there is none to go back from"))?;
    let below = app.engine.ledger.list_versions(key.clone(), Some(active), 1).await?;
    let below = below.ok_or_else(ResourceName::nothing)?.items.into_iter().next();
    let below = below.ok_or_else(|| nothing_below(&format!("there is no version below {active}")))?;
    point(&app, &known, key, below.version, reason).await.map(Json)
}
