//! `GET /triggers`: the triggers by name, and how they stand on this server.

use axum::Json;
use axum::extract::State;
use bowline_model::resource::ResourceKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::TriggerView;
use crate::app::App;
use crate::door::Known;
use crate::params::{Params, page_size};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "TriggersQuery")]
pub struct ListQuery {
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TriggerPage {
    pub triggers: Vec<TriggerView>,
    pub next_cursor: Option<String>,
}

const LIST: &str = "triggers";

pub async fn list(
    State(app): State<App>,
    known: Known,
    Params(query): Params<ListQuery>,
) -> Result<Json<TriggerPage>, Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, &app)?;
    let after = app.cursors.read_name(LIST, tenant, query.cursor.as_deref())?;
    let page = app.engine.ledger.list_resources(tenant, ResourceKind::Trigger, after, limit).await?;
    let mut triggers = Vec::with_capacity(page.items.len());
    for record in &page.items {
        let standing = app.engine.triggers.standing(tenant, &record.name);
        triggers.push(TriggerView::of(&app, record, standing).await?);
    }
    Ok(Json(TriggerPage {
        triggers,
        next_cursor: page.next.map(|name| app.cursors.write(LIST, tenant, name.as_str())),
    }))
}
