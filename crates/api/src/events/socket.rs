//! `GET /events/socket`: the event stream as a WebSocket, for clients that prefer one.
//!
//! The server sends text messages and the client sends none: `{"id", "event"}` for each event, `{"reset": id}` and
//! `{"cut": "too slow"}` as `event: reset` and `event: cut` of the stream. Browsers cannot set headers on a WebSocket, so the
//! credential may come as a subprotocol (`bearer.TOKEN` next to `bowline.events`), and the last place as a parameter.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use bytes::Bytes;
use hyper::header::{AUTHORIZATION, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use hyper::{HeaderMap, StatusCode};

use super::reader::{Frame, Reader, StreamQuery};
use crate::app::App;
use crate::connections::Connection;
use crate::door::Known;
use crate::params::Params;
use crate::problem::Problem;
use crate::serve::Socket;

/// The subprotocol of the messages, which the server agrees to.
const PROTOCOL: &str = "bowline.events";
/// What stands before a credential that comes as a subprotocol.
const BEARER: &str = "bearer.";
/// A client has nothing to say but answers to pings.
const INCOMING_MAX: usize = 4 << 10;
/// A client that takes nothing for this long, or answers no ping, is gone.
const SEND_MAX: Duration = Duration::from_secs(20);

/// The headers to authenticate by: a credential among the subprotocols counts as the `Authorization` header, where there is
/// none.
pub fn with_bearer(headers: &HeaderMap) -> Option<HeaderMap> {
    if headers.contains_key(AUTHORIZATION) {
        return None;
    }
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let mut credentials = offered.flat_map(|value| value.split(',')).filter_map(|one| one.trim().strip_prefix(BEARER));
    let (Some(credential), None) = (credentials.next(), credentials.next()) else { return None };
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {credential}")).ok()?);
    Some(headers)
}

pub async fn socket(
    State(app): State<App>,
    known: Known,
    headers: HeaderMap,
    socket: Option<Extension<Socket>>,
    Params(query): Params<StreamQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|error| {
        let message = format!("this path speaks WebSocket only ({error}); GET /events/stream is for HTTP clients");
        Problem::new(StatusCode::BAD_REQUEST, "VALIDATION_ERROR", message)
    })?;
    let reader = Reader::open(app, known, &headers, query).await?;
    let upgrade = upgrade.protocols([PROTOCOL]).max_message_size(INCOMING_MAX).max_frame_size(INCOMING_MAX);
    let connection = socket.map(|Extension(socket)| socket.connection);
    Ok(upgrade.on_upgrade(move |socket| async move {
        // The socket counts as an open connection, and as one that is in use.
        let _busy = connection.as_ref().map(Connection::busy);
        serve(socket, reader).await;
    }))
}

/// Sends events until the client leaves, or the stream ends.
async fn serve(mut socket: WebSocket, mut reader: Reader) {
    let mut pinged = false;
    loop {
        let frames = tokio::select! {
            frames = reader.next() => frames,
            said = socket.recv() => match said {
                Some(Ok(Message::Pong(_))) => {
                    pinged = false;
                    continue;
                }
                Some(Ok(Message::Ping(_))) => continue,
                Some(Ok(Message::Text(_) | Message::Binary(_))) => {
                    return close(socket, close_code::UNSUPPORTED, "this socket only sends").await;
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            },
        };
        let Some(frames) = frames else { return close(socket, close_code::AWAY, "the stream has ended").await };
        for frame in frames {
            let message = match frame {
                Frame::Silence if pinged => return,
                Frame::Silence => {
                    pinged = true;
                    Message::Ping(Bytes::new())
                }
                Frame::Event { position, data, .. } => {
                    Message::Text(format!("{{\"id\":\"{position}\",\"event\":{data}}}").into())
                }
                Frame::Reset(from) => Message::Text(format!("{{\"reset\":\"{from}\"}}").into()),
                Frame::Cut => Message::Text("{\"cut\":\"too slow\"}".into()),
            };
            match tokio::time::timeout(SEND_MAX, socket.send(message)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
}

async fn close(mut socket: WebSocket, code: u16, reason: &'static str) {
    let farewell = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
    // The client may have left already.
    let _ = tokio::time::timeout(SEND_MAX, socket.send(farewell)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_credential_among_the_subprotocols_counts_where_there_is_no_header() {
        let headers = |protocols: &[&'static str]| -> HeaderMap {
            protocols.iter().map(|one| (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(one))).collect()
        };
        let given = |headers: &HeaderMap| with_bearer(headers).map(|found| found[AUTHORIZATION].clone());
        let bearer = |text: &'static str| Some(HeaderValue::from_static(text));
        assert_eq!(given(&headers(&["bowline.events, bearer.bow_1"])), bearer("Bearer bow_1"));
        assert_eq!(given(&headers(&["bearer.a.b.c", "bowline.events"])), bearer("Bearer a.b.c"));
        assert_eq!(given(&headers(&["bowline.events"])), None);
        assert_eq!(given(&headers(&["bearer.a,bearer.b"])), None, "which of them?");
        let mut both = headers(&["bearer.a"]);
        both.insert(AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        assert_eq!(given(&both), None, "the header counts");
    }
}
