//! Who did it: jobs, events, the audit trail and the log name the one who asked, by id and by name.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use crate::support::{Setup, TestServer};

async fn audit(server: &TestServer, query: &str) -> Vec<Value> {
    let page = server.get(&format!("/audit?order=oldest&limit=500{query}")).await.expect(200);
    page["records"].as_array().cloned().expect("records")
}

/// A token with this name and these scopes, and its id as records name it.
async fn ann(server: &TestServer, scopes: &[&str]) -> (String, String) {
    let body = json!({"kind": "api", "name": "ann", "email": "ann@example.org", "scopes": scopes});
    let token = server.token(body).await;
    let who = server.send("GET", "/whoami", &token, None).await.expect(200);
    (token, who["actor"].as_str().expect("an id").to_owned())
}

#[tokio::test]
async fn a_job_and_its_events_name_who_asked_for_it() {
    let server = TestServer::start().await;
    let (token, id) = ann(&server, &["jobs.write", "jobs.read"]).await;
    let asked = server.send("POST", "/jobs", &token, Some(json!({"type": "echo"}))).await.expect(202);
    let (job, request) = (asked["job_id"].as_str().expect("a job"), asked["request_id"].clone());
    server.until_status(job, "success").await;
    let actor = json!({"id": id, "name": "ann", "email": "ann@example.org"});
    let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
    assert_eq!(shown["job"]["actor"], actor);
    let listed = server.get("/jobs?limit=1").await.expect(200);
    assert_eq!(listed["jobs"][0]["actor"], actor);
    let events = server.get(&format!("/jobs/{job}/events")).await.expect(200);
    let first = &events["events"][0];
    assert_eq!((&first["type"], &first["actor"]), (&json!("job_enqueued"), &actor));
    assert_eq!(first["data"]["by"], json!(id));
    // A request without a correlation id belongs to itself.
    assert_eq!((&first["correlation_id"], &shown["job"]["correlation_id"]), (&request, &request), "{first}");
}

#[tokio::test]
async fn approvals_blocks_tokens_and_versions_name_who_made_them() {
    let server = TestServer::start().await;
    server.simulated_hosts(2).await;
    let scopes = ["jobs.write", "jobs.read", "fleet.write", "fleet.read", "resources.write", "resources.read"];
    let (token, id) = ann(&server, &scopes).await;
    let actor = json!({"id": id, "name": "ann", "email": "ann@example.org"});

    let who = server.send("GET", "/whoami", &token, None).await.expect(200);
    assert_eq!((&who["name"], &who["email"]), (&actor["name"], &actor["email"]), "{who}");
    let tenants = server.get("/tenants").await.expect(200);
    let own = tenants["tenants"].as_array().expect("tenants").iter().find(|one| one["id"] == who["tenant_id"]);
    assert_eq!(Some(&who["tenant"]), own.map(|one| &one["name"]), "{who}");

    let workflow = json!({
        "nodes": [{"id": "start", "type": "start"}, {"id": "ask", "type": "approval", "config": {"title": "go on?"}}],
        "edges": [{"source": "start", "target": "ask"}],
    });
    let put = server.send("PUT", "/resources/workflow/asks", &token, Some(json!({"spec": workflow}))).await;
    assert!((200..300).contains(&put.status), "{put:?}");
    for path in ["/resources/workflow/asks", "/resources/workflow", "/resources/workflow/asks/versions"] {
        let shown = server.get(path).await.expect(200);
        let shown = [&shown["resource"], &shown["resources"][0], &shown["versions"][0]];
        assert!(shown.iter().any(|one| one["actor"] == actor), "{path}: {shown:?}");
    }

    let job = server.send("POST", "/jobs", &token, Some(json!({"workflow": "asks"}))).await.expect(202);
    server.until_status(job["job_id"].as_str().expect("a job"), "paused").await;
    let waiting = server.get("/approvals").await.expect(200);
    assert_eq!(waiting["approvals"][0]["requester"], actor, "{waiting}");

    let block = json!({"selector": "all", "reason": "not today"});
    let made = server.send("POST", "/blocks", &token, Some(block)).await.expect(201);
    assert_eq!(made["actor"], actor);
    assert_eq!(server.get("/blocks").await.expect(200)["blocks"][0]["actor"], actor);

    let tokens = server.get("/tokens").await.expect(200);
    let of_ann = tokens["tokens"].as_array().expect("tokens").iter().find(|one| one["name"] == "ann").expect("hers");
    assert_eq!(of_ann["maker"]["id"], format!("token:{}", of_ann["made_by"].as_str().expect("an id")));
    assert_ne!(of_ann["maker"]["name"], of_ann["maker"]["id"], "the administrator's token has a name: {of_ann}");
}

