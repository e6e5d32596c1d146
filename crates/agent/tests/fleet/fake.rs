//! A small server for agents that does what the protocol says, unless a test told it to misbehave.
//!
//! It is its own reading of the protocol, in plain JSON, and a strict one: whatever an agent says out of order is noted as
//! a [`State::wrongs`]. Tests wait for what the fake saw, never for a duration.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_agent::CancellationToken;
use bowline_agent::fleet::{FleetAgent, FleetError, FleetSettings};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Far more than anything here takes; reaching it means that the state never comes.
const PATIENCE: Duration = Duration::from_secs(60);
pub const JOIN: &str = "join-token";
pub const TOKEN: &str = "agent-token";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    Enroll,
    Renew,
    Register,
    Tasks,
    Heartbeat,
    Ship,
    Output,
    Evidence,
}

/// How to misbehave, once.
#[derive(Debug, Clone)]
pub enum Reply {
    /// This status with this code, before anything was done.
    Refuse(u16, &'static str),
    /// The connection breaks before anything was done.
    Cut,
    /// Everything is done, and then the connection breaks.
    LoseAnswer,
}

#[derive(Default)]
pub struct State {
    /// How often each word came.
    pub said: HashMap<Word, usize>,
    pub bodies: Vec<(Word, Value)>,
    /// Bodies are only kept while this is set: they are many.
    pub forget_bodies: bool,
    pub scripts: HashMap<Word, VecDeque<Reply>>,
    pub away: bool,
    pub queue: VecDeque<Value>,
    pub cancel: BTreeSet<String>,
    pub stale: BTreeSet<String>,
    pub drain: bool,
    /// Of these runs the server holds one record less than it was sent, as long as they are named here.
    pub one_short: BTreeSet<String>,
    /// Heartbeats are not answered while this is set.
    pub mute: bool,
    pub accept_ms: Option<u64>,
    /// Runs to refuse, and how.
    pub refuse: HashMap<String, &'static str>,
    /// The output of these runs is not answered as long as they are named here.
    pub slow: BTreeSet<String>,
    /// What the ledger would hold.
    pub enrolled: Option<Value>,
    /// The credential that is good beside the first one, if that was renewed.
    pub renewed: Option<String>,
    /// The credential that the last heartbeat showed.
    pub beats_as: String,
    /// What is said about renewing at the registration.
    pub renew_after_s: Option<u64>,
    pub accepted: BTreeSet<String>,
    pub events: HashMap<String, BTreeMap<u64, Value>>,
    pub output: HashMap<(String, String), Vec<u8>>,
    pub compressed: usize,
    pub ended: HashMap<String, Value>,
    /// What the agent said it executed.
    pub evidence: Vec<Value>,
    /// What was said out of order.
    pub wrongs: Vec<String>,
    /// Calls that there are not, or that this server broke at. The test fails with any of them.
    pub faults: Vec<String>,
}

impl State {
    pub fn kinds(&self, run: &str) -> Vec<String> {
        let kind = |event: &Value| event["kind"].as_str().unwrap_or("?").to_owned();
        self.events.get(run).into_iter().flat_map(BTreeMap::values).map(kind).collect()
    }

    pub fn text(&self, run: &str, stream: &str) -> String {
        let bytes = self.output.get(&(run.to_owned(), stream.to_owned())).cloned().unwrap_or_default();
        String::from_utf8(bytes).unwrap()
    }

    /// How many heartbeats named this run.
    pub fn named(&self, run: &str) -> usize {
        let names = |body: &Value| body["runs"].as_array().is_some_and(|runs| runs.iter().any(|named| named == run));
        self.bodies.iter().filter(|(word, body)| *word == Word::Heartbeat && names(body)).count()
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
            assert!(faults.is_empty(), "the agent made calls that no server understands: {faults:?}");
        }
    }
}

