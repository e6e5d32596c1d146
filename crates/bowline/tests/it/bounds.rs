//! No tenant can take the server down: what is too much is refused, and the others do not notice.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_testkit::{fresh_database, until};
use serde_json::{Value, json};

use crate::support::{Setup, TestServer};

/// Each definition names the next one twice: 2^`levels` errors, in a schema of a few hundred bytes.
fn bomb(levels: usize) -> Value {
    let mut defs: serde_json::Map<String, Value> = (0..levels)
        .map(|n| {
            let next = json!({"$ref": format!("#/$defs/a{}", n + 1)});
            (format!("a{n}"), json!({"anyOf": [next.clone(), next]}))
        })
        .collect();
    defs.insert(format!("a{levels}"), json!(false));
    json!({"type": "object", "additionalProperties": true, "$ref": "#/$defs/a0", "$defs": defs})
}

fn files_under(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.filter_map(Result::ok) {
        if entry.path().is_dir() {
            found.extend(files_under(&entry.path()));
        } else {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn a_schema_that_unfolds_to_too_much_is_refused_wherever_it_comes_from() {
    let server = TestServer::start().await;
    server.simulated_hosts(1).await;
    let spec = json!({"spec": {"argv": ["true"], "params": bomb(26)}});
    let refused = server.send("PUT", "/resources/command/bomb", &server.admin(), Some(spec)).await;
    assert_eq!((refused.status, refused.code()), (422, "VALIDATION_ERROR"));
    assert!(refused.body.to_string().contains("unfolds to"), "{}", refused.body);
    let inline = json!({"command": {"argv": ["true"], "params": bomb(26)}, "params": {"a": 1}, "selector": "all"});
    let refused = server.post("/jobs", inline).await;
    assert_eq!(refused.status, 422, "{}", refused.body);
    server.get("/healthz").await.expect(200);
}

#[tokio::test]
async fn a_schema_that_was_stored_before_there_was_a_bound_is_found_and_harms_nobody() {
    let mut server = TestServer::start().await;
    server.simulated_hosts(1).await;
    let harmless = json!({"spec": {"argv": ["true"], "params": {"type": "object"}}});
    server.send("PUT", "/resources/command/old", &server.admin(), Some(harmless)).await.expect(201);
    let start = json!({"command": "old", "params": {"a": 1}, "selector": "all"});
    let schedule = json!({"spec": {"every_ms": 1000, "start": start}});
    server.send("PUT", "/resources/schedule/again", &server.admin(), Some(schedule)).await.expect(201);
    server.stop().await;
    let ledger =
        rusqlite::Connection::open(server.data_dir().join("bowline.db")).expect("the ledger of a stopped server");
    let spec = json!({"argv": ["true"], "params": bomb(26)}).to_string();
    let changed = ledger.execute(
        "update resource_version set spec = ?1 where resource = (select id from resource where name = 'old')",
        [&spec],
    );
    assert_eq!(changed.expect("written"), 1, "the evidence of the fault");
    drop(ledger);
    let found = server.command("doctor").env("BOWLINE_URL", server.url("")).output().expect("doctor runs");
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(!found.status.success() && text.contains("command old version 1") && text.contains("unfolds to"), "{text}");

    server.start_again().await;
    let refused = server.post("/jobs", json!({"command": "old", "params": {"a": 1}, "selector": "all"})).await;
    assert_eq!(refused.status, 422, "{}", refused.body);
    until(Duration::from_secs(30), "the schedule says why it starts nothing", async || {
        let shown = server.get("/schedules/again").await.expect(200).to_string();
        if shown.contains("unfolds to") { Ok(()) } else { Err(shown) }
    })
    .await;
    server.get("/healthz").await.expect(200);
}

#[tokio::test]
async fn an_agent_brings_no_more_than_its_command_allows_and_what_is_refused_is_gone() {
    let server = TestServer::start().await;
    server.simulated_hosts(1).await;
    let agent = server.agent("agent-1", json!({"bowline/reach": "simulate"})).await;
    let spec = json!({"argv": ["x"], "output_max_bytes": 1024});
    server.post("/jobs", json!({"command": spec, "selector": "all"})).await.expect(202);
    let run = agent.tasks(1).await.remove(0)["task_id"].clone();
    let objects = server.data_dir().join("objects/runs");

    let long = agent.bring(&run, "stdout", 0, &[b'x'; 1025]).await;
    assert_eq!((long.status, long.code()), (413, "OUTPUT_TOO_LONG"));
    assert_eq!(long.body["error"]["details"]["output_max_bytes"], 1024);
    assert_eq!(files_under(&objects), [""; 0]);

    agent.bring(&run, "stdout", 0, &[b'x'; 1000]).await.expect(200);
    assert_eq!(agent.bring(&run, "stdout", 1000, &[b'y'; 25]).await.code(), "OUTPUT_TOO_LONG");
    assert_eq!(agent.bring(&run, "stderr", 0, &[b'y'; 1024]).await.expect(200)["stored"], 1024, "each stream");
    // Behind a gap nothing is compared before it is written, so the ledger decides.
    agent.bring(&run, "stdout", 1010, b"first").await.expect(200);
    for other in [&b"other"[..], b"third", b"forth"] {
        assert_eq!(agent.bring(&run, "stdout", 1010, other).await.code(), "OUTPUT_CONFLICT");
    }
    let left = files_under(&objects);
    assert_eq!(left.len(), 3, "two ranges of stdout, one of stderr: {left:?}");
}

#[tokio::test]
async fn a_refused_upload_takes_no_room() {
    let config = "[quotas]\nstored_bytes = 100000\n".to_owned();
    let server = TestServer::with(Setup { config, ..Setup::default() }).await;
    server.simulated_hosts(1).await;
    let agent = server.agent("agent-1", json!({"bowline/reach": "simulate"})).await;
    server.post("/jobs", json!({"command": {"argv": ["x"]}, "selector": "all"})).await.expect(202);
    let run = agent.tasks(1).await.remove(0)["task_id"].clone();
    agent.bring(&run, "stdout", 50_000, b"first").await.expect(200);
    // Behind a gap nothing is compared before it is written, so the ledger decides.
    for byte in b'a'..b'g' {
        let other = agent.bring(&run, "stdout", 50_000, &[byte; 40_000]).await;
        assert_eq!(other.code(), "OUTPUT_CONFLICT", "{}", other.body);
    }
    agent.bring(&run, "stdout", 0, &[b'x'; 40_000]).await.expect(200);
    let full = agent.bring(&run, "stderr", 0, &[b'x'; 70_000]).await;
    assert_eq!((full.status, full.code()), (429, "QUOTA_EXCEEDED"));
}

#[tokio::test]
async fn variables_beyond_their_bound_are_refused_with_the_name_of_their_host_or_group() {
    let server = TestServer::start().await;
    let large = || json!({"v": "x".repeat(256 << 10)});
    let host = server.send("PUT", "/hosts/web1", &server.admin(), Some(json!({"vars": large()}))).await;
    assert_eq!((host.status, host.code()), (422, "VARIABLES_TOO_LARGE"), "{}", host.body);
    assert_eq!(host.body["error"]["details"]["host"], "web1");
    let group = json!({"groups": [{"name": "prod", "vars": large()}]});
    let put = server.send("PUT", "/inventories/main", &server.admin(), Some(group.clone())).await;
    assert_eq!(
        (put.status, put.code(), &put.body["error"]["details"]["group"]),
        (422, "VARIABLES_TOO_LARGE", &json!("prod"))
    );
    let imported = server.post("/inventories/main/import?format=json", group.clone()).await;
    assert_eq!((imported.status, imported.code()), (422, "VARIABLES_TOO_LARGE"), "{}", imported.body);
    let document = json!({"documents": [{"kind": "inventory", "name": "main", "spec": group}]});
    let applied = server.post("/apply", document).await;
    assert_eq!((applied.status, applied.code()), (422, "VARIABLES_TOO_LARGE"), "{}", applied.body);
    let many: Vec<Value> =
        (0..17).map(|n| json!({"name": format!("g{n}"), "vars": {"v": "x".repeat(250_000)}})).collect();
    for half in many.chunks(9) {
        let put = server.send("PUT", "/inventories/main", &server.admin(), Some(json!({"groups": half}))).await;
        let last = half.len() < 9;
        assert_eq!(put.status, if last { 422 } else { 200 }, "{}", put.body);
    }
    server.send("PUT", "/hosts/web1", &server.admin(), Some(json!({"vars": {"v": "x"}}))).await.expect(201);
}

#[tokio::test]
async fn versions_of_resources_count_and_a_run_reports_so_much() {
    let config = "[quotas]\nstored_bytes = 400000\n[limits]\nbody_bytes = 20000000\n".to_owned();
    let server = TestServer::with(Setup { config, ..Setup::default() }).await;
    let put = async |version: u32| {
        let spec = json!({"spec": {"script": format!("# {version} {}", "x".repeat(60_000))}});
        server.send("PUT", "/resources/command/c", &server.admin(), Some(spec)).await
    };
    let mut stored = 0;
    let full = loop {
        let answer = put(stored).await;
        if answer.status >= 300 {
            break answer;
        }
        stored += 1;
        assert!(stored < 20, "versions are not counted");
    };
    assert_eq!((full.status, full.code(), stored), (429, "QUOTA_EXCEEDED", 6));
    assert_eq!(full.body["error"]["details"]["quota"], "stored_bytes");

    let token = server.worker("w1", &["t"]).await;
    server.submit(json!({"type": "t"})).await;
    let tasks = server.send("GET", "/workers/w1/tasks?wait=5000", &token, None).await.expect(200);
    let run = tasks[0]["task_id"].as_str().expect("a run").to_owned();
    let path = format!("/runs/{run}/events");
    let event = |seq: u64, bytes: usize| json!({"fence": 1, "events": [{"seq": seq, "data": "x".repeat(bytes - 2)}]});
    server.send("POST", &path, &token, Some(event(1, 15 << 20))).await.expect(200);
    let full = server.send("POST", &path, &token, Some(event(2, 2 << 20))).await;
    assert_eq!((full.status, full.code()), (413, "EVENTS_TOO_LARGE"), "{}", full.body);
    assert_eq!(full.body["error"]["details"]["bytes_max"], 16 << 20);
    let end = json!({"task_id": run, "fence": 1, "status": "success"});
    server.send("POST", "/tasks/result", &token, Some(end)).await.expect(200);
}

/// Another tenant.
async fn tenant(server: &TestServer, name: &str) -> Value {
    server.post("/tenants", json!({"name": name})).await.expect(201)["id"].clone()
}

async fn token_of(server: &TestServer, tenant: &Value, name: &str) -> String {
    let made = server.post("/tokens", json!({"kind": "api", "name": name, "tenant_id": tenant})).await.expect(201);
    made["token"].as_str().expect("a token").to_owned()
}

/// A token of another tenant.
async fn guest(server: &TestServer, name: &str) -> String {
    let tenant = tenant(server, name).await;
    token_of(server, &tenant, name).await
}

async fn until_done(server: &TestServer, token: &str, job: &Value) {
    let path = format!("/jobs/{}", job["job_id"].as_str().expect("an id"));
    until(Duration::from_secs(30), "the job of the other tenant is done", async || {
        let shown = server.send("GET", &path, token, None).await.body;
        if shown["job"]["status"] == "success" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
}

async fn running(server: &TestServer) -> u64 {
    let lanes = server.get("/lanes").await.expect(200);
    lanes["lanes"].as_array().into_iter().flatten().map(|lane| lane["running"].as_u64().unwrap_or(0)).sum()
}

#[tokio::test]
async fn a_thousand_sleeping_jobs_of_one_tenant_do_not_hold_up_another() {
    let server = TestServer::with(Setup { config: "[builtin]\nslots = 64\n".to_owned(), ..Setup::default() }).await;
    let sleeping: Vec<Value> = (0..1_000).map(|_| json!({"type": "sleep", "payload": {"ms": 3_600_000}})).collect();
    server.post("/jobs/batch", json!({"jobs": sleeping})).await.expect(202);
    until(Duration::from_secs(60), "all of them sleep", async || {
        let running = running(&server).await;
        if running == 1_000 { Ok(()) } else { Err(running.to_string()) }
    })
    .await;
    let other = guest(&server, "acme").await;
    let job = server.send("POST", "/jobs", &other, Some(json!({"type": "echo", "payload": 1}))).await.expect(202);
    until_done(&server, &other, &job).await;
    assert_eq!(running(&server).await, 1_000, "the evidence: they slept all the while");
}

#[tokio::test]
async fn calls_that_hang_take_a_part_of_the_slots_only() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let config = "[builtin]\nslots = 16\n[egress.tenants.default]\nallow_networks = [\"127.0.0.1/32\"]\n";
    let server = TestServer::with(Setup { config: config.to_owned(), ..Setup::default() }).await;
    let call = json!({"type": "http_request", "payload": {"url": format!("http://{address}/"), "timeout_ms": 600_000}});
    server.post("/jobs/batch", json!({"jobs": vec![call; 100]})).await.expect(202);
    until(Duration::from_secs(60), "the calls hang", async || {
        let running = running(&server).await;
        if running == 14 { Ok(()) } else { Err(running.to_string()) }
    })
    .await;
    let other = guest(&server, "acme").await;
    for _ in 0..5 {
        let job = server.send("POST", "/jobs", &other, Some(json!({"type": "echo", "payload": 1}))).await.expect(202);
        until_done(&server, &other, &job).await;
    }
    assert_eq!(running(&server).await, 14, "the evidence: they hang all the while, and took no more");
}

#[tokio::test]
async fn a_tenant_has_a_part_of_the_streams() {
    let server = TestServer::with(Setup { config: "[limits]\nstreams = 8\n".to_owned(), ..Setup::default() }).await;
    let tenant = tenant(&server, "acme").await;
    let greedy = token_of(&server, &tenant, "ci").await;
    let open = async |token: &str| {
        let stream = server.http().get(server.url("/events/stream")).bearer_auth(token).send().await;
        stream.expect("the server answers")
    };
    let mut streams = Vec::new();
    for _ in 0..2 {
        streams.push(open(&greedy).await);
    }
    assert!(streams.iter().all(|stream| stream.status() == 200));
    let refused = crate::support::Answer::read(open(&greedy).await).await.expect("an answer");
    assert_eq!((refused.status, refused.code()), (429, "RATE_LIMITED"));
    assert_eq!(refused.body["error"]["details"]["of"], "token");
    let second = token_of(&server, &tenant, "more").await;
    for _ in 0..2 {
        streams.push(open(&second).await);
    }
    let third = token_of(&server, &tenant, "most").await;
    let refused = open(&third).await;
    let refused = crate::support::Answer::read(refused).await.expect("an answer");
    assert_eq!((refused.status, &refused.body["error"]["details"]["of"]), (429, &json!("tenant")));
    assert_eq!(open(&server.admin()).await.status(), 200, "another tenant has its part");
    drop(streams);
    until(Duration::from_secs(10), "places are free again", async || {
        let status = open(&greedy).await.status();
        if status == 200 { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn a_tenant_has_a_part_of_the_long_polls() {
    let config = "[limits]\npolls = 8\npolls_per_tenant = 3\n".to_owned();
    let server = TestServer::with(Setup { config, ..Setup::default() }).await;
    let tenant = tenant(&server, "acme").await;
    let worker = async |name: &str| {
        let asked = json!({"kind": "worker", "name": name, "tenant_id": tenant});
        let token = server.post("/tokens", asked).await.expect(201)["token"].as_str().expect("a token").to_owned();
        let body = json!({"worker_id": name, "task_types": ["t"], "slots": 1});
        server.send("POST", "/workers/register", &token, Some(body)).await.expect(200);
        token
    };
    let polling = |name: &str, token: &str, wait: u32| {
        let url = server.url(&format!("/workers/{name}/tasks?wait={wait}"));
        server.http().get(url).bearer_auth(token).send()
    };
    let mut polls = tokio::task::JoinSet::new();
    for n in 1..=3 {
        let name = format!("w{n}");
        let token = worker(&name).await;
        polls.spawn(polling(&name, &token, 20_000));
    }
    let fourth = worker("w4").await;
    until(Duration::from_secs(20), "three wait, and the fourth is refused", async || {
        let refused = polling("w4", &fourth, 1).await.expect("the server answers");
        let refused = crate::support::Answer::read(refused).await.expect("an answer");
        if refused.status == 429 {
            assert_eq!((refused.code(), &refused.body["error"]["details"]["of"]), ("RATE_LIMITED", &json!("tenant")));
            return Ok(());
        }
        Err(refused.status.to_string())
    })
    .await;
    let own = server.worker("w1", &["t"]).await;
    assert_eq!(polling("w1", &own, 100).await.expect("an answer").status(), 200, "another tenant has its part");
    polls.shutdown().await;
    until(Duration::from_secs(20), "places are free again", async || {
        let status = polling("w4", &fourth, 1).await.expect("the server answers").status();
        if status == 200 { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
}

/// Asks over a connection of its own, so that none is idle in between.
fn health(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: bowline\r\nconnection: close\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer.chars().take(12).collect()
}

#[tokio::test]
async fn idle_connections_make_room_and_the_descriptor_limit_is_raised() {
    let config = "[limits]\nconnections = 20\nconnections_per_address = 20\n".to_owned();
    let server = TestServer::with(Setup { config, ..Setup::default() }).await;
    let limits =
        std::fs::read_to_string(format!("/proc/{}/limits", server.child().pid())).expect("limits of the process");
    let files: Vec<&str> = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .map(|line| line.split_whitespace().skip(3).take(2).collect())
        .expect("a line");
    assert!(files[0] == files[1] || files[0] == "1048576", "soft {}, hard {}", files[0], files[1]);
    let stream = server.http().get(server.url("/events/stream")).bearer_auth(server.admin()).send().await;
    let mut stream = stream.expect("the server answers");
    let mut idle: Vec<TcpStream> = Vec::new();
    for n in 0..100 {
        idle.push(TcpStream::connect(("127.0.0.1", server.port)).expect("connected"));
        if n % 10 == 0 {
            assert_eq!(health(server.port), "HTTP/1.1 200");
        }
    }
    // The evidence: the oldest ones were closed.
    let first = &mut idle[0];
    first.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    assert_eq!(first.read(&mut [0; 1]).expect("closed, not silent"), 0);
    server.submit(json!({"type": "echo"})).await;
    let chunk = stream.chunk().await.expect("the stream was never idle");
    assert!(chunk.is_some());
}

#[tokio::test]
async fn a_quota_is_named_when_it_is_used_up_and_what_is_stored_is_answered() {
    let config = "[quotas]\nqueued_jobs = 5\nstored_bytes = 100000\n".to_owned();
    let server = TestServer::with(Setup { config, ..Setup::default() }).await;
    let later = |key: &str| json!({"type": "noop", "run_at": "2030-01-01T00:00:00Z", "idempotency_key": key});
    let first = server.post("/jobs", later("k1")).await;
    assert!(first.status < 300, "{}", first.body);
    for n in 2..=5 {
        assert!(server.post("/jobs", later(&format!("k{n}"))).await.status < 300);
    }
    let full = server.post("/jobs", later("k6")).await;
    assert_eq!((full.status, full.code()), (429, "QUOTA_EXCEEDED"));
    assert_eq!(full.body["error"]["details"], json!({"quota": "queued_jobs", "used": 5, "max": 5}));
    let again = server.post("/jobs", later("k1")).await;
    assert_eq!(again.body["job_id"], first.body["job_id"], "an equal ask is answered");
    let shown = server.get("/quotas").await.expect(200);
    assert_eq!(shown["quotas"][0], json!({"quota": "queued_jobs", "used": 5, "max": 5}));
    // Another tenant has its own.
    let other = guest(&server, "acme").await;
    server.send("POST", "/jobs", &other, Some(json!({"type": "noop"}))).await.expect(202);
    // What was canceled makes room, as soon as it is counted.
    let path = format!("/jobs/{}/cancel", first.body["job_id"].as_str().expect("an id"));
    server.post(&path, json!({})).await.expect(200);
    until(Duration::from_secs(60), "there is room again", async || {
        let answer = server.post("/jobs", later("k7")).await;
        if answer.status < 300 { Ok(()) } else { Err(answer.body.to_string()) }
    })
    .await;
    let large = json!({"type": "noop", "payload": "x".repeat(100_001)});
    let full = server.send("POST", "/jobs", &other, Some(large)).await;
    assert_eq!((full.status, &full.body["error"]["details"]["quota"]), (429, &json!("stored_bytes")));
}

#[tokio::test]
async fn an_evaluation_that_was_open_at_two_ends_is_set_aside_until_somebody_resumes_it() {
    let mut server = TestServer::start().await;
    let tick = json!({"spec": {"every_ms": 1000, "start": {"type": "echo"}}});
    server.send("PUT", "/resources/schedule/tick", &server.admin(), Some(tick)).await.expect(201);
    let tenant = server.get("/whoami").await.expect(200)["tenant_id"].as_str().expect("a tenant").to_owned();
    server.stop().await;
    // As two processes leave them that end in the middle of the same evaluation.
    let mark = format!("{tenant} schedule/tick@1\n");
    std::fs::write(server.data_dir().join("evaluations.open"), &mark).expect("written");
    std::fs::write(server.data_dir().join("evaluations.suspects"), &mark).expect("written");
    server.start_again().await;
    let listed = server.get("/evaluations").await.expect(200);
    assert_eq!(listed["set_aside"][0]["subject"], "schedule/tick@1", "{listed}");
    let told = server.get("/events?type=evaluation_set_aside").await.expect(200);
    assert_eq!(told["events"].as_array().map(Vec::len), Some(1), "{told}");
    let metrics = server.http().get(server.url("/metrics")).bearer_auth(server.admin()).send().await.expect("metrics");
    assert!(metrics.text().await.expect("a text").contains("orchestrator_evaluations_set_aside 1"));
    until(Duration::from_secs(30), "the schedule says why it starts nothing", async || {
        let shown = server.get("/schedules/tick").await.expect(200).to_string();
        if shown.contains("is set aside") { Ok(()) } else { Err(shown) }
    })
    .await;
    let started = server.jobs().await.len();
    let resume = |subject: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bowline"));
        command.args(["evaluations", "resume", subject]);
        command.env("BOWLINE_URL", server.url("")).env("BOWLINE_TOKEN", server.admin()).output().expect("it runs")
    };
    assert!(!resume("schedule/other@1").status.success());
    let resumed = resume("schedule/tick@1");
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    assert_eq!(server.get("/evaluations").await.expect(200)["set_aside"], json!([]));
    until(Duration::from_secs(120), "the schedule goes on", async || {
        let jobs = server.jobs().await.len();
        if jobs > started { Ok(()) } else { Err(jobs.to_string()) }
    })
    .await;
}

/// The same with processes that really end in the middle of an evaluation. One end is not enough.
#[tokio::test]
async fn a_server_that_ends_twice_in_the_same_evaluation_sets_it_aside() {
    let mut server = TestServer::start().await;
    server.simulated_hosts(1).await;
    let schema = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "string", "pattern": "^(a|b)*c$"}},
    }});
    let spec = json!({"spec": {"argv": ["true"], "params": schema}});
    server.send("PUT", "/resources/command/c", &server.admin(), Some(spec)).await.expect(201);
    let list = vec!["ababababc"; 20_000];
    let body = json!({"command": "c", "params": {"list": list}, "selector": "all", "external_id": "the same"});
    for _ in 0..2 {
        assert_eq!(server.get("/evaluations").await.expect(200)["set_aside"], json!([]));
        let (http, url, token, body) = (server.http().clone(), server.url("/jobs"), server.admin(), body.clone());
        let mut load = tokio::task::JoinSet::new();
        load.spawn(async move { while http.post(&url).bearer_auth(&token).json(&body).send().await.is_ok() {} });
        let marks = server.data_dir().join("evaluations.open");
        let is_open = || std::fs::read(&marks).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains("schema/"));
        until(Duration::from_secs(60), "an evaluation is open at the end", async || {
            if !is_open() {
                return false;
            }
            // It stands still, so that the evaluation cannot end before the process does.
            server.child().stop();
            let caught = is_open();
            if !caught {
                server.child().cont();
            }
            caught
        })
        .await;
        server.kill_9();
        while load.join_next().await.is_some() {}
        server.start_again().await;
    }
    let aside = server.get("/evaluations").await.expect(200)["set_aside"].clone();
    assert!(aside[0]["subject"].as_str().is_some_and(|subject| subject.starts_with("schema/")), "{aside}");
    let refused = server.post("/jobs", json!({"command": "c", "params": {"list": []}, "selector": "all"})).await;
    assert!(refused.status == 422 && refused.body.to_string().contains("is set aside"), "{refused:?}");
}

#[tokio::test]
async fn a_server_that_is_killed_under_load_sets_nothing_aside() {
    let mut server = TestServer::start().await;
    server.simulated_hosts(2).await;
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}});
    let spec = json!({"spec": {"argv": ["true"], "params": schema}});
    server.send("PUT", "/resources/command/c", &server.admin(), Some(spec)).await.expect(201);
    let tick = json!({"spec": {"every_ms": 1000, "start": {"command": "c", "params": {"n": 1}, "selector": "all"}}});
    server.send("PUT", "/resources/schedule/tick", &server.admin(), Some(tick)).await.expect(201);
    let flow = json!({"spec": {"nodes": [{"id": "start", "type": "start"}, {"id": "s", "type": "log",
        "config": {"message": "{{ 1 + 1 }}"}}, {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "s"}, {"source": "s", "target": "end"}]}});
    server.send("PUT", "/resources/workflow/w", &server.admin(), Some(flow)).await.expect(201);
    let accepted = Arc::new(AtomicUsize::new(0));
    for _ in 0..20 {
        let mut load = tokio::task::JoinSet::new();
        for n in 0..4 {
            let (http, url, token) = (server.http().clone(), server.url("/jobs"), server.admin());
            let accepted = Arc::clone(&accepted);
            load.spawn(async move {
                let command = json!({"command": "c", "params": {"n": n}, "selector": "all"});
                let body = if n % 2 == 0 { json!({"workflow": "w"}) } else { command };
                while let Ok(answer) = http.post(&url).bearer_auth(&token).json(&body).send().await {
                    accepted.fetch_add(usize::from(answer.status() == 202), Ordering::Relaxed);
                }
            });
        }
        let before = accepted.load(Ordering::Relaxed);
        until(Duration::from_secs(30), "there is load", async || {
            let now = accepted.load(Ordering::Relaxed);
            if now > before + 8 { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
        server.kill_9();
        while load.join_next().await.is_some() {}
        server.start_again().await;
    }
    assert_eq!(server.get("/evaluations").await.expect(200)["set_aside"], json!([]));
}

/// A workflow that waits for an event, stored under a name.
async fn waiting_workflow(server: &TestServer, name: &str) {
    let spec = json!({"nodes": [{"id": "start", "type": "start"},
        {"id": "w", "type": "wait_event", "config": {"event": "paid"}}, {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "w"}, {"source": "w", "target": "end"}]});
    let path = format!("/resources/workflow/{name}");
    server.send("PUT", &path, &server.admin(), Some(json!({"spec": spec}))).await.expect(201);
}

#[tokio::test]
async fn an_execution_remembers_so_many_signals_and_its_context_can_be_read() {
    let server = TestServer::start().await;
    waiting_workflow(&server, "w").await;
    let job = server.post("/jobs", json!({"workflow": "w"})).await.expect(202)["job_id"].clone();
    let job = job.as_str().expect("an id");
    let path = format!("/jobs/{job}/signal");
    // It waits for another event, so it remembers these.
    let other = json!({"event": "other", "payload": "x".repeat(900_000)});
    let mut taken = 0;
    let full = loop {
        let answer = server.post(&path, other.clone()).await;
        if answer.status != 200 {
            break answer;
        }
        taken += 1;
        assert!(taken < 20, "it takes more than it may remember");
    };
    assert_eq!((full.status, full.code()), (429, "INBOX_FULL"));
    assert_eq!(full.body["error"]["details"]["bytes_max"], 8 << 20);
    assert_eq!(taken, 9);
    let shown = server.get("/quotas").await.expect(200);
    let used = shown["quotas"][1]["used"].as_u64().expect("a number");
    assert!(used > 9 * 900_000, "what executions were sent is counted: {used}");
    let context = format!("/jobs/{job}/context");
    let reads = (0..20).map(|_| server.get(&context));
    for seen in futures_util::future::join_all(reads).await {
        assert_eq!(seen.expect(200)["steps"], 1);
    }
    // Another execution has its own, and what it waits for comes through.
    let second = server.post("/jobs", json!({"workflow": "w"})).await.expect(202)["job_id"].clone();
    let path = format!("/jobs/{}/signal", second.as_str().expect("an id"));
    server.post(&path, json!({"event": "paid"})).await.expect(200);
    let admin = server.admin();
    until_done(&server, &admin, &json!({"job_id": second})).await;
}

#[tokio::test]
async fn a_tenant_that_floods_the_ledger_with_writes_is_refused_and_others_are_not() {
    let config = "[limits]\nwaiting_writes_per_tenant = 1\n".to_owned();
    let server = TestServer::with(Setup { config, ..Setup::default() }).await;
    let writer = async |name: &str| {
        let tenant = tenant(&server, name).await;
        let token =
            json!({"kind": "api", "name": name, "tenant_id": tenant, "scopes": ["resources.write", "fleet.write"]});
        let made = server.post("/tokens", token).await.expect(201);
        made["token"].as_str().expect("a token").to_owned()
    };
    let (greedy, other) = (writer("greedy").await, writer("acme").await);
    let spec = json!({"spec": {"argv": ["true"]}});
    let put = async |token: &str, name: String| {
        let path = format!("/resources/command/{name}");
        server.send("PUT", &path, token, Some(spec.clone())).await
    };
    let mut refused = None;
    for round in 0..100 {
        let flood = (0..50).map(|n| put(&greedy, format!("c{round}-{n}")));
        let (flood, through) = tokio::join!(futures_util::future::join_all(flood), put(&other, format!("c{round}")));
        through.expect(201);
        assert!(flood.iter().any(|answer| answer.status == 201), "a part of them gets through");
        refused = flood.into_iter().find(|answer| answer.status != 201);
        if refused.is_some() {
            break;
        }
    }
    let refused = refused.expect("one write waits at a time");
    assert_eq!((refused.status, refused.code()), (429, "RATE_LIMITED"));
    assert_eq!(refused.body["error"]["details"]["of"], "tenant");
}

/// Room that a request took, and did not use after all, is free for the next one.
async fn what_adds_nothing_takes_no_room(setup: Setup) {
    let config = "[quotas]\nqueued_jobs = 3\nstored_bytes = 400000\n".to_owned();
    let server = TestServer::with(Setup { config, ..setup }).await;
    let text = |letter: &str| json!({"v": letter.repeat(60_000)});
    let submit = async |key: &str, payload: Value| {
        let request = server.http().post(server.url("/jobs")).bearer_auth(server.admin());
        let body = json!({"type": "unserved.type", "payload": payload});
        let answer = request.header("idempotency-key", key).json(&body).send().await.expect("answered");
        crate::support::Answer::read(answer).await.expect("JSON")
    };
    submit("one", text("a")).await.expect(202);
    for _ in 0..10 {
        assert_eq!(submit("one", text("a")).await.status, 202, "it is there already");
        assert_eq!(submit("one", text("b")).await.code(), "IDEMPOTENCY_CONFLICT");
    }
    submit("two", json!(2)).await.expect(202);

    let put = async |path: &str, body: Value| server.send("PUT", path, &server.admin(), Some(body)).await;
    put("/hosts/web1", json!({"vars": text("c")})).await.expect(201);
    let groups = json!({"groups": [{"name": "a", "groups": ["b"]}, {"name": "b"}]});
    put("/inventories/main", groups).await.expect(200);
    let document =
        json!({"kind": "inventory", "name": "main", "spec": {"hosts": [{"name": "web1", "vars": text("c")}]}});
    for _ in 0..10 {
        let same = put("/hosts/web1", json!({"vars": text("c")})).await;
        assert_eq!((same.status, &same.body["outcome"]), (200, &json!("unchanged")), "{}", same.body);
        put("/inventories/main", json!({"hosts": [{"name": "web1", "vars": text("c")}]})).await.expect(200);
        server.post("/apply", json!({"documents": [document]})).await.expect(200);
        let circle = json!({"groups": [{"name": "b", "groups": ["a"], "vars": text("d")}]});
        assert_eq!(put("/inventories/main", circle).await.code(), "GROUPS_IN_A_CIRCLE");
    }
    submit("three", text("e")).await.expect(202);
    let full = submit("four", json!(4)).await;
    assert_eq!((full.status, full.code()), (429, "QUOTA_EXCEEDED"), "three wait by now");
}

#[tokio::test]
async fn what_adds_nothing_takes_no_room_on_sqlite() {
    what_adds_nothing_takes_no_room(Setup::default()).await;
}

#[tokio::test]
async fn what_adds_nothing_takes_no_room_on_postgres() {
    let database = fresh_database();
    what_adds_nothing_takes_no_room(Setup { database_url: Some(database.url().to_owned()), ..Setup::default() }).await;
}

#[tokio::test]
async fn groups_beyond_their_bound_are_refused_with_what_is_too_many() {
    let server = TestServer::start().await;
    let put = async |path: &str, body: Value| server.send("PUT", path, &server.admin(), Some(body)).await;
    let names = |from: usize, to: usize| (from..to).map(|n| format!("g{n}")).collect::<Vec<_>>();
    let described = |names: Vec<String>| names.into_iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
    put("/inventories/main", json!({"groups": described(names(0, 10_000))})).await.expect(200);
    let one_more = put("/inventories/main", json!({"groups": described(names(10_000, 10_001))})).await;
    assert_eq!((one_more.status, one_more.code()), (422, "TOO_MANY_GROUPS"), "{}", one_more.body);
    assert_eq!(one_more.body["error"]["details"]["max"], 10_000);
    let wide = put("/inventories/wide", json!({"groups": [{"name": "top", "groups": names(0, 100_001)}]})).await;
    assert_eq!((wide.status, wide.code()), (422, "TOO_MANY_GROUPS"), "{}", wide.body);
    assert_eq!(wide.body["error"]["details"]["group"], "top");
    let host = put("/hosts/web1", json!({"groups": names(0, 1_001)})).await;
    assert_eq!((host.status, host.code()), (422, "TOO_MANY_GROUPS"), "{}", host.body);
    assert_eq!(host.body["error"]["details"]["host"], "web1");

    // A chain of groups, with many members at its end, of which each host is in one: as deep as it may be.
    let chain = (0..500).map(|n| {
        let members = if n == 499 { names(50_000, 140_000) } else { names(n + 1, n + 2) };
        json!({"name": format!("g{n}"), "groups": members})
    });
    let hosts = (0..1_000).map(|n| json!({"name": format!("h{n}"), "groups": [format!("g{}", 50_000 + n)]}));
    let deep = json!({"groups": chain.collect::<Vec<_>>(), "hosts": hosts.collect::<Vec<_>>()});
    put("/inventories/deep", deep).await.expect(200);
    let meant = server.get("/hosts?inventory=deep&selector=@g0&limit=10").await.expect(200);
    assert_eq!(meant["total"], 1_000);
    let shown = server.get("/inventories/deep").await.expect(200);
    let top = shown["groups"].as_array().expect("groups").iter().find(|group| group["name"] == "g0").cloned();
    assert_eq!(top.expect("it is there")["hosts"], 1_000);
}

/// Sends a part of a body that is announced as 32 MiB, and keeps the connection.
fn send_in_part(server: &TestServer, bytes: usize) -> TcpStream {
    let mut connection = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    let head = format!(
        "POST /inventories/main/import HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         content-type: text/plain\r\ncontent-length: {}\r\n\r\n",
        server.admin(),
        32 << 20
    );
    connection.write_all(head.as_bytes()).expect("written");
    // Who is refused in the middle is cut off; that is what the answer is read for.
    let _ = connection.write_all(&vec![b'#'; bytes]);
    connection
}

#[tokio::test]
async fn bodies_of_one_tenant_take_half_of_the_room_and_short_ones_take_none() {
    let server = TestServer::start().await;
    // Of 128 MiB there are 4 left.
    let held: Vec<TcpStream> = (0..4).map(|_| send_in_part(&server, 31 << 20)).collect();
    let mut fifth = send_in_part(&server, 31 << 20);
    fifth.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let mut answer = Vec::new();
    let _ = fifth.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("RATE_LIMITED"), "{answer}");
    assert!(answer.contains("bodies") && answer.contains("retry-after"), "{answer}");
    server.submit(json!({"type": "echo", "payload": "x".repeat(30_000)})).await;
    // With the connections their bodies go.
    drop(held);
    let body = json!({"hosts": [{"name": "web1", "vars": {"v": "x".repeat(200_000)}}]});
    until(Duration::from_secs(30), "there is room again", async || {
        let put = server.send("PUT", "/inventories/main", &server.admin(), Some(body.clone())).await;
        if put.status == 200 { Ok(()) } else { Err(put.body) }
    })
    .await;
}
