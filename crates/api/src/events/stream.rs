//! `GET /events/stream`: events as they happen, as server-sent events.
//!
//! `id:` is the place in the ledger; a client that comes back with `Last-Event-ID` misses nothing. A place that is no longer
//! kept is answered with `event: reset`.

use std::fmt::Write as _;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use hyper::HeaderMap;
use hyper::header::CONTENT_TYPE;
use hyper::header::HeaderValue;

use super::reader::{Frame, Reader, StreamQuery};
use crate::app::App;
use crate::door::Known;
use crate::params::Params;
use crate::problem::Problem;

pub async fn stream(
    State(app): State<App>,
    known: Known,
    headers: HeaderMap,
    Params(query): Params<StreamQuery>,
) -> Result<Response, Problem> {
    let reader = Reader::open(app, known, &headers, query).await?;
    let body = Body::from_stream(stream::unfold((reader, true), |(mut reader, is_first)| async move {
        let text = if is_first {
            "retry: 1000\n\n".to_owned()
        } else {
            reader.next().await?.iter().fold(String::new(), written)
        };
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(text)), (reader, false)))
    }));
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

fn written(mut text: String, frame: &Frame) -> String {
    // Writing to a text does not fail.
    let _ = match frame {
        Frame::Event { position, kind, data } => write!(text, "id: {position}\nevent: {kind}\ndata: {data}\n\n"),
        Frame::Reset(from) => write!(text, "event: reset\nid: {from}\ndata: {{\"from\":\"{from}\"}}\n\n"),
        Frame::Cut => write!(text, "event: cut\ndata: {{\"reason\":\"too slow\"}}\n\n"),
        Frame::Silence => write!(text, ": still here\n\n"),
    };
    text
}
