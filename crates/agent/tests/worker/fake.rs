//! A small server that does what the protocol says, unless a test told it to misbehave.
//!
//! It is its own reading of the protocol, in plain JSON: sharing types with the worker would share its mistakes.
//! Tests wait for what the fake saw, never for a duration.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_agent::{CancellationToken, Worker, WorkerBuilder, WorkerError};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// Far more than anything here takes; reaching it means that the state never comes.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    Register,
    Tasks,
    Heartbeat,
    Events,
    Result,
}

/// How to misbehave, once.
#[derive(Debug, Clone)]
pub enum Reply {
    /// This status, before anything was done.
    Status(u16),
    /// 503 with `Retry-After`.
    Busy { retry_after_s: u64 },
    /// This status with this code, before anything was done.
    Refuse(u16, &'static str),
    /// The connection breaks before anything was done.
    Cut,
    /// Everything is done, and then the connection breaks.
    LoseAnswer,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    pub word: Word,
    pub query: String,
    pub authorization: String,
    pub body: Value,
    pub at: Instant,
}

#[derive(Default)]
pub struct State {
    pub seen: Vec<Seen>,
    pub terms: Value,
    pub queue: VecDeque<Value>,
    pub scripts: HashMap<Word, VecDeque<Reply>>,
    /// Tasks to answer `cancel` or `stale` for.
    pub cancel: BTreeSet<String>,
    pub stale: BTreeSet<String>,
    pub drain: bool,
    pub away: bool,
    /// What the ledger would hold: the events of each task by number, and the results in their order.
    pub events: BTreeMap<String, BTreeMap<u64, Value>>,
    pub results: Vec<Value>,
    /// Calls that there are not, or that this server broke at. The test fails with any of them.
    pub faults: Vec<String>,
}

impl State {
    pub fn seen(&self, word: Word) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(move |seen| seen.word == word)
    }

    pub fn result_of(&self, task: &str) -> Option<Value> {
        self.results.iter().find(|result| result["task_id"] == task).cloned()
    }

    /// How many heartbeats named this task.
    pub fn named(&self, task: &str) -> usize {
        let names = |seen: &&Seen| seen.body["runs"].as_array().is_some_and(|runs| runs.iter().any(|run| run == task));
        self.seen(Word::Heartbeat).filter(names).count()
    }
}

struct Stage {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

impl Stage {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

pub struct Fake {
    address: SocketAddr,
    stage: Arc<Stage>,
    _serving: JoinSet<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let faults = self.get(|state| state.faults.clone());
            assert!(faults.is_empty(), "the worker made calls that no server understands: {faults:?}");
        }
    }
}

impl Fake {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let terms = json!({"worker_id": "w1", "protocol": 1, "heartbeat_ms": 50, "lease_ms": 60_000, "accept_ms": 20_000,
                           "a_field_from_the_future": true});
        let state = Mutex::new(State { terms, ..State::default() });
        let stage = Arc::new(Stage { state, changed: watch::Sender::new(()) });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&stage)));
        Self { address, stage, _serving: serving }
    }

    /// A worker for this server, quick to try again.
    pub fn worker(&self) -> WorkerBuilder {
        Worker::builder(&format!("http://{}", self.address), "secret")
            .worker_id("w1")
            .poll_wait(Duration::from_secs(10))
            .backoff(Duration::from_millis(10), Duration::from_millis(100))
    }

    /// Changes how the server is.
    pub fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.stage.state());
        self.stage.changed.send_replace(());
    }

    pub fn get<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.stage.state())
    }

    /// Misbehaves the next times this word comes.
    pub fn script(&self, word: Word, replies: impl IntoIterator<Item = Reply>) {
        self.set(|state| state.scripts.entry(word).or_default().extend(replies));
    }

    /// Puts a task into the queue and returns its id.
    pub fn queue(&self, task_type: &str, params: &Value) -> String {
        let task = task(task_type, params);
        let id = task["task_id"].as_str().unwrap().to_owned();
        self.queue_raw(task);
        id
    }

    pub fn queue_raw(&self, task: Value) {
        self.set(|state| state.queue.push_back(task));
    }

    /// Waits until `look` finds something in what the server saw.
    pub async fn until<T>(&self, what: &str, mut look: impl FnMut(&State) -> Option<T>) -> T {
        let mut changed = self.stage.changed.subscribe();
        let waiting = async {
            loop {
                if let Some(found) = look(&self.stage.state()) {
                    return found;
                }
                changed.changed().await.unwrap();
            }
        };
        let Ok(found) = timeout(PATIENCE, waiting).await else { panic!("waited in vain for {what}") };
        found
    }

    pub async fn until_result(&self, task: &str) -> Value {
        self.until(&format!("a result of {task}"), |state| state.result_of(task)).await
    }

    pub async fn until_seen(&self, word: Word, count: usize) -> Vec<Seen> {
        self.until(&format!("{count} times {word:?}"), |state| {
            let seen: Vec<Seen> = state.seen(word).cloned().collect();
            (seen.len() >= count).then_some(seen)
        })
        .await
    }
}