impl Fake {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stage = Arc::new(Stage { state: Mutex::default(), changed: watch::Sender::new(()) });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&stage)));
        Self { address, stage, _serving: serving }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Settings of an agent `web-1` for this server, quick to try again.
    pub fn settings(&self, data: &Path) -> FleetSettings {
        let mut settings = FleetSettings::new(&self.url(), data, [env!("CARGO_BIN_EXE_bowline-fleet"), "keeper"]);
        settings.name = Some("web-1".to_owned());
        settings.join = Some(JOIN.to_owned());
        settings.poll_wait = Duration::from_secs(10);
        // Tests look at what commands of the same user leave in their directories.
        settings.isolation.share_user = true;
        settings.backoff.base_ms = 10;
        settings.backoff.max_backoff_ms = 100;
        settings
    }

    pub fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.stage.state());
        self.stage.changed.send_replace(());
    }

    pub fn get<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.stage.state())
    }

    pub fn script(&self, word: Word, replies: impl IntoIterator<Item = Reply>) {
        self.set(|state| state.scripts.entry(word).or_default().extend(replies));
    }

    /// Puts a command for the agent's own host into the queue and returns its run.
    pub fn queue(&self, spec: &Value) -> String {
        let task = task(&json!({"via": "agent"}), "web-1", &json!({"spec": spec}));
        let run = task["task_id"].as_str().unwrap().to_owned();
        self.set(|state| state.queue.push_back(task));
        run
    }

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
        let Ok(found) = timeout(PATIENCE, waiting).await else {
            let state = self.stage.state();
            panic!(
                "waited in vain for {what}; said {:?}, wrongs {:?}, ended {:?}",
                state.said, state.wrongs, state.ended
            )
        };
        found
    }

    pub async fn until_ended(&self, run: &str) -> Value {
        self.until(&format!("the end of {run}"), |state| state.ended.get(run).cloned()).await
    }

    pub async fn until_said(&self, word: Word, times: usize) {
        self.until(&format!("{word:?} {times} times"), |state| {
            (state.said.get(&word).copied().unwrap_or(0) >= times).then_some(())
        })
        .await;
    }

    /// Nothing was said out of order.
    pub fn assert_right(&self) {
        let none: [&str; 0] = [];
        assert_eq!(self.get(|state| state.wrongs.clone()), none);
    }
}

/// An agent at work.
pub struct Working {
    stop: CancellationToken,
    work: JoinSet<Result<(), FleetError>>,
}

