//! The witness outside the system (oracle O1): a receiver that counts what really arrived.
//!
//! A request counts from the moment its line is on disk, and only then is it answered. So an answer implies a line,
//! while a line without an answer is possible: the effect that happened and whose news was lost, which is what
//! idempotency keys are for.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backstage::Backstage;
use crate::room::Room;

/// One request that arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkLine {
    /// Milliseconds since 1970, when the request had been read.
    pub at_ms: u64,
    /// With its query, if it has one.
    pub path: String,
    pub idempotency_key: Option<String>,
    /// As text; bytes that are no UTF-8 are replaced.
    pub body: String,
}

/// A running receiver on a loopback port. Gone with this guard, and so is its file.
pub struct Sink {
    address: SocketAddr,
    ledger: Arc<Ledger>,
    _stage: Backstage,
    _room: Room,
}

struct Ledger {
    path: PathBuf,
    file: Mutex<File>,
    delay: Mutex<Duration>,
}

impl Sink {
    /// # Panics
    /// If this machine has no loopback or no temporary directory.
    #[must_use]
    pub fn start() -> Self {
        let room = Room::take("sink").expect("temporary files can be made");
        let path = room.path().join("lines.jsonl");
        let file = File::options().create(true).append(true).open(&path).expect("temporary files can be made");
        let ledger = Arc::new(Ledger { path, file: Mutex::new(file), delay: Mutex::default() });
        let listener = StdListener::bind("127.0.0.1:0").expect("loopback has a free port");
        listener.set_nonblocking(true).expect("a socket can be made non-blocking");
        let address = listener.local_addr().expect("a bound listener has an address");
        let stage = Backstage::run("sink", {
            let ledger = Arc::clone(&ledger);
            move |stop| receive(listener, ledger, stop)
        });
        Self { address, ledger, _stage: stage, _room: room }
    }

    /// `http://127.0.0.1:PORT`. Every path below it is received.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on answers come this much later. The line is on disk before the delay, not after it.
    pub fn delay(&self, delay: Duration) {
        *self.ledger.delay.lock().unwrap_or_else(PoisonError::into_inner) = delay;
    }

    /// Everything that arrived, in the order of arrival, as it is on disk.
    ///
    /// # Panics
    /// If the file is not what we wrote.
    #[must_use]
    pub fn lines(&self) -> Vec<SinkLine> {
        // Held so that a line being written is not read by half.
        let _writing = self.ledger.file.lock().unwrap_or_else(PoisonError::into_inner);
        let text = std::fs::read_to_string(&self.ledger.path).expect("the sink's file is there as long as the sink");
        text.lines().map(|line| serde_json::from_str(line).expect("the sink writes one JSON object per line")).collect()
    }

    /// How often each idempotency key arrived. Requests without one are counted under the empty key.
    #[must_use]
    pub fn by_key(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for line in self.lines() {
            *counts.entry(line.idempotency_key.unwrap_or_default()).or_default() += 1;
        }
        counts
    }
}

impl Ledger {
    /// Blocks for as long as the disk takes; the sink has a thread of its own for that.
    fn append(&self, line: &SinkLine) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&text)?;
        file.sync_all()
    }
}

async fn receive(listener: StdListener, ledger: Arc<Ledger>, stop: CancellationToken) {
    let listener = TcpListener::from_std(listener).expect("a listener can join a runtime");
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Ok((stream, _)) = listener.accept() => {
                let ledger = Arc::clone(&ledger);
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(request, Arc::clone(&ledger)));
                    // A client that leaves early is part of the game; whether its request arrived is in the file.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(request: Request<Incoming>, ledger: Arc<Ledger>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let status = match record(request, &ledger).await {
        Ok(status) => status,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let delay = *ledger.delay.lock().unwrap_or_else(PoisonError::into_inner);
    tokio::time::sleep(delay).await;
    let mut response = Response::new(Empty::new());
    *response.status_mut() = status;
    Ok(response)
}

async fn record(request: Request<Incoming>, ledger: &Ledger) -> anyhow::Result<StatusCode> {
    if request.method() != Method::POST {
        return Ok(StatusCode::METHOD_NOT_ALLOWED);
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let key = head.headers.get("idempotency-key");
    ledger.append(&SinkLine {
        at_ms: now_ms(),
        path: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        idempotency_key: key.map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned()),
        body: String::from_utf8_lossy(&body).into_owned(),
    })?;
    Ok(StatusCode::OK)
}

#[expect(clippy::disallowed_methods, reason = "a witness has its own watch; it must not believe the clock under test")]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
