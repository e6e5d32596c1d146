//! Fetching what one host wrote to one stream, to its end and through every interruption.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bowline_model::JobId;
use serde::Deserialize;
use tokio::sync::mpsc::Sender;

use crate::client::{Again, Client, Request};
use crate::failure::Failure;
use crate::fleet::UnitView;

/// Between two questions to a host that has not ended and wrote nothing.
const PAUSE: Duration = Duration::from_millis(500);

/// One host's one stream.
#[derive(Debug)]
pub struct Source {
    pub host: String,
    pub stream: &'static str,
}

/// What comes from the sources, by their number.
#[derive(Debug)]
pub enum News {
    Bytes(usize, Vec<u8>),
    End(usize),
    /// A connection broke and is made again.
    Lost(String, Failure),
    /// It cannot be had.
    Failed(Failure),
}

/// Nobody listens any more.
struct Gone;

/// Why fetching ended early.
enum Stop {
    Gone,
    Failed(Failure),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// How far one source was read.
#[derive(Debug, Default)]
struct Place {
    offset: u64,
    /// The attempt that wrote it. The next one begins anew.
    run: Option<String>,
}

/// What an answer brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Brought {
    /// Bytes, or word of another attempt.
    News,
    Nothing,
    /// All there will be.
    Everything,
}

/// Everything there is now.
pub async fn read(client: &Client, job: JobId, source: &Source, at: usize, to: &Sender<News>) {
    let mut place = Place::default();
    let done = async {
        loop {
            let before = place.offset;
            match fetch(client, request(job, source, place.offset), at, &mut place, to).await {
                Ok(Brought::News) => {}
                Ok(Brought::Nothing | Brought::Everything) => return Ok(()),
                Err(Stop::Failed(failure @ Failure::Unreachable { .. })) if place.offset > before => {
                    send(to, News::Lost(source.host.clone(), failure)).await?;
                }
                Err(stop) => return Err(stop),
            }
        }
    };
    tell(done.await, at, to).await;
}

/// Everything there is and will be, until the host has ended.
pub async fn follow(client: &Client, job: JobId, source: &Source, at: usize, to: &Sender<News>) {
    let mut place = Place::default();
    let done = async {
        loop {
            // Asked before, so that nothing is written between the last bytes and the answer.
            let ended = has_ended(client, job, source).await.map_err(Stop::Failed)?;
            let request = request(job, source, place.offset).query("follow", "true");
            match fetch(client, request, at, &mut place, to).await {
                Ok(Brought::Nothing | Brought::Everything) if ended => return Ok(()),
                Ok(Brought::News) => {}
                Ok(Brought::Nothing | Brought::Everything) => {
                    tokio::select! {
                        () = to.closed() => return Err(Stop::Gone),
                        () = tokio::time::sleep(PAUSE) => {}
                    }
                }
                Err(Stop::Failed(failure @ Failure::Unreachable { .. })) => {
                    send(to, News::Lost(source.host.clone(), failure)).await?;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(stop) => return Err(stop),
            }
        }
    };
    tell(done.await, at, to).await;
}

async fn tell(done: Result<(), Stop>, at: usize, to: &Sender<News>) {
    let last = match done {
        Ok(()) => News::End(at),
        Err(Stop::Failed(failure)) => News::Failed(failure),
        Err(Stop::Gone) => return,
    };
    // Whoever left does not want to know.
    let _ = to.send(last).await;
}

fn request(job: JobId, source: &Source, offset: u64) -> Request {
    Request::get(["jobs", &job.to_string(), "output"])
        .query("host", source.host.as_str())
        .query("stream", source.stream)
        .query("offset", offset.to_string())
}

async fn send(to: &Sender<News>, news: News) -> Result<(), Gone> {
    to.send(news).await.map_err(|_| Gone)
}

/// Reads one answer to its end, and moves on by what it brought.
async fn fetch(
    client: &Client,
    request: Request,
    at: usize,
    place: &mut Place,
    to: &Sender<News>,
) -> Result<Brought, Stop> {
    let mut raw = match client.raw(&request).await {
        Ok(raw) => raw,
        // A host that never began wrote nothing.
        Err(Failure::Refused(refusal)) if refusal.status == 404 && refusal.code.as_str().contains("OUTPUT") => {
            return Ok(Brought::Nothing);
        }
        Err(failure) => return Err(Stop::Failed(failure)),
    };
    let before = place.offset;
    if before > 0 && place.run != raw.run {
        // It was tried again meanwhile; what that writes has its own beginning.
        *place = Place { offset: 0, run: raw.run };
        return Ok(Brought::News);
    }
    place.run.clone_from(&raw.run);
    loop {
        let chunk = tokio::select! {
            () = to.closed() => return Err(Stop::Gone),
            chunk = raw.chunk() => chunk.map_err(Stop::Failed)?,
        };
        let Some(bytes) = chunk else { break };
        place.offset += bytes.len() as u64;
        send(to, News::Bytes(at, bytes)).await?;
    }
    // What was left out on the way is not asked for again; and nothing is asked for twice.
    place.offset = raw.next_offset.unwrap_or(0).max(place.offset);
    Ok(match (raw.complete, place.offset == before) {
        (true, _) => Brought::Everything,
        (false, true) => Brought::Nothing,
        (false, false) => Brought::News,
    })
}

async fn has_ended(client: &Client, job: JobId, source: &Source) -> Result<bool, Failure> {
    #[derive(Deserialize)]
    struct Answer {
        host: UnitView,
    }
    let path = ["jobs", &job.to_string(), "hosts", &source.host];
    match client.call(&Request::get(path).again(Again::Patient)).await {
        Ok(answer) => Ok(answer.read::<Answer>()?.host.has_ended()),
        // Not begun, so not ended; unless the whole job is over.
        Err(Failure::Refused(refusal)) if refusal.status == 404 && refusal.code.as_str() == "HOST_NOT_FOUND" => {
            let answer = client.call(&Request::get(["jobs", &job.to_string()]).again(Again::Patient)).await?;
            Ok(answer.read::<super::super::JobDetail>()?.job.end().is_some())
        }
        Err(failure) => Err(failure),
    }
}

/// Carries on with all of them at once until the last is done.
pub async fn all<F: Future<Output = ()>>(tasks: Vec<F>) {
    let mut tasks: Vec<Pin<Box<F>>> = tasks.into_iter().map(Box::pin).collect();
    poll_fn(|cx| {
        tasks.retain_mut(|task| task.as_mut().poll(cx).is_pending());
        if tasks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