/// A task as a server hands it out, with an id of its own.
pub fn task(task_type: &str, params: &Value) -> Value {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    json!({
        "task_id": format!("01890000-0000-7000-8000-0000000000{n:02x}"),
        "task_type": task_type,
        "params": params,
        "job_id": format!("01890000-0000-7000-9000-0000000000{n:02x}"),
        "worker_id": "w1",
        "lane": "default",
        "attempt": 2,
        "fence": 7,
        "idempotency_key": format!("key-{n}"),
        "timeout_ms": 60_000,
        "created_at": "2026-01-03T00:00:00Z",
        "a_field_from_the_future": {"x": 1},
    })
}

/// What comes next, or the test fails: nothing is waited for without a limit.
pub async fn next<T>(what: &str, receiver: &mut tokio::sync::mpsc::Receiver<T>) -> T {
    let received = timeout(PATIENCE, receiver.recv()).await;
    received.ok().flatten().unwrap_or_else(|| panic!("waited in vain for {what}"))
}

/// A worker at work, and how to stop it.
pub struct Working {
    pub stop: CancellationToken,
    run: JoinSet<Result<(), WorkerError>>,
}

impl Working {
    pub fn start(worker: WorkerBuilder) -> Self {
        let stop = CancellationToken::new();
        let mut run = JoinSet::new();
        run.spawn(worker.build().unwrap().run(stop.clone()));
        Self { stop, run }
    }

    /// How the worker ended, when it does.
    pub async fn end(mut self) -> Result<(), WorkerError> {
        timeout(PATIENCE, self.run.join_next()).await.expect("the worker ends").unwrap().unwrap()
    }

    pub async fn stop(self) -> Result<(), WorkerError> {
        self.stop.cancel();
        self.end().await
    }
}

async fn serve(listener: TcpListener, stage: Arc<Stage>) {
    let mut connections = JoinSet::new();
    let mut changed = stage.changed.subscribe();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                // The port stays ours while we are away, so that nobody else can have it.
                if stage.state().away {
                    continue;
                }
                let stage = Arc::clone(&stage);
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(request, Arc::clone(&stage)));
                    // A connection that breaks is what half of these tests are about.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
            _ = changed.changed() => {
                if stage.state().away {
                    connections.abort_all();
                }
            }
            Some(ended) = connections.join_next() => {
                if let Err(broken) = ended && broken.is_panic() {
                    stage.state().faults.push(format!("the server broke at a call: {broken}"));
                }
            }
        }
    }
}