/// Lists say who did what they list, and can be asked for one of them, by name or by id.
#[tokio::test]
async fn lists_are_filtered_by_who_did_it() {
    let server = TestServer::start().await;
    server.simulated_hosts(1).await;
    let scopes = ["jobs.write", "jobs.read", "fleet.write", "fleet.read", "resources.write", "events.read"];
    let (token, id) = ann(&server, &scopes).await;
    let workflow = json!({
        "nodes": [{"id": "start", "type": "start"}, {"id": "ask", "type": "approval", "config": {"title": "go on?"}}],
        "edges": [{"source": "start", "target": "ask"}],
    });
    let spec = json!({"argv": ["true"], "approval": {"quorum": 1}});
    for (path, spec) in [("workflow/asks", workflow), ("command/check", spec)] {
        let path = format!("/resources/{path}");
        let put = server.send("PUT", &path, &server.admin(), Some(json!({ "spec": spec }))).await;
        assert!((200..300).contains(&put.status), "{put:?}");
    }
    // Each does the same.
    for token in [server.admin(), token.clone()] {
        let asked = server.send("POST", "/jobs", &token, Some(json!({"workflow": "asks"}))).await.expect(202);
        server.until_status(asked["job_id"].as_str().expect("a job"), "paused").await;
        let command = json!({"command": "check", "selector": "all"});
        server.send("POST", "/jobs", &token, Some(command)).await.expect(202);
        let block = json!({"selector": "all", "reason": "not today"});
        server.send("POST", "/blocks", &token, Some(block)).await.expect(201);
    }
    for actor in ["ann", &id] {
        let list = async |path: &str, items: &str| {
            let page = server.get(&format!("{path}actor={actor}")).await.expect(200);
            page[items].as_array().cloned().expect("a list")
        };
        let approvals = list("/approvals?", "approvals").await;
        assert_eq!(approvals.len(), 2, "{approvals:?}");
        assert_eq!(
            (&approvals[0]["requester"]["id"], &approvals[1]["approval"]["requester"]["id"]),
            (&json!(id), &json!(id))
        );
        let jobs = list("/jobs?limit=500&", "jobs").await;
        assert_eq!(jobs.len(), 2, "{jobs:?}");
        assert!(jobs.iter().all(|one| one["actor"]["id"] == json!(id)), "{jobs:?}");
        let blocks = list("/blocks?", "blocks").await;
        assert_eq!((blocks.len(), &blocks[0]["actor"]["id"]), (1, &json!(id)));
        let records = list("/audit?", "records").await;
        assert!(!records.is_empty() && records.iter().all(|one| one["actor"] == json!(id)), "{records:?}");
        let events = list("/events?limit=500&", "events").await;
        assert!(!events.is_empty() && events.iter().all(|one| one["actor"]["id"] == json!(id)), "{events:?}");
        assert!(events.iter().any(|one| one["type"] == "host_blocked"), "{events:?}");
    }
    for path in ["/jobs", "/events", "/events?order=newest", "/approvals", "/blocks", "/audit"] {
        let sign = if path.contains('?') { '&' } else { '?' };
        let page = server.get(&format!("{path}{sign}actor=nobody")).await.expect(200);
        let items =
            ["jobs", "events", "approvals", "blocks", "records"].map(|items| page[items].as_array().map(Vec::len));
        assert!(items.contains(&Some(0)), "{page}");
        assert_eq!(server.get(&format!("{path}{sign}actor=")).await.status, 400, "{path}");
    }
}

