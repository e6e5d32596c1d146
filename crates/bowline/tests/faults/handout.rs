//! Hand-outs that never arrive: the answer to a poll is lost on its way, or cannot be written at all.

use std::time::Duration;

use bowline_testkit::{ChaosProxy, Child, Direction, Sink, until};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::oracle::one_effect;
use crate::support::{SHORT_LEASES, Setup, TestServer};

/// Nobody is taken for silent in the time of a test.
const PATIENT: &str = "[lease]\nttl_ms = 120000\naccept_ms = 120000\nheartbeat_ms = 1000\n";
/// More than the buffers of both sockets take, and no more than one answer hands out (8 MiB).
const JOBS: usize = 8;
const PAYLOAD_BYTES: usize = 1_000_000;

/// The statuses of a job's runs, in their order.
fn statuses(shown: &Value) -> Vec<String> {
    let runs = shown["runs"].as_array().expect("runs");
    runs.iter().map(|run| run["status"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn metric(server: &TestServer, name: &str) -> u64 {
    let metrics = server.get("/metrics").await;
    let text = metrics.body.as_str().unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} is not in {text}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

/// Asks for work.
async fn ask(stream: &mut TcpStream, worker: &str, token: &str, max: usize) {
    let request = format!(
        "GET /workers/{worker}/tasks?max={max}&wait=20000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("the request is sent");
}

/// Asks for work over a connection of its own. The answer has begun when this returns.
async fn poll(server: &TestServer, worker: &str, token: &str, max: usize) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.expect("a connection");
    ask(&mut stream, worker, token, max).await;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.expect("the answer begins");
    assert_eq!(&head, b"HTTP/1.1 200");
    stream
}

/// The worker is gone in the middle of the answer: its runs are there for the next one at once, and count as no attempts.
#[tokio::test]
async fn an_answer_that_cannot_be_written_returns_its_runs_at_once() {
    let mut server = TestServer::with(Setup { config: PATIENT.to_owned(), ..Setup::default() }).await;
    let (deaf, heir) = (server.worker("deaf", &["t"]).await, server.worker("heir", &["t"]).await);
    let mut jobs = Vec::new();
    for _ in 0..JOBS {
        jobs.push(server.submit(json!({"type": "t", "payload": "x".repeat(PAYLOAD_BYTES)})).await);
    }
    // It reads the first bytes and goes, with the rest on its way.
    drop(poll(&server, "deaf", &deaf, JOBS).await);
    until(Duration::from_secs(30), "all runs are back in the queue", async || {
        let lanes = server.get("/lanes").await.expect(200);
        let queued: u64 =
            lanes["lanes"].as_array().expect("lanes").iter().filter_map(|lane| lane["queued"].as_u64()).sum();
        if queued == JOBS as u64 { Ok(()) } else { Err(lanes.to_string()) }
    })
    .await;
    assert_eq!(metric(&server, "orchestrator_handouts_unwritten_total").await, JOBS as u64, "the fault happened");
    for job in &jobs {
        let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
        assert_eq!((statuses(&shown), &shown["job"]["attempts"]), (vec!["returned".to_owned()], &json!(0)));
    }

    // The control: an answer that is read stays with its worker, also when the connection ends right after it.
    let mut stream = poll(&server, "heir", &heir, 1).await;
    let mut answer = Vec::new();
    while !answer.ends_with(b"}]") {
        let mut piece = vec![0; 1 << 16];
        let read = stream.read(&mut piece).await.expect("the answer comes");
        assert!(read > 0, "the answer has an end");
        answer.extend_from_slice(&piece[..read]);
    }
    drop(stream);
    let shown = server.get(&format!("/jobs/{}", jobs[0])).await.expect(200);
    assert_eq!(statuses(&shown), ["returned", "starting"]);
    let run = shown["runs"][1]["id"].clone();
    let heard = server.send("POST", "/workers/heir/heartbeat", &heir, Some(json!({"runs": [run]}))).await.expect(200);
    assert_eq!(heard["renewed"], json!([run]), "it is still its own");
    assert_eq!(metric(&server, "orchestrator_handouts_unwritten_total").await, JOBS as u64);
    assert!(server.stop().await.success());
    server.assert_verified();
}

/// A worker behind a network that can lose the answer to its poll.
struct Scene {
    sink: Sink,
    server: TestServer,
    proxy: ChaosProxy,
    _worker: Child,
}

impl Scene {
    async fn open() -> Self {
        let sink = Sink::start();
        let server = TestServer::with(Setup { config: SHORT_LEASES.to_owned(), ..Setup::default() }).await;
        let proxy = ChaosProxy::start(&server.url(""));
        let token = server.token(json!({"kind": "worker", "name": "w1"})).await;
        let worker = server.worker_process_through(proxy.url().trim_end_matches('/'), "w1", &token);
        Self { sink, server, proxy, _worker: worker }
    }

    async fn submit(&self) -> String {
        let payload = json!({"url": self.sink.url()});
        self.server.submit(json!({"type": "call", "payload": payload, "policy": {"timeout_ms": 3_000}})).await
    }

    /// One job that is done as always: from now on the server knows that this worker names its runs.
    async fn warm_up(&self) {
        let job = self.submit().await;
        self.server.until_status(&job, "success").await;
    }

    async fn until_it_waits(&self) {
        until(Duration::from_secs(20), "the worker waits for work", async || {
            metric(&self.server, "orchestrator_polls_waiting").await == 1
        })
        .await;
    }

    /// A job whose hand-out is answered, and the answer dies on its way.
    async fn lose_an_answer(&self) -> String {
        self.until_it_waits().await;
        self.proxy.black_hole(Direction::ToClient);
        let job = self.submit().await;
        until(Duration::from_secs(20), "the run is handed out", async || {
            let shown = self.server.get(&format!("/jobs/{job}")).await.expect(200);
            if statuses(&shown).is_empty() { Err(shown) } else { Ok(()) }
        })
        .await;
        self.proxy.cut();
        self.proxy.heal();
        job
    }

    /// How often the job was executed.
    fn executions(&self, job: &str) -> usize {
        self.sink.by_key().get(job).copied().unwrap_or(0)
    }

    async fn close(mut self) {
        assert!(self.server.stop().await.success());
        self.server.assert_verified();
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_on_its_way_is_executed_once() {
    let scene = Scene::open().await;
    scene.warm_up().await;
    let job = scene.lose_an_answer().await;
    let shown = scene.server.until_status(&job, "success").await;
    one_effect(&shown, &scene.sink.lines()).expect("one effect");
    assert_eq!(scene.executions(&job), 1);
    assert_eq!(statuses(&shown), ["returned", "success"], "the first hand-out was lost");
    assert_eq!(shown["job"]["attempts"], 1, "it counts as no attempt");
    scene.close().await;
}

/// Nobody can know whether a worker that has never named a run has this one: its heartbeats renew it. It stays with it until its
/// time limit, which is explained and counted.
#[tokio::test]
async fn an_answer_lost_to_a_worker_without_names_is_bounded_explained_and_counted() {
    let mut server = TestServer::with(Setup { config: SHORT_LEASES.to_owned(), ..Setup::default() }).await;
    let token = server.worker("w1", &["t"]).await;
    let proxy = ChaosProxy::start(&server.url(""));
    let mut stream = TcpStream::connect(proxy.address()).await.expect("a connection");
    ask(&mut stream, "w1", &token, 1).await;
    until(Duration::from_secs(20), "the worker waits for work", async || {
        metric(&server, "orchestrator_polls_waiting").await == 1
    })
    .await;
    proxy.black_hole(Direction::ToClient);
    let job = server.submit(json!({"type": "t", "policy": {"timeout_ms": 2_000, "retry": {"base_ms": 0}}})).await;
    let shown = until(Duration::from_secs(20), "the run is handed out", async || {
        let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
        if statuses(&shown).is_empty() { Err(shown) } else { Ok(shown) }
    })
    .await;
    let heard = server.send("POST", "/workers/w1/heartbeat", &token, None).await.expect(200);
    assert_eq!(heard["renewed"], json!([shown["runs"][0]["id"]]), "it renews what it does not know of");
    proxy.cut();
    assert!(!matches!(stream.read(&mut [0; 64]).await, Ok(1..)), "the answer was lost");
    let why = server.get(&format!("/jobs/{job}/why")).await.expect(200);
    assert_eq!(why["reasons"][1]["code"], "unnamed", "{why}");
    until(Duration::from_secs(20), "its time is over", async || {
        server.send("POST", "/workers/w1/heartbeat", &token, None).await.expect(200);
        let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
        if statuses(&shown) == ["timed_out"] { Ok(()) } else { Err(shown) }
    })
    .await;
    assert_eq!(metric(&server, "orchestrator_runs_unnamed_total").await, 1);
    let tasks = server.send("GET", "/workers/w1/tasks?wait=5000", &token, None).await.expect(200);
    let done = json!({"task_id": tasks[0]["task_id"], "status": "success"});
    server.send("POST", "/tasks/result", &token, Some(done)).await.expect(200);
    let shown = server.until_status(&job, "success").await;
    assert_eq!(statuses(&shown), ["timed_out", "success"]);
    assert!(server.stop().await.success());
    server.assert_verified();
}

/// The control: the same story without the cut has no hand-out that was lost.
#[tokio::test]
async fn an_answer_that_arrives_is_executed_once_and_nothing_returns() {
    let scene = Scene::open().await;
    scene.warm_up().await;
    scene.until_it_waits().await;
    let job = scene.submit().await;
    let shown = scene.server.until_status(&job, "success").await;
    assert_eq!((scene.executions(&job), statuses(&shown)), (1, vec!["success".to_owned()]));
    assert_eq!(metric(&scene.server, "orchestrator_runs_returned_total").await, 0);
    assert_eq!(metric(&scene.server, "orchestrator_runs_unnamed_total").await, 0);
    scene.close().await;
}
