//! `GET /quotas`: what a tenant uses, and what it may.

use axum::Json;
use axum::extract::State;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::app::App;
use crate::door::Known;
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
pub struct QuotaView {
    pub quota: &'static str,
    pub used: u64,
    pub max: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct QuotasView {
    /// `queued_jobs` and `stored_bytes`. What is used is as it was counted last, plus what was accepted
    /// since.
    pub quotas: Vec<QuotaView>,
}

pub async fn quotas(State(app): State<App>, known: Known) -> Result<Json<QuotasView>, Problem> {
    let quotas = &app.engine.quotas;
    let (used, limits) = (quotas.usage(known.tenant()?), quotas.limits());
    let view = |quota, used, max| QuotaView { quota, used, max };
    Ok(Json(QuotasView {
        quotas: vec![
            view("queued_jobs", used.queued_jobs, limits.queued_jobs),
            view("stored_bytes", used.stored_bytes, limits.stored_bytes),
        ],
    }))
}

/// Bounds of inventories, where waiting does not help.
const INVENTORY: [&str; 6] = ["hosts", "groups", "nested_groups", "host_groups", "group_variables", "inventory_bytes"];

/// The refusal that names the quota.
pub fn exceeded(quota: &str, used: u64, max: u64) -> Problem {
    let details = json!({"quota": quota, "used": used, "max": max});
    if INVENTORY.contains(&quota) {
        let message = format!(
            "the inventory has too much: {quota} is {used}, at most {max}; take something out of it, or split it"
        );
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, "QUOTA_EXCEEDED", message).with(details);
    }
    let message = format!(
        "the quota {quota} of this tenant is used up ({used} of {max}); wait until jobs have ended or were removed, or ask for \
         a larger quota"
    );
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "QUOTA_EXCEEDED", message).with(details).retry_after(10)
}
