//! `DELETE /resources/{kind}/{name}`: delete a resource with all its versions, unless something needs it.

use axum::Json;
use axum::extract::State;
use bowline_model::ResourceName;
use bowline_model::resource::ResourceKind;
use bowline_store::{Deleted, ResourceOrder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::view::key;
use crate::app::App;
use crate::body::MaybeBody;
use crate::door::Known;
use crate::params::{Nameable, NamedPair, Params, reason};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ResourceDeleteQuery")]
pub struct DeleteQuery {
    /// Why; for clients that cannot send a body with a deletion.
    pub reason: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ResourceDeleteRequest")]
pub struct DeleteRequest {
    /// Why. Kept for good.
    pub reason: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ResourceDeleted")]
pub struct DeletedView {
    pub kind: ResourceKind,
    pub name: ResourceName,
    pub deleted: bool,
}

pub async fn delete(
    State(app): State<App>,
    known: Known,
    NamedPair(kind, name): NamedPair<ResourceKind, ResourceName>,
    Params(query): Params<DeleteQuery>,
    MaybeBody(body): MaybeBody<DeleteRequest>,
) -> Result<Json<DeletedView>, Problem> {
    let reason = reason(body.reason.or(query.reason).as_deref().unwrap_or(""))?;
    let key = key(known.tenant()?, kind, name.clone());
    let order = ResourceOrder { key, by: known.author(), reason: Some(reason) };
    match app.engine.ledger.delete_resource(order).await? {
        Deleted::Done => Ok(Json(DeletedView { kind, name, deleted: true })),
        Deleted::InUse(by) => {
            let message = format!("it is in use: {by}");
            Err(Problem::conflict("RESOURCE_IN_USE", message).with(json!({"used_by": by})))
        }
        Deleted::NotFound => Err(ResourceName::nothing()),
    }
}
