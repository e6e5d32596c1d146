//! The worker's side of the HTTP protocol: one method for each word, and a judgement on each answer.
//!
//! Enters: requests of `bowline-protocol`. Leaves: their answers, or a [`CallError`] that says whether trying again can
//! help. Never here: trying again. Who calls knows how long that is worth it.

use std::fmt;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use bowline_model::{RunId, WorkerName};
use bowline_protocol::{
    DRAIN_HEADER, EnrollAnswer, EnrollRequest, EventsAck, EventsRequest, EvidenceAnswer, EvidenceRequest,
    HeartbeatAnswer, HeartbeatRequest, RegisterAnswer, RegisterRequest, RenewAnswer, RenewRequest, ResultAnswer,
    ResultRequest, ShipAnswer, ShipRequest,
};
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::Notify;

/// How long an ordinary call may take.
const CALL_MAX: Duration = Duration::from_secs(10);
/// The same for one that brings a lot.
const BULK_MAX: Duration = Duration::from_secs(60);
/// Errors are read up to here; whoever sends more has nothing to say.
const ERROR_BODY_MAX_BYTES: usize = 64 * 1024;

/// A server, and who we are to it.
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    credentials: RwLock<Credentials>,
    fell_back: Notify,
}

/// What this client shows. Marked sensitive, so that it never prints itself.
#[derive(Clone)]
struct Credentials {
    /// An agent's changes when it is renewed.
    shown: HeaderValue,
    /// The one before. A server that was restored from an older copy knows only that.
    before: Option<HeaderValue>,
}

/// A range of a run's output.
pub(crate) struct OutputPart<'a> {
    pub run: RunId,
    pub stream: &'a str,
    pub offset: u64,
    pub raw_bytes: usize,
    /// Of the raw bytes, in hex.
    pub sha256: String,
    /// What is sent: the raw bytes, or smaller, by zstd.
    pub body: Vec<u8>,
    pub compressed: bool,
}

/// Why there cannot be a client for this address and token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadAddress {
    #[error("`{0}` is not an http or https address")]
    Url(String),
    #[error("the token holds characters that cannot be sent in a header")]
    Token,
    #[error("the HTTP client cannot be set up")]
    Http(#[source] reqwest::Error),
}

/// Why a call brought no answer that we can use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("the server cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    #[error("the server is busy: {refusal}")]
    Busy { refusal: Refusal, retry_after: Option<Duration> },
    #[error("{0}")]
    Refused(Refusal),
    #[error("the server's answer cannot be read")]
    Unreadable(#[source] serde_json::Error),
}

/// A server's no, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The stable code, such as `STALE_LEASE`; empty when the answer came from something that is not Bowline.
    pub code: String,
    pub message: String,
    /// What to tell whoever runs the server.
    pub request_id: Option<String>,
}

impl CallError {
    /// Whether the same call may go well later.
    pub fn is_passing(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            Self::Unreachable(_) | Self::Refused(_) | Self::Unreadable(_) => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if !self.code.is_empty() {
            write!(f, " {}", self.code)?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        if let Some(id) = &self.request_id {
            write!(f, " (request {id})")?;
        }
        Ok(())
    }
}

fn bearer(token: &str) -> Result<HeaderValue, BadAddress> {
    let mut authorization = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| BadAddress::Token)?;
    authorization.set_sensitive(true);
    Ok(authorization)
}