/// An error here makes hyper break the connection.
async fn answer(request: Request<Incoming>, stage: Arc<Stage>) -> io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let segments: Vec<&str> = head.uri.path().split('/').skip(1).collect();
    let word = match (&head.method, &segments[..]) {
        (&Method::POST, ["workers", "register"]) => Word::Register,
        (&Method::GET, ["workers", "w1", "tasks"]) => Word::Tasks,
        (&Method::POST, ["workers", "w1", "heartbeat"]) => Word::Heartbeat,
        (&Method::POST, ["runs", _, "events"]) => Word::Events,
        (&Method::POST, ["tasks", "result"]) => Word::Result,
        (method, _) => {
            stage.state().faults.push(format!("{method} {} is no call of the protocol", head.uri.path()));
            return Ok(respond(404, None, &problem("NOT_FOUND")));
        }
    };
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let body: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    let seen = Seen {
        word,
        query: head.uri.query().unwrap_or_default().to_owned(),
        authorization: head.headers.get(AUTHORIZATION).map_or("", |value| value.to_str().unwrap()).to_owned(),
        body: body.clone(),
        at: Instant::now(),
    };
    let reply = {
        let mut state = stage.state();
        state.seen.push(seen);
        state.scripts.get_mut(&word).and_then(VecDeque::pop_front)
    };
    stage.changed.send_replace(());
    let cut = || io::Error::other("as the script says");
    match reply {
        Some(Reply::Cut) => return Err(cut()),
        Some(Reply::Status(status)) => return Ok(respond(status, None, &json!({}))),
        Some(Reply::Busy { retry_after_s }) => return Ok(respond(503, Some(retry_after_s), &problem("BUSY"))),
        Some(Reply::Refuse(status, code)) => return Ok(respond(status, None, &problem(code))),
        Some(Reply::LoseAnswer) | None => {}
    }
    let answer = match word {
        Word::Register => stage.state().terms.clone(),
        Word::Tasks => hand_out(&stage, max_of(head.uri.query())).await,
        Word::Heartbeat => heartbeat(&stage.state(), &body),
        Word::Events => events(&mut stage.state(), segments[1], &body),
        Word::Result => result(&mut stage.state(), body),
    };
    stage.changed.send_replace(());
    if matches!(reply, Some(Reply::LoseAnswer)) { Err(cut()) } else { Ok(respond(200, None, &answer)) }
}

fn respond(status: u16, retry_after_s: Option<u64>, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(status);
    if let Some(seconds) = retry_after_s {
        response = response.header(RETRY_AFTER, seconds);
    }
    response.body(Full::new(Bytes::from(body.to_string()))).unwrap()
}

fn problem(code: &str) -> Value {
    json!({"error": {"code": code, "message": "as the script says", "details": {}}, "request_id": "r1", "trace_id": "t1"})
}

fn max_of(query: Option<&str>) -> usize {
    let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|pair| pair.0 == "max").map(|pair| pair.1.parse().unwrap()).next().unwrap()
}

/// A long poll: what waits, up to `max`, or nothing after a second.
async fn hand_out(stage: &Stage, max: usize) -> Value {
    let mut changed = stage.changed.subscribe();
    let work = async {
        loop {
            let tasks: Vec<Value> = {
                let queue = &mut stage.state().queue;
                let count = queue.len().min(max);
                queue.drain(..count).collect()
            };
            if !tasks.is_empty() {
                return tasks;
            }
            changed.changed().await.unwrap();
        }
    };
    Value::Array(timeout(Duration::from_secs(1), work).await.unwrap_or_default())
}

fn heartbeat(state: &State, body: &Value) -> Value {
    let (mut renewed, mut cancel, mut stale) = (Vec::new(), Vec::new(), Vec::new());
    for run in body["runs"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let list = if state.stale.contains(run) {
            &mut stale
        } else if state.cancel.contains(run) {
            &mut cancel
        } else {
            &mut renewed
        };
        list.push(run.to_owned());
    }
    json!({"renewed": renewed, "cancel": cancel, "stale": stale, "drain": state.drain})
}

fn events(state: &mut State, run: &str, body: &Value) -> Value {
    let held = state.events.entry(run.to_owned()).or_default();
    let mut added = 0;
    for event in body["events"].as_array().unwrap() {
        let before = held.insert(event["seq"].as_u64().unwrap(), event["data"].clone());
        assert!(before.is_none_or(|before| before == event["data"]), "a number was used twice");
        added += 1;
    }
    let acknowledged = (1..).take_while(|seq| held.contains_key(seq)).count();
    json!({"acknowledged": acknowledged, "added": added})
}

fn result(state: &mut State, body: Value) -> Value {
    let duplicate = state.results.contains(&body);
    if !duplicate {
        state.results.push(body);
    }
    json!({"duplicate": duplicate, "late": false})
}
