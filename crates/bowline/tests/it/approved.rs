//! What was approved is what runs: on the host, with the secret and under the version that somebody said yes to.

use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use crate::support::{Answer, Setup, TestServer};

async fn put(server: &TestServer, path: &str, body: Value) {
    let answer = server.send("PUT", path, &server.admin(), Some(body)).await;
    assert!(matches!(answer.status, 200 | 201), "{path}: {answer:?}");
}

async fn put_command(server: &TestServer, name: &str, spec: Value) {
    put(server, &format!("/resources/command/{name}"), json!({ "spec": spec })).await;
}

async fn put_host(server: &TestServer, name: &str, target: &str) {
    put(server, &format!("/hosts/{name}"), json!({"connection": {"via": "simulate"}, "vars": {"target": target}}))
        .await;
}

/// Somebody with a token and an address of their own, whom an administrator has let in.
async fn person(server: &TestServer, name: &str, scopes: &[&str]) -> String {
    let email = format!("{name}@example.com");
    server.token(json!({"kind": "api", "name": name, "scopes": scopes, "email": email})).await
}

async fn ask(server: &TestServer, token: &str, body: Value) -> String {
    let answer = server.send("POST", "/jobs", token, Some(body)).await.expect(202);
    answer["job_id"].as_str().expect("an id").to_owned()
}

async fn approve(server: &TestServer, token: &str, job: &str, body: Value) -> Answer {
    server.send("POST", &format!("/jobs/{job}/approve"), token, Some(body)).await
}

async fn status(server: &TestServer, job: &str) -> Value {
    server.get(&format!("/jobs/{job}")).await.expect(200)["job"]["status"].clone()
}

async fn hash_of(server: &TestServer, job: &str) -> String {
    let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
    shown["command"]["approval"]["hash"].as_str().expect("a hash").to_owned()
}

fn aimed() -> Value {
    json!({"argv": ["echo", "target={{ host.vars.target }}"], "approval": {"four_eyes": false}})
}

/// What the approver saw is in the hash: variables of hosts and groups, connections, and where secrets are.
#[tokio::test]
async fn a_change_before_the_vote_supersedes_the_question() {
    let server = TestServer::start().await;
    put_host(&server, "h1", "good").await;
    put_command(&server, "wipe", aimed()).await;
    let body = json!({"command": "wipe", "hosts": ["h1"]});
    let superseded = async |job: &str| {
        let answer = approve(&server, &server.admin(), job, json!({})).await;
        assert_eq!(answer.code(), "APPROVAL_SUPERSEDED", "{answer:?}");
        assert_eq!(status(&server, job).await, "canceled");
    };
    let job = ask(&server, &server.admin(), body.clone()).await;
    let hash = hash_of(&server, &job).await;
    put_host(&server, "h1", "EVIL --no-preserve-root /").await;
    let answer = approve(&server, &server.admin(), &job, json!({"hash": hash})).await;
    assert_eq!(answer.code(), "APPROVAL_SUPERSEDED", "the hash that was seen is not enough: {answer:?}");
    put_host(&server, "h1", "good").await;

    let job = ask(&server, &server.admin(), body.clone()).await;
    let elsewhere = json!({
        "connection": {"via": "ssh", "address": "attacker.example"}, "vars": {"target": "good"},
    });
    put(&server, "/hosts/h1", elsewhere).await;
    superseded(&job).await;
    put_host(&server, "h1", "good").await;

    let reference = |place: &str| json!({"spec": {"ref": place, "description": place, "commands": ["charge"]}});
    put(&server, "/resources/secret_ref/stripe", reference("file://stripe")).await;
    let mut spec = aimed();
    spec["secrets"] = json!({"KEY": "secret://stripe"});
    put_command(&server, "charge", spec).await;
    let job = ask(&server, &server.admin(), json!({"command": "charge", "hosts": ["h1"]})).await;
    put(&server, "/resources/secret_ref/stripe", reference("file://other")).await;
    superseded(&job).await;
    let job = ask(&server, &server.admin(), json!({"command": "charge", "hosts": ["h1"]})).await;
    let same = json!({"spec": {
        "ref": "file://other", "description": "the same secret in other words", "commands": ["charge"],
    }});
    put(&server, "/resources/secret_ref/stripe", same).await;
    approve(&server, &server.admin(), &job, json!({})).await.expect(200);
}

