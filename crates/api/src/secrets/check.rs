//! `POST /secrets/{name}/check`: whether the value of a secret can be had now. It is read, and thrown away.

use axum::Json;
use axum::extract::State;
use bowline_engine::secrets::SecretError;
use bowline_model::ResourceName;
use bowline_model::audit::{Action, Chain, Deed};
use bowline_model::secret::SecretRef;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::door::Known;
use crate::params::{Nameable, Named};
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SecretCheck")]
pub struct CheckView {
    pub name: ResourceName,
    /// Absent if the server does not get as far as a place.
    #[serde(rename = "ref")]
    pub reference: Option<SecretRef>,
    pub version: Option<String>,
    pub ok: bool,
    /// NO_SECRET_REF, PLACE_NOT_ALLOWED, NO_VALUE, UNAVAILABLE.
    pub problem: Option<&'static str>,
    /// The same for people.
    pub message: Option<String>,
}

pub async fn check(
    State(app): State<App>,
    known: Known,
    Named(name): Named<ResourceName>,
) -> Result<Json<CheckView>, Problem> {
    let (spec, tried) = match app.engine.secrets.try_out(known.tenant()?, &name).await {
        Ok((spec, tried)) => (Some(spec), tried),
        Err(SecretError::Store(error)) => return Err(error.into()),
        Err(SecretError::NoRef(_)) => return Err(ResourceName::nothing()),
        Err(error) => (None, Err(error)),
    };
    let problem = tried.err();
    let result = problem.as_ref().map_or_else(|| "done".to_owned(), |error| format!("refused: {}", error.code()));
    let entry = Deed {
        chain: Chain::Tenant(known.tenant()?),
        author: known.author(),
        action: Action::SecretCheck,
        resource: format!("resource/secret_ref/{name}"),
        diff: None,
        reason: None,
        result,
    };
    app.engine.ledger.record_audit(vec![entry]).await?;
    Ok(Json(CheckView {
        name,
        version: spec.as_ref().and_then(|spec| spec.version.clone()),
        reference: spec.map(|spec| spec.reference),
        ok: problem.is_none(),
        problem: problem.as_ref().map(SecretError::code),
        message: problem.as_ref().map(SecretError::whole),
    }))
}
