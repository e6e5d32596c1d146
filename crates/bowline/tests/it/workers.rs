//! The worker protocol.

use std::time::Duration;

use bowline_testkit::{ScriptedServer, until};
use serde_json::{Value, json};

use crate::support::{SHORT_LEASES, Setup, TestServer};

async fn short() -> TestServer {
    TestServer::with(Setup { config: SHORT_LEASES.to_owned(), ..Setup::default() }).await
}

#[tokio::test]
async fn a_task_is_handed_out_told_about_and_finished() {
    let server = short().await;
    let token = server.worker("w1", &["resize"]).await;
    let job = server.submit(json!({"type": "resize", "payload": {"width": 9007199254740993u64}})).await;
    let tasks = server.send("GET", "/workers/w1/tasks?max=5&wait=5000", &token, None).await.expect(200);
    let task = &tasks[0];
    assert_eq!(task["params"]["width"], 9007199254740993u64);
    assert_eq!((task["attempt"].as_u64(), task["fence"].as_u64()), (Some(1), Some(1)));
    assert_eq!(task["idempotency_key"], job.as_str());
    let run = task["task_id"].as_str().unwrap();
    let events = json!({"fence": 1, "events": [{"seq": 2, "data": {"step": "two"}}]});
    let path = format!("/runs/{run}/events");
    assert_eq!(server.send("POST", &path, &token, Some(events)).await.expect(200)["acknowledged"], 0);
    let events = json!({"events": [{"seq": 1, "data": {"step": "one"}}, {"seq": 2, "data": {"step": "two"}}]});
    let ack = server.send("POST", &path, &token, Some(events)).await.expect(200);
    assert_eq!((ack["acknowledged"].as_u64(), ack["added"].as_u64()), (Some(2), Some(1)));
    let other = json!({"events": [{"seq": 1, "data": {"step": "another"}}]});
    let refused = server.send("POST", &path, &token, Some(other)).await;
    assert_eq!((refused.status, refused.code()), (409, "SEQ_CONFLICT"));
    let done = json!({"task_id": run, "job_id": job, "status": "success", "result": {"ok": true}, "last_seq": 2});
    let answer = server.send("POST", "/tasks/result", &token, Some(done.clone())).await.expect(200);
    assert_eq!(answer["job_status"], "success");
    let again = server.send("POST", "/tasks/result", &token, Some(done)).await.expect(200);
    assert_eq!(again["duplicate"], true);
    let shown = server.until_status(&job, "success").await;
    assert_eq!(shown["runs"][0]["incomplete"], false);
    assert_eq!(shown["job"]["result"], json!({"ok": true}));
}

