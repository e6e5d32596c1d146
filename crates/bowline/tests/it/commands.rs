//! Commands on hosts, through the door: asked for, approved, blocked, run by an agent, seen host by host.

use std::io::BufRead;
use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use crate::support::agent::host_of;
use crate::support::{SHORT_LEASES, Setup, TestServer};

const REACH: &str = "bowline/reach";

fn reach() -> Value {
    json!({REACH: "simulate"})
}

async fn put_command(server: &TestServer, name: &str, spec: Value) {
    let path = format!("/resources/command/{name}");
    let stored = server.send("PUT", &path, &server.admin(), Some(json!({"spec": spec}))).await;
    assert!(stored.status < 300, "{}", stored.body);
}

async fn ask(server: &TestServer, body: Value) -> String {
    server.post("/jobs", body).await.expect(202)["job_id"].as_str().expect("a job").to_owned()
}

#[tokio::test]
async fn a_command_runs_on_every_host_that_is_meant() {
    let server = TestServer::start().await;
    server.simulated_hosts(5).await;
    put_command(
        &server,
        "greet",
        json!({
            "argv": ["echo", "{{ params.word }}", "{{ host.name }}"],
            "params": {"type": "object", "properties": {"word": {"type": "string", "default": "hello"}}},
        }),
    )
    .await;
    let agent = server.agent("agent-1", reach()).await;
    let job = ask(&server, json!({"command": "greet", "selector": "h000[0:2]", "external_id": "first"})).await;
    let tasks = agent.tasks(3).await;
    let task = &tasks[0];
    assert_eq!((&task["task_type"], &task["job_id"]), (&json!("bowline.command"), &json!(job)));
    assert_eq!(task["params"]["command"]["params"], json!({"word": "hello"}), "defaults are filled in");
    assert_eq!(task["params"]["command"]["version"], 1);
    assert_eq!(task["params"]["host"]["connection"], json!({"via": "simulate"}));
    let mut hosts: Vec<&str> = tasks.iter().map(host_of).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["h0000", "h0001", "h0002"]);
    for task in &tasks {
        let code = if host_of(task) == "h0001" { 3 } else { 0 };
        let heard = agent.finish(task, code).await;
        assert_eq!((&heard["acknowledged"], &heard["ended"]), (&json!(2), &json!(true)), "{heard}");
    }
    let shown = server.until_status(&job, "failed").await;
    assert_eq!(shown["job"]["error"]["message"], "of 3 hosts 1 failed");
    assert_eq!(shown["command"]["hosts"], json!({"total": 3, "begun": 3, "by_status": {"success": 2, "failed": 1}}));
    let failed = server.get(&format!("/jobs/{job}/hosts?status=failed")).await.expect(200);
    assert_eq!(failed["hosts"].as_array().expect("hosts").len(), 1);
    assert_eq!((&failed["hosts"][0]["host"], &failed["hosts"][0]["exit_code"]), (&json!("h0001"), &json!(3)));
    let one = server.get(&format!("/jobs/{job}/hosts/h0001")).await.expect(200);
    assert_eq!((&one["runs"][0]["exit_code"], &one["runs"][0]["worker_id"]), (&json!(3), &json!("agent-1")));
    // Only what failed runs again.
    server.post(&format!("/jobs/{job}/retry"), json!({"only": "failed", "reason": "fixed"})).await.expect(200);
    let again = agent.tasks(1).await;
    assert_eq!((again.len(), host_of(&again[0]), &again[0]["fence"]), (1, "h0001", &json!(2)));
    agent.finish(&again[0], 0).await;
    server.until_status(&job, "success").await;
}