/// After the yes, too: a host that changed is left out and says so, the others run.
#[tokio::test]
async fn a_host_that_changes_after_the_yes_is_superseded() {
    let server = TestServer::start().await;
    for host in ["h1", "h2"] {
        put_host(&server, host, "good").await;
    }
    put_command(&server, "wipe", aimed()).await;
    let job = ask(&server, &server.admin(), json!({"command": "wipe", "selector": "all"})).await;
    approve(&server, &server.admin(), &job, json!({})).await.expect(200);
    server.until_status(&job, "running").await;
    put_host(&server, "h1", "EVIL").await;
    let agent = server.agent("agent-1", json!({"bowline/reach": "simulate"})).await;
    let tasks = agent.tasks(1).await;
    assert_eq!(tasks[0]["params"]["host"]["name"], "h2", "{tasks:?}");
    agent.finish(&tasks[0], 0).await;
    let shown = server.until_status(&job, "failed").await;
    assert_eq!(shown["command"]["hosts"]["by_status"], json!({"failed": 1, "success": 1}), "{shown}");
    let hosts = server.get(&format!("/jobs/{job}/hosts?status=failed")).await.expect(200);
    assert_eq!(
        (&hosts["hosts"][0]["host"], &hosts["hosts"][0]["error"]["class"]),
        (&json!("h1"), &json!("superseded"))
    );
    let why = server.get(&format!("/jobs/{job}/why")).await.expect(200);
    let codes: Vec<&str> =
        why["reasons"].as_array().expect("reasons").iter().filter_map(|reason| reason["code"].as_str()).collect();
    assert!(codes.contains(&"hosts_superseded"), "{why}");
    let events = server.get(&format!("/events?job_id={job}&type=unit_superseded")).await.expect(200);
    assert_eq!(events["events"][0]["data"]["class"], "superseded", "{events}");
    // A second try is asked for again, about what the hosts are now.
    let again =
        server.post(&format!("/jobs/{job}/retry"), json!({"reason": "h1 was meant to change"})).await.expect(200);
    assert_eq!(again["status"], "awaiting_approval", "{again}");
    let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
    assert_eq!(shown["command"]["approval"]["retry"], true, "{shown}");
    assert!(agent.nothing_comes().await);
    approve(&server, &server.admin(), &job, json!({})).await.expect(200);
    let tasks = agent.tasks(1).await;
    assert_eq!(
        tasks[0]["params"]["host"]["scope"]["vars"]["target"], "EVIL",
        "what was approved now is what runs: {tasks:?}"
    );
}

/// A command that has another active version, after the yes: nothing more of it starts.
#[tokio::test]
async fn a_new_version_after_the_yes_supersedes_what_has_not_started() {
    let server = TestServer::start().await;
    for host in ["h1", "h2"] {
        put_host(&server, host, "good").await;
    }
    put_command(&server, "wipe", aimed()).await;
    let body = json!({"command": "wipe", "selector": "all", "rollout": {"serial": 1}});
    let job = ask(&server, &server.admin(), body).await;
    approve(&server, &server.admin(), &job, json!({})).await.expect(200);
    let agent = server.agent("agent-1", json!({"bowline/reach": "simulate"})).await;
    let tasks = agent.tasks(1).await;
    put_command(&server, "wipe", json!({"argv": ["true"], "approval": {"quorum": 2}})).await;
    agent.finish(&tasks[0], 0).await;
    let second = format!("/jobs/{job}/hosts?status=queued");
    until(Duration::from_secs(30), "the second host is begun", async || {
        let hosts = server.get(&second).await.expect(200)["hosts"].as_array().map_or(0, Vec::len);
        if hosts == 1 { Ok(()) } else { Err(hosts.to_string()) }
    })
    .await;
    assert!(agent.nothing_comes().await, "nobody said yes to the new version");
    let shown = server.until_status(&job, "failed").await;
    assert_eq!(shown["command"]["approval"]["state"], "superseded", "{shown}");
    assert_eq!(shown["job"]["error"]["class"], "superseded", "{shown}");
    let why = server.get(&format!("/jobs/{job}/why")).await.expect(200);
    assert!(why.to_string().contains("the active version of its command was 1 and is 2"), "{why}");
    // The rule of the version that counts now.
    server.post(&format!("/jobs/{job}/retry"), json!({})).await.expect(200);
    let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
    assert_eq!(shown["command"]["approval"]["quorum"], 2, "{shown}");
}

