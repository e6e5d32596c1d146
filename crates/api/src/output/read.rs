//! `GET /jobs/{id}/output`: what a run printed, from any place, to its end or as it grows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bowline_model::{HostName, JobId, RunId, TenantId};
use bowline_store::{OutputOf, OutputRange, OutputStream};
use bytes::Bytes;
use futures_util::stream;
use hyper::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderName, HeaderValue, RANGE};
use hyper::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::app::App;
use crate::door::Known;
use crate::jobs::no_job;
use crate::params::{Named, Params};
use crate::problem::Problem;
use crate::shares::Share;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OutputQuery {
    /// Which host of a command.
    pub host: Option<HostName>,
    /// stdout unless given, or stderr.
    pub stream: Option<String>,
    /// Where to begin, in bytes.
    pub offset: u64,
    /// At most so many bytes.
    pub limit: Option<u64>,
    /// Go on until the run has ended.
    pub follow: bool,
}

static NEXT_OFFSET: HeaderName = HeaderName::from_static("x-next-offset");
static COMPLETE: HeaderName = HeaderName::from_static("x-output-complete");
static RUN_ID: HeaderName = HeaderName::from_static("x-run-id");

/// Ranges that are looked up at a time.
const BITE: u32 = 16;
/// Even when nothing rings, look this often.
const SAFETY_NET: Duration = Duration::from_secs(1);
const CHECK: Duration = Duration::from_secs(2);

