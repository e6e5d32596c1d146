//! `PUT /runs/{id}/output/{stream}?offset=`: an agent brings a range of a run's output. Answered when it is durable.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use bowline_backbone::{BlobError, BlobStore, Key};
use bowline_engine::Room;
use bowline_model::RunId;
use bowline_store::{Encoding, NewOutput, OutputAnswer, OutputRange, OutputStore, OutputStream, StoreError};
use bytes::Bytes;
use hyper::header::CONTENT_ENCODING;
use hyper::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::read::load;
use crate::app::App;
use crate::body::{RawBody, aside_briefly};
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
    let raw = aside_briefly(tenant, move || range.check(&checked)).await??;
    // An agent that died before it heard how much we hold begins anew, and perhaps in larger pieces.
    if query.offset < held {
        match repeats(&app, run, stream, (query.offset, held), &raw).await? {
            Some(true) => return Ok(Json(BroughtView { stored: held })),
            Some(false) => answer(OutputAnswer::Conflict).map(drop)?,
            None => {}
        }
    }
    let room = app.engine.quotas.reserve(tenant, range.bytes);
    let room = room.map_err(|full| crate::bounds::exceeded(full.quota, full.used, full.max))?;
    // With its hash and its encoding in its name: what is refused afterwards has not replaced what was there.
    let hash = &hex(&range.sha256)[..32];
    let written = range.encoding.code();
    let key = format!("runs/{}/{}/{:020}-{hash}-{written}", run.as_uuid().simple(), stream.as_str(), query.offset);
    let place = Key::new(&key).map_err(|_| Problem::validation("offset"))?;
    let in_hand = app.uploads.hold(&key).ok_or_else(|| {
        Problem::retry_later("OUTPUT_UNAVAILABLE", "the same range is being stored already; try again")
    })?;
    let range = OutputRange {
        begins: query.offset,
        bytes: range.bytes,
        sha256: range.sha256,
        encoding: range.encoding,
        key: key.into(),
    };
    let output = NewOutput { tenant, worker, run, stream, range };
    let engine = Arc::clone(&app.engine);
    let stored = app.uploads.run(async move {
        let stored = store(&*engine.blobs, &*engine.ledger, (&place, body), output, room).await;
        drop(in_hand);
        stored
    });
    let fell = || Problem::retry_later("OUTPUT_UNAVAILABLE", "the output was not stored; try again");
    answer(stored.await.ok_or_else(fell)??).map(|stored| Json(BroughtView { stored }))
}

/// Writes an object and names it in the ledger. What the ledger does not name in the end is removed again, and takes no room.
async fn store(
    blobs: &dyn BlobStore,
    ledger: &(impl OutputStore + ?Sized),
    (place, body): (&Key, Bytes),
    output: NewOutput,
    room: Room,
) -> Result<OutputAnswer, Problem> {
    let (run, stream, begins, key) = (output.run, output.stream, output.range.begins, output.range.key.clone());
    let stored = match blobs.put(place, body).await {
        Ok(()) => ledger.add_output(output).await.map_err(Refused::Ledger),
        Err(error) => Err(Refused::Object(error)),
    };
    match &stored {
        Ok(OutputAnswer::Held { added: true, .. }) => room.keep(),
        Ok(OutputAnswer::Held { added: false, .. }) => {}
        // It may be named. If it is not, it goes with its run.
        Err(Refused::Ledger(StoreError::Unknown(_))) => room.keep(),
        Ok(_) | Err(_) => {
            // The same bytes may have been there before under the same name: output that is sent again after its run was closed.
            let named = ledger.list_output(run, stream, begins, RANGES).await;
            let ours = |range: &OutputRange| range.begins == begins && range.key == key;
            match named {
                Ok(ranges) if ranges.iter().any(ours) => {}
                Ok(_) => {
                    if let Err(error) = blobs.remove(place).await {
                        tracing::warn!(run.id = %run, %error, "cannot remove a refused object");
                    }
                }
                Err(error) => tracing::warn!(run.id = %run, %error, "cannot tell whether a refused object is used"),
            }
        }
    }
    stored.map_err(Problem::from)
}