/// Who may only start what others wrote cannot choose which version.
#[tokio::test]
async fn only_the_active_version_runs_unless_the_caller_may_activate() {
    let server = TestServer::start().await;
    put_host(&server, "h1", "good").await;
    let runner = person(&server, "runner", &["jobs.write", "jobs.read"]).await;
    let editor = person(&server, "editor", &["jobs.write", "jobs.read", "resources.write"]).await;
    put_command(&server, "wipe", json!({"argv": ["true"]})).await;
    put_command(&server, "wipe", json!({"argv": ["true"], "approval": {"quorum": 2}})).await;
    let draft = json!({"spec": {"argv": ["false"]}, "activate": false});
    put(&server, "/resources/command/wipe", draft).await;
    let log = |message: &str| {
        json!({"spec": {
            "nodes": [{"id": "start", "type": "start"}, {"id": "n", "type": "log", "config": {"message": message}},
                {"id": "end", "type": "end"}],
            "edges": [{"source": "start", "target": "n"}, {"source": "n", "target": "end"}],
        }})
    };
    put(&server, "/resources/workflow/pay", log("one")).await;
    let old = ask(&server, &runner, json!({"workflow": "pay"})).await;
    put(&server, "/resources/workflow/pay", log("two")).await;
    let blueprint = |last: &str| json!({"spec": {"start": "a", "states": {"a": {"transitions": [{"to": last}]}, last: {"final": true}}}});
    put(&server, "/resources/blueprint/order", blueprint("b")).await;
    put(&server, "/resources/blueprint/order", blueprint("c")).await;
    let command = |version: u32| json!({"command": {"name": "wipe", "version": version}, "hosts": ["h1"]});
    let workflow = |version: u32| json!({"workflow": {"name": "pay", "version": version}});
    let states = |version: u32| json!({"blueprint": {"name": "order", "version": version}});
    for (body, may) in [
        (command(1), false),
        (command(3), false),
        (command(2), true),
        (workflow(1), false),
        (workflow(2), true),
        (states(1), false),
        (states(2), true),
    ] {
        let answer = server.send("POST", "/jobs", &runner, Some(body.clone())).await;
        assert_eq!(answer.status, if may { 202 } else { 403 }, "{body}: {answer:?}");
        if !may {
            assert!(answer.body.to_string().contains("resources.write"), "{answer:?}");
            server.send("POST", "/jobs", &editor, Some(body)).await.expect(202);
        }
    }
    let batch = json!({"jobs": [workflow(1), workflow(2)]});
    let answer = server.send("POST", "/jobs/batch", &runner, Some(batch)).await;
    assert_eq!((&answer.body["accepted"], &answer.body["refused"]), (&json!(1), &json!(1)), "{answer:?}");
    // A fork is pinned to what its run was pinned to.
    server.until_status(&old, "success").await;
    let fork = async |token: &str| {
        server.send("POST", &format!("/jobs/{old}/fork"), token, Some(json!({"from_step": 0}))).await.status
    };
    assert_eq!((fork(&runner).await, fork(&editor).await), (403, 202));
    // So is a second try, of a command and of an execution.
    let retry =
        async |token: &str, job: &str| server.send("POST", &format!("/jobs/{job}/retry"), token, Some(json!({}))).await;
    put_command(&server, "fails", json!({"argv": ["true"]})).await;
    let stuck = json!({"spec": {
        "nodes": [{"id": "start", "type": "start"}, {"id": "n", "type": "command", "config": {"command": "fails", "hosts": ["none"]}},
            {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "n"}, {"source": "n", "target": "end"}],
    }});
    put(&server, "/resources/workflow/stuck", stuck).await;
    let stuck = ask(&server, &runner, json!({"workflow": "stuck"})).await;
    server.until_status(&stuck, "failed").await;
    let canceled = ask(&server, &runner, json!({"command": "fails", "hosts": ["h1"]})).await;
    server.post(&format!("/jobs/{canceled}/cancel"), json!({})).await.expect(200);
    server.until_status(&canceled, "canceled").await;
    put_command(&server, "fails", json!({"argv": ["false"]})).await;
    put(&server, "/resources/workflow/stuck", log("now it only logs")).await;
    for job in [&stuck, &canceled] {
        let refused = retry(&runner, job).await;
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.body.to_string().contains("resources.write"), "{refused:?}");
        assert_eq!(retry(&editor, job).await.status, 200);
    }
    // A command that was written for one job is run again by those who could write it.
    let inline = json!({"command": {"argv": ["true"]}, "hosts": ["h1"]});
    let inline = server.send("POST", "/jobs", &server.admin(), Some(inline)).await.expect(202);
    let inline = inline["job_id"].as_str().expect("an id").to_owned();
    server.post(&format!("/jobs/{inline}/cancel"), json!({})).await.expect(200);
    server.until_status(&inline, "canceled").await;
    let refused = retry(&runner, &inline).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.body.to_string().contains("fleet.write"), "{refused:?}");
    assert_eq!(retry(&server.admin(), &inline).await.status, 200);
    // Whichever version runs, the active one says who must agree.
    let job = ask(&server, &editor, command(1)).await;
    let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
    assert_eq!(
        (&shown["job"]["status"], &shown["command"]["approval"]["quorum"]),
        (&json!("awaiting_approval"), &json!(2))
    );
}