impl Working {
    pub async fn start(settings: FleetSettings) -> Self {
        let opening = async {
            loop {
                match FleetAgent::open(settings.clone()).await {
                    // A thread of the agent before this one is still at its last file.
                    Err(FleetError::Data { source: bowline_execute::OpenError::InUse, .. }) => {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    opened => return opened.unwrap(),
                }
            }
        };
        let agent = timeout(PATIENCE, opening).await.expect("the directory is given up");
        let stop = CancellationToken::new();
        let mut work = JoinSet::new();
        work.spawn(agent.run(stop.clone()));
        Self { stop, work }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.end().await.unwrap();
    }

    pub async fn end(mut self) -> Result<(), FleetError> {
        timeout(PATIENCE, self.work.join_next()).await.expect("the agent leaves").unwrap().unwrap()
    }
}

pub fn id(number: u32) -> String {
    format!("01890a5d-ac96-774b-bcce-{:012x}", u64::from(number) + (u64::from(std::process::id()) << 16))
}

pub fn next() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub fn task(connection: &Value, host: &str, command: &Value) -> Value {
    let (run, unit) = (next(), next());
    json!({
        "task_id": id(run), "task_type": "bowline.command", "job_id": id(0), "worker_id": "web-1", "lane": "default",
        "attempt": 1, "fence": 1, "idempotency_key": format!("key-{unit}"), "timeout_ms": 60_000,
        "created_at": "2026-01-01T00:00:00Z", "a_field_from_the_future": true,
        "params": {"unit_id": id(unit), "command": command,
                   "host": {"id": 1, "name": host, "connection": connection, "lock": "shared", "fence": 1}},
    })
}

async fn serve(listener: TcpListener, stage: Arc<Stage>) {
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => return,
            },
            Some(ended) = connections.join_next() => {
                if let Err(broken) = ended {
                    stage.state().faults.push(format!("the server broke at a call: {broken}"));
                }
                continue;
            }
        };
        let stage = Arc::clone(&stage);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&stage), request));
            // A connection that was cut on purpose ends in an error here.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(stage: Arc<Stage>, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let segments: Vec<&str> = head.uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let word = match (&head.method, segments.as_slice()) {
        (&Method::POST, ["agents", "enroll"]) => Word::Enroll,
        (&Method::POST, ["agents", "renew"]) => Word::Renew,
        (&Method::POST, ["workers", "register"]) => Word::Register,
        (&Method::GET, ["workers", "web-1", "tasks"]) => Word::Tasks,
        (&Method::POST, ["workers", "web-1", "heartbeat"]) => Word::Heartbeat,
        (&Method::POST, ["workers", "web-1", "events"]) => Word::Ship,
        (&Method::PUT, ["runs", _, "output", _]) => Word::Output,
        (&Method::POST, ["workers", "web-1", "evidence"]) => Word::Evidence,
        (method, _) => {
            stage.state().faults.push(format!("{method} {} is no call of the protocol", head.uri.path()));
            return Ok(respond(404, &problem("NOT_FOUND")));
        }
    };
    let raw = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let header = |name: &str| head.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let cut = || io::Error::other("as the script says");
    let (reply, body) = {
        let mut state = stage.state();
        if state.away {
            return Err(cut());
        }
        let body: Value = match word {
            Word::Output | Word::Tasks => Value::Null,
            _ => serde_json::from_slice(&raw).unwrap(),
        };
        *state.said.entry(word).or_default() += 1;
        if !state.forget_bodies {
            state.bodies.push((word, body.clone()));
        }
        (state.scripts.get_mut(&word).and_then(VecDeque::pop_front), body)
    };
    stage.changed.send_replace(());
    match reply {
        Some(Reply::Cut) => return Err(cut()),
        Some(Reply::Refuse(status, code)) => return Ok(respond(status, &problem(code))),
        Some(Reply::LoseAnswer) | None => {}
    }
    let shown = header(AUTHORIZATION.as_str()).replace("Bearer ", "");
    let is_good = match word {
        Word::Enroll => shown == JOIN,
        _ => shown == TOKEN || stage.state().renewed.as_ref() == Some(&shown),
    };
    if !is_good {
        return Ok(respond(401, &problem("UNAUTHENTICATED")));
    }
    if word == Word::Heartbeat {
        stage.state().beats_as.clone_from(&shown);
    }
    let (status, answer) = match word {
        Word::Enroll => enroll(&mut stage.state(), body),
        Word::Renew => {
            let token = format!("{shown}-renewed");
            stage.state().renewed = Some(token.clone());
            (200, json!({"name": "web-1", "token": token, "renew_after_s": 1_000_000}))
        }
        Word::Register => {
            let (renew_after_s, accept_ms) = {
                let state = stage.state();
                (state.renew_after_s, state.accept_ms.unwrap_or(20_000))
            };
            let answer = json!({
                "worker_id": "web-1", "protocol": 1, "heartbeat_ms": 50, "lease_ms": 60_000, "accept_ms": accept_ms,
                "renew_after_s": renew_after_s,
            });
            (200, answer)
        }
        Word::Tasks => (200, hand_out(&stage, query(&head.uri, "max")).await),
        Word::Heartbeat => {
            let mut changed = stage.changed.subscribe();
            while stage.state().mute {
                changed.changed().await.unwrap();
            }
            (200, heartbeat(&mut stage.state(), &body))
        }
        Word::Ship => (200, ship(&mut stage.state(), &body)),
        Word::Evidence => (200, evidence(&mut stage.state(), &body)),
        Word::Output => {
            let (run, stream) = (segments[1].to_owned(), segments[3].to_owned());
            let part = Part {
                offset: query(&head.uri, "offset"),
                zstd: header(CONTENT_ENCODING.as_str()) == "zstd",
                sha256: header("x-content-sha256"),
                raw_length: header("x-raw-length").parse().unwrap(),
                body: raw,
            };
            let mut changed = stage.changed.subscribe();
            while stage.state().slow.contains(&run) {
                changed.changed().await.unwrap();
            }
            output(&mut stage.state(), run, stream, part)
        }
    };
    stage.changed.send_replace(());
    if matches!(reply, Some(Reply::LoseAnswer)) { Err(cut()) } else { Ok(respond(status, &answer)) }
}

fn respond(status: u16, body: &Value) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::new(Bytes::from(body.to_string()))).unwrap()
}

fn problem(code: &str) -> Value {
    json!({"error": {"code": code, "message": "as the script says", "details": {}}, "request_id": "r1", "trace_id": "t1"})
}

fn query(uri: &hyper::Uri, name: &str) -> usize {
    let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|pair| pair.0 == name).map(|pair| pair.1.parse().unwrap()).next().unwrap()
}