impl Client {
    pub fn new(address: &str, token: &str) -> Result<Self, BadAddress> {
        let bad = || BadAddress::Url(address.to_owned());
        let mut base = Url::parse(address).map_err(|_| bad())?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(bad());
        }
        base.path_segments_mut().map_err(|()| bad())?.pop_if_empty();
        base.set_query(None);
        base.set_fragment(None);
        let credentials = RwLock::new(Credentials { shown: bearer(token)?, before: None });
        let mut http = bowline_http::client()
            .user_agent(concat!("bowline-agent/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(5))
            .tcp_keepalive(Duration::from_secs(15))
            // A token is for the server it was made for, not for where that one points.
            .redirect(reqwest::redirect::Policy::none());
        if base.scheme() == "http" {
            // Reading the system's certificates takes a while, and fails where there are none, as in small containers.
            http = http.tls_certs_only([]);
        }
        let http = http.build().map_err(BadAddress::Http)?;
        Ok(Self { http, base, credentials, fell_back: Notify::new() })
    }

    /// Falls back to this token if the one that is shown is unknown to the server.
    pub fn keep_before(&self, token: &str) -> Result<(), BadAddress> {
        self.credentials.write().unwrap_or_else(PoisonError::into_inner).before = Some(bearer(token)?);
        Ok(())
    }

    /// Shows this token from now on, and keeps the one that was shown to fall back to.
    pub fn authorize(&self, token: &str) -> Result<(), BadAddress> {
        let shown = bearer(token)?;
        let mut credentials = self.credentials.write().unwrap_or_else(PoisonError::into_inner);
        credentials.before = Some(std::mem::replace(&mut credentials.shown, shown));
        Ok(())
    }

    /// Waits until the server took the token before, because it did not know the one that was shown.
    pub async fn fell_back(&self) {
        self.fell_back.notified().await;
    }

    pub async fn register(&self, request: &RegisterRequest) -> Result<RegisterAnswer, CallError> {
        let response = self.send(Method::POST, self.url(&["workers", "register"]), Some(request), CALL_MAX).await?;
        read(response).await
    }

    /// A long poll. Tasks come unread, so that one we cannot read does not spoil the others. With them, whether the server asks
    /// to take no more.
    pub async fn tasks(
        &self,
        worker: &WorkerName,
        max: usize,
        wait: Duration,
    ) -> Result<(Vec<Box<RawValue>>, bool), CallError> {
        let mut url = self.url(&["workers", worker.as_str(), "tasks"]);
        url.query_pairs_mut().append_pair("max", &max.to_string()).append_pair("wait", &wait.as_millis().to_string());
        let response = self.send(Method::GET, url, None::<&()>, wait + CALL_MAX).await?;
        let drain = response.headers().get(DRAIN_HEADER).is_some_and(|value| value == "true");
        Ok((read(response).await?, drain))
    }

    /// `patience` is short when a lease is at stake: better to try again than to wait for an answer that got lost.
    pub async fn heartbeat(
        &self,
        worker: &WorkerName,
        runs: Vec<RunId>,
        patience: Duration,
    ) -> Result<HeartbeatAnswer, CallError> {
        let url = self.url(&["workers", worker.as_str(), "heartbeat"]);
        let patience = patience.clamp(Duration::from_secs(1), CALL_MAX);
        read(self.send(Method::POST, url, Some(&HeartbeatRequest { runs }), patience).await?).await
    }

    pub async fn events(&self, run: RunId, request: &EventsRequest) -> Result<EventsAck, CallError> {
        let url = self.url(&["runs", &run.to_string(), "events"]);
        read(self.send(Method::POST, url, Some(request), CALL_MAX).await?).await
    }

    /// Becomes one of the server's agents. The token of this client is the join token.
    pub async fn enroll(&self, request: &EnrollRequest) -> Result<EnrollAnswer, CallError> {
        read(self.send(Method::POST, self.url(&["agents", "enroll"]), Some(request), CALL_MAX).await?).await
    }

    /// Gets a new credential in place of the one that this client shows.
    pub async fn renew(&self, body: &RenewRequest) -> Result<RenewAnswer, CallError> {
        // What is sent is signed for the token that is shown, so it is of no use with another one.
        let shown = self.credentials().shown;
        let request = self.request(Method::POST, self.url(&["agents", "renew"]), CALL_MAX);
        let request = with_body(request, body)?.header(AUTHORIZATION, shown);
        read(sort(request.send().await.map_err(unreachable)?).await?).await
    }

    /// News of many runs.
    pub async fn ship(&self, worker: &WorkerName, request: &ShipRequest) -> Result<ShipAnswer, CallError> {
        let url = self.url(&["workers", worker.as_str(), "events"]);
        read(self.send(Method::POST, url, Some(request), BULK_MAX).await?).await
    }

    /// Offers what was executed here.
    pub async fn evidence(&self, worker: &WorkerName, request: &EvidenceRequest) -> Result<EvidenceAnswer, CallError> {
        let url = self.url(&["workers", worker.as_str(), "evidence"]);
        read(self.send(Method::POST, url, Some(request), BULK_MAX).await?).await
    }

    /// Brings a range of output. The answer says how much of the stream the server holds without a gap.
    pub async fn output(&self, part: &OutputPart<'_>) -> Result<u64, CallError> {
        #[derive(serde::Deserialize)]
        struct Stored {
            stored: u64,
        }
        let mut url = self.url(&["runs", &part.run.to_string(), "output", part.stream]);
        url.query_pairs_mut().append_pair("offset", &part.offset.to_string());
        let mut request = self
            .request(Method::PUT, url, BULK_MAX)
            .header(CONTENT_TYPE, "application/octet-stream")
            .header("x-content-sha256", part.sha256.as_str())
            .header("x-raw-length", part.raw_bytes)
            .body(part.body.clone());
        if part.compressed {
            request = request.header(CONTENT_ENCODING, "zstd");
        }
        let Stored { stored } = read(self.show_and_send(request).await?).await?;
        Ok(stored)
    }

    /// Any 2xx is an answer: what the body adds is for the log only.
    pub async fn result(&self, request: &ResultRequest) -> Result<Option<ResultAnswer>, CallError> {
        let response = self.send(Method::POST, self.url(&["tasks", "result"]), Some(request), CALL_MAX).await?;
        Ok(read(response).await.ok())
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        // An http address can always be a base (checked in `new`). Segments are encoded: a worker's name may hold a `/`.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(path);
        }
        url
    }