#[tokio::test]
async fn the_webhook_takes_a_delivery_once_and_speaks_its_own_words() {
    let server = TestServer::start().await;
    server.simulated_hosts(3).await;
    put_command(&server, "restart", json!({"argv": ["true"], "approval": {"four_eyes": false}})).await;
    let agent = server.agent("agent-1", reach()).await;
    let id = server.get("/hosts/h0002").await.expect(200)["host"]["id"].clone();
    let body = json!({"external_id": "evt-1", "command_type": "restart", "hosts": ["h0000", id]});
    let first = server.post("/webhook/jobs", body.clone()).await.expect(202);
    assert_eq!((&first["approval_state"], &first["duplicate"]), (&json!("WAIT_APPROVAL"), &json!(false)));
    let again = server.post("/webhook/jobs", body.clone()).await.expect(200);
    assert_eq!((&again["job_id"], &again["duplicate"]), (&first["job_id"], &json!(true)));
    let other = json!({"external_id": "evt-1", "command_type": "restart", "selector": "all"});
    assert_eq!(server.post("/webhook/jobs", other).await.code(), "IDEMPOTENCY_CONFLICT");
    let job = first["job_id"].as_str().expect("a job");
    let words = |page: &Value| -> Vec<String> {
        let list = page["executions"].as_array().expect("executions").iter();
        list.map(|e| format!("{} {}", e["host"].as_str().unwrap_or(""), e["status"].as_str().unwrap_or(""))).collect()
    };
    let new = server.get(&format!("/jobs/{job}/executions")).await.expect(200);
    assert_eq!(words(&new), ["h0000 NEW", "h0002 NEW"]);
    assert!(agent.nothing_comes().await, "nothing runs before it is approved");
    server.post(&format!("/jobs/{job}/approve"), json!({})).await.expect(200);
    let tasks = agent.tasks(2).await;
    agent.finish(&tasks[0], 0).await;
    agent.finish(&tasks[1], 1).await;
    server.until_status(job, "failed").await;
    let shown = server.get(&format!("/webhook/jobs/{job}")).await.expect(200);
    assert_eq!(shown["executions"], json!({"SUCCESS": 1, "FAILED": 1}));
    assert_eq!((&shown["approval_state"], &shown["external_id"]), (&json!("APPROVED"), &json!("evt-1")));
    // A delivery that comes again after its hosts are gone is still the same delivery.
    for host in ["h0000", "h0002"] {
        server.send("DELETE", &format!("/hosts/{host}"), &server.admin(), None).await.expect(200);
    }
    let late = server.post("/webhook/jobs", body).await.expect(200);
    assert_eq!((&late["job_id"], &late["duplicate"]), (&first["job_id"], &json!(true)));
    let by_name = json!({"external_id": "evt-2", "command_type": "restart", "hosts": ["h0000"]});
    assert_eq!(server.post("/webhook/jobs", by_name).await.code(), "HOST_NOT_FOUND");
}

#[tokio::test]
async fn hosts_that_time_out_or_cannot_be_reached_are_told_apart() {
    let server = TestServer::start().await;
    server.simulated_hosts(4).await;
    put_command(&server, "restart", json!({"argv": ["true"], "retry_not_started": {"max_retries": 0}})).await;
    let agent = server.agent("agent-1", reach()).await;
    let job = ask(&server, json!({"command": "restart", "selector": "all"})).await;
    for task in &agent.tasks(4).await {
        match host_of(task) {
            "h0000" => agent.fail(task, "timeout").await,
            "h0001" => agent.fail(task, "unreachable").await,
            "h0002" => agent.finish(task, 2).await,
            _ => agent.finish(task, 0).await,
        };
    }
    let shown = server.until_status(&job, "failed").await;
    assert_eq!(shown["job"]["error"]["message"], "of 4 hosts 1 failed, 1 timed out, 1 unreachable");
    let counts = json!({"success": 1, "failed": 1, "timed_out": 1, "unreachable": 1});
    assert_eq!(shown["command"]["hosts"]["by_status"], counts);
    for (status, host) in [("timed_out", "h0000"), ("unreachable", "h0001"), ("failed", "h0002")] {
        let page = server.get(&format!("/jobs/{job}/hosts?status={status}")).await.expect(200);
        assert_eq!(page["hosts"].as_array().expect("hosts").len(), 1, "{page}");
        assert_eq!((&page["hosts"][0]["host"], &page["hosts"][0]["status"]), (&json!(host), &json!(status)));
    }
    assert_eq!(server.get(&format!("/jobs/{job}/hosts?status=late")).await.status, 400);
    let shown = server.get(&format!("/webhook/jobs/{job}")).await.expect(200);
    assert_eq!(shown["executions"], json!({"SUCCESS": 1, "FAILED": 1, "TIMEOUT": 1, "UNREACHABLE": 1}));
    for word in ["TIMEOUT", "timed_out"] {
        let page = server.get(&format!("/jobs/{job}/executions?status={word}")).await.expect(200);
        assert_eq!(page["executions"].as_array().expect("executions").len(), 1, "{page}");
        let one = &page["executions"][0];
        assert_eq!((&one["host"], &one["status"]), (&json!("h0000"), &json!("TIMEOUT")));
    }
    for kind in ["unit_timed_out", "unit_unreachable"] {
        let events = server.get(&format!("/events?job_id={job}&type={kind}")).await.expect(200);
        assert_eq!(events["events"].as_array().expect("events").len(), 1, "{events}");
    }
    let metrics = server.get("/metrics").await.body.as_str().expect("text").to_owned();
    for status in ["timed_out", "unreachable", "failed", "succeeded"] {
        let line = format!("orchestrator_jobs_ended_total{{type=\"bowline.command\",status=\"{status}\"}} 1");
        assert!(metrics.contains(&line), "{line}");
    }
    let listed = std::process::Command::new(env!("CARGO_BIN_EXE_bowline"))
        .args(["job", "hosts", &job, "--status", "unreachable", "--server", &server.url("")])
        .env("BOWLINE_TOKEN", server.admin())
        .output()
        .expect("the command line runs");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("h0001") && !listed.contains("h0000"), "{listed}");
}

