//! Request bodies: read up to a limit, within a time, checked strictly before anything else sees them.

mod in_flight;
mod large;
pub mod strict;

use std::time::Duration;

use axum::extract::{FromRequest, Request};
use bowline_model::TenantId;
use bowline_model::wording::in_plain_words;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::app::App;
use crate::door::Entered;
use crate::problem::Problem;
pub use in_flight::BodyRoom;
pub use large::{FileBody, JsonText, aside, aside_briefly};
use strict::Limits;

/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much of a body that is too large is taken off the wire before its sender is told: this, or twice what would have been
/// taken, if that is more. And for how long.
const DISCARD_BYTES: usize = 16 << 20;
const DISCARD_TIME: Duration = Duration::from_secs(3);

/// A body that is JSON of this shape, and nothing else.
#[derive(Debug)]
pub struct Body<T>(pub T);

/// As [`Body`], for what is kept as values rather than as text: numbers that would be rounded are refused.
#[derive(Debug)]
pub struct ExactBody<T>(pub T);

/// As [`Body`], for the one route that takes large ones.
#[derive(Debug)]
pub struct LargeBody<T>(pub T);

/// As [`Body`], for reports of workers: as large as the largest result, and what surrounds it.
#[derive(Debug)]
pub struct ResultBody<T>(pub T);

/// What a report may have beside its result: its ids, and the spaces of a text that is written for people.
const BESIDE_RESULT: usize = 64 << 10;
/// Larger bodies are read beside the threads that answer requests.
const READ_HERE_MAX: usize = 1 << 20;

/// As [`Body`]; no body at all is the default of the shape.
#[derive(Debug)]
pub struct MaybeBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        parse(&read(request, app.settings.body_max).await?).map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<App> for ExactBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        parse_exact(&read(request, app.settings.body_max).await?).map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<App> for LargeBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        parse(&read(request, app.settings.batch_body_max).await?).map(Self)
    }
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for ResultBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_is_json(&request)?;
        let tenant = tenant_of(&request).ok_or_else(|| Problem::forbidden("this needs a worker's token"))?;
        let results = &app.engine.results;
        let max = usize::try_from(results.max()).unwrap_or(usize::MAX).saturating_add(BESIDE_RESULT);
        let bytes = take(request, max.max(app.settings.body_max), RESULT_PATIENCE).await.map_err(|problem| {
            if problem.status == StatusCode::PAYLOAD_TOO_LARGE { result_too_large(results.max()) } else { problem }
        })?;
        if bytes.len() <= READ_HERE_MAX {
            return parse(&bytes).map(Self);
        }
        aside_briefly(tenant, move || parse(&bytes)).await?.map(Self)
    }
}

/// How long a report may take to arrive.
const RESULT_PATIENCE: Duration = Duration::from_secs(60);

/// The one refusal of a result that no server would keep.
pub fn result_too_large(max: u64) -> Problem {
    let message = format!(
        "the result may have {max} bytes (quotas.result_bytes of the server); report a failure, or a smaller result"
    );
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "RESULT_TOO_LARGE", message).with(json!({"max_bytes": max}))
}

impl<T: DeserializeOwned + Default> FromRequest<App> for MaybeBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let empty = hyper::body::Body::is_end_stream(request.body());
        if empty {
            return Ok(Self(T::default()));
        }
        let bytes = read(request, app.settings.body_max).await?;
        if bytes.is_empty() { Ok(Self(T::default())) } else { parse(&bytes).map(Self) }
    }
}

/// Bytes that are nobody's shape: a range of output, as an agent packed it.
#[derive(Debug)]
pub struct RawBody(pub Bytes);

/// The largest of them: a range that does not get smaller by packing, and the packing.
const RAW_MAX: usize = (1 << 20) + 65_536;

impl FromRequest<App> for RawBody {
    type Rejection = Problem;

    async fn from_request(mut request: Request, _: &App) -> Result<Self, Problem> {
        // Whoever takes these knows how they are packed.
        request.headers_mut().remove(CONTENT_ENCODING);
        take(request, RAW_MAX, PATIENCE).await.map(Self)
    }
}

async fn read(request: Request, max: usize) -> Result<Bytes, Problem> {
    check_is_json(&request)?;
    take(request, max, PATIENCE).await
}

fn check_is_json(request: &Request) -> Result<(), Problem> {
    if media_type(request).eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = "the body must be JSON: send `content-type: application/json`";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", message))
}

/// What the body is said to be, without its parameters.
fn media_type(request: &Request) -> &str {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    kind.split(';').next().unwrap_or("").trim()
}

