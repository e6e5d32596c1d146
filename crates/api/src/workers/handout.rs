//! Runs on their way to a worker. Until the answer that carries them is written, they go back to the queue at once when the
//! request or its connection ends.
//!
//! The server takes an answer into its buffer before it writes it, so the end of a body does not say that anything was sent. A
//! connection does: its stream is flushed only when the buffer is empty. What was handed over by then has left this process.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use bowline_engine::Engine;
use bowline_model::RunId;
use bowline_store::ClaimedRun;
use hyper::body::{Frame, SizeHint};

/// Runs that were claimed for a poll whose answer is not written yet. Dropped, they go back.
#[derive(Debug)]
pub struct HandOut {
    engine: Arc<Engine>,
    runs: Vec<RunId>,
}

impl HandOut {
    pub fn of(engine: &Arc<Engine>, runs: &[ClaimedRun]) -> Self {
        Self { engine: Arc::clone(engine), runs: runs.iter().map(|run| run.run).collect() }
    }

    /// The answer has left, or somebody else has taken care of the runs.
    pub fn forget(mut self) {
        self.runs.clear();
    }

    /// Goes with the answer until the connection has written it.
    pub fn carried_by(self, body: Body, connection: Unwritten) -> Body {
        if self.runs.is_empty() {
            return body;
        }
        Body::new(Carrier { body, handout: Some(self), connection })
    }
}

impl Drop for HandOut {
    fn drop(&mut self) {
        if self.runs.is_empty() {
            return;
        }
        let runs = std::mem::take(&mut self.runs);
        tracing::info!(runs = runs.len(), "a poll was not answered, its runs go back to the queue");
        self.engine.meters.handouts_unwritten.inc_by(runs.len() as u64);
        self.engine.dispatcher.give_back(runs);
    }
}

/// What a connection has in its buffer. Dropped with the connection.
#[derive(Debug, Clone, Default)]
pub struct Unwritten(Arc<Mutex<Vec<HandOut>>>);

impl Unwritten {
    fn add(&self, handout: HandOut) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(handout);
    }

    /// The buffer is empty.
    pub fn flushed(&self) {
        let written = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        written.into_iter().for_each(HandOut::forget);
    }
}

struct Carrier {
    body: Body,
    handout: Option<HandOut>,
    connection: Unwritten,
}

impl HttpBody for Carrier {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if let Some(handout) = self.handout.take()
            && self.body.is_end_stream()
        {
            self.connection.add(handout);
        }
    }
}