/// `EXEC_MAX_RETRIES`, `BASE_BACKOFF` and `MAX_BACKOFF` hold for commands whose type says nothing, and are kept with the job.
#[tokio::test]
async fn the_server_sets_how_often_a_host_is_tried_where_nothing_started() {
    let set = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let env = [("EXEC_MAX_RETRIES", "2"), ("BASE_BACKOFF", "0.01"), ("MAX_BACKOFF", "20ms")].map(set).to_vec();
    let mut server = TestServer::with(Setup { env, ..Setup::default() }).await;
    server.simulated_hosts(3).await;
    put_command(&server, "plain", json!({"argv": ["true"]})).await;
    put_command(&server, "own", json!({"argv": ["true"], "retry": {"max_attempts": 1}})).await;
    let agent = server.agent("agent-1", reach()).await;
    let job = ask(&server, json!({"command": "plain", "selector": "all"})).await;
    let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
    let rule = json!({"max_retries": 2, "base_ms": 10, "max_backoff_ms": 20});
    assert_eq!(shown["job"]["payload"]["spec"]["retry_not_started"], rule, "{shown}");
    for task in &agent.tasks(3).await {
        match host_of(task) {
            "h0000" => agent.fail(task, "unreachable").await,
            "h0001" => agent.fail(task, "transient").await,
            _ => agent.fail(task, "exit").await,
        };
    }
    for task in &agent.tasks(2).await {
        match host_of(task) {
            "h0000" => agent.fail(task, "unreachable").await,
            _ => agent.finish(task, 0).await,
        };
    }
    agent.fail(&agent.tasks(1).await[0], "unreachable").await;
    let shown = server.until_status(&job, "failed").await;
    assert_eq!(shown["command"]["hosts"]["by_status"], json!({"success": 1, "failed": 1, "unreachable": 1}));
    let page = server.get(&format!("/jobs/{job}/hosts?status=unreachable")).await.expect(200);
    assert_eq!((&page["hosts"][0]["host"], &page["hosts"][0]["attempts"]), (&json!("h0000"), &json!(3)), "{page}");

    let once = ask(&server, json!({"command": "own", "hosts": ["h0000"]})).await;
    agent.fail(&agent.tasks(1).await[0], "unreachable").await;
    let shown = server.until_status(&once, "failed").await;
    assert_eq!(shown["command"]["hosts"]["by_status"], json!({"unreachable": 1}));

    // The setting is no part of what was asked for: the same ask is the same job after it was changed.
    let body = json!({"command": "plain", "hosts": ["h0000"], "idempotency_key": "k"});
    let kept = ask(&server, body.clone()).await;
    server.stop().await;
    server.start_again_unharmed().await;
    let again = server.post("/jobs", body).await.expect(202);
    assert_eq!((&again["job_id"], &again["idempotency"]["replayed"]), (&json!(kept), &json!(true)));
    server.stop().await;
}

