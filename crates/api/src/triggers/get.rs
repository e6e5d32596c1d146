//! `GET /triggers/{name}`: a trigger, what it says and how it stands on this server.

use axum::Json;
use axum::extract::State;
use bowline_model::ResourceName;
use bowline_model::resource::ResourceKind;
use bowline_store::ResourceKey;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::view::TriggerView;
use crate::app::App;
use crate::door::Known;
use crate::params::Part;
use crate::problem::Problem;
use crate::views::raw;

#[derive(Debug, Serialize, JsonSchema)]
pub struct TriggerAnswer {
    #[serde(flatten)]
    pub trigger: TriggerView,
    /// What it says, with every default in its place.
    pub spec: Option<Box<RawValue>>,
}

pub async fn get(State(app): State<App>, known: Known, Part(name): Part) -> Result<Json<TriggerAnswer>, Problem> {
    let no_trigger = || Problem::not_found("TRIGGER_NOT_FOUND", "trigger");
    let (tenant, name) = (known.tenant()?, ResourceName::new(&name).map_err(|_| no_trigger())?);
    let key = ResourceKey { tenant, kind: ResourceKind::Trigger, name };
    let record = app.engine.ledger.find_resource(key, None).await?.ok_or_else(no_trigger)?;
    let standing = app.engine.triggers.standing(tenant, &record.name);
    let trigger = TriggerView::of(&app, &record, standing).await?;
    Ok(Json(TriggerAnswer { trigger, spec: raw(Some(record.version.spec.to_string())) }))
}