#[tokio::test]
async fn a_job_goes_to_a_worker_that_has_enough() {
    let server = short().await;
    let body = json!({"type": "train", "labels": {"gpu": ">= 4", "gpu_info.vram_gb": ">=16"}});
    let job = server.submit(body).await;
    let why = async || server.get(&format!("/jobs/{job}/why")).await.expect(200);
    let register = async |name: &str, resources: Value| {
        let token = server.token(json!({"kind": "worker", "name": name})).await;
        let body = json!({"worker_id": name, "task_types": ["train"], "resources": resources});
        (server.send("POST", "/workers/register", &token, Some(body)).await, token)
    };
    let (small, small_token) = register("small", json!({"gpu": 2, "gpu_info": {"model": "x", "vram_gb": 24}})).await;
    small.expect(200);
    let tasks = server.send("GET", "/workers/small/tasks?wait=0", &small_token, None).await.expect(200);
    assert_eq!(tasks, json!([]));
    let told = why().await;
    assert_eq!(told["reasons"][0]["code"], "resources_short", "{told}");
    assert_eq!(told["reasons"][0]["data"]["short_of"], json!([{"name": "gpu", "required": 4.0, "most": 2.0}]));
    assert!(told["sentence"].as_str().is_some_and(|text| text.contains("gpu>=4") && text.contains("gpu=2")), "{told}");
    let workers = server.get("/workers").await.expect(200);
    let small = workers["workers"].as_array().unwrap().iter().find(|worker| worker["worker_id"] == "small").unwrap();
    assert_eq!(small["resources"], json!({"gpu": 2.0, "gpu_info.vram_gb": 24.0}));
    assert_eq!(small["labels"], json!({}));
    let (large, token) = register("large", json!({"gpu": 4, "gpu_info": {"vram_gb": 16}})).await;
    large.expect(200);
    let tasks = server.send("GET", "/workers/large/tasks?wait=5000", &token, None).await.expect(200);
    assert_eq!(tasks[0]["job_id"], job.as_str());

    for bad in [json!(3), json!([1]), json!({"gpu": -1}), json!({"a b": 1}), json!({"gpu": 1e300})] {
        let (refused, _) = register("odd", bad.clone()).await;
        assert_eq!((refused.status, refused.code()), (400, "VALIDATION_ERROR"), "{bad}: {}", refused.body);
    }
    for bad in [">=", ">=four", ">=-1", ">4", "<=4"] {
        let refused = server.post("/jobs", json!({"type": "train", "labels": {"gpu": bad}})).await;
        assert_eq!((refused.status, refused.code()), (400, "VALIDATION_ERROR"), "{bad}: {}", refused.body);
    }
    // Only jobs compare: a worker's own label is a name.
    let odd = server.token(json!({"kind": "worker", "name": "odd2"})).await;
    let body = json!({"worker_id": "odd2", "task_types": ["train"], "labels": {"gpu": ">=4"}});
    assert_eq!(server.send("POST", "/workers/register", &odd, Some(body)).await.status, 400);

    let submitted = std::process::Command::new(env!("CARGO_BIN_EXE_bowline"))
        .args(["job", "submit", "train", "--require", "gpu=3", "-o", "json", "--server", &server.url("")])
        .env("BOWLINE_TOKEN", server.admin())
        .output()
        .expect("the command line runs");
    let told = String::from_utf8_lossy(&submitted.stdout).into_owned();
    let id = serde_json::from_str::<Value>(&told).expect("JSON")["job_id"].as_str().expect("an id").to_owned();
    let shown = server.get(&format!("/jobs/{id}")).await.expect(200);
    assert_eq!(shown["job"]["labels"], json!({"gpu": ">=3"}), "{shown}");
}

#[tokio::test]
async fn a_worker_is_who_its_token_says() {
    let server = short().await;
    let one = server.worker("one", &["t"]).await;
    let two = server.worker("two", &["t"]).await;
    assert_eq!(server.send("GET", "/workers/one/tasks", &two, None).await.status, 403);
    let job = server.submit(json!({"type": "t"})).await;
    let tasks = server.send("GET", "/workers/one/tasks?wait=5000", &one, None).await.expect(200);
    let run = tasks[0]["task_id"].as_str().unwrap();
    let done = json!({"task_id": run, "status": "success"});
    assert_eq!(server.send("POST", "/tasks/result", &two, Some(done.clone())).await.status, 403);
    let events = json!({"events": [{"seq": 1, "data": 1}]});
    assert_eq!(server.send("POST", &format!("/runs/{run}/events"), &two, Some(events)).await.status, 403);
    assert_eq!(server.get(&format!("/jobs/{job}")).await.expect(200)["job"]["status"], "running");
    let admin = server.admin();
    assert_eq!(server.send("POST", "/tasks/result", &admin, Some(done)).await.status, 403);
}