/// Takes a body off the wire: up to `max` bytes, within `time`.
async fn take(request: Request, max: usize, time: Duration) -> Result<Bytes, Problem> {
    if request.headers().get(CONTENT_ENCODING).is_some_and(|v| v != "identity") {
        let message = "compressed bodies are not taken; send it as it is";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", message));
    }
    let too_large = || {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", format!("the body may have {max} bytes"))
            .with(json!({"max_bytes": max}))
    };
    if hyper::body::Body::size_hint(request.body()).lower() > max as u64 {
        discard(request.into_body(), DISCARD_BYTES.max(2 * max)).await;
        return Err(too_large());
    }
    // While the body arrives it is the caller who is waited for, not the ledger.
    let entered = request.extensions().get::<Entered>();
    let patience = entered.map(|entered| entered.patience.clone());
    let room = entered.map(|entered| entered.room.clone()).unwrap_or_default();
    let tenant = tenant_of(&request);
    let mut body = request.into_body();
    let collecting = async {
        // Room for all of it, where it is said how long it will be; but no more than what is free of charge.
        let announced = usize::try_from(hyper::body::Body::size_hint(&body).lower()).unwrap_or(0);
        let mut pieces = Pieces::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Problem::validation("the body broke off"))?;
            if let Ok(data) = frame.into_data() {
                if pieces.len() + data.len() > max {
                    return Err(too_large());
                }
                room.take(tenant, data.len()).await?;
                pieces.add(data, announced.min(RESERVED_AHEAD));
            }
        }
        Ok(pieces.into_whole())
    };
    let collecting = tokio::time::timeout(time, collecting);
    let collected = match patience {
        Some(patience) => patience.besides(time, collecting).await,
        None => collecting.await,
    };
    let too_slow = || Problem::new(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", "the body did not arrive in time");
    let collected = collected.unwrap_or_else(|_| Err(too_slow()));
    if collected.as_ref().is_err_and(|problem| problem.status == StatusCode::TOO_MANY_REQUESTS) {
        discard(body, DISCARD_BYTES.max(2 * max)).await;
    }
    collected
}

/// Whose request this is. A caller without a tenant is the server's own administrator.
fn tenant_of(request: &Request) -> Option<TenantId> {
    let caller = request.extensions().get::<Entered>()?.caller.as_ref()?;
    caller.tenant.map(TenantId::from_uuid)
}

/// What has arrived of a body. A short one arrives as one piece, and is not copied.
#[derive(Debug, Default)]
struct Pieces {
    first: Bytes,
    all: Option<BytesMut>,
}

impl Pieces {
    fn len(&self) -> usize {
        self.all.as_ref().map_or(self.first.len(), BytesMut::len)
    }

    fn add(&mut self, piece: Bytes, announced: usize) {
        if self.all.is_none() && self.first.is_empty() && piece.len() <= RESERVED_AHEAD {
            self.first = piece;
            return;
        }
        let first = std::mem::take(&mut self.first);
        let all = self.all.get_or_insert_with(|| BytesMut::with_capacity(announced.max(first.len() + piece.len())));
        all.extend_from_slice(&first);
        all.extend_from_slice(&piece);
    }

    fn into_whole(self) -> Bytes {
        self.all.map_or(self.first, BytesMut::freeze)
    }
}

/// What is allocated for a body before any of it has arrived.
const RESERVED_AHEAD: usize = 64 << 10;

/// Takes a body off the wire that nobody wants, up to a point: whoever is still sending does not hear the answer.
async fn discard(mut body: axum::body::Body, mut left: usize) {
    let taking = async {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIME, taking).await;
}

/// JSON text as a value of this shape; what is wrong with it is said with its place.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    check(bytes, &Limits::default())?;
    parse_checked(bytes)
}

/// As [`parse`], and no number is rounded.
pub fn parse_exact<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    check_exact(bytes)?;
    parse_checked(bytes)
}

/// Whether this is one honest JSON value in which no number would be rounded.
pub fn check_exact(bytes: &[u8]) -> Result<(), Problem> {
    check(bytes, &Limits { exact_numbers: true, ..Limits::default() })
}

fn check(bytes: &[u8], limits: &Limits) -> Result<(), Problem> {
    strict::check(bytes, limits).map_err(|fault| {
        let details =
            json!({"kind": fault.kind.code(), "pointer": fault.pointer, "line": fault.line, "column": fault.column});
        Problem::validation(format!("the body is not acceptable JSON: {fault}")).with(details)
    })
}

/// As [`parse`], for text that has been checked as part of a larger one.
pub fn parse_checked<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Serde would take an array for the fields of a shape, one after the other.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::validation("a JSON object is expected"));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        // Read a second time, slowly, to say where it is.
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let field = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
            Err(placed) if placed.path().iter().len() > 0 => placed.path().to_string(),
            _ => String::new(),
        };
        let what = in_plain_words(&error.to_string());
        let message = if field.is_empty() { what } else { format!("{field}: {what}") };
        let details = json!({"field": field, "line": error.line(), "column": error.column()});
        Problem::validation(message).with(details)
    })
}
