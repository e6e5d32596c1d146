//! One request, one answer.
//!
//! Enters: a [`Request`] in the API's words. Leaves: the answer's text, as it was, or a [`Failure`] that says what to do.
//! An answer is read up to a limit; redirects are not followed, because a token goes to the server it was meant for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_http::is_loopback;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, Response, Url};
use serde::de::{DeserializeOwned, IgnoredAny};

use super::retry::{self, Again};
use crate::connection::{Connection, Credentials};
use crate::failure::{Failure, Refusal};
use crate::output::time::span;
use crate::output::{Notes, Text};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take, from the request to its last byte.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The largest refusal that is read; the rest of it would not be shown.
const REFUSAL_BYTES_MAX: usize = 256 * 1024;

/// What to ask.
#[derive(Debug, Clone)]
pub struct Request {
    method: Method,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    body: Option<(&'static str, String)>,
    idempotency_key: Option<String>,
    again: Again,
}

impl Request {
    /// A read. It may be repeated.
    pub fn get<'a>(path: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new(Method::GET, path, Again::Safe)
    }

    /// An order. It is sent once, unless it is said to be repeatable.
    pub fn post<'a>(path: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new(Method::POST, path, Again::Never)
    }

    /// Sets something to what is said. That means the same twice, so it may be repeated.
    pub fn put<'a>(path: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new(Method::PUT, path, Again::Safe)
    }

    /// Takes something away. It is sent once: a second time it would not be there.
    pub fn delete<'a>(path: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new(Method::DELETE, path, Again::Never)
    }

    fn new<'a>(method: Method, path: impl IntoIterator<Item = &'a str>, again: Again) -> Self {
        let path = path.into_iter().map(str::to_owned).collect();
        Self { method, path, query: Vec::new(), body: None, idempotency_key: None, again }
    }

    #[must_use]
    pub fn again(mut self, again: Again) -> Self {
        self.again = again;
        self
    }

    #[must_use]
    pub fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    #[must_use]
    pub fn query_if(self, name: &'static str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// A JSON text.
    #[must_use]
    pub fn body(mut self, json: impl Into<String>) -> Self {
        self.body = Some(("application/json", json.into()));
        self
    }

    /// A file as it is.
    #[must_use]
    pub fn file(mut self, text: impl Into<String>) -> Self {
        self.body = Some(("application/octet-stream", text.into()));
        self
    }

    #[must_use]
    pub fn idempotency_key(mut self, key: Option<String>) -> Self {
        self.idempotency_key = key;
        self
    }
}

/// What was answered: JSON, as the server wrote it.
#[derive(Debug, Clone)]
pub struct Answer {
    text: String,
    server: String,
}

impl Answer {
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(&self.text)
            .map_err(|error| Failure::Strange { server: self.server.clone(), cause: error.to_string() })
    }
}

/// A file, as the server wrote it, and what it says could not be written.
#[derive(Debug, Clone)]
pub struct File {
    pub text: String,
    pub left_out: Vec<Text>,
    pub left_out_count: usize,
}

/// The door to one server.
pub struct Client {
    http: reqwest::Client,
    base: Url,
    credentials: Credentials,
    notes: Notes,
    /// The server was there at least once.
    reached: AtomicBool,
}