#[tokio::test]
async fn a_hand_out_nobody_confirms_goes_to_somebody_else_without_counting() {
    let server = short().await;
    let token = server.worker("w1", &["t"]).await;
    let job = server.submit(json!({"type": "t"})).await;
    let path = "/workers/w1/tasks?wait=5000";
    let first = server.send("GET", path, &token, None).await.expect(200)[0].clone();
    // Its answer "got lost": nothing is said about it, and the same worker asks again.
    let second = until(Duration::from_secs(10), "it is handed out again", async || {
        let tasks = server.send("GET", path, &token, None).await.expect(200);
        tasks.get(0).cloned()
    })
    .await;
    assert_ne!(first["task_id"], second["task_id"]);
    assert_eq!(second["attempt"], 1);
    assert_eq!(second["fence"], 2);
    let late = json!({"task_id": first["task_id"], "status": "success"});
    let refused = server.send("POST", "/tasks/result", &token, Some(late)).await;
    assert_eq!((refused.status, refused.code()), (409, "STALE_LEASE"));
    let done = json!({"task_id": second["task_id"], "status": "success"});
    server.send("POST", "/tasks/result", &token, Some(done)).await.expect(200);
    let shown = server.until_status(&job, "success").await;
    assert_eq!(shown["job"]["attempts"], 1);
}

#[tokio::test]
async fn a_silent_worker_is_given_up_and_its_late_word_counts_while_nobody_else_began() {
    let server = short().await;
    let token = server.worker("w1", &["t"]).await;
    let job = server.submit(json!({"type": "t"})).await;
    let task = server.send("GET", "/workers/w1/tasks?wait=5000", &token, None).await.expect(200)[0].clone();
    let run = task["task_id"].clone();
    server.send("POST", "/workers/w1/heartbeat", &token, Some(json!({"runs": [run]}))).await.expect(200);
    until(Duration::from_secs(20), "the run is lost", async || {
        let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
        shown["runs"][0]["status"] == "lost"
    })
    .await;
    let stale = server.send("POST", "/workers/w1/heartbeat", &token, Some(json!({"runs": [run]}))).await.expect(200);
    assert_eq!(stale["stale"], json!([run]));
    let late = json!({"task_id": run, "status": "success", "result": 42});
    let answer = server.send("POST", "/tasks/result", &token, Some(late)).await.expect(200);
    assert_eq!(answer["late"], true);
    let shown = server.until_status(&job, "success").await;
    assert_eq!(shown["runs"][0]["status"], "success");
    assert_eq!(shown["job"]["result"], 42);
}

#[tokio::test]
async fn a_draining_worker_gets_nothing_more_and_is_told() {
    let server = short().await;
    let token = server.worker("w1", &["t"]).await;
    server.post("/workers/w1/drain", json!({})).await.expect(200);
    server.submit(json!({"type": "t"})).await;
    let tasks = server.send("GET", "/workers/w1/tasks?wait=100", &token, None).await.expect(200);
    assert_eq!(tasks, json!([]));
    let beat = server.send("POST", "/workers/w1/heartbeat", &token, None).await.expect(200);
    assert_eq!(beat["drain"], true);
    server.post("/workers/w1/drain", json!({"draining": false})).await.expect(200);
    let tasks = server.send("GET", "/workers/w1/tasks?wait=5000", &token, None).await.expect(200);
    assert_eq!(tasks.as_array().unwrap().len(), 1);
}

/// A poll that waits when its worker is drained is answered at once, with nothing and the reason; so the worker takes nothing
/// that is submitted afterwards.
#[tokio::test]
async fn a_drain_ends_the_poll_that_waits() {
    let server = short().await;
    let token = server.worker("w1", &["t"]).await;
    let poll = server.http().get(server.url("/workers/w1/tasks?wait=60000")).bearer_auth(&token).send();
    let drain = async {
        until(Duration::from_secs(20), "the poll waits", async || {
            let metrics = server.get("/metrics").await;
            metrics.body.as_str().is_some_and(|text| text.contains("orchestrator_polls_waiting 1"))
        })
        .await;
        server.post("/workers/w1/drain", json!({})).await.expect(200);
    };
    let (answer, ()) = tokio::join!(poll, drain);
    let answer = answer.expect("it is answered long before its wait is over");
    assert_eq!(answer.headers().get("bowline-drain").map(reqwest::header::HeaderValue::as_bytes), Some(&b"true"[..]));
    assert_eq!(answer.text().await.expect("a body"), "[]");
    let job = server.submit(json!({"type": "t"})).await;
    let why = server.get(&format!("/jobs/{job}/why")).await.expect(200);
    assert_eq!(why["reasons"][0]["code"], "workers_draining");
    let tasks = server.send("GET", "/workers/w1/tasks?wait=100", &token, None).await.expect(200);
    assert_eq!(tasks, json!([]));
    server.post("/workers/w1/drain", json!({"draining": false})).await.expect(200);
    let tasks = server.send("GET", "/workers/w1/tasks?wait=20000", &token, None).await.expect(200);
    assert_eq!(tasks[0]["job_id"], job.as_str());
}

