//! `GET /jobs/{id}/result`: what a job ended with, however large it is.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bowline_model::{JobStatus, RunId};
use bowline_store::OutputRange;
use bytes::Bytes;
use futures_util::stream;
use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};

use super::get::{no_job, resolve};
use crate::app::App;
use crate::door::Known;
use crate::params::Part;
use crate::problem::Problem;

/// The result of a job, as the JSON that its run reported. A large one is streamed from the object store.
pub async fn result(State(app): State<App>, known: Known, Part(text): Part) -> Result<Response, Problem> {
    let tenant = known.tenant()?;
    let job = resolve(&app, tenant, &text).await?;
    let (record, runs) = app.engine.ledger.find_job(tenant, job).await?.ok_or_else(no_job)?;
    let (body, bytes) = match (record.result, record.result_bytes) {
        (Some(result), _) => {
            let bytes = result.len() as u64;
            (Body::from(result), bytes)
        }
        (None, Some(bytes)) => {
            let run = runs.iter().find(|run| run.fence == record.state.fence).ok_or_else(no_job)?;
            let reader = Reader { app, run: run.id, at: 0, end: bytes, ready: Vec::new() };
            let pieces =
                stream::unfold(reader, |mut reader| async move { reader.next().await.map(|piece| (piece, reader)) });
            (Body::from_stream(pieces), bytes)
        }
        (None, None) if record.state.status == JobStatus::Succeeded => (Body::from("null"), 4),
        (None, None) => {
            let message = format!("this job has no result: it is {}", crate::views::job_word(record.state.status));
            return Err(Problem::new(StatusCode::NOT_FOUND, "RESULT_NOT_FOUND", message));
        }
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    Ok(response)
}

struct Reader {
    app: App,
    run: RunId,
    at: u64,
    end: u64,
    /// Pieces that were looked up, the next one last.
    ready: Vec<OutputRange>,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        if self.at >= self.end {
            return None;
        }
        let results = &self.app.engine.results;
        if self.ready.is_empty() {
            match results.pieces(&*self.app.engine.ledger, self.run, self.at).await {
                Ok(ranges) => self.ready = ranges.into_iter().rev().collect(),
                Err(error) => return Some(self.broken(error.to_string())),
            }
        }
        let Some(range) = self.ready.pop().filter(|range| range.begins == self.at) else {
            return Some(self.broken("a piece of the result is missing".to_owned()));
        };
        match results.piece(self.run, &range).await {
            Ok(piece) => {
                self.at += range.bytes;
                Some(Ok(piece))
            }
            Err(error) => Some(self.broken(error.to_string())),
        }
    }

    /// The answer breaks off: its length says that something is missing.
    fn broken(&mut self, error: String) -> Result<Bytes, std::io::Error> {
        tracing::error!(run.id = %self.run, error, "cannot read a stored result");
        self.at = self.end;
        Err(std::io::Error::other(error))
    }
}
