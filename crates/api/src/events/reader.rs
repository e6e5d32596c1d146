//! Reads events for one client: from the ledger up to the present, then as they happen.
//!
//! What comes out are [`Frame`]s; `stream.rs` writes them as server-sent events, `socket.rs` as messages of a WebSocket. A
//! reader that is too slow is cut and comes back from its last place; it ends with the credential it was opened with.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bowline_engine::TailItem;
use bowline_model::{Event, EventKind};
use bowline_store::{EventFilter, Position};
use hyper::HeaderMap;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::filter::Wanted;
use crate::app::App;
use crate::door::Known;
use crate::problem::Problem;
use crate::shares::Share;
use schemars::JsonSchema;
use serde::Deserialize;

/// After so long without an event the client is shown that the connection is alive.
const SILENCE: Duration = Duration::from_secs(15);
const PAGE: u32 = 500;
/// A credential that ended stops a reader this soon.
const CHECK: Duration = Duration::from_secs(2);

/// What a client is sent.
#[derive(Debug)]
pub enum Frame {
    Event {
        position: Position,
        kind: EventKind,
        /// The event as JSON.
        data: String,
    },
    /// Events after the place the client asked for are no longer kept; it continues from here.
    Reset(Position),
    /// The client was too slow. Nothing follows.
    Cut,
    /// Nothing happened.
    Silence,
}

pub struct Reader {
    app: App,
    filter: EventFilter,
    position: Position,
    /// Reading up from the ledger until the live stream is reached.
    behind: bool,
    live: Receiver<TailItem>,
    ready: VecDeque<Frame>,
    over: bool,
    known: Known,
    /// When it was last made sure that the caller may still read.
    checked: Instant,
    _place: Share,
}

/// What a client wants to read, and from where on.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamQuery {
    #[serde(flatten)]
    pub wanted: Wanted,
    /// Continue after this event, as the header `Last-Event-ID` does.
    pub last_event_id: Option<String>,
}

/// The event that a client saw last: the header that browsers send, or the parameter for clients that cannot set one.
fn last_seen(headers: &HeaderMap, parameter: Option<&str>) -> Result<Option<Position>, Problem> {
    let text = match headers.get("last-event-id") {
        Some(header) => Some(header.to_str().unwrap_or_default()),
        None => parameter,
    };
    let parsed = text.map(|text| text.parse().map_err(|_| Problem::validation(NOT_A_POSITION)));
    parsed.transpose()
}

const NOT_A_POSITION: &str = "Last-Event-ID is not a position of this stream";

impl Reader {
    pub async fn open(app: App, known: Known, headers: &HeaderMap, query: StreamQuery) -> Result<Self, Problem> {
        let tenant = known.tenant()?;
        let last = last_seen(headers, query.last_event_id.as_deref())?;
        let since = query.wanted.since;
        let filter = query.wanted.filter(&app, tenant).await?;
        let place = app.streams.take(&known)?;
        let live = app.engine.tail.listen();
        let (pruned, newest) = app.engine.ledger.event_range().await?;
        let mut ready = VecDeque::new();
        let position = match last {
            // Some of what came after it may be gone; or the ledger was put back to a time before it.
            Some(last) if last < pruned || last > newest => {
                let from = if last < pruned { pruned } else { newest };
                ready.push_back(Frame::Reset(from));
                from
            }
            Some(last) => last,
            None if since.is_some() => Position::default(),
            None => newest,
        };
        app.engine.meters.stream_readers.inc();
        let checked = Instant::now();
        Ok(Self { app, filter, position, behind: true, live, ready, over: false, known, checked, _place: place })
    }

    /// What the client is to be sent next; nothing when the stream has ended.
    pub async fn next(&mut self) -> Option<VecDeque<Frame>> {
        loop {
            if self.checked.elapsed() > CHECK {
                if !self.app.gate.still_good(&self.known.0).await {
                    return None;
                }
                self.checked = Instant::now();
            }
            if !self.ready.is_empty() {
                return Some(std::mem::take(&mut self.ready));
            }
            if self.over {
                return None;
            }
            if self.behind {
                self.catch_up().await;
                continue;
            }
            let stop = self.app.stop.clone();
            tokio::select! {
                () = stop.cancelled() => return None,
                () = self.app.gate.ended(&self.known.0) => return None,
                item = tokio::time::timeout(SILENCE, self.live.recv()) => match item {
                    Err(_) => return Some([Frame::Silence].into()),
                    Ok(Ok(item)) => self.take(&item).await,
                    Ok(Err(RecvError::Lagged(_))) => self.cut(),
                    Ok(Err(RecvError::Closed)) => return None,
                },
            }
        }
    }

    async fn catch_up(&mut self) {
        match self.app.engine.ledger.events_after(self.position, self.filter.clone(), PAGE).await {
            Ok(page) => {
                self.position = page.end;
                for (position, event) in page.events {
                    self.show(position, event).await;
                }
                self.behind = page.more;
            }
            Err(error) => {
                tracing::debug!(%error, "an event stream ends: the ledger is unavailable");
                self.over = true;
            }
        }
    }

    async fn take(&mut self, item: &TailItem) {
        for (position, event) in unseen(item, self.position) {
            self.position = *position;
            if self.filter.matches(event) {
                self.show(*position, event.clone()).await;
            }
        }
    }

    async fn show(&mut self, position: Position, event: Event) {
        let view = self.app.actors.event(event).await;
        if let Ok(data) = serde_json::to_string(&view) {
            self.ready.push_back(Frame::Event { position, kind: view.r#type, data });
        }
    }

    fn cut(&mut self) {
        self.app.engine.meters.stream_readers_cut.inc();
        self.ready.push_back(Frame::Cut);
        self.over = true;
    }
}

/// What of the live stream was not read from the ledger before: the two overlap where a reader changes over.
fn unseen(item: &[(Position, Event)], seen: Position) -> impl Iterator<Item = &(Position, Event)> {
    item.iter().filter(move |(position, _)| *position > seen)
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.app.engine.meters.stream_readers.dec();
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::event::EventData;
    use bowline_model::{EventId, EventKind, TenantId, Timestamp};

    use super::*;

    #[test]
    fn the_event_at_the_seam_is_shown_once() {
        let at = Timestamp::from_millis(1);
        let event = |number: u64| {
            let event = Event {
                id: EventId::at_position(at, 0, number),
                at,
                tenant: TenantId::mint(at, [1; 10]),
                kind: EventKind::ServerStarted,
                job: None,
                host: None,
                fence: None,
                seq: None,
                data: EventData::default(),
                trace_id: None,
                correlation_id: None,
            };
            (Position { epoch: 0, number }, event)
        };
        let item = [event(4), event(5), event(6)];
        let shown =
            |seen| unseen(&item, Position { epoch: 0, number: seen }).map(|(p, _)| p.number).collect::<Vec<_>>();
        assert_eq!(shown(3), [4, 5, 6]);
        assert_eq!(shown(5), [6], "5 was read from the ledger");
        assert_eq!(shown(6), [0; 0]);
    }
}
