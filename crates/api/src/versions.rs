//! Which version of something may be started: the active one, unless the caller could activate another.
//!
//! Whoever may only start what others wrote cannot choose an older version of it, which may lack a rule that the active one
//! has, nor one that is not meant to be used yet.

use bowline_auth::Scope;
use bowline_model::fleet::PinnedCommand;
use bowline_model::resource::ResourceKind;
use bowline_model::{JobId, ResourceName};
use bowline_store::ResourceKey;
use hyper::StatusCode;
use serde_json::json;

use crate::app::App;
use crate::door::Known;
use crate::problem::Problem;

pub async fn active_only(
    app: &App,
    known: &Known,
    kind: ResourceKind,
    name: ResourceName,
    version: u32,
) -> Result<(), Problem> {
    if known.0.scopes.allows(Scope::ResourcesWrite) {
        return Ok(());
    }
    let key = ResourceKey { tenant: known.tenant()?, kind, name: name.clone() };
    let Some(found) = app.engine.ledger.find_resource(key, None).await? else { return Ok(()) };
    if found.active == Some(version) {
        return Ok(());
    }
    let active = found.active.map_or_else(|| "none is".to_owned(), |active| format!("version {active} is"));
    let message = format!(
        "version {version} of {} {name} is not the active one ({active}); other versions need the scope {}",
        kind.as_str(),
        Scope::ResourcesWrite,
    );
    let details = json!({"kind": kind, "name": name, "version": version, "active": found.active});
    Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", message).with(details))
}

/// The same for the definition that an execution is pinned to, where it is to go on or to run again.
pub async fn active_execution_only(app: &App, known: &Known, job: JobId) -> Result<(), Problem> {
    let tenant = known.tenant()?;
    let Some(execution) = app.engine.ledger.find_flow(tenant, job).await? else { return Ok(()) };
    let Some(version) = execution.workflow_version else { return Ok(()) };
    let kind = app.engine.flows.kind_of(tenant, job).await?;
    let name = ResourceName::new(&execution.workflow).map_err(Problem::validation)?;
    active_only(app, known, kind, name, version).await
}

/// What may be run again: a version that could be started, and a command that was written for one job only by those who could
/// write one.
pub async fn may_run_again(app: &App, known: &Known, job: JobId) -> Result<(), Problem> {
    active_execution_only(app, known, job).await?;
    match app.engine.commands.pinned(known.tenant()?, job).await? {
        Some(PinnedCommand { name: Some(name), version: Some(version), .. }) => {
            active_only(app, known, ResourceKind::Command, name, version).await
        }
        Some(PinnedCommand { name: None, .. }) => known.require(Scope::FleetWrite),
        _ => Ok(()),
    }
}
