//! Answers that are bytes: read as they come, with the place where the next ones begin.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::HeaderMap;

use super::http::{Client, Request};
use super::retry;
use crate::failure::Failure;

/// How long the server may take to begin its answer.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// Whoever is silent this long is asked again from the same place; if nothing was written, that costs nothing.
const SILENCE_MAX: Duration = Duration::from_secs(90);
/// The server's words for where the next bytes begin, whether there will be any, and which attempt wrote them.
const NEXT_OFFSET: &str = "x-next-offset";
const COMPLETE: &str = "x-output-complete";
const RUN_ID: &str = "x-run-id";

/// An answer that is being read.
pub struct Raw<'c> {
    client: &'c Client,
    response: Response,
    /// Where the bytes after this answer begin, if the server knew when it began.
    pub next_offset: Option<u64>,
    /// There is nothing after this answer, and never will be.
    pub complete: bool,
    /// Whose bytes these are.
    pub run: Option<String>,
}

impl Raw<'_> {
    /// The next bytes; `None` when that was all.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        match tokio::time::timeout(SILENCE_MAX, self.response.chunk()).await {
            Ok(Ok(bytes)) => Ok(bytes.map(|bytes| bytes.to_vec())),
            Ok(Err(error)) => Err(self.client.lost(&error)),
            Err(_) => Err(self.client.unreachable(format!("silent for {}s", SILENCE_MAX.as_secs()), None)),
        }
    }
}

impl Client {
    /// Asks for bytes, and asks again while that is promising.
    pub async fn raw(&self, request: &Request) -> Result<Raw<'_>, Failure> {
        let mut tried = 0;
        loop {
            tried += 1;
            let sending = self.send(request, "text/plain, application/json;q=0.5", HeaderMap::new());
            let failure = match tokio::time::timeout(OPEN_TIMEOUT, sending).await {
                Ok(Ok(response)) => {
                    let word = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
                    let next_offset = word(NEXT_OFFSET).and_then(|text| text.parse().ok());
                    let complete = word(COMPLETE) == Some("true");
                    let run = word(RUN_ID).map(str::to_owned);
                    return Ok(Raw { client: self, response, next_offset, complete, run });
                }
                Ok(Err(failure)) => failure,
                Err(_) => self.unreachable(format!("no answer within {}s", OPEN_TIMEOUT.as_secs()), None),
            };
            match retry::wait(&failure, tried, self.reached(), rand::random()) {
                Some(wait) if tried < super::Again::Patient.tries_max() => {
                    self.say_waiting(&failure, wait);
                    tokio::time::sleep(wait).await;
                }
                _ => return Err(failure),
            }
        }
    }
}
