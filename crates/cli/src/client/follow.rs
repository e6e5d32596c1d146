//! Following the stream of events through every interruption.
//!
//! A connection that breaks is made again from the last event's id, after a wait that grows while nothing comes. What
//! the server no longer has is not hidden: it says `reset`, and so does this.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::Response;
use reqwest::header::{DATE, HeaderMap, HeaderValue};

use super::http::{Client, Request};
use super::retry;
use super::sse::{Frame, Parser};
use crate::failure::Failure;

/// A stream that is silent this long is dead: the server sends a comment far more often.
const SILENCE_MAX: Duration = Duration::from_secs(90);
/// How long the server may take to begin its answer.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Something from the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// One event, as JSON on one line.
    Event(String),
    /// The position was too old: events are missing before the next one.
    Reset,
    /// A connection stands, the first one or another. What happens from here on will be heard.
    Connected,
}

/// A reader of `GET /events/stream` that does not give up.
pub struct Follower<'c> {
    client: &'c Client,
    request: Request,
    since: Option<String>,
    /// Whether nothing may be missed before the first event either.
    gapless: bool,
    last_id: Option<String>,
    open: Option<Response>,
    parser: Parser,
    ready: VecDeque<News>,
    /// Connections that failed or ended since the last event.
    tried: u32,
    /// The server's own wish, from `retry:`.
    wait_min: Duration,
}

impl<'c> Follower<'c> {
    /// A reader of the events that `request` asks for, from `since` or from now on.
    pub fn new(client: &'c Client, request: Request, since: Option<String>) -> Self {
        Self {
            client,
            request,
            since,
            gapless: true,
            last_id: None,
            open: None,
            parser: Parser::default(),
            ready: VecDeque::new(),
            tried: 0,
            wait_min: Duration::ZERO,
        }
    }

    /// Whoever looks for itself when a connection stands need not ask the server to go back in time.
    #[must_use]
    pub fn with_gaps(mut self) -> Self {
        self.gapless = false;
        self
    }

    /// The next news. Fails only if the first connection does, or if the server refuses for good.
    pub async fn next(&mut self) -> Result<News, Failure> {
        loop {
            if let Some(news) = self.ready.pop_front() {
                return Ok(news);
            }
            let Some(response) = &mut self.open else {
                self.connect().await?;
                continue;
            };
            let failure = match tokio::time::timeout(SILENCE_MAX, response.chunk()).await {
                Ok(Ok(Some(bytes))) => {
                    self.take(&bytes);
                    continue;
                }
                Ok(Ok(None)) => self.client.unreachable("the stream ended".to_owned(), None),
                Ok(Err(error)) => self.client.lost(&error),
                Err(_) => {
                    self.client.unreachable(format!("the stream was silent for {}s", SILENCE_MAX.as_secs()), None)
                }
            };
            self.open = None;
            self.tried += 1;
            self.pause(&failure, None).await;
        }
    }

    async fn connect(&mut self) -> Result<(), Failure> {
        let mut headers = HeaderMap::new();
        let mut request = self.request.clone();
        match &self.last_id {
            Some(id) => {
                if let Ok(value) = HeaderValue::from_str(id) {
                    headers.insert("last-event-id", value);
                }
            }
            None => request = request.query_if("since", self.since.clone()),
        }
        let sending = self.client.send(&request, "text/event-stream", headers);
        let failure = match tokio::time::timeout(OPEN_TIMEOUT, sending).await {
            Ok(Ok(response)) => {
                // If it breaks before the first event, nothing between then and now may be lost.
                if self.since.is_none() && self.gapless {
                    self.since = server_time(&response);
                }
                self.ready.push_back(News::Connected);
                self.parser = Parser::default();
                self.open = Some(response);
                return Ok(());
            }
            Ok(Err(failure)) => failure,
            Err(_) => self.client.unreachable(format!("no answer within {}s", OPEN_TIMEOUT.as_secs()), None),
        };
        self.tried += 1;
        match retry::wait(&failure, self.tried, self.client.reached(), rand::random()) {
            Some(wait) => self.pause(&failure, Some(wait)).await,
            None => return Err(failure),
        }
        Ok(())
    }

    async fn pause(&self, failure: &Failure, wait: Option<Duration>) {
        let wait = wait.unwrap_or_else(|| retry::backoff(self.tried, rand::random())).max(self.wait_min);
        self.client.say_waiting(failure, wait);
        tokio::time::sleep(wait).await;
    }

    fn take(&mut self, bytes: &[u8]) {
        let (ready, last_id, since) = (&mut self.ready, &mut self.last_id, &mut self.since);
        let (tried, wait_min, notes) = (&mut self.tried, &mut self.wait_min, self.client.notes());
        self.parser.push(bytes, &mut |frame| {
            if !matches!(frame, Frame::Comment | Frame::Retry(_)) {
                *tried = 0;
            }
            match frame {
                Frame::Event { id, kind, .. } if kind == "reset" => {
                    // From here on, whatever the server has; asking for the old position again would bring the same.
                    *last_id = id;
                    *since = None;
                    ready.push_back(News::Reset);
                }
                // The stream ends now and is taken up again where it was.
                Frame::Event { kind, .. } if kind == "cut" => notes.say("the server cut the stream: too slow a reader"),
                Frame::Event { id, data, .. } => {
                    *last_id = id.or_else(|| last_id.take());
                    match serde_json::from_str::<serde::de::IgnoredAny>(&data) {
                        // Line breaks can only stand between the parts of a JSON text.
                        Ok(_) => ready.push_back(News::Event(data.replace(['\n', '\r'], " "))),
                        Err(_) => notes.say("an event that is not JSON was left out"),
                    }
                }
                Frame::Position(id) => *last_id = Some(id),
                Frame::TooLarge { id } => {
                    *last_id = id.or_else(|| last_id.take());
                    notes.say("an event of more than 1 MiB was left out");
                }
                Frame::Retry(millis) => *wait_min = Duration::from_millis(millis.min(30_000)),
                Frame::Comment => {}
            }
        });
    }
}

/// The server's clock, to the second, when it began to answer.
fn server_time(response: &Response) -> Option<String> {
    let text = response.headers().get(DATE)?.to_str().ok()?;
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(date.to_string())
}
