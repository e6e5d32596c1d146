//! Tenants: made and listed by administrators.

use axum::Json;
use axum::extract::State;
use bowline_model::{TenantId, Timestamp, WorkerName};
use bowline_store::Tenant;
use hyper::StatusCode;
use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::problem::Problem;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRequest {
    pub name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TenantView {
    pub id: TenantId,
    pub name: String,
    pub created_at: Timestamp,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TenantList {
    pub tenants: Vec<TenantView>,
}

impl From<Tenant> for TenantView {
    fn from(tenant: Tenant) -> Self {
        Self { id: tenant.id, name: tenant.name, created_at: tenant.created_at }
    }
}

/// `POST /tenants`
pub async fn create(
    State(app): State<App>,
    known: Known,
    Body(body): Body<CreateRequest>,
) -> Result<(StatusCode, Json<TenantView>), Problem> {
    WorkerName::new(&body.name).map_err(|e| Problem::validation(format!("name: {e}")))?;
    let id = TenantId::mint(app.engine.clock.now(), rand::rng().random());
    let made = app.engine.ledger.create_tenant(id, body.name, known.author()).await?;
    let tenant = made.ok_or_else(|| Problem::conflict("TENANT_EXISTS", "a tenant of this name exists"))?;
    Ok((StatusCode::CREATED, Json(tenant.into())))
}

/// `GET /tenants`
pub async fn list(State(app): State<App>) -> Result<Json<TenantList>, Problem> {
    let tenants = app.engine.ledger.list_tenants().await?;
    Ok(Json(TenantList { tenants: tenants.into_iter().map(Into::into).collect() }))
}