    /// Sends, and sorts the answer by its status. What comes back is a 2xx.
    async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<&impl Serialize>,
        patience: Duration,
    ) -> Result<Response, CallError> {
        let mut request = self.request(method, url, patience);
        if let Some(body) = body {
            request = with_body(request, body)?;
        }
        self.show_and_send(request).await
    }

    fn request(&self, method: Method, url: Url, patience: Duration) -> RequestBuilder {
        self.http.request(method, url).timeout(patience)
    }

    fn credentials(&self) -> Credentials {
        self.credentials.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends with the token that is shown. If the server does not know it, with the one before, which is shown from then on if
    /// the server takes that.
    async fn show_and_send(&self, request: RequestBuilder) -> Result<Response, CallError> {
        let Credentials { shown, before } = self.credentials();
        // A body of bytes can be sent twice; it is not copied for that.
        let again = request.try_clone();
        let answer = sort(request.header(AUTHORIZATION, &shown).send().await.map_err(unreachable)?).await;
        let unknown = matches!(&answer, Err(CallError::Refused(refusal)) if refusal.status == 401);
        // Another call may have fallen back meanwhile.
        let other = Some(self.credentials().shown).filter(|now| *now != shown).or(before);
        let (true, Some(again), Some(other)) = (unknown, again, other) else { return answer };
        let second = sort(again.header(AUTHORIZATION, &other).send().await.map_err(unreachable)?).await;
        match &second {
            Err(CallError::Refused(refusal)) if refusal.status == 401 => return answer,
            // Nothing is known about the token then.
            Err(error) if error.is_passing() => return second,
            Ok(_) | Err(_) => {}
        }
        let mut credentials = self.credentials.write().unwrap_or_else(PoisonError::into_inner);
        if credentials.shown == shown {
            *credentials = Credentials { shown: other, before: None };
            self.fell_back.notify_one();
        }
        drop(credentials);
        second
    }
}

fn with_body(request: RequestBuilder, body: &impl Serialize) -> Result<RequestBuilder, CallError> {
    let body = serde_json::to_vec(body).map_err(CallError::Unreadable)?;
    Ok(request.header(CONTENT_TYPE, "application/json").body(body))
}

/// What comes back is a 2xx.
async fn sort(response: Response) -> Result<Response, CallError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let retry_after = retry_after(&response);
    let refusal = read_refusal(response).await;
    Err(if status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429) {
        CallError::Busy { refusal, retry_after }
    } else {
        CallError::Refused(refusal)
    })
}

/// The address is in our own log lines; in the error it would only repeat itself.
fn unreachable(error: reqwest::Error) -> CallError {
    CallError::Unreachable(error.without_url())
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, CallError> {
    let body = response.bytes().await.map_err(unreachable)?;
    serde_json::from_slice(&body).map_err(CallError::Unreadable)
}

/// Seconds, as Bowline sends them. The other form, a date, would need both clocks to agree.
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

async fn read_refusal(mut response: Response) -> Refusal {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    // What cannot be read to its end is not worth an error of its own: the status has been heard.
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > ERROR_BODY_MAX_BYTES {
            break;
        }
    }
    refusal(status, &body)
}

fn refusal(status: u16, body: &[u8]) -> Refusal {
    #[derive(serde::Deserialize)]
    struct Problem {
        error: Words,
        request_id: Option<String>,
    }
    #[derive(serde::Deserialize)]
    struct Words {
        code: String,
        #[serde(default)]
        message: String,
    }
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => {
            Refusal { status, code: problem.error.code, message: problem.error.message, request_id: problem.request_id }
        }
        Err(_) => Refusal { status, code: String::new(), message: String::new(), request_id: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_built_below_the_address_and_names_are_encoded() {
        let client = Client::new("https://example.org/bowline/?x=1", "t").unwrap();
        assert_eq!(
            client.url(&["workers", "site/fra-1", "tasks"]).as_str(),
            "https://example.org/bowline/workers/site%2Ffra-1/tasks"
        );
        let client = Client::new("http://127.0.0.1:7420", "t").unwrap();
        assert_eq!(client.url(&["workers", "register"]).as_str(), "http://127.0.0.1:7420/workers/register");
    }

    #[test]
    fn addresses_and_tokens_that_cannot_work_are_refused_at_once() {
        assert!(matches!(Client::new("127.0.0.1:7420", "t"), Err(BadAddress::Url(_))));
        assert!(matches!(Client::new("ftp://example.org", "t"), Err(BadAddress::Url(_))));
        assert!(matches!(Client::new("http://example.org", "a\nb"), Err(BadAddress::Token)));
    }

    #[test]
    fn a_refusal_reads_well_whoever_sent_it() {
        let body =
            br#"{"error":{"code":"STALE_LEASE","message":"gone","details":{}},"request_id":"r1","trace_id":"t"}"#;
        assert_eq!(refusal(409, body).to_string(), "409 STALE_LEASE: gone (request r1)");
        assert_eq!(refusal(502, b"<html>").to_string(), "502");
    }
}
