//! `GET /events/stream`: events as they happen, as server-sent events.
//!
//! `id:` is the place in the ledger; a client that comes back with `Last-Event-ID` misses nothing. A reader that is too
//! slow is cut and comes back the same way. A place that is no longer kept is answered with `event: reset`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bowline_engine::TailItem;
use bowline_model::Event;
use bowline_store::{EventFilter, Position};
use bytes::Bytes;
use futures_util::stream;
use hyper::HeaderMap;
use hyper::header::CONTENT_TYPE;
use hyper::header::HeaderValue;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::filter::Wanted;
use crate::app::App;
use crate::door::Known;
use crate::params::Params;
use crate::problem::Problem;
use crate::shares::Share;

/// A line that says nothing keeps the connection open.
const SILENCE: Duration = Duration::from_secs(15);
const BITE: u32 = 500;
/// A credential that ended stops a stream this soon.
const CHECK: Duration = Duration::from_secs(2);

struct Reader {
    app: App,
    filter: EventFilter,
    position: Position,
    /// Reading up from the ledger until the live stream is reached.
    behind: bool,
    live: Receiver<TailItem>,
    ready: VecDeque<Bytes>,
    over: bool,
    known: Known,
    /// When it was last made sure that the caller may still read.
    checked: Instant,
    _place: Share,
}

pub async fn stream(
    State(app): State<App>,
    known: Known,
    headers: HeaderMap,
    Params(wanted): Params<Wanted>,
) -> Result<Response, Problem> {
    let tenant = known.tenant()?;
    let since = wanted.since;
    let filter = wanted.filter(tenant)?;
    let place = app.streams.take(&known)?;
    let live = app.engine.tail.listen();
    let (pruned, newest) = app.engine.ledger.event_range().await?;
    let last: Option<Position> = match headers.get("last-event-id") {
        None => None,
        Some(id) => {
            let id = id.to_str().ok().and_then(|text| text.parse().ok());
            Some(id.ok_or_else(|| Problem::validation("Last-Event-ID is not a position of this stream"))?)
        }
    };
    let mut ready = VecDeque::from([Bytes::from_static(b"retry: 1000\n\n")]);
    let position = match last {
        // Some of what came after it may be gone; or the ledger was put back to a time before it.
        Some(last) if last < pruned || last > newest => {
            let from = if last < pruned { pruned } else { newest };
            ready.push_back(Bytes::from(format!("event: reset\nid: {from}\ndata: {{\"from\":\"{from}\"}}\n\n")));
            from
        }
        Some(last) => last,
        None if since.is_some() => Position::default(),
        None => newest,
    };
    app.engine.meters.stream_readers.inc();
    let checked = Instant::now();
    let reader =
        Reader { app, filter, position, behind: true, live, ready, over: false, known, checked, _place: place };
    let body = Body::from_stream(stream::unfold(reader, |mut reader| async move {
        let chunk = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), reader))
    }));
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.checked.elapsed() > CHECK {
                if !self.app.gate.still_good(&self.known.0).await {
                    return None;
                }
                self.checked = Instant::now();
            }
            if !self.ready.is_empty() {
                return Some(self.drain());
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
                    Err(_) => return Some(Bytes::from_static(b": still here\n\n")),
                    Ok(Ok(item)) => self.take(&item).await,
                    Ok(Err(RecvError::Lagged(_))) => self.cut(),
                    Ok(Err(RecvError::Closed)) => return None,
                },
            }
        }
    }

    /// Everything that is ready, in one piece.
    fn drain(&mut self) -> Bytes {
        if self.ready.len() == 1 {
            return self.ready.pop_front().unwrap_or_default();
        }
        self.ready.drain(..).flatten().collect()
    }

    async fn catch_up(&mut self) {
        match self.app.engine.ledger.events_after(self.position, self.filter.clone(), BITE).await {
            Ok(page) => {
                self.position = page.end;
                for (position, event) in page.events {
                    self.show(position, event).await;
                }
                self.behind = page.more;
            }
            Err(error) => {
                tracing::debug!("a stream ends, because the ledger is away: {error}");
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
            self.ready.push_back(Bytes::from(format!("id: {position}\nevent: {}\ndata: {data}\n\n", view.r#type)));
        }
    }

    /// Too slow: it is told so, and comes back from where it was.
    fn cut(&mut self) {
        self.app.engine.meters.stream_readers_cut.inc();
        self.ready.push_back(Bytes::from_static(b"event: cut\ndata: {\"reason\":\"too slow\"}\n\n"));
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