pub async fn read(
    State(app): State<App>,
    known: Known,
    headers: HeaderMap,
    Named(job): Named<JobId>,
    Params(query): Params<OutputQuery>,
) -> Result<Response, Problem> {
    let tenant = known.tenant()?;
    let stream = match query.stream.as_deref() {
        None => OutputStream::Stdout,
        Some(word) => OutputStream::from_word(word)
            .ok_or_else(|| Problem::validation("stream: stdout or stderr").with(json!({"field": "stream"})))?,
    };
    let asked = byte_range(&headers)?;
    if asked.is_some() && (query.offset > 0 || query.limit.is_some() || query.follow) {
        return Err(Problem::validation("a Range header goes with neither offset, limit nor follow"));
    }
    let (offset, limit) = asked.map_or((query.offset, query.limit), |(from, count)| (from, count));
    let found = app.engine.ledger.find_output(tenant, job, query.host.clone()).await?;
    let Some(found) = found else { return Err(nothing(&app, tenant, job, query.host.as_ref()).await?) };
    let held = found.held(stream);
    let end = limit.map_or(u64::MAX, |limit| offset.saturating_add(limit));
    let shown_to = held.min(end).max(offset);
    let place = if query.follow { Some(app.streams.take(&known)?) } else { None };
    let reader = Reader {
        end: if query.follow { end } else { shown_to },
        app,
        known,
        tenant,
        job,
        host: query.host,
        found: found.clone(),
        stream,
        at: offset,
        ready: Vec::new(),
        checked: Instant::now(),
        _place: place,
    };
    let mut response = Response::new(Body::from_stream(stream::unfold(reader, |mut reader| async move {
        reader.next().await.map(|bytes| (bytes, reader))
    })));
    let plain = response.headers_mut();
    plain.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    plain.insert(&COMPLETE, HeaderValue::from_static(if found.ended && shown_to == held { "true" } else { "false" }));
    if !query.follow {
        plain.insert(&NEXT_OFFSET, HeaderValue::from(shown_to));
    }
    if let Ok(run) = HeaderValue::from_str(&found.run.to_string()) {
        plain.insert(&RUN_ID, run);
    }
    if asked.is_some() {
        if offset >= held {
            let message = format!("the output has {held} bytes so far");
            let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "RANGE_NOT_SATISFIABLE", message);
            return Err(problem.with(json!({"bytes": held})));
        }
        let text = format!("bytes {offset}-{}/{held}", shown_to - 1);
        if let Ok(text) = HeaderValue::from_str(&text) {
            plain.insert(CONTENT_RANGE, text);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// Why there is no output: no such job, no such host, or nothing has run yet.
async fn nothing(app: &App, tenant: TenantId, job: JobId, host: Option<&HostName>) -> Result<Problem, Problem> {
    if app.engine.ledger.find_job(tenant, job).await?.is_none() {
        return Ok(no_job());
    }
    let message = match host {
        Some(host) => format!("nothing has run on {host} for this job"),
        None => "nothing has run yet; a command on hosts needs host=".to_owned(),
    };
    Ok(Problem::new(StatusCode::NOT_FOUND, "OUTPUT_NOT_FOUND", message))
}

/// `Range: bytes=from-to`, one range that begins somewhere.
fn byte_range(headers: &HeaderMap) -> Result<Option<(u64, Option<u64>)>, Problem> {
    let Some(value) = headers.get(RANGE) else { return Ok(None) };
    let bad = || Problem::validation("Range: bytes=FROM-TO or bytes=FROM-").with(json!({"header": "range"}));
    let text = value.to_str().map_err(|_| bad())?.strip_prefix("bytes=").ok_or_else(bad)?;
    let (from, to) = text.split_once('-').ok_or_else(bad)?;
    let from: u64 = from.trim().parse().map_err(|_| bad())?;
    if to.trim().is_empty() {
        return Ok(Some((from, None)));
    }
    let to: u64 = to.trim().parse().map_err(|_| bad())?;
    if to < from { Err(bad()) } else { Ok(Some((from, Some((to - from).saturating_add(1))))) }
}

struct Reader {
    app: App,
    known: Known,
    tenant: TenantId,
    job: JobId,
    host: Option<HostName>,
    found: OutputOf,
    stream: OutputStream,
    at: u64,
    end: u64,
    /// Ranges that were looked up, the next one last.
    ready: Vec<OutputRange>,
    /// When we last asked whether the reader's credential is still good.
    checked: Instant,
    _place: Option<Share>,
}

impl Reader {
    /// The next bytes; `None` at the end. An error ends the answer in the middle, which a client sees.
    async fn next(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        loop {
            if self.at >= self.end {
                return None;
            }
            match self.ready.pop() {
                Some(range) if range.begins <= self.at => return Some(self.show(&range).await),
                // Before a gap: what follows it must not look as if it followed what was before it.
                Some(_) => self.ready.clear(),
                None => {}
            }
            if self.checked.elapsed() > CHECK {
                if !self.app.gate.still_good(&self.known.0).await {
                    return None;
                }
                self.checked = Instant::now();
            }
            match self.look().await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(std::io::Error::other(error))),
            }
        }
    }

    /// Looks for more; `false` when there will be none.
    async fn look(&mut self) -> Result<bool, bowline_store::StoreError> {
        let ledger = Arc::clone(&self.app.engine.ledger);
        let mut bell = ledger.event_wake().listen();
        loop {
            bell.forget();
            let mut ranges = ledger.list_output(self.found.run, self.stream, self.at, BITE).await?;
            if ranges.first().is_some_and(|first| first.begins <= self.at) {
                ranges.reverse();
                self.ready = ranges;
                return Ok(true);
            }
            // Nothing here: at the end of what there is, or before a gap that is still on its way.
            if self.found.ended || self._place.is_none() {
                return Ok(false);
            }
            tokio::select! {
                () = self.app.stop.cancelled() => return Ok(false),
                () = tokio::time::sleep(SAFETY_NET) => {}
                () = bell.rung() => {}
            }
            // Here, too: bells may ring all the time and bring nothing of ours.
            if self.checked.elapsed() > CHECK {
                if !self.app.gate.still_good(&self.known.0).await {
                    return Ok(false);
                }
                self.checked = Instant::now();
            }
            let run = self.found.run;
            match ledger.find_output(self.tenant, self.job, self.host.clone()).await? {
                // A newer attempt has begun: this one's output is over.
                Some(found) if found.run == run => self.found = found,
                _ => self.found.ended = true,
            }
        }
    }

    async fn show(&mut self, range: &OutputRange) -> Result<Bytes, std::io::Error> {
        let raw = load(&self.app, self.found.run, range).await?;
        let from = usize::try_from(self.at - range.begins).unwrap_or(usize::MAX).min(raw.len());
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let to = from.saturating_add(left).min(raw.len());
        self.at += (to - from) as u64;
        Ok(raw.slice(from..to))
    }
}

/// The bytes of a range, checked against its hash.
pub(super) async fn load(app: &App, run: RunId, range: &OutputRange) -> Result<Bytes, std::io::Error> {
    bowline_engine::output::load(&*app.engine.blobs, run, range).await
}
