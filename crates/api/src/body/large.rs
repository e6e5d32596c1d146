//! Bodies that describe whole inventories: larger, slower to arrive, and read beside the other requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use axum::extract::{FromRequest, Request};
use bowline_model::TenantId;
use bytes::Bytes;
use hyper::StatusCode;

use super::{check_is_json, media_type, take};
use crate::app::App;
use crate::problem::Problem;

/// How long such a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// The text of a JSON body, not read yet.
#[derive(Debug)]
pub struct JsonText(pub Bytes);

impl FromRequest<App> for JsonText {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_is_json(&request)?;
        take(request, app.settings.inventory_body_max, PATIENCE).await.map(Self)
    }
}

/// A file as it is, in whatever format.
#[derive(Debug)]
pub struct FileBody(pub Bytes);

impl FromRequest<App> for FileBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        if !is_file(media_type(&request)) {
            // Forms are not taken on purpose: whoever sends a file as one has lost its line breaks.
            let message = "the body must be a file as it is: send `content-type: text/plain`, text/csv, application/yaml, \
                           application/json or application/octet-stream";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", message));
        }
        take(request, app.settings.inventory_body_max, PATIENCE).await.map(Self)
    }
}

fn is_file(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    let known = ["", "application/yaml", "application/x-yaml", "application/json", "application/octet-stream"];
    kind.starts_with("text/") || known.contains(&kind.as_str())
}

/// Does work that takes the processor for a while, beside the threads that answer requests, in one of the tenant's places.
pub async fn aside<T: Send + 'static>(
    tenant: TenantId,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    done(bowline_engine::aside::run(tenant, || catch_unwind(AssertUnwindSafe(work))).await)
}

/// The same for work that takes the processor for some milliseconds.
pub async fn aside_briefly<T: Send + 'static>(
    tenant: TenantId,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    done(bowline_engine::aside::run_briefly(tenant, || catch_unwind(AssertUnwindSafe(work))).await)
}

fn done<T>(ended: std::thread::Result<T>) -> Result<T, Problem> {
    ended.map_err(|_| {
        tracing::error!("work beside a request ended with a panic");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", "something is wrong on our side")
    })
}
