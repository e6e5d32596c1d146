//! `GET /resources/{kind}/{name}/versions`: every version, newest first.

use axum::Json;
use axum::extract::State;
use bowline_model::ResourceName;
use bowline_model::resource::ResourceKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::{VersionView, key};
use crate::app::App;
use crate::door::Known;
use crate::params::{Nameable, NamedPair, Params, page_size};
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VersionsQuery {
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct VersionPage {
    pub versions: Vec<VersionView>,
    pub next_cursor: Option<String>,
}

pub async fn versions(
    State(app): State<App>,
    known: Known,
    NamedPair(kind, name): NamedPair<ResourceKind, ResourceName>,
    Params(query): Params<VersionsQuery>,
) -> Result<Json<VersionPage>, Problem> {
    let tenant = known.tenant()?;
    let limit = page_size(query.limit, &app)?;
    let list = format!("versions {kind} {name}");
    let before = match query.cursor {
        None => None,
        Some(text) => Some(app.cursors.read(&list, tenant, &text)?.parse().map_err(Problem::validation)?),
    };
    let page = app.engine.ledger.list_versions(key(tenant, kind, name), before, limit).await?;
    let page = page.ok_or_else(ResourceName::nothing)?;
    let mut versions: Vec<VersionView> = page.items.into_iter().map(Into::into).collect();
    for version in &mut versions {
        app.actors.fill(&mut version.actor).await;
    }
    Ok(Json(VersionPage {
        versions,
        next_cursor: page.next.map(|version| app.cursors.write(&list, tenant, &version.to_string())),
    }))
}