/// A rule that is activated after the request holds for whatever has not started.
#[tokio::test]
async fn a_job_that_waits_does_not_escape_a_rule_that_comes_later() {
    let server = TestServer::start().await;
    put_host(&server, "h1", "good").await;
    put_command(&server, "wipe", json!({"argv": ["true"]})).await;
    let job = ask(&server, &server.admin(), json!({"command": "wipe", "hosts": ["h1"]})).await;
    put_command(&server, "wipe", json!({"argv": ["true"], "approval": {"four_eyes": false}})).await;
    let agent = server.agent("agent-1", json!({"bowline/reach": "simulate"})).await;
    assert!(agent.nothing_comes().await);
    server.until_status(&job, "failed").await;
    let hosts = server.get(&format!("/jobs/{job}/hosts")).await.expect(200);
    let error = &hosts["hosts"][0]["error"];
    assert_eq!(error["class"], "superseded", "{hosts}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("needs approval")), "{hosts}");
    let again = server.post(&format!("/jobs/{job}/retry"), json!({"reason": "with approval"})).await.expect(200);
    assert_eq!(again["status"], "awaiting_approval", "{again}");
    approve(&server, &server.admin(), &job, json!({})).await.expect(200);
    let tasks = agent.tasks(1).await;
    agent.finish(&tasks[0], 0).await;
    server.until_status(&job, "success").await;
}

/// One person with three tokens is one person.
#[tokio::test]
async fn four_eyes_and_quorum_count_people() {
    let server = TestServer::start().await;
    put_host(&server, "h1", "good").await;
    let scopes = ["jobs.write", "jobs.read", "approvals.write", "tokens.write"];
    let ann = person(&server, "ann", &scopes).await;
    let bob = person(&server, "bob", &scopes).await;
    let made = async |by: &str, body: Value| {
        let answer = server.send("POST", "/tokens", by, Some(body)).await.expect(201);
        answer["token"].as_str().expect("a token").to_owned()
    };
    let scopes = json!(["approvals.write"]);
    let child = made(&ann, json!({"kind": "api", "name": "second", "scopes": scopes})).await;
    // An address is not the maker's to choose.
    let disguised = json!({"kind": "api", "name": "third", "scopes": scopes, "email": "eve@example.com"});
    let refused = server.send("POST", "/tokens", &ann, Some(disguised)).await;
    assert_eq!((refused.status, refused.code()), (403, "FORBIDDEN"), "{refused:?}");
    let own_mail =
        made(&ann, json!({"kind": "api", "name": "third", "scopes": scopes, "email": "ANN@example.com"})).await;
    let whoami = server.send("GET", "/whoami", &child, None).await.expect(200);
    assert_eq!(whoami["email"], "ann@example.com", "the address of its maker: {whoami}");
    let same_mail =
        server.token(json!({"kind": "api", "name": "fourth", "scopes": scopes, "email": "Ann@Example.com"})).await;
    put_command(&server, "wipe", json!({"argv": ["true"], "approval": {"quorum": 2}})).await;
    let job = ask(&server, &ann, json!({"command": "wipe", "hosts": ["h1"]})).await;
    for (who, token) in [("ann", &ann), ("child", &child), ("own mail", &own_mail), ("same mail", &same_mail)] {
        let answer = approve(&server, token, &job, json!({})).await;
        assert_eq!(answer.status, 403, "four eyes are on by default; {who}: {answer:?}");
    }
    let of_bob = made(&bob, json!({"kind": "api", "name": "bobs", "scopes": scopes})).await;
    let noted = approve(&server, &bob, &job, json!({})).await.expect(200);
    assert_eq!((&noted["decision"], &noted["missing"]), (&json!("noted"), &json!(1)));
    assert_eq!(approve(&server, &of_bob, &job, json!({})).await.code(), "APPROVAL_DECIDED");
    let admin = approve(&server, &server.admin(), &job, json!({})).await.expect(200);
    assert_eq!(admin["decision"], "approved");
}

/// What is executed on hosts is written by those who may, wherever it is written.
#[tokio::test]
async fn inline_commands_need_fleet_write_wherever_they_stand() {
    let server = TestServer::with(Setup::default()).await;
    put_host(&server, "h1", "good").await;
    let rights = ["jobs.write", "jobs.read", "resources.write"];
    let without = person(&server, "without", &rights).await;
    let with = person(&server, "with", &[rights.as_slice(), &["fleet.write", "resources.read"]].concat()).await;
    let node = |command: Value| json!({"command": command, "hosts": ["h1"]});
    let workflow = |node_type: &str, config: Value| {
        json!({
            "nodes": [{"id": "start", "type": "start"}, {"id": "n", "type": node_type, "config": config}, {"id": "end", "type": "end"}],
            "edges": [{"source": "start", "target": "n"}, {"source": "n", "target": "end"}],
        })
    };
    let inline = json!({"argv": ["touch", "/root/x"]});
    put_command(&server, "touch", inline.clone()).await;
    let each = json!({"items": [1], "node": {"type": "command", "config": node(inline.clone())}});
    let schedule = |command: Value| json!({"spec": {"every_ms": 3_600_000, "start": node(command)}});
    let password = json!({"spec": {"ref": "file://mq", "connectors": ["mq"], "hosts": ["broker.example.com"]}});
    put(&server, "/resources/secret_ref/mq", password).await;
    let broker = json!({"url": "amqps://broker.example.com", "username": "bowline", "password": {"secret_ref": "mq"}});
    put(&server, "/resources/rabbitmq/mq", json!({ "spec": broker })).await;
    let trigger = |command: Value| json!({"spec": {"rabbitmq": {"broker": "mq", "queue": "orders"}, "enabled": false, "start": node(command)}});
    let original = ask(&server, &without, json!({"workflow": workflow("log", json!({"message": "hello"}))})).await;
    server.until_status(&original, "success").await;
    let fork = format!("/jobs/{original}/fork");
    for (method, path, body, named) in [
        ("POST", "/jobs", node(inline.clone()), node(json!("touch"))),
        (
            "POST",
            "/jobs",
            json!({"workflow": workflow("command", node(inline.clone()))}),
            json!({"workflow": workflow("command", node(json!("touch")))}),
        ),
        ("POST", "/jobs", json!({"workflow": workflow("foreach", each)}), json!({"type": "noop"})),
        (
            "PUT",
            "/resources/workflow/w",
            json!({"spec": workflow("command", node(inline.clone()))}),
            json!({"spec": workflow("command", node(json!("touch")))}),
        ),
        ("PUT", "/resources/schedule/s", schedule(inline.clone()), schedule(json!("touch"))),
        ("PUT", "/resources/trigger/t", trigger(inline.clone()), trigger(json!("touch"))),
        (
            "POST",
            &fork,
            json!({"from_step": 0, "definition": workflow("command", node(inline.clone()))}),
            json!({"from_step": 0, "definition": workflow("command", node(json!("touch")))}),
        ),
    ] {
        let answer = server.send(method, path, &without, Some(body.clone())).await;
        assert_eq!(answer.status, 403, "{path} {body}: {answer:?}");
        assert!(answer.body.to_string().contains("fleet.write"), "{answer:?}");
        for (token, body) in [(&with, body), (&without, named)] {
            let answer = server.send(method, path, token, Some(body.clone())).await;
            assert!(answer.status < 300, "{path} {body}: {answer:?}");
        }
    }
    let stored = server.send("PUT", "/resources/command/mine", &without, Some(json!({"spec": {"argv": ["id"]}}))).await;
    assert_eq!(stored.status, 403, "{stored:?}");
    let applied = json!({"documents": [{"kind": "command", "name": "mine", "spec": {"argv": ["id"]}}]});
    assert_eq!(server.send("POST", "/apply", &without, Some(applied.clone())).await.status, 403);
    server.send("POST", "/apply", &with, Some(applied)).await.expect(200);
}

fn deploying(rule: Value) -> Value {
    let mut ask = json!({"title": "deploy {{ variables.target }}?"});
    for (name, value) in rule.as_object().expect("an object") {
        ask[name] = value.clone();
    }
    json!({
        "variables": {"target": "good"},
        "nodes": [{"id": "start", "type": "start"}, {"id": "ask", "type": "approval", "config": ask},
            {"id": "deploy", "type": "log", "config": {"message": "deployed {{ variables.target }}"}}, {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "ask"}, {"source": "ask", "target": "deploy"}, {"source": "deploy", "target": "end"}],
    })
}

/// What the approver saw is what goes on: who edits a run that waits withdraws its question.
#[tokio::test]
async fn an_edit_withdraws_the_question_of_a_workflow() {
    let server = TestServer::start().await;
    put(&server, "/resources/workflow/deploy", json!({"spec": deploying(json!({}))})).await;
    let runner = person(&server, "runner", &["jobs.write", "jobs.read"]).await;
    let editor = person(&server, "editor", &["jobs.write", "jobs.read", "approvals.write"]).await;
    let approver = person(&server, "approver", &["approvals.write", "jobs.read"]).await;
    let job = ask(&server, &runner, json!({"workflow": "deploy"})).await;
    server.until_status(&job, "paused").await;
    let question = async || server.get("/approvals").await.expect(200)["approvals"][0].clone();
    let first = question().await;
    assert_eq!(first["title"], "deploy good?", "{first}");
    let edit = |target: &str| json!({"order": {"edit": {"target": target}}, "reason": "a better one"});
    let steer = format!("/jobs/{job}/steer");
    let early = server.send("POST", &steer, &runner, Some(edit("EVIL"))).await;
    assert_eq!(early.status, 403, "{early:?}");
    server.send("POST", &steer, &editor, Some(edit("EVIL"))).await.expect(200);
    let second = question().await;
    assert_eq!((&second["title"], &second["node"]), (&json!("deploy EVIL?"), &first["node"]), "it says what follows");
    assert_ne!(second["hash"], first["hash"]);
    let old = approve(&server, &approver, &job, json!({"hash": first["hash"]})).await;
    assert_eq!(old.code(), "APPROVAL_SUPERSEDED", "{old:?}");
    approve(&server, &approver, &job, json!({"hash": second["hash"]})).await.expect(200);
    server.until_status(&job, "success").await;
    // Behind a decision only those change what a run knows who may decide.
    let mut stepping = json!({"workflow": "deploy"});
    stepping["debug"] = json!(true);
    let job = ask(&server, &runner, stepping).await;
    let steer = format!("/jobs/{job}/steer");
    server.send("POST", &steer, &runner, Some(json!({"order": {"break": {"node": "deploy"}}}))).await.expect(200);
    server.send("POST", &steer, &runner, Some(json!({"order": "continue"}))).await.expect(200);
    let hash = until(Duration::from_secs(30), "it asks", async || {
        let asked = question().await;
        if asked["job_id"] == job.as_str() { Ok(asked["hash"].clone()) } else { Err(asked.to_string()) }
    })
    .await;
    approve(&server, &approver, &job, json!({ "hash": hash })).await.expect(200);
    until(Duration::from_secs(30), "it stops behind the answer", async || {
        let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
        if shown["workflow"]["paused_for"] == "debug" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    let late = server.send("POST", &steer, &runner, Some(edit("EVIL"))).await;
    assert_eq!(late.status, 403, "{late:?}");
    assert!(late.body.to_string().contains("approvals.write"), "{late:?}");
    let late = server.send("POST", &steer, &editor, Some(edit("EVIL"))).await;
    assert_eq!(late.code(), "APPROVAL_DECIDED", "the approver answers for what they saw: {late:?}");
}

/// An edit and the deciding vote at the same moment: one of them counts.
#[tokio::test]
async fn an_edit_that_races_with_the_vote_never_changes_what_was_approved() {
    let server = TestServer::start().await;
    put(&server, "/resources/workflow/deploy", json!({"spec": deploying(json!({}))})).await;
    let runner = person(&server, "runner", &["jobs.write", "jobs.read"]).await;
    let editor = person(&server, "editor", &["jobs.write", "jobs.read", "approvals.write"]).await;
    let approver = person(&server, "approver", &["approvals.write", "jobs.read"]).await;
    let edit = json!({"order": {"edit": {"target": "EVIL"}}, "reason": "a race"});
    let mut counts = (0, 0);
    for n in 0..40 {
        let job = ask(&server, &runner, json!({"workflow": "deploy"})).await;
        let shown = server.until_status(&job, "paused").await;
        // Half of them say what they have looked at.
        let body = if n % 2 == 0 { json!({"hash": shown["workflow"]["waits"][0]["hash"]}) } else { json!({}) };
        let path = format!("/jobs/{job}/steer");
        let steer = server.send("POST", &path, &editor, Some(edit.clone()));
        let (vote, edited) = tokio::join!(approve(&server, &approver, &job, body.clone()), steer);
        match (vote.status, edited.status) {
            (200, 409) => counts.0 += 1,
            (409, 200) => counts.1 += 1,
            // Without a hash, a vote may come after the question was put again, and is then about the new one.
            (200, 200) if body.get("hash").is_none() => continue,
            _ => panic!("{vote:?} {edited:?}"),
        }
        if vote.status == 200 {
            server.until_status(&job, "success").await;
            let logged = server.get(&format!("/events?job_id={job}&type=workflow_logged")).await.expect(200);
            assert!(!logged.to_string().contains("EVIL"), "{logged}");
        }
    }
    println!("the vote came first {} times, the edit {} times", counts.0, counts.1);
}

/// Nodes of workflows count people as commands do.
#[tokio::test]
async fn a_node_asks_other_people_and_as_many_as_it_says() {
    let server = TestServer::start().await;
    let scopes = ["jobs.write", "jobs.read", "approvals.write", "resources.write"];
    let (ann, bob, eve) = (
        person(&server, "ann", &scopes).await,
        person(&server, "bob", &scopes).await,
        person(&server, "eve", &scopes).await,
    );
    let job = ask(&server, &ann, json!({"workflow": deploying(json!({"quorum": 2}))})).await;
    server.until_status(&job, "paused").await;
    let own = approve(&server, &ann, &job, json!({})).await;
    assert_eq!(own.status, 403, "four eyes are on by default: {own:?}");
    let noted = approve(&server, &bob, &job, json!({})).await.expect(200);
    assert_eq!(
        (&noted["decision"], &noted["missing"], &noted["status"]),
        (&json!("noted"), &json!(1), &json!("paused"))
    );
    assert_eq!(approve(&server, &bob, &job, json!({})).await.code(), "APPROVAL_DECIDED");
    let waiting = server.get("/approvals").await.expect(200)["approvals"][0].clone();
    assert_eq!((&waiting["quorum"], &waiting["given"], &waiting["four_eyes"]), (&json!(2), &json!(1), &json!(true)));
    approve(&server, &eve, &job, json!({})).await.expect(200);
    server.until_status(&job, "success").await;
    let alone = ask(&server, &ann, json!({"workflow": deploying(json!({"four_eyes": false}))})).await;
    server.until_status(&alone, "paused").await;
    approve(&server, &ann, &alone, json!({})).await.expect(200);
    let bad = server.send("POST", "/jobs", &ann, Some(json!({"workflow": deploying(json!({"quorum": 0}))}))).await;
    assert_eq!(bad.status, 422, "{bad:?}");
}