#[tokio::test]
async fn the_server_may_try_again_what_ran_and_failed() {
    let config = "[commands]\nmax_retries = 1\nbase_backoff = \"0\"\nretry = \"failed\"\n".to_owned();
    let server = TestServer::with(Setup { config, ..Setup::default() }).await;
    server.simulated_hosts(1).await;
    put_command(&server, "plain", json!({"argv": ["true"]})).await;
    let agent = server.agent("agent-1", reach()).await;
    let job = ask(&server, json!({"command": "plain", "selector": "all"})).await;
    agent.fail(&agent.tasks(1).await[0], "exit").await;
    agent.fail(&agent.tasks(1).await[0], "timeout").await;
    let shown = server.until_status(&job, "failed").await;
    assert_eq!(shown["command"]["hosts"]["by_status"], json!({"timed_out": 1}));
}

#[tokio::test]
async fn a_job_is_rejected_without_a_body() {
    let server = TestServer::start().await;
    server.simulated_hosts(1).await;
    put_command(&server, "deploy", json!({"argv": ["true"], "approval": {"four_eyes": false}})).await;
    let job = ask(&server, json!({"command": "deploy", "selector": "all"})).await;
    let rejected = server.send("POST", &format!("/jobs/{job}/reject"), &server.admin(), None).await.expect(200);
    assert_eq!(rejected["decision"], "rejected", "{rejected}");
    server.until_status(&job, "canceled").await;
    let shown = server.get(&format!("/webhook/jobs/{job}")).await.expect(200);
    assert_eq!(shown["approval_state"], "REJECTED", "{shown}");
}

#[tokio::test]
async fn an_approval_is_for_exactly_what_was_shown() {
    let server = TestServer::start().await;
    server.simulated_hosts(2).await;
    put_command(&server, "deploy", json!({"argv": ["true"], "approval": {"four_eyes": true, "hosts_over": 1}})).await;
    let alone = ask(&server, json!({"command": "deploy", "hosts": ["h0000"]})).await;
    assert_ne!(server.get(&format!("/jobs/{alone}")).await.expect(200)["job"]["status"], "awaiting_approval");
    let body = json!({"command": "deploy", "selector": "all"});
    let job = ask(&server, body.clone()).await;
    let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
    let hash = shown["command"]["approval"]["hash"].as_str().expect("a hash").to_owned();
    let path = format!("/jobs/{job}/approve");
    assert_eq!(server.post(&path, json!({"hash": "0".repeat(64)})).await.code(), "APPROVAL_SUPERSEDED");
    assert_eq!(server.post(&path, json!({"hash": "zz"})).await.status, 400);
    assert_eq!(server.post(&path, json!({"hash": hash})).await.status, 403, "whoever asked cannot approve");
    let waiting = server.get("/approvals").await.expect(200);
    assert_eq!(waiting["approvals"].as_array().expect("a list").len(), 1);
    let token = json!({
        "kind": "api", "name": "second", "scopes": ["approvals.write", "jobs.read"], "email": "second@example.com",
    });
    let second = server.token(token).await;
    let approve = |body: Value| server.send("POST", &path, &second, Some(body));
    // A new host that the selector means: something else would run.
    server
        .send("PUT", "/hosts/h9", &server.admin(), Some(json!({"connection": {"via": "simulate"}})))
        .await
        .expect(201);
    assert_eq!(approve(json!({"hash": hash})).await.code(), "APPROVAL_SUPERSEDED");
    assert_eq!(server.get(&format!("/jobs/{job}")).await.expect(200)["job"]["status"], "canceled");
    assert_eq!(approve(json!({})).await.code(), "APPROVAL_DECIDED");
    assert_eq!(server.post(&format!("/jobs/{job}/retry"), json!({})).await.code(), "JOB_NOT_READY");
    // A new version, too.
    let next = ask(&server, body).await;
    put_command(&server, "deploy", json!({"argv": ["false"], "approval": {"four_eyes": true}})).await;
    let answer = server.send("POST", &format!("/jobs/{next}/approve"), &second, Some(json!({}))).await;
    assert_eq!(answer.code(), "APPROVAL_SUPERSEDED");
    let plain = server.submit(json!({"type": "echo"})).await;
    assert_eq!(server.post(&format!("/jobs/{plain}/approve"), json!({})).await.code(), "APPROVAL_NOT_NEEDED");
    // A no needs neither a reason nor a body; here it comes too late.
    let late = server.send("POST", &format!("/jobs/{job}/reject"), &second, None).await;
    assert_eq!(late.code(), "APPROVAL_DECIDED", "{}", late.body);
}