fn enroll(state: &mut State, body: Value) -> (u16, Value) {
    if state.enrolled.as_ref().is_some_and(|before| before["public_key"] != body["public_key"]) {
        return (401, problem("UNAUTHENTICATED"));
    }
    state.enrolled = Some(body);
    (201, json!({"name": "web-1", "token": TOKEN, "labels": {"site": "fra"}}))
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

fn heartbeat(state: &mut State, body: &Value) -> Value {
    let (mut renewed, mut cancel, mut stale) = (Vec::new(), Vec::new(), Vec::new());
    for run in body["runs"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        state.accepted.insert(run.to_owned());
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

/// Everything is known already, or taken; a real server says which.
fn evidence(state: &mut State, body: &Value) -> Value {
    let runs = body["runs"].as_array().unwrap();
    if runs.is_empty() || runs.len() > 1_000 {
        state.wrongs.push(format!("{} runs in one request of evidence", runs.len()));
    }
    for run in runs {
        for field in ["run_id", "unit_id", "fence", "host", "host_fence", "ended", "at"] {
            if run[field].is_null() {
                state.wrongs.push(format!("evidence without {field}: {run}"));
            }
        }
    }
    state.evidence.extend(runs.iter().cloned());
    json!({"known": runs.len(), "taken": 0, "unknown": 0})
}

fn ship(state: &mut State, body: &Value) -> Value {
    let runs = body["runs"].as_array().unwrap();
    let events: usize = runs.iter().map(|news| news["events"].as_array().unwrap().len()).sum();
    if runs.len() > 1_000 || events > 10_000 {
        state.wrongs.push(format!("{} runs and {events} events in one request", runs.len()));
    }
    let heard: Vec<Value> = runs.iter().map(|news| hear(state, news)).collect();
    json!({"runs": heard})
}

fn hear(state: &mut State, news: &Value) -> Value {
    let run = news["run_id"].as_str().unwrap().to_owned();
    if let Some(code) = state.refuse.get(&run) {
        return json!({"run_id": run, "acknowledged": 0, "ended": false, "refused": code});
    }
    for event in news["events"].as_array().unwrap() {
        let (seq, data) = (event["seq"].as_u64().unwrap(), &event["data"]);
        if data["kind"] == "output" {
            let key = (run.clone(), data["stream"].as_str().unwrap().to_owned());
            let (from, bytes) = (data["offset"].as_u64().unwrap(), data["bytes"].as_u64().unwrap());
            let range = usize::try_from(from).unwrap()..usize::try_from(from + bytes).unwrap();
            match state.output.get(&key).and_then(|stored| stored.get(range)) {
                None => state.wrongs.push(format!("record {seq} of {run} names bytes that are not here")),
                Some(stored) if hex(stored) != data["sha256"].as_str().unwrap() => {
                    state.wrongs.push(format!("record {seq} of {run} names other bytes"));
                }
                Some(_) => {}
            }
        }
        let before = state.events.entry(run.clone()).or_default().insert(seq, data.clone());
        if before.is_some_and(|before| before != *data) {
            state.wrongs.push(format!("number {seq} of {run} was used twice"));
        }
    }
    let held = state.events.get(&run);
    let acknowledged = held.map_or(0, |held| (1..).take_while(|seq| held.contains_key(seq)).count() as u64);
    if news["ended"].is_object() {
        if news["ended"]["last_seq"].as_u64().unwrap() != acknowledged {
            state.wrongs.push(format!("the end of {run} came before everything else"));
        }
        state.ended.insert(run.clone(), news["ended"].clone());
    }
    let short = u64::from(state.one_short.contains(&run));
    let acknowledged = acknowledged.saturating_sub(short);
    json!({"run_id": run, "acknowledged": acknowledged, "ended": state.ended.contains_key(&run)})
}

struct Part {
    offset: usize,
    zstd: bool,
    sha256: String,
    raw_length: usize,
    body: Bytes,
}

fn output(state: &mut State, run: String, stream: String, part: Part) -> (u16, Value) {
    if let Some(code) = state.refuse.get(&run) {
        return (404, problem(code));
    }
    let raw = if part.zstd {
        state.compressed += 1;
        zstd::bulk::decompress(&part.body, 2 << 20).unwrap()
    } else {
        part.body.to_vec()
    };
    if raw.len() > 1 << 20 || raw.len() != part.raw_length || hex(&raw) != part.sha256 {
        state.wrongs.push(format!("a part of {stream} of {run} is not what its headers say"));
    }
    let stored = state.output.entry((run, stream)).or_default();
    if part.offset <= stored.len() {
        let end = part.offset + raw.len();
        if end > stored.len() {
            stored.truncate(part.offset);
            stored.extend(raw);
        }
    }
    (200, json!({"stored": stored.len()}))
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
