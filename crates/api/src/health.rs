//! `/healthz`, `/readyz`, `/health`, `/metrics`: how we are.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bowline_supervise::meters::{DepthGauge, QueueLabels};
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use hyper::header::HeaderValue;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
pub struct HealthView {
    /// ok, degraded, closing.
    pub status: &'static str,
    /// ok, away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<&'static str>,
    /// held: the clock is far from the ledger's last known time, and what cannot be undone waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<&'static str>,
    /// Why it is degraded, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub version: &'static str,
}

const PATIENCE: Duration = Duration::from_secs(2);

const fn view(status: &'static str, ledger: Option<&'static str>) -> HealthView {
    HealthView { status, ledger, clock: None, reason: None, version: env!("CARGO_PKG_VERSION") }
}

/// The process answers; nothing else is looked at.
pub async fn alive() -> Json<HealthView> {
    Json(view("ok", None))
}

async fn ledger_is_well(app: &App) -> bool {
    matches!(tokio::time::timeout(PATIENCE, app.engine.ledger.ping()).await, Ok(Ok(())))
}

/// Requests should be sent here: the ledger takes writes, and the house is not closing.
pub async fn ready(State(app): State<App>) -> Response {
    if !app.is_ready() {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(view("closing", None))).into_response();
    }
    health(State(app)).await
}

/// The parts, one by one.
pub async fn health(State(app): State<App>) -> Response {
    if ledger_is_well(&app).await {
        let clock = app.engine.ledger.clock_status();
        if clock.is_held() {
            // Requests are still welcome here, so this is no 503.
            let reason = Some(bowline_engine::explain_clock(&clock));
            return Json(HealthView { clock: Some("held"), reason, ..view("degraded", Some("ok")) }).into_response();
        }
        Json(view("ok", Some("ok"))).into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(view("degraded", Some("away")))).into_response()
    }
}

/// The meters, in Prometheus' text form.
pub async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let meters = &app.engine.meters;
    // While the ledger is away the other meters are all the more wanted, and before the caller's patience ends: so both are
    // waited for together.
    let ledger = &app.engine.ledger;
    let depths = tokio::time::timeout(PATIENCE, ledger.lane_depths(None));
    let (depths, stopped) = tokio::join!(depths, tokio::time::timeout(PATIENCE, ledger.count_stopped()));
    if let Ok(Ok(depths)) = depths {
        for depth in depths {
            let queue = QueueLabels { queue: depth.lane.as_str() };
            let set = |gauge: &DepthGauge, value: u64| {
                gauge.get_or_create(&queue).set(i64::try_from(value).unwrap_or(i64::MAX));
            };
            set(&meters.queue_depth, depth.queued);
            set(&meters.scheduled, depth.scheduled);
            set(&meters.running, depth.running);
            set(&meters.dlq_depth, depth.dead);
        }
    }
    if let Ok(Ok(stopped)) = stopped {
        meters.stopped_starters.set(i64::try_from(stopped).unwrap_or(i64::MAX));
    }
    let (waiting, _) = app.engine.ledger.backlog();
    meters.backlog.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    meters.polls_waiting.set(i64::try_from(app.polls.count()).unwrap_or(i64::MAX));
    let mut response = meters.text().into_response();
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