impl Client {
    pub fn new(connection: &Connection, notes: Notes) -> Result<Self, Failure> {
        let base = connection.url()?;
        let credentials = connection.credentials(&base)?;
        let mut headers = HeaderMap::new();
        if let Some(token) = &credentials.token {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose()))
                .map_err(|_| Failure::Usage("the token has characters that no token has".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut builder = bowline_http::client()
            .user_agent(concat!("bowline/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT);
        if is_loopback(&base) {
            builder = builder.no_proxy();
        }
        if base.scheme() == "http" {
            // Without TLS there are no certificates to load, which is most of the time a short command takes.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| Failure::Unreachable {
            server: base.to_string(),
            cause: root_cause(&error),
            hint: Some("the system's certificates could not be used".to_owned()),
        })?;
        Ok(Self { http, base, credentials, notes, reached: AtomicBool::new(false) })
    }

    pub(super) fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Asks, and asks again where that is safe and promising.
    pub async fn call(&self, request: &Request) -> Result<Answer, Failure> {
        self.until_answered(request, async || self.once(request).await).await
    }

    /// As [`Self::call`], for an answer that is a file and not JSON.
    pub async fn fetch(&self, request: &Request) -> Result<File, Failure> {
        self.until_answered(request, async || self.once_file(request).await).await
    }

    async fn until_answered<T>(
        &self,
        request: &Request,
        once: impl AsyncFn() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut tried = 0;
        loop {
            tried += 1;
            let failure = match tokio::time::timeout(ANSWER_TIMEOUT, once()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(failure)) => failure,
                Err(_) => self.unreachable(format!("no answer within {}s", ANSWER_TIMEOUT.as_secs()), None),
            };
            let wait = retry::wait(&failure, tried, self.reached(), rand::random());
            match wait {
                Some(wait) if tried < request.again.tries_max() => {
                    self.say_waiting(&failure, wait);
                    tokio::time::sleep(wait).await;
                }
                _ => return Err(failure),
            }
        }
    }

    /// Short waits pass without a word.
    pub(super) fn say_waiting(&self, failure: &Failure, wait: Duration) {
        if wait >= Duration::from_millis(700) {
            let millis = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
            self.notes.say(&format!("{}; trying again in {}", Text::new(&failure.to_string()), span(millis)));
        }
    }

    pub(super) fn reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    async fn once(&self, request: &Request) -> Result<Answer, Failure> {
        let response = self.send(request, "application/json", HeaderMap::new()).await?;
        let text = self.read_text(response, ANSWER_BYTES_MAX, true).await?;
        let answer = Answer { text, server: self.server() };
        // What is passed on as JSON has been seen to be JSON.
        answer.read::<IgnoredAny>()?;
        Ok(answer)
    }

    async fn once_file(&self, request: &Request) -> Result<File, Failure> {
        let response = self.send(request, "*/*", HeaderMap::new()).await?;
        let said = response.headers().get_all("x-bowline-left-out").iter();
        let left_out: Vec<Text> = said.filter_map(|value| value.to_str().ok()).map(Text::new).collect();
        let count = response.headers().get("x-bowline-left-out-count").and_then(|value| value.to_str().ok());
        let left_out_count = count.and_then(|count| count.parse().ok()).unwrap_or(left_out.len());
        Ok(File { text: self.read_text(response, ANSWER_BYTES_MAX, true).await?, left_out, left_out_count })
    }

    /// Sends a request and returns the answer unread, if it is a success.
    pub(super) async fn send(
        &self,
        request: &Request,
        accept: &'static str,
        headers: HeaderMap,
    ) -> Result<Response, Failure> {
        let url = self.address(request)?;
        let mut builder = self.http.request(request.method.clone(), url).headers(headers).header(ACCEPT, accept);
        if let Some(key) = &request.idempotency_key {
            builder = builder.header("Idempotency-Key", key);
        }
        if let Some((kind, body)) = &request.body {
            builder = builder.header(CONTENT_TYPE, *kind).body(body.clone());
        }
        let response = builder.send().await.map_err(|error| self.lost(&error))?;
        self.reached.store(true, Ordering::Relaxed);
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let retry_after = header(RETRY_AFTER).and_then(|text| text.trim().parse().ok());
        let location = header(LOCATION);
        let body = self.read_text(response, REFUSAL_BYTES_MAX, false).await.unwrap_or_default();
        let mut refusal = Refusal::read(status.as_u16(), retry_after, &body);
        refusal.hint = self.hint(&refusal, location);
        refusal.asked.clone_from(&request.path);
        Err(Failure::Refused(Box::new(refusal)))
    }

    fn address(&self, request: &Request) -> Result<Url, Failure> {
        let mut url = self.base.clone();
        if let Some(part) = request.path.iter().find(|part| matches!(part.as_str(), "" | "." | "..")) {
            return Err(Failure::Usage(format!("{part:?} cannot be the name of anything")));
        }
        // Names become parts of the path, whatever characters they have.
        url.path_segments_mut()
            .map_err(|()| Failure::Usage("the server's address cannot have a path".to_owned()))?
            .pop_if_empty()
            .extend(&request.path);
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        Ok(url)
    }

    /// The body as text, up to `bytes_max`. A longer one is a failure if it has to be `whole`, and cut otherwise.
    async fn read_text(&self, mut response: Response, bytes_max: usize, whole: bool) -> Result<String, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.lost(&error))? {
            if body.len() + chunk.len() > bytes_max {
                if whole {
                    return Err(self.strange(format!("it is larger than {} MiB", bytes_max / (1024 * 1024))));
                }
                break;
            }
            body.extend_from_slice(&chunk);
        }
        match String::from_utf8(body) {
            Ok(text) => Ok(text),
            Err(error) if whole => Err(self.strange(error.to_string())),
            Err(error) => Ok(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        }
    }

    /// An answer that no Bowline server gives.
    pub fn strange(&self, cause: String) -> Failure {
        Failure::Strange { server: self.server(), cause }
    }

    /// The server is not there, or its answer did not arrive.
    pub(super) fn lost(&self, error: &reqwest::Error) -> Failure {
        if !error.is_connect() {
            // Somebody was there, and only the answer is missing.
            self.reached.store(true, Ordering::Relaxed);
        }
        let cause = root_cause(error);
        let hint = if self.base.scheme() == "https" && cause.contains("InvalidContentType") {
            Some("the server does not speak TLS; did you mean http:// ?".to_owned())
        } else if error.is_connect() && !self.reached() {
            Some("is the server running? start it with `make run` or `bowline serve`".to_owned())
        } else {
            None
        };
        self.unreachable(cause, hint)
    }

    pub(super) fn unreachable(&self, cause: String, hint: Option<String>) -> Failure {
        Failure::Unreachable { server: self.server(), cause, hint }
    }

    /// The server's address, as people write it.
    fn server(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    fn hint(&self, refusal: &Refusal, location: Option<String>) -> Option<String> {
        match refusal.status {
            401 => Some(self.credentials.hint()),
            404 => match refusal.code.as_str() {
                "HOST_NOT_FOUND" => Some("`bowline hosts list` shows which hosts there are".to_owned()),
                "INVENTORY_NOT_FOUND" => {
                    Some("`bowline hosts inventories` shows which inventories there are".to_owned())
                }
                "RESOURCE_NOT_FOUND" => Some("`bowline get KIND` shows which there are".to_owned()),
                _ if refusal.body.is_none() => Some(NOT_OURS.to_owned()),
                _ => None,
            },
            // Where a scope is missing; other refusals (four eyes, somebody else's block) have their own reasons.
            403 if !refusal.message.as_str().contains("approve") => {
                Some("`bowline whoami` shows what this token may do".to_owned())
            }
            429 | 503 => Some(match refusal.retry_after {
                Some(seconds) => format!("the server asks to try again in {seconds}s"),
                None => "the server is busy; try again later".to_owned(),
            }),
            300..=399 => location.map(|to| format!("the server points to {to}; use that with --server")),
            _ if refusal.body.is_none() => Some(NOT_OURS.to_owned()),
            _ => None,
        }
    }
}

const NOT_OURS: &str = "is this really a Bowline server? Check --server or BOWLINE_URL";

/// The innermost reason, which is the one that says something.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