#[tokio::test]
async fn a_block_keeps_commands_away_until_it_is_lifted() {
    let server = TestServer::start().await;
    server.simulated_hosts(2).await;
    let agent = server.agent("agent-1", reach()).await;
    let block = json!({"host": "h0000", "reason": "being repaired"});
    let made = server.post("/blocks", block).await.expect(201);
    let job = ask(&server, json!({"command": {"argv": ["uptime"]}, "selector": "all"})).await;
    let tasks = agent.tasks(1).await;
    assert_eq!(tasks.iter().map(host_of).collect::<Vec<_>>(), ["h0001"]);
    agent.finish(&tasks[0], 0).await;
    let shown = server.until_status(&job, "failed").await;
    assert_eq!(shown["command"]["hosts"]["by_status"], json!({"blocked": 1, "success": 1}));
    let unit = server.get(&format!("/jobs/{job}/executions?status=blocked")).await.expect(200);
    assert_eq!(unit["executions"][0]["status"], "BLOCKED");
    let by = made["by"].as_str().expect("an id");
    let name = made["actor"]["name"].as_str().expect("a name");
    assert_ne!(name, by, "people are shown by name");
    assert_eq!(unit["executions"][0]["error"], format!("blocked by {name}: being repaired"));
    let rule = json!({
        "block_id": made["id"], "reason": "being repaired", "by": by, "actor": made["actor"], "expires_at": null,
    });
    assert_eq!(unit["executions"][0]["blocked"], rule);
    let unit = server.get(&format!("/jobs/{job}/hosts?status=blocked")).await.expect(200);
    assert_eq!(unit["hosts"][0]["blocked"], rule);
    let why = server.get(&format!("/jobs/{job}/why")).await.expect(200);
    let blocked = why["reasons"].as_array().expect("reasons").iter().find(|reason| reason["code"] == "hosts_blocked");
    let blocked = blocked.unwrap_or_else(|| panic!("{why}"));
    let sentence = format!("it may not run on h0000 (block {} by {name}: being repaired)", made["id"]);
    assert_eq!(blocked["sentence"], sentence);
    let listed = server.get("/jobs").await.expect(200);
    assert_eq!(
        (&listed["jobs"][0]["title"], &listed["jobs"][0]["type"]),
        (&json!("uptime"), &json!("bowline.command"))
    );
    let lift = format!("/blocks/{}/lift", made["id"]);
    server.post(&lift, json!({"reason": "repaired"})).await.expect(200);
    assert_eq!(server.post(&lift, json!({})).await.code(), "BLOCK_NOT_FOUND");
    server.post(&format!("/jobs/{job}/retry"), json!({})).await.expect(200);
    assert_eq!(host_of(&agent.tasks(1).await[0]), "h0000");
    for bad in [
        json!({"host": "h0000", "reason": "x"}),
        json!({"host": "h0000"}),
        json!({"reason": "why"}),
        json!({"host": "h0000", "selector": "all", "reason": "why"}),
        json!({"selector": "a &", "reason": "why"}),
        json!({"host": "h0000", "reason": "why", "expires_at": "2001-01-01T00:00:00Z"}),
    ] {
        assert_eq!(server.post("/blocks", bad.clone()).await.status, 400, "{bad}");
    }
    assert_eq!(server.post("/blocks", json!({"host": "nobody", "reason": "why"})).await.code(), "HOST_NOT_FOUND");
}