#[tokio::test]
async fn labels_decide_who_may_take_a_job() {
    let server = short().await;
    let plain = server.worker("plain", &["train"]).await;
    let gpu = server.token(json!({"kind": "worker", "name": "gpu", "labels": {"gpu": "a100"}})).await;
    let body = json!({"worker_id": "gpu", "task_types": ["train"], "slots": 4});
    server.send("POST", "/workers/register", &gpu, Some(body)).await.expect(200);
    server.submit(json!({"type": "train", "labels": {"gpu": "a100"}})).await;
    assert_eq!(server.send("GET", "/workers/plain/tasks?wait=200", &plain, None).await.expect(200), json!([]));
    let tasks = server.send("GET", "/workers/gpu/tasks?wait=5000", &gpu, None).await.expect(200);
    assert_eq!(tasks.as_array().unwrap().len(), 1);
}

/// A worker that says it is in a trusted place gets no work for that place, unless its token lets it say so.
#[tokio::test]
async fn a_worker_has_the_labels_of_its_token_and_not_those_it_claims() {
    let server = short().await;
    let body = |name: &str| json!({"worker_id": name, "task_types": ["pay"], "labels": {"site": "vault", "rack": "7"}});
    let rogue = server.token(json!({"kind": "worker", "name": "rogue", "labels": {"rack": "7"}})).await;
    let told = server.send("POST", "/workers/register", &rogue, Some(body("rogue"))).await.expect(200);
    assert_eq!((&told["labels"], &told["claimed_labels"]), (&json!({"rack": "7"}), &json!({"site": "vault"})));
    let workers = server.get("/workers").await.expect(200);
    let shown = workers["workers"].as_array().unwrap().iter().find(|worker| worker["worker_id"] == "rogue").unwrap();
    assert_eq!((&shown["labels"], &shown["claimed_labels"]), (&json!({"rack": "7"}), &json!({"site": "vault"})));
    let job = server.submit(json!({"type": "pay", "labels": {"site": "vault"}})).await;
    assert_eq!(server.send("GET", "/workers/rogue/tasks?wait=200", &rogue, None).await.expect(200), json!([]));
    let why = server.get(&format!("/jobs/{job}/why")).await.expect(200);
    let sentence = why["reasons"][0]["sentence"].as_str().expect("a sentence");
    assert!(sentence.ends_with("rogue states them itself, and its token does not have them"), "{why}");
    let free = server.token(json!({"kind": "worker", "name": "free", "own_labels": true})).await;
    let told = server.send("POST", "/workers/register", &free, Some(body("free"))).await.expect(200);
    assert_eq!(told["labels"], json!({"site": "vault", "rack": "7"}));
    let tasks = server.send("GET", "/workers/free/tasks?wait=5000", &free, None).await.expect(200);
    assert_eq!(tasks[0]["job_id"], job.as_str());
    // Nor does it get them through what another token of its name registered.
    let narrow = server.token(json!({"kind": "worker", "name": "free", "task_types": ["mail"]})).await;
    server.submit(json!({"type": "pay"})).await;
    assert_eq!(server.send("GET", "/workers/free/tasks?wait=200", &narrow, None).await.expect(200), json!([]));
    for kind in ["api", "join"] {
        let refused = server.post("/tokens", json!({"kind": kind, "name": "x", "own_labels": true})).await;
        assert_eq!(refused.status, 400, "{}", refused.body);
    }
}

