//! `GET /resources/{kind}`: the resources of a kind by name, each in the version that counts.

use axum::Json;
use axum::extract::State;
use bowline_model::resource::ResourceKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::ResourceView;
use crate::app::App;
use crate::door::Known;
use crate::params::{Named, Params, page_size};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ResourcesQuery")]
pub struct ListQuery {
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ResourcePage {
    pub resources: Vec<ResourceView>,
    pub next_cursor: Option<String>,
}

pub async fn list(
    State(app): State<App>,
    known: Known,
    Named(kind): Named<ResourceKind>,
    Params(query): Params<ListQuery>,
) -> Result<Json<ResourcePage>, Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, &app)?;
    let list = format!("resources {kind}");
    let after = app.cursors.read_name(&list, tenant, query.cursor.as_deref())?;
    let page = app.engine.ledger.list_resources(tenant, kind, after, limit).await?;
    let mut resources: Vec<ResourceView> = page.items.into_iter().map(Into::into).collect();
    for resource in &mut resources {
        app.actors.fill(&mut resource.shown.actor).await;
    }
    Ok(Json(ResourcePage {
        resources,
        next_cursor: page.next.map(|name| app.cursors.write(&list, tenant, name.as_str())),
    }))
}