/// Why a range was not stored.
#[derive(Debug)]
enum Refused {
    Object(BlobError),
    Ledger(StoreError),
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Object(error) => no_room(error),
            Refused::Ledger(error) => error.into(),
        }
    }
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
            let message = format!(
                "the output of this run ends at {max} bytes (output_max_bytes of its command), counting what overlaps"
            );
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

#[cfg(test)]
mod tests {
    use bowline_backbone::MemoryBlobs;
    use bowline_engine::{QuotaLimits, Quotas};
    use bowline_model::{HostName, JobId, TenantId, Timestamp, WorkerName};
    use bowline_store::{OutputOf, StoreResult};

    use super::*;

    /// A ledger that gives one answer, and knows what it knows.
    #[derive(Debug)]
    struct Says {
        answer: StoreResult<OutputAnswer>,
        known: Vec<OutputRange>,
    }

    #[async_trait::async_trait]
    impl OutputStore for Says {
        async fn may_bring(
            &self,
            _: TenantId,
            _: WorkerName,
            _: RunId,
            _: OutputStream,
            _: u64,
        ) -> StoreResult<OutputAnswer> {
            self.answer.clone()
        }

        async fn place_for_output(&self, identity: String, _: bool) -> StoreResult<String> {
            Ok(identity)
        }

        async fn add_output(&self, _: NewOutput) -> StoreResult<OutputAnswer> {
            self.answer.clone()
        }

        async fn find_output(&self, _: TenantId, _: JobId, _: Option<HostName>) -> StoreResult<Option<OutputOf>> {
            Ok(None)
        }

        async fn list_output(&self, _: RunId, _: OutputStream, _: u64, _: u32) -> StoreResult<Vec<OutputRange>> {
            Ok(self.known.clone())
        }
    }

    /// What is left of an upload that was answered so: whether the object is there, and the bytes that count.
    async fn left(answer: StoreResult<OutputAnswer>, known: bool) -> (bool, u64) {
        let quotas = Quotas::new(QuotaLimits::default());
        let tenant = TenantId::mint(Timestamp::from_millis(1), [1; 10]);
        let (blobs, place) = (MemoryBlobs::default(), Key::new("runs/a/stdout/0").expect("a key"));
        let range = OutputRange {
            begins: 0,
            bytes: 10,
            sha256: [0; 32],
            encoding: Encoding::Plain,
            key: place.as_str().into(),
        };
        let says = Says { answer, known: if known { vec![range.clone()] } else { Vec::new() } };
        let output = NewOutput {
            tenant,
            worker: WorkerName::new("w1").expect("a name"),
            run: RunId::mint(Timestamp::from_millis(1), [2; 10]),
            stream: OutputStream::Stdout,
            range,
        };
        let room = quotas.reserve(tenant, 10).expect("room");
        drop(store(&blobs, &says, (&place, Bytes::from_static(b"0123456789")), output, room).await);
        (blobs.get(&place).await.is_ok(), quotas.usage(tenant).stored_bytes)
    }

    #[tokio::test]
    async fn what_is_refused_leaves_no_object_and_takes_no_room() {
        let held = |added| Ok(OutputAnswer::Held { stored: 10, added });
        assert_eq!(left(held(true), true).await, (true, 10));
        assert_eq!(left(held(false), true).await, (true, 0), "it was there, and counts already");
        for refused in [OutputAnswer::Conflict, OutputAnswer::Ended, OutputAnswer::TooLong { max: 5 }] {
            assert_eq!(left(Ok(refused), false).await, (false, 0), "{refused:?}");
        }
        let away = || Err(StoreError::Unavailable("away".to_owned()));
        assert_eq!(left(away(), false).await, (false, 0));
        let unknown = Err(StoreError::Unknown("the answer was lost".to_owned()));
        assert_eq!(left(unknown, false).await, (true, 10), "it may be named");
        // The same bytes were stored before; the object is the one that the ledger names.
        assert_eq!(left(Ok(OutputAnswer::Ended), true).await, (true, 0));
        assert_eq!(left(away(), true).await, (true, 0));
    }
}
