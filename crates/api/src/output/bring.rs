//! `PUT /runs/{id}/output/{stream}?offset=`: an agent brings a range of a run's output. Answered when it is durable.

use axum::Json;
use axum::extract::{Path, State};
use bowline_backbone::{BlobError, Key};
use bowline_model::RunId;
use bowline_store::{Encoding, NewOutput, OutputAnswer, OutputRange, OutputStream};
use bytes::Bytes;
use hyper::header::CONTENT_ENCODING;
use hyper::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::read::load;
use crate::app::App;
use crate::body::{RawBody, aside};
use crate::commands::{hex, unhex};
use crate::door::Known;
use crate::params::{Nameable, Params};
use crate::problem::Problem;

/// The longest range, in bytes of output.
const RANGE_MAX: u64 = 1 << 20;
/// Ranges that are compared at once.
const RANGES: u32 = 16;
/// No stream is longer.
const OFFSET_MAX: u64 = 1 << 46;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BringQuery {
    /// Where in the stream the range begins.
    pub offset: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BroughtView {
    /// 0..this of the stream is durable without a gap.
    pub stored: u64,
}

pub async fn bring(
    State(app): State<App>,
    known: Known,
    Path((run, stream)): Path<(String, String)>,
    Params(query): Params<BringQuery>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Json<BroughtView>, Problem> {
    let (tenant, worker) = (known.tenant()?, known.own_worker()?);
    let run: RunId = run.parse().map_err(|_| RunId::nothing())?;
    let stream = OutputStream::from_word(&stream).ok_or_else(|| Problem::not_found("NOT_FOUND", "path"))?;
    if query.offset > OFFSET_MAX {
        return Err(Problem::validation("offset: no stream is that long").with(json!({"field": "offset"})));
    }
    let range = Announced::read(&headers)?;
    let end = query.offset + range.bytes;
    // Before the bytes are looked at or written: a refused range costs one question.
    let held = answer(app.engine.ledger.may_bring(tenant, worker.clone(), run, stream, end).await?)?;
    let checked = body.clone();
    let raw = aside(move || range.check(&checked)).await??;
    // An agent that died before it heard how much we hold begins anew, and perhaps in larger pieces.
    if query.offset < held {
        match repeats(&app, run, stream, (query.offset, held), &raw).await? {
            Some(true) => return Ok(Json(BroughtView { stored: held })),
            Some(false) => answer(OutputAnswer::Conflict).map(drop)?,
            None => {}
        }
    }
    if let Err(full) = app.engine.quotas.admit_bytes(tenant, range.bytes) {
        return Err(crate::bounds::exceeded(full.quota, full.used, full.max));
    }
    // With its hash and its encoding in its name: what is refused afterwards has not replaced what was there.
    let hash = &hex(&range.sha256)[..32];
    let written = range.encoding.code();
    let key = format!("runs/{}/{}/{:020}-{hash}-{written}", run.as_uuid().simple(), stream.as_str(), query.offset);
    let place = Key::new(&key).map_err(|_| Problem::validation("offset"))?;
    app.engine.blobs.put(&place, body).await.map_err(no_room)?;
    let range = OutputRange {
        begins: query.offset,
        bytes: range.bytes,
        sha256: range.sha256,
        encoding: range.encoding,
        key: key.into(),
    };
    let output = NewOutput { tenant, worker, run, stream, range };
    let stored = app.engine.ledger.add_output(output).await?;
    if !matches!(stored, OutputAnswer::Held { .. }) {
        // The ledger names no such object, and never will under this name: other bytes have another one.
        if let Err(error) = app.engine.blobs.remove(&place).await {
            tracing::warn!(run.id = %run, %error, "cannot remove a refused object");
        }
    }
    answer(stored).map(|stored| Json(BroughtView { stored }))
}

/// What the sender says about its bytes.
#[derive(Debug, Clone, Copy)]
struct Announced {
    encoding: Encoding,
    bytes: u64,
    sha256: [u8; 32],
}

impl Announced {
    fn read(headers: &HeaderMap) -> Result<Self, Problem> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let encoding = match headers.get(CONTENT_ENCODING).map(axum::http::HeaderValue::as_bytes) {
            None | Some(b"identity") => Encoding::Plain,
            Some(b"zstd") => Encoding::Zstd,
            Some(_) => {
                let message = "content-encoding: zstd, or nothing";
                return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", message));
            }
        };
        let bytes: Option<u64> = text("x-raw-length").and_then(|text| text.parse().ok());
        let bytes = bytes.filter(|bytes| (1..=RANGE_MAX).contains(bytes)).ok_or_else(|| {
            Problem::validation(format!("x-raw-length: between 1 and {RANGE_MAX} bytes"))
                .with(json!({"header": "x-raw-length"}))
        })?;
        let sha256 = text("x-content-sha256").and_then(unhex).ok_or_else(|| {
            Problem::validation("x-content-sha256: 64 hexadecimal digits").with(json!({"header": "x-content-sha256"}))
        })?;
        Ok(Self { encoding, bytes, sha256 })
    }

    /// The bytes, if they are what was announced. A bomb is not unpacked further than announced.
    fn check(&self, body: &Bytes) -> Result<Bytes, Problem> {
        let wrong = |what: &str| {
            Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "OUTPUT_DAMAGED",
                format!("the output {what}; send it again"),
            )
        };
        let length = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let raw = match self.encoding {
            Encoding::Plain => body.clone(),
            Encoding::Zstd => zstd::bulk::decompress(body, length).map_err(|_| wrong("cannot be unpacked"))?.into(),
        };
        if raw.len() != length {
            return Err(wrong("has another length than announced"));
        }
        if <[u8; 32]>::from(Sha256::digest(&raw)) != self.sha256 {
            return Err(wrong("has another hash than announced"));
        }
        Ok(raw)
    }
}