/// However short a worker waits: what is there is handed to it, and handed out once.
#[tokio::test]
async fn a_poll_that_does_not_wait_gets_what_is_there() {
    let server = short().await;
    let token = server.worker("w1", &["t"]).await;
    for wait in ["", "&wait=0", "&wait=1"] {
        for size in [10, 200_000] {
            let job = server.submit(json!({"type": "t", "payload": "x".repeat(size)})).await;
            let path = format!("/workers/w1/tasks?max=5{wait}");
            let tasks = server.send("GET", &path, &token, None).await.expect(200);
            assert_eq!(tasks[0]["job_id"], job.as_str(), "{wait} with {size} bytes");
            assert_eq!(tasks[0]["fence"], 1, "it was not handed out before");
            let done = json!({"task_id": tasks[0]["task_id"], "status": "success"});
            server.send("POST", "/tasks/result", &token, Some(done)).await.expect(200);
        }
    }
    let nothing = server.send("GET", "/workers/w1/tasks", &token, None).await.expect(200);
    assert_eq!(nothing, json!([]));
}

/// A worker whose token is revoked while it waits gets nothing, and the task is there for another.
#[tokio::test]
async fn a_revoked_worker_that_waits_gets_nothing() {
    let server = short().await;
    let made = server.post("/tokens", json!({"kind": "worker", "name": "w1"})).await.expect(201);
    let (id, token) = (made["id"].as_str().expect("an id"), made["token"].as_str().expect("a token"));
    let body = json!({"worker_id": "w1", "task_types": ["t"], "slots": 1});
    server.send("POST", "/workers/register", token, Some(body)).await.expect(200);
    let waiting = server.send("GET", "/workers/w1/tasks?wait=10000", token, None);
    let rest = async {
        // That a poll waits cannot be seen from outside. One that comes after the revocation is refused all the same.
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.post(&format!("/tokens/{id}/revoke"), json!({})).await.expect(200);
        server.submit(json!({"type": "t"})).await
    };
    let (answer, job) = tokio::join!(waiting, rest);
    assert_eq!(answer.status, 401, "{}", answer.body);
    let other = server.worker("w2", &["t"]).await;
    let tasks = server.send("GET", "/workers/w2/tasks?wait=5000", &other, None).await.expect(200);
    assert_eq!(tasks[0]["job_id"], job.as_str());
}

/// A worker that polls, works and beats without a body keeps its task for as long as it works.
#[tokio::test]
async fn a_bare_heartbeat_keeps_the_task_with_its_worker() {
    let server = short().await;
    let (one, other) = (server.worker("one", &["long.work"]).await, server.worker("other", &["long.work"]).await);
    let job = server.submit(json!({"type": "long.work"})).await;
    let tasks = server.send("GET", "/workers/one/tasks?wait=5000", &one, None).await.expect(200);
    let task = tasks[0]["task_id"].as_str().expect("a task").to_owned();
    // Three times as long as an unconfirmed hand-out lives, by the server's own clock.
    let started = std::time::Instant::now();
    while started.elapsed() < Duration::from_secs(6) {
        let heard = server.send("POST", "/workers/one/heartbeat", &one, None).await.expect(200);
        assert_eq!(heard["renewed"], json!([task]), "{heard}");
        let taken = server.send("GET", "/workers/other/tasks?wait=300", &other, None).await.expect(200);
        assert_eq!(taken, json!([]), "the task is with the first worker");
    }
    let listed = server.get("/workers").await.expect(200);
    let find =
        |name: &str| listed["workers"].as_array().expect("workers").iter().find(|w| w["worker_id"] == name).cloned();
    assert_eq!(find("one").map(|w| (w["running"].clone(), w["status"].clone())), Some((json!(1), json!("active"))));
    let done = json!({"task_id": task, "status": "success", "result": {"n": 1}});
    server.send("POST", "/tasks/result", &one, Some(done)).await.expect(200);
    let shown = server.until_status(&job, "success").await;
    assert_eq!(shown["runs"].as_array().map(Vec::len), Some(1), "it was done once: {shown}");
}