/// A host that two agents reach: one falls silent, and the other does not get the host before somebody has looked.
#[tokio::test]
async fn a_host_is_kept_while_a_lost_run_could_still_go_on() {
    let setup = Setup { config: SHORT_LEASES.to_owned(), ..Setup::default() };
    let mut server = TestServer::with(setup).await;
    server.simulated_hosts(1).await;
    let silent = server.agent("agent-1", reach()).await;
    let command = json!({"command": {"argv": ["uptime"]}, "selector": "all"});
    let first = ask(&server, command.clone()).await;
    let lost = silent.tasks(1).await;
    let beat = json!({"runs": [lost[0]["task_id"]]});
    silent.send("POST", "/workers/agent-1/heartbeat", beat).await.expect(200);
    let shown = server.until_status(&first, "failed").await;
    assert_eq!(shown["command"]["hosts"]["by_status"], json!({"error": 1}), "{shown}");

    let other = server.agent("agent-2", reach()).await;
    let next = ask(&server, command).await;
    assert!(other.nothing_comes().await, "the lost run could still go on");
    let line = server.get("/hosts/h0000/queue").await.expect(200);
    let kept = &line["kept"][0];
    assert_eq!((&kept["run_id"], &kept["agent"]), (&lost[0]["task_id"], &json!("agent-1")), "{line}");
    assert_eq!((&line["queue"][0]["job_id"], &line["queue"][0]["held"]), (&json!(next), &json!(false)));
    let why = server.get(&format!("/jobs/{next}/why")).await.expect(200);
    let reason = why["reasons"].as_array().expect("reasons").iter().find(|reason| reason["code"] == "host_kept");
    let sentence = reason.unwrap_or_else(|| panic!("{why}"))["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains(kept["until"].as_str().expect("a moment")), "{sentence}");

    let release = "/hosts/h0000/release";
    assert_eq!(server.post(release, json!({})).await.status, 400, "somebody has to say how they know");
    assert_eq!(server.post(release, json!({"reason": " "})).await.status, 400);
    assert_eq!(server.post("/hosts/nobody/release", json!({"reason": "looked"})).await.code(), "HOST_NOT_FOUND");
    let released = server.post(release, json!({"reason": "looked: it is gone"})).await.expect(200);
    assert_eq!(released, json!({"host": "h0000", "inventory": "main", "released": 1}));
    let task = other.tasks(1).await;
    assert_eq!(task[0]["job_id"], json!(next));
    other.finish(&task[0], 0).await;
    server.until_status(&next, "success").await;
    let told = server.get("/events?type=host_released").await.expect(200);
    assert_eq!(told["events"][0]["data"]["reason"], "looked: it is gone", "{told}");
    assert_eq!(server.post(release, json!({"reason": "once more"})).await.expect(200)["released"], 0);
    drop((silent, other));
    assert!(server.stop().await.success());
    server.assert_verified();
}

#[tokio::test]
async fn a_host_is_given_to_one_command_at_a_time_and_shows_who_waits() {
    let server = TestServer::start().await;
    server.simulated_hosts(1).await;
    let agent = server.agent("agent-1", reach()).await;
    let command = json!({"command": {"argv": ["uptime"]}, "selector": "all"});
    let first = ask(&server, command.clone()).await;
    let task = agent.tasks(1).await;
    let second = ask(&server, command).await;
    assert!(agent.nothing_comes().await);
    let line = server.get("/hosts/h0000/queue").await.expect(200);
    let line: Vec<_> = line["queue"].as_array().expect("a queue").iter().map(|t| (&t["job_id"], &t["held"])).collect();
    assert_eq!(line, [(&json!(first), &json!(true)), (&json!(second), &json!(false))]);
    let why = server.get(&format!("/jobs/{second}/why")).await.expect(200);
    assert_eq!(why["reasons"][1]["code"], "host_busy", "{why}");
    assert_eq!(why["reasons"][1]["data"]["hosts"][0]["ahead"][0]["job_id"], first);
    agent.finish(&task[0], 0).await;
    let next = agent.tasks(1).await;
    assert_eq!(next[0]["job_id"], second);
    assert!(next[0]["params"]["host"]["fence"].as_i64() > task[0]["params"]["host"]["fence"].as_i64());
}

/// Nothing is worse than a command that waits and says that it runs.
#[tokio::test]
async fn a_command_for_a_host_without_an_agent_says_so() {
    let server = TestServer::start().await;
    server.send("PUT", "/hosts/web1", &server.admin(), Some(json!({}))).await.expect(201);
    let job = ask(&server, json!({"command": {"argv": ["uptime"]}, "selector": "all"})).await;
    until(Duration::from_secs(10), "it says what it waits for", async || {
        let why = server.get(&format!("/jobs/{job}/why")).await.expect(200);
        let told: Vec<_> = why["reasons"].as_array().expect("reasons").iter().map(|r| r["sentence"].clone()).collect();
        let right = [
            json!("0 of 1 hosts are done, 0 are at it, 1 wait"),
            json!("web1 waits because no agent that could reach it has ever registered"),
        ];
        if told == right { Ok(()) } else { Err(why.to_string()) }
    })
    .await;
    let mut watching = std::process::Command::new(env!("CARGO_BIN_EXE_bowline"))
        .args(["job", "watch", &job, "--server", &server.url("")])
        .env("BOWLINE_TOKEN", server.admin())
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the program starts");
    let words = std::io::BufReader::new(watching.stderr.take().expect("a pipe"));
    let waiting = words.lines().map_while(Result::ok).find(|line| line.contains("still waiting"));
    watching.kill().expect("it was watching");
    watching.wait().expect("it is gone");
    assert_eq!(
        waiting.as_deref(),
        Some("still waiting: web1 waits because no agent that could reach it has ever registered")
    );
}

#[tokio::test]
async fn a_canceled_command_reaches_what_runs() {
    let server = TestServer::start().await;
    server.simulated_hosts(3).await;
    let agent = server.agent("agent-1", reach()).await;
    let job =
        ask(&server, json!({"command": {"argv": ["sleep", "60"]}, "selector": "all", "rollout": {"serial": 1}})).await;
    let task = agent.tasks(1).await;
    let runs = json!({"runs": [task[0]["task_id"]]});
    agent.send("POST", "/workers/agent-1/heartbeat", runs.clone()).await.expect(200);
    server.post(&format!("/jobs/{job}/cancel"), json!({"reason": "wrong hosts"})).await.expect(200);
    until(Duration::from_secs(30), "the agent is told", async || {
        let beat = agent.send("POST", "/workers/agent-1/heartbeat", runs.clone()).await.expect(200);
        beat["cancel"] == json!([task[0]["task_id"]])
    })
    .await;
    let ended = json!([{"run_id": task[0]["task_id"], "fence": 1, "ended": {"status": "canceled", "last_seq": 0}}]);
    agent.ship(ended).await.expect(200);
    let shown = server.until_status(&job, "canceled").await;
    assert_eq!(shown["command"]["hosts"]["by_status"], json!({"canceled": 1, "new": 2}));
    let page = server.get(&format!("/jobs/{job}/hosts?limit=2")).await.expect(200);
    let cursor = page["next_cursor"].as_str().expect("there is more");
    let rest = server.get(&format!("/jobs/{job}/hosts?limit=2&cursor={cursor}")).await.expect(200);
    assert_eq!((rest["hosts"].as_array().map(Vec::len), &rest["next_cursor"]), (Some(1), &Value::Null));
    assert_eq!(rest["hosts"][0]["status"], "canceled", "what was not begun never will be");
}

#[tokio::test]
async fn a_command_that_cannot_run_is_refused_with_the_reason() {
    let server = TestServer::start().await;
    server.simulated_hosts(1).await;
    put_command(
        &server,
        "greet",
        json!({
            "argv": ["echo", "{{ params.word }}"],
            "params": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
        }),
    )
    .await;
    for (body, status, code, field) in [
        (json!({"command": "greet"}), 400, "VALIDATION_ERROR", "hosts"),
        (json!({"command": "greet", "selector": "all"}), 422, "VALIDATION_ERROR", "params"),
        (json!({"command": "greet", "selector": "all", "params": {"word": 1}}), 422, "VALIDATION_ERROR", "params"),
        (
            json!({"command": "greet", "selector": "all", "params": {"word": "x", "wrod": "y"}}),
            422,
            "VALIDATION_ERROR",
            "params",
        ),
        (json!({"command": "nothing", "selector": "all"}), 422, "COMMAND_NOT_FOUND", "command"),
        (json!({"command": {"name": "greet", "version": 9}, "selector": "all"}), 422, "COMMAND_NOT_FOUND", "command"),
        (json!({"command": {"argv": ["x"]}, "selector": "nobody*"}), 422, "NO_HOSTS", "hosts"),
        (json!({"command": {"argv": ["x"]}, "hosts": []}), 422, "NO_HOSTS", "hosts"),
        (json!({"command": {"argv": ["x"]}, "hosts": ["nobody"]}), 422, "HOST_NOT_FOUND", "hosts"),
        (json!({"command": {"argv": ["x"]}, "selector": "a &"}), 400, "VALIDATION_ERROR", "selector"),
        (
            json!({"command": {"argv": ["x"]}, "selector": "all", "inventory": "other"}),
            422,
            "INVENTORY_NOT_FOUND",
            "inventory",
        ),
        (
            json!({"command": {"argv": ["x", "{{ host.vars.port }}"]}, "selector": "all"}),
            422,
            "VALIDATION_ERROR",
            "command.argv[1]",
        ),
        (json!({"command": {"argv": []}, "selector": "all"}), 422, "VALIDATION_ERROR", "command.argv"),
        (
            json!({"command": {"argv": ["x"]}, "selector": "all", "rollout": {"serial": 0}}),
            422,
            "VALIDATION_ERROR",
            "rollout",
        ),
        (
            json!({"command": {"argv": ["x"]}, "selector": "all", "deadline_ms": 1}),
            422,
            "VALIDATION_ERROR",
            "deadline_ms",
        ),
        (json!({"command": "greet", "type": "echo", "selector": "all"}), 400, "VALIDATION_ERROR", "type"),
        (json!({"command": "greet", "payload": {}, "selector": "all"}), 400, "VALIDATION_ERROR", "payload"),
        (json!({"type": "echo", "selector": "all"}), 400, "VALIDATION_ERROR", "selector"),
        (json!({"type": "bowline.command"}), 400, "VALIDATION_ERROR", "type"),
        (json!({}), 400, "VALIDATION_ERROR", "type"),
    ] {
        let answer = server.post("/jobs", body.clone()).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{body}: {}", answer.body);
        assert_eq!(answer.body["error"]["details"]["field"], field, "{body}: {}", answer.body);
    }
    for bad in [json!({"command": 7, "selector": "all"}), json!({"command": {"agrv": []}, "selector": "all"})] {
        assert_eq!(server.post("/jobs", bad.clone()).await.status, 400, "{bad}");
    }
    let api = server.token(json!({"kind": "api", "name": "runner"})).await;
    let inline = json!({"command": {"argv": ["id"]}, "selector": "all"});
    assert_eq!(server.send("POST", "/jobs", &api, Some(inline)).await.status, 403, "not everybody may write commands");
    let named = json!({"command": "greet", "selector": "all", "params": {"word": "x"}});
    server.send("POST", "/jobs", &api, Some(named)).await.expect(202);
    assert_eq!(server.jobs().await.len(), 1, "what was refused left nothing behind");
}

#[tokio::test]
async fn a_resource_that_a_command_needs_is_not_deleted() {
    let server = TestServer::start().await;
    server.simulated_hosts(1).await;
    put_command(&server, "greet", json!({"argv": ["true"]})).await;
    let job = ask(&server, json!({"command": "greet", "selector": "all"})).await;
    let admin = server.admin();
    let delete = || server.send("DELETE", "/resources/command/greet", &admin, Some(json!({"reason": "old"})));
    let refused = delete().await;
    assert_eq!((refused.status, refused.code()), (409, "RESOURCE_IN_USE"), "{}", refused.body);
    server.post(&format!("/jobs/{job}/cancel"), json!({})).await.expect(200);
    server.until_status(&job, "canceled").await;
    delete().await.expect(200);
}

#[tokio::test]
async fn a_thousand_hosts_survive_the_server() {
    let mut server = TestServer::start().await;
    server.simulated_hosts(1_000).await;
    let job = ask(&server, json!({"command": {"argv": ["true"]}, "selector": "all"})).await;
    {
        let agent = server.agent("agent-1", reach()).await;
        for task in agent.tasks(300).await.iter().take(300) {
            agent.finish(task, 0).await;
        }
    }
    server.kill_9();
    server.start_again().await;
    let token = server.token(json!({"kind": "join", "name": "fleet"})).await;
    assert!(!token.is_empty());
    let agent = server.agent("agent-2", reach()).await;
    // What the first agent had in hand and never named comes back after the accept time.
    let mut done = 0;
    while server.get(&format!("/jobs/{job}")).await.expect(200)["job"]["status"] == "running" {
        let path = "/workers/agent-2/tasks?max=1000&wait=500";
        let tasks = server.send("GET", path, &agent.token, None).await.expect(200);
        for task in tasks.as_array().expect("a list") {
            agent.finish(task, 0).await;
            done += 1;
        }
    }
    let shown = server.until_status(&job, "success").await;
    assert_eq!(
        shown["command"]["hosts"]["by_status"],
        json!({"success": 1_000}),
        "{done} were done by the second agent"
    );
    server.stop().await;
    server.assert_verified();
}