/// Whether these bytes, as far as we hold the stream already, are the ones that we hold. Nothing if ours cannot be read: then they
/// are brought once more.
async fn repeats(
    app: &App,
    run: RunId,
    stream: OutputStream,
    (offset, held): (u64, u64),
    raw: &Bytes,
) -> Result<Option<bool>, Problem> {
    let (mut at, until) = (offset, held.min(offset + raw.len() as u64));
    let place = |at: u64| usize::try_from(at - offset).unwrap_or(usize::MAX);
    while at < until {
        let ranges = app.engine.ledger.list_output(run, stream, at, RANGES).await?;
        let before = at;
        for range in ranges.iter().take_while(|range| range.begins <= until) {
            let Ok(ours) = load(app, run, range).await else { return Ok(None) };
            let (from, to) = (at.max(range.begins), until.min(range.begins + range.bytes));
            let skipped = usize::try_from(from.saturating_sub(range.begins)).unwrap_or(usize::MAX);
            if from > at {
                return Ok(None);
            }
            if raw.get(place(from)..place(to)) != ours.get(skipped..skipped + place(to) - place(from)) {
                return Ok(Some(false));
            }
            at = to;
            if at == until {
                break;
            }
        }
        if at == before {
            return Ok(None);
        }
    }
    Ok(Some(true))
}

fn answer(answer: OutputAnswer) -> Result<u64, Problem> {
    match answer {
        OutputAnswer::Held { stored, .. } => Ok(stored),
        OutputAnswer::Conflict => {
            Err(Problem::conflict("OUTPUT_CONFLICT", "there is other output at this place of the stream"))
        }
        OutputAnswer::TooLong { max } => {
            let message = format!("the output of this run ends at {max} bytes (output_max_bytes of its command)");
            let problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "OUTPUT_TOO_LONG", message);
            Err(problem.with(json!({"output_max_bytes": max})))
        }
        OutputAnswer::Ended => {
            Err(Problem::conflict("OUTPUT_CLOSED", "the run ended a while ago, and its output is closed"))
        }
        OutputAnswer::NotYours => Err(Problem::forbidden("this run was not handed to you")),
        OutputAnswer::NotFound => Err(RunId::nothing()),
    }
}

/// Why output or a large result cannot be stored now.
pub fn no_room(error: BlobError) -> Problem {
    tracing::warn!(%error, "cannot store an object");
    match error {
        BlobError::NoSpace(_) => {
            let message = "there is no room for objects now; keep it and try again";
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, "NO_SPACE", message).retry_after(10)
        }
        BlobError::Missing(_) | BlobError::Io { .. } => {
            Problem::retry_later("OUTPUT_UNAVAILABLE", "objects cannot be stored now; try again")
        }
    }
}