/// Whatever a worker calls can belong to the trace of the job that it works on.
#[tokio::test]
async fn a_task_has_the_trace_of_its_job() {
    let server = short().await;
    let token = server.worker("w1", &["resize"]).await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let request = server.http().post(server.url("/jobs")).bearer_auth(server.admin()).header("traceparent", parent);
    let asked = request.json(&json!({"type": "resize"})).send().await.expect("an answer");
    assert_eq!(asked.status(), 202);
    server.submit(json!({"type": "resize"})).await;
    let mut spans = std::collections::BTreeSet::new();
    for trace in [Some("4bf92f3577b34da6a3ce929d0e0e4736"), None] {
        let tasks = server.send("GET", "/workers/w1/tasks?max=1&wait=5000", &token, None).await.expect(200);
        let told = tasks[0]["traceparent"].as_str().expect("a trace").to_owned();
        let parts: Vec<&str> = told.split('-').collect();
        assert_eq!((parts.len(), parts[0], parts[3]), (4, "00", "01"), "{told}");
        let own = tasks[0]["trace_id"].as_str();
        assert_eq!(Some(parts[1]), trace.or(own), "{tasks}");
        assert!(parts[2] != "00f067aa0ba902b7" && spans.insert(parts[2].to_owned()), "each run is a span: {told}");
    }
}

/// The worker inside the server says that it is busy while every slot is taken, and not for what only waits.
#[tokio::test]
async fn the_built_in_worker_is_busy_while_every_slot_is_taken() {
    let config = "[builtin]\nslots = 1\n[egress.tenants.default]\nallow_networks = [\"127.0.0.1/32\"]\n";
    let server = TestServer::with(Setup { config: config.to_owned(), ..Setup::default() }).await;
    let status = async || {
        let listed = server.get("/workers").await.expect(200);
        let own = listed["workers"].as_array().and_then(|all| all.iter().find(|w| w["builtin"] == true)).cloned();
        own.expect("the built-in worker")
    };
    let asleep = server.submit(json!({"type": "sleep", "payload": {"ms": 600_000}})).await;
    server.until_status(&asleep, "running").await;
    let own = status().await;
    assert_eq!((&own["running"], &own["slots"], &own["status"]), (&json!(1), &json!(1), &json!("active")), "{own}");

    let silent = ScriptedServer::start(|_, stream| ScriptedServer::until_hung_up(stream));
    let payload = json!({"url": silent.url("/"), "timeout_ms": 600_000});
    let calling = server.submit(json!({"type": "http_request", "payload": payload})).await;
    until(Duration::from_secs(30), "the call is made", async || !silent.requests().is_empty()).await;
    let own = status().await;
    assert_eq!((&own["running"], &own["status"]), (&json!(2), &json!("busy")), "{own}");
    server.post(&format!("/jobs/{calling}/cancel"), json!({})).await.expect(200);
    server.until_status(&calling, "canceled").await;
    until(Duration::from_secs(30), "the slot is free", async || {
        let own = status().await;
        if own["status"] == "active" { Ok(()) } else { Err(own) }
    })
    .await;
}

/// Silent for longer than a lease, a worker is offline; it is active again with its next word.
#[tokio::test]
async fn a_silent_worker_is_offline_until_it_speaks_again() {
    let server = short().await;
    let token = server.worker("w1", &["t"]).await;
    let status = async |wanted: &str| {
        until(Duration::from_secs(30), wanted, async || {
            let listed = server.get("/workers").await.expect(200);
            let mut workers = listed["workers"].as_array().into_iter().flatten();
            let own = workers.find(|worker| worker["worker_id"] == "w1").map(|worker| worker["status"].clone());
            if own == Some(json!(wanted)) { Ok(()) } else { Err(listed) }
        })
        .await;
    };
    status("active").await;
    status("offline").await;
    server.send("POST", "/workers/w1/heartbeat", &token, Some(json!({"runs": []}))).await.expect(200);
    status("active").await;
}