#[tokio::test]
async fn a_command_on_hosts_is_in_the_audit_trail() {
    let server = TestServer::start().await;
    server.simulated_hosts(2).await;
    let (token, id) = ann(&server, &["jobs.write", "fleet.write"]).await;
    let body = json!({"command": {"argv": ["uname"]}, "selector": "all"});
    let job = server.send("POST", "/jobs", &token, Some(body)).await.expect(202)["job_id"].clone();
    let records = audit(&server, "&action=command.run").await;
    assert_eq!(records.len(), 1, "{records:?}");
    let record = &records[0];
    assert_eq!((&record["actor"], &record["actor_name"]), (&json!(id), &json!("ann")));
    assert_eq!(record["resource"], format!("job/{}", job.as_str().expect("a job")));
    assert_eq!((&record["ip"], &record["result"]), (&json!("127.0.0.1"), &json!("done")));
    let diff: Value = serde_json::from_str(record["diff"].as_str().expect("a diff")).expect("JSON");
    assert_eq!((&diff["inline"], &diff["hosts"]), (&json!(true), &json!(2)), "{diff}");
}

#[tokio::test]
async fn refused_requests_are_in_the_audit_trail_and_counted_together() {
    let server = TestServer::start().await;
    let (token, id) = ann(&server, &["jobs.read"]).await;
    for _ in 0..7 {
        let body = json!({"kind": "api", "name": "more", "scopes": ["jobs.read"]});
        server.send("POST", "/tokens", &token, Some(body)).await.expect(403);
        server.try_send("GET", "/jobs", Some("bw_api_nonsense"), None).await.expect("an answer").expect(401);
    }
    let refused = audit(&server, "&action=access.refused").await;
    assert_eq!(refused.len(), 1, "equal refusals are one record: {refused:?}");
    assert_eq!((&refused[0]["actor"], &refused[0]["actor_name"]), (&json!(id), &json!("ann")));
    assert_eq!(refused[0]["resource"], "route/POST /tokens");
    assert_eq!(refused[0]["diff"], json!(r#"{"code":"FORBIDDEN","times":7}"#));
    assert!(refused[0]["result"].as_str().is_some_and(|r| r.contains("tokens.write")), "{refused:?}");
    // A request without a good credential belongs to no tenant.
    let strangers = audit(&server, "&action=access.refused&chain=system").await;
    assert_eq!(strangers.len(), 1, "{strangers:?}");
    assert_eq!((&strangers[0]["actor"], &strangers[0]["ip"]), (&json!("unknown"), &json!("127.0.0.1")));
    assert_eq!(strangers[0]["diff"], json!(r#"{"code":"AUTH_REQUIRED","times":7}"#));
}

/// A batch is answered with 202, whatever becomes of its parts.
#[tokio::test]
async fn refused_parts_of_a_batch_are_in_the_audit_trail() {
    let server = TestServer::start().await;
    let own = json!({"nodes": [{"id": "start", "type": "start"}], "edges": []});
    let (token, id) = ann(&server, &["jobs.write", "jobs.read"]).await;
    let jobs = json!({"jobs": [{"type": "noop"}, {"workflow": own}, {"workflow": own}]});
    let answer = server.send("POST", "/jobs/batch", &token, Some(jobs)).await.expect(202);
    assert_eq!((&answer["accepted"], &answer["refused"]), (&json!(1), &json!(2)), "{answer}");
    let refused = audit(&server, "&action=access.refused").await;
    assert_eq!(refused.len(), 1, "equal refusals are one record: {refused:?}");
    assert_eq!((&refused[0]["actor"], &refused[0]["resource"]), (&json!(id), &json!("route/POST /jobs/batch")));
    assert_eq!(refused[0]["diff"], json!(r#"{"code":"FORBIDDEN","times":2}"#));
}

#[tokio::test]
async fn the_check_of_a_secret_is_in_the_audit_trail() {
    let server = TestServer::start().await;
    let spec = json!({"spec": {"ref": "file://missing"}});
    let stored = server.send("PUT", "/resources/secret_ref/stripe", &server.admin(), Some(spec)).await;
    assert!(stored.status < 300, "{}", stored.body);
    server.post("/secrets/stripe/check", json!({})).await.expect(200);
    let records = audit(&server, "&action=secret.check").await;
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0]["resource"], "resource/secret_ref/stripe");
    assert_eq!(records[0]["result"], "refused: NO_VALUE");
}

#[tokio::test]
async fn every_request_has_its_line_in_the_log() {
    let server = TestServer::with(Setup { config: "[log]\naccess = \"all\"\n".to_owned(), ..Setup::default() }).await;
    let asked = server.post("/jobs", json!({"type": "echo"})).await.expect(202);
    let missing = server.get("/jobs/01a1e511-6739-7000-8013-000000000001").await;
    assert_eq!(missing.status, 404);
    let line = |id: &Value| {
        let lines = server.child().stderr();
        let wanted = |line: &Value| line["request.id"] == *id && line["message"] == "request";
        lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find(wanted)
    };
    let found = until(Duration::from_secs(10), "both requests are in the log", async || {
        match (line(&asked["request_id"]), line(&missing.body["request_id"])) {
            (Some(one), Some(other)) => Ok((one, other)),
            _ => Err(server.child().log()),
        }
    });
    let (good, bad) = found.await;
    assert_eq!((&good["http.method"], &good["http.route"]), (&json!("POST"), &json!("/jobs")));
    assert_eq!((&good["http.status"], &good["trace.id"]), (&json!(202), &asked["trace_id"]));
    assert!(good["actor"].as_str().is_some_and(|actor| actor.starts_with("token:")), "{good}");
    assert!(good["duration_ms"].is_number() && good["error.code"].is_null(), "{good}");
    assert_eq!((&bad["http.status"], &bad["error.code"]), (&json!(404), &json!("JOB_NOT_FOUND")));
    assert_eq!(bad["http.path"], "/jobs/01a1e511-6739-7000-8013-000000000001");
}

/// A caller that hangs up before the answer is counted and logged, too.
#[tokio::test]
async fn a_request_whose_caller_hangs_up_has_its_line_in_the_log() {
    let server = TestServer::with(Setup { config: "[log]\naccess = \"all\"\n".to_owned(), ..Setup::default() }).await;
    let token = server.worker("idle", &["mail.send"]).await;
    let mut caller = TcpStream::connect(("127.0.0.1", server.port)).expect("connected");
    let request =
        format!("GET /workers/idle/tasks?wait=30 HTTP/1.1\r\nHost: bowline\r\nAuthorization: Bearer {token}\r\n\r\n");
    caller.write_all(request.as_bytes()).expect("sent");
    until(Duration::from_secs(10), "the poll waits", async || {
        let metrics = server.get("/metrics").await.expect(200);
        if metrics.as_str().is_some_and(|text| text.contains("polls_waiting 1")) { Ok(()) } else { Err(metrics) }
    })
    .await;
    drop(caller);
    let line = until(Duration::from_secs(10), "the request is in the log", async || {
        let lines = server.child().stderr();
        let wanted = |line: &Value| line["http.route"] == "/workers/{id}/tasks" && line["message"] == "request";
        let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(wanted).ok_or_else(|| server.child().log())
    })
    .await;
    assert_eq!((&line["http.status"], &line["actor"]), (&json!(499), &json!("worker:idle")), "{line}");
}
