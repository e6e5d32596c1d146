//! Whoever may only write jobs cannot say yes: not by pinning what asks, and not by going on from behind an answer.

use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use crate::support::{Answer, TestServer};

async fn stored(server: &TestServer, kind: &str, name: &str, spec: Value) {
    let path = format!("/resources/{kind}/{name}");
    let answer = server.send("PUT", &path, &server.admin(), Some(json!({ "spec": spec }))).await;
    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
}

async fn runner(server: &TestServer) -> String {
    server
        .token(json!({
            "kind": "api", "name": "runner", "scopes": ["jobs.write", "jobs.read"], "email": "runner@example.com",
        }))
        .await
}

async fn begun(server: &TestServer, token: &str, body: Value) -> String {
    let answer = server.send("POST", "/jobs", token, Some(body)).await.expect(202);
    answer["job_id"].as_str().expect("an id").to_owned()
}

async fn pin(server: &TestServer, token: &str, job: &str, node: &str, output: Value) -> Answer {
    let order = json!({"order": {"pin": {"node": node, "output": output}}});
    server.send("POST", &format!("/jobs/{job}/steer"), token, Some(order)).await
}

/// Asks, and does something if the answer is yes. Before it, a state that asks nobody.
fn asking() -> Value {
    json!({
        "start": "before",
        "states": {
            "before": {"transitions": [{"to": "a"}]},
            "a": {"actions": [{"await_approval": {"title": "Pay?", "transitions": {"approved": "b", "rejected": "no"}}}]},
            "b": {"actions": [{"set": {"paid": true}}], "transitions": [{"to": "c"}]},
            "c": {"final": true},
            "no": {"failed": true},
        },
    })
}

fn plain() -> Value {
    json!({"start": "a", "states": {"a": {"transitions": [{"to": "b"}]}, "b": {"final": true}}})
}

fn one(node: Value) -> Value {
    json!({
        "nodes": [{"id": "start", "type": "start"}, node, {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "n"}, {"source": "n", "target": "end"}],
    })
}

#[tokio::test]
async fn pins_that_say_yes_need_the_right_to_decide() {
    let server = TestServer::start().await;
    let runner = runner(&server).await;
    stored(&server, "blueprint", "asking", asking()).await;
    stored(&server, "blueprint", "plain", plain()).await;
    let handled = json!({"start": "a", "states": {"a": {"handler": "decide"}, "b": {"final": true}}});
    stored(&server, "blueprint", "handled", handled).await;
    let over = |child: &str| {
        json!({"start": "a", "states": {
            "a": {"actions": [{"run_blueprint": {"blueprint": child, "transitions": {"success": "b"}}}]},
            "b": {"final": true},
        }})
    };
    stored(&server, "blueprint", "over-asking", over("asking")).await;
    stored(&server, "blueprint", "over-plain", over("plain")).await;
    let approval = one(json!({"id": "n", "type": "approval", "config": {"title": "Go?"}}));
    stored(&server, "workflow", "approval", approval).await;
    stored(&server, "workflow", "log", one(json!({"id": "n", "type": "log", "config": {"message": "x"}}))).await;
    let child = |name: &str| one(json!({"id": "n", "type": "workflow", "config": {"name": name}}));
    stored(&server, "workflow", "child-asks", child("approval")).await;
    stored(&server, "workflow", "grandchild-asks", child("child-asks")).await;
    stored(&server, "workflow", "child-logs", child("log")).await;
    let each = json!({"items": [1], "node": {"type": "workflow", "config": {"name": "approval"}}});
    stored(&server, "workflow", "each-asks", one(json!({"id": "n", "type": "foreach", "config": each}))).await;

    let skip = json!({"actions": [{"transition_to": "b"}]});
    for (body, node, output, status) in [
        (json!({"blueprint": "asking"}), "a", skip.clone(), 403),
        (json!({"blueprint": "asking"}), "a.act", json!({"to": "b"}), 403),
        (json!({"blueprint": "asking"}), "a", json!({"actions": []}), 403),
        // A state before it can lead past it.
        (json!({"blueprint": "asking"}), "before", skip.clone(), 403),
        (json!({"blueprint": "asking"}), "before.act", json!({"to": "b"}), 403),
        (json!({"blueprint": "handled"}), "a", skip.clone(), 403),
        (json!({"blueprint": "handled"}), "a.act", json!({"to": "b"}), 403),
        (json!({"blueprint": "over-asking"}), "a.act", json!({"to": "b"}), 403),
        (json!({"blueprint": "over-plain"}), "a.act", json!({"to": "b"}), 200),
        (json!({"blueprint": "plain"}), "a", skip.clone(), 200),
        (json!({"workflow": "approval"}), "n", json!({"approved": true}), 403),
        // Another node than the one that asks: it may stand before the question, or follow from the answer.
        (json!({"workflow": "approval"}), "start", json!({}), 403),
        (json!({"workflow": "child-asks"}), "n", json!({}), 403),
        (json!({"workflow": "grandchild-asks"}), "n", json!({}), 403),
        (json!({"workflow": "each-asks"}), "n", json!({}), 403),
        (json!({"workflow": "child-logs"}), "n", json!({}), 200),
        (json!({"workflow": "log"}), "n", json!({}), 200),
        (json!({"workflow": "log"}), "nowhere", json!({}), 422),
    ] {
        let mut wish = body.clone();
        wish["debug"] = json!(true);
        let job = begun(&server, &runner, wish).await;
        let answer = pin(&server, &runner, &job, node, output.clone()).await;
        assert_eq!(answer.status, status, "{body} {node}: {answer:?}");
        if status == 403 {
            assert!(answer.body.to_string().contains("approvals.write"), "{answer:?}");
            // Whoever may decide may.
            assert_eq!(pin(&server, &server.admin(), &job, node, output).await.status, 200, "{body} {node}");
        }
    }
    // It was refused, and so it is asked.
    let job = begun(&server, &runner, json!({"blueprint": "asking", "debug": true})).await;
    assert_eq!(pin(&server, &runner, &job, "a", skip).await.status, 403);
    let steer = format!("/jobs/{job}/steer");
    server.send("POST", &steer, &runner, Some(json!({"order": "continue"}))).await.expect(200);
    let shown = server.until_status(&job, "paused").await;
    assert_eq!(shown["workflow"]["paused_for"], "approval", "{shown}");
}

#[tokio::test]
async fn a_yes_is_for_one_run() {
    let server = TestServer::start().await;
    let approver = json!({"kind": "api", "name": "bob", "scopes": ["approvals.write"], "email": "bob@example.com"});
    let approver = server.token(approver).await;
    let runner = runner(&server).await;
    stored(&server, "blueprint", "asking", asking()).await;
    let handled = json!({
        "start": "a",
        "states": {"a": {"handler": "decide"}, "b": {"transitions": [{"to": "c"}]}, "c": {"final": true}},
    });
    stored(&server, "blueprint", "handled", handled).await;
    let approval = one(json!({"id": "n", "type": "approval", "config": {"title": "Go?"}}));
    stored(&server, "workflow", "approval", approval).await;
    // What a handler wants is pinned by somebody who may; so no worker is needed.
    let wants = json!({"actions": [{"await_approval": {"title": "Pay?", "transitions": {"approved": "b"}}}]});
    let wants_nothing = json!({"actions": [{"transition_to": "b"}]});
    // Steps before the question is answered, and the step of the answer.
    for (body, pinned, (before, early), (after, late)) in [
        (json!({"workflow": "approval"}), None, (1, 202), (2, 403)),
        (json!({"blueprint": "asking"}), None, (4, 202), (5, 403)),
        // What is pinned comes along, and could stand in for what the handler asks there.
        (json!({"blueprint": "handled"}), Some(wants), (2, 403), (3, 403)),
        (json!({"blueprint": "handled"}), Some(wants_nothing), (2, 403), (3, 403)),
    ] {
        let mut wish = body.clone();
        wish["debug"] = json!(true);
        let job = begun(&server, &runner, wish).await;
        let asked = pinned.as_ref().is_none_or(|output| output.to_string().contains("await_approval"));
        if let Some(output) = pinned {
            pin(&server, &server.admin(), &job, "a", output).await.expect(200);
        }
        server.post(&format!("/jobs/{job}/steer"), json!({"order": "continue"})).await.expect(200);
        if asked {
            server.until_status(&job, "paused").await;
            // The administrator may have pinned something, and does not approve that.
            let yes = Some(json!({"reason": "looked at it"}));
            server.send("POST", &format!("/jobs/{job}/approve"), &approver, yes).await.expect(200);
        }
        server.until_status(&job, "success").await;
        let fork = format!("/jobs/{job}/fork");
        let from = |step: u32| Some(json!({"from_step": step}));
        let answer = server.send("POST", &fork, &runner, from(before)).await;
        assert_eq!(answer.status, early, "{body}: it is asked again: {answer:?}");
        let answer = server.send("POST", &fork, &runner, from(after)).await;
        assert_eq!(answer.status, late, "{body}: {answer:?}");
        assert_eq!(server.post(&fork, json!({"from_step": after})).await.status, 202, "{body}");
    }
}

/// A condition decides whether somebody is asked, and a child runs after the answer.
fn guarded() -> Value {
    json!({
        "variables": {"total": 500},
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "large", "type": "condition", "config": {"expression": "variables.total > 100"}},
            {"id": "ask", "type": "approval", "config": {"title": "Pay {{ variables.total }}?"}},
            {"id": "pay", "type": "log", "config": {"message": "paid {{ variables.total }}"}},
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"source": "start", "target": "large"},
            {"source": "large", "target": "ask", "on": "true"},
            {"source": "large", "target": "pay", "on": "false"},
            {"source": "ask", "target": "pay"},
            {"source": "pay", "target": "end"},
        ],
    })
}

async fn steer(server: &TestServer, token: &str, job: &str, order: Value) -> Answer {
    let body = json!({"order": order, "reason": "to change it"});
    server.send("POST", &format!("/jobs/{job}/steer"), token, Some(body)).await
}

/// Whatever a debugger can change is part of what people are asked about, wherever it stands in the definition.
#[tokio::test]
async fn changes_by_hand_need_the_right_to_decide_wherever_somebody_is_asked() {
    let server = TestServer::start().await;
    let runner = runner(&server).await;
    stored(&server, "workflow", "guarded", guarded()).await;
    let child = one(json!({"id": "n", "type": "wait_event", "config": {"event": "go"}}));
    stored(&server, "workflow", "waits", child).await;
    let parent = json!({
        "nodes": [{"id": "start", "type": "start"}, {"id": "ask", "type": "approval", "config": {"title": "Go?"}},
            {"id": "child", "type": "workflow", "config": {"name": "waits"}}, {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "ask"}, {"source": "ask", "target": "child"}, {"source": "child", "target": "end"}],
    });
    stored(&server, "workflow", "parent", parent).await;

    let job = begun(&server, &runner, json!({"workflow": "guarded", "debug": true})).await;
    let orders = [
        json!({"pin": {"node": "large", "output": {"result": false}}}),
        json!({"pin": {"node": "pay", "output": {"message": "paid"}}}),
        json!({"unpin": "pay"}),
        json!({"edit": {"total": 1}}),
    ];
    for order in &orders {
        let answer = steer(&server, &runner, &job, order.clone()).await;
        assert_eq!(answer.status, 403, "before the question: {order}: {answer:?}");
    }
    // What only says where it stops changes nothing.
    for order in [json!({"break": {"node": "pay"}}), json!("continue")] {
        steer(&server, &runner, &job, order).await.expect(200);
    }
    let shown = server.until_status(&job, "paused").await;
    let first = shown["workflow"]["waits"][0]["hash"].clone();
    for order in &orders {
        let answer = steer(&server, &runner, &job, order.clone()).await;
        assert_eq!(answer.status, 403, "while it waits: {order}: {answer:?}");
    }
    // Those who may decide change what is asked, and it is asked again.
    steer(&server, &server.admin(), &job, orders[1].clone()).await.expect(200);
    let hash = async || {
        let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
        shown["workflow"]["waits"][0]["hash"].clone()
    };
    let second = hash().await;
    assert_ne!(first, second, "the pin is in the hash");
    let path = format!("/jobs/{job}/approve");
    let old = server.post(&path, json!({"hash": first})).await;
    assert_eq!(old.code(), "APPROVAL_SUPERSEDED", "{old:?}");
    steer(&server, &server.admin(), &job, json!({"unpin": "pay"})).await.expect(200);
    assert_eq!(hash().await, first, "as it was");
    let fork = async |body: Value| server.send("POST", &format!("/jobs/{job}/fork"), &runner, Some(body)).await.status;
    assert_eq!(fork(json!({"from_step": 1, "patch": {"variables": {"total": 1}}})).await, 403);
    assert_eq!(fork(json!({"from_step": 1})).await, 202);
    // A pin comes along, and this one leads past the question.
    steer(&server, &server.admin(), &job, orders[0].clone()).await.expect(200);
    let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
    assert_eq!(fork(json!({"from_step": shown["workflow"]["steps"]})).await, 403);

    // What was started after a yes is what the yes was about.
    let job = begun(&server, &runner, json!({"workflow": "parent"})).await;
    server.until_status(&job, "paused").await;
    server.post(&format!("/jobs/{job}/approve"), json!({})).await.expect(200);
    let child = bowline_testkit::until(std::time::Duration::from_secs(30), "the child waits", async || {
        let jobs = server.get("/jobs?status=paused").await.expect(200);
        for one in jobs["jobs"].as_array().expect("jobs") {
            let id = one["id"].as_str().expect("an id");
            let shown = server.get(&format!("/jobs/{id}")).await.expect(200);
            if shown["workflow"]["parent"] == job.as_str() {
                return Ok(id.to_owned());
            }
        }
        Err(jobs.to_string())
    })
    .await;
    for order in [json!({"edit": {"x": 1}}), json!({"pin": {"node": "end", "output": {}}})] {
        assert_eq!(steer(&server, &runner, &child, order.clone()).await.status, 403, "{order}");
        // Two people stand for it as it is, so one alone does not change it.
        assert_eq!(steer(&server, &server.admin(), &child, order.clone()).await.code(), "APPROVAL_DECIDED", "{order}");
    }
}

/// Four eyes: a person who edits what is asked about has asked for it, too.
#[tokio::test]
async fn an_editor_does_not_approve_their_own_edit() {
    let server = TestServer::start().await;
    let runner = runner(&server).await;
    let scopes = ["jobs.read", "jobs.write", "approvals.write", "tokens.write"];
    let editor = json!({"kind": "api", "name": "kim", "scopes": scopes, "email": "kim@example.com"});
    let editor = server.token(editor).await;
    stored(&server, "workflow", "guarded", guarded()).await;
    let job = begun(&server, &runner, json!({"workflow": "guarded"})).await;
    server.until_status(&job, "paused").await;
    steer(&server, &editor, &job, json!({"edit": {"total": 900}})).await.expect(200);
    let path = format!("/jobs/{job}/approve");
    let own = server.send("POST", &path, &editor, Some(json!({}))).await;
    assert_eq!(own.status, 403, "{own:?}");
    assert!(own.body.to_string().contains("changed"), "{own:?}");
    let made = json!({"kind": "api", "name": "kim-2", "scopes": ["approvals.write"]});
    let made = server.send("POST", "/tokens", &editor, Some(made)).await.expect(201);
    let second = server.send("POST", &path, made["token"].as_str().expect("a token"), Some(json!({}))).await;
    assert_eq!(second.status, 403, "people, not tokens: {second:?}");
    server.post(&path, json!({})).await.expect(200);
    server.until_status(&job, "success").await;

    // A fork continues with the edit.
    let job = begun(&server, &runner, json!({"workflow": "guarded"})).await;
    server.until_status(&job, "paused").await;
    steer(&server, &editor, &job, json!({"edit": {"total": 901}})).await.expect(200);
    let from = Some(json!({"from_step": 2}));
    let fork = server.send("POST", &format!("/jobs/{job}/fork"), &server.admin(), from).await.expect(202);
    let fork = fork["job_id"].as_str().expect("an id");
    server.until_status(fork, "paused").await;
    let own = server.send("POST", &format!("/jobs/{fork}/approve"), &editor, Some(json!({}))).await;
    assert_eq!(own.status, 403, "{own:?}");
}

/// An execution has the rights of the person who started it, at the moment of each command.
#[tokio::test]
async fn a_command_node_needs_the_rights_of_the_starter_when_it_runs() {
    let server = TestServer::start().await;
    let host = json!({"connection": {"via": "simulate"}});
    server.send("PUT", "/hosts/h1", &server.admin(), Some(host)).await.expect(201);
    stored(&server, "command", "touch", json!({"argv": ["touch", "x"]})).await;
    let waiting = |command: Value| {
        json!({
            "nodes": [
                {"id": "start", "type": "start"},
                {"id": "wait", "type": "wait_event", "config": {"event": "go"}},
                {"id": "n", "type": "command", "config": {"command": command, "hosts": ["h1"]}},
                {"id": "end", "type": "end"},
            ],
            "edges": [{"source": "start", "target": "wait"}, {"source": "wait", "target": "n"}, {"source": "n", "target": "end"}],
        })
    };
    stored(&server, "workflow", "named", waiting(json!("touch"))).await;
    stored(&server, "workflow", "inline", waiting(json!({"argv": ["touch", "x"]}))).await;
    let made = async |scopes: &[&str]| {
        let body = json!({"kind": "api", "name": "starter", "scopes": scopes});
        let made = server.post("/tokens", body).await.expect(201);
        (made["id"].as_str().expect("an id").to_owned(), made["token"].as_str().expect("a token").to_owned())
    };
    for (workflow, scopes, revoke, refused) in [
        ("named", &["jobs.write"][..], false, None),
        ("named", &["jobs.write"], true, Some("was revoked")),
        ("inline", &["jobs.write"], false, Some("fleet.write")),
        ("inline", &["jobs.write", "fleet.write"], false, None),
        ("inline", &["jobs.write", "fleet.write"], true, Some("was revoked")),
    ] {
        let (id, token) = made(scopes).await;
        let job = begun(&server, &token, json!({"workflow": workflow})).await;
        server.until_status(&job, "paused").await;
        if revoke {
            server.post(&format!("/tokens/{id}/revoke"), json!({})).await.expect(200);
        }
        server.post(&format!("/jobs/{job}/signal"), json!({"event": "go"})).await.expect(200);
        match refused {
            Some(why) => {
                let shown = server.until_status(&job, "failed").await;
                assert!(shown["job"]["error"].to_string().contains(why), "{workflow} {scopes:?}: {shown}");
            }
            None => {
                bowline_testkit::until(std::time::Duration::from_secs(30), "the command is started", async || {
                    let jobs = server.get("/jobs?type=bowline.command").await.expect(200);
                    let mine =
                        jobs["jobs"].as_array().expect("jobs").iter().any(|one| one["parent_id"] == job.as_str());
                    let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
                    if mine || shown["workflow"]["node"] == "n" { Ok(()) } else { Err(format!("{jobs} {shown}")) }
                })
                .await;
                let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
                assert_ne!(shown["job"]["status"], "failed", "{workflow} {scopes:?}: {shown}");
            }
        }
    }
}

/// What was approved happens again in a second try, so that is approved again.
#[tokio::test]
async fn a_second_try_of_an_approved_execution_is_a_decision() {
    let server = TestServer::start().await;
    let runner = runner(&server).await;
    let person = async |name: &str, scopes: &[&str]| {
        let email = format!("{name}@example.com");
        server.token(json!({"kind": "api", "name": name, "scopes": scopes, "email": email})).await
    };
    let starter = person("starter", &["jobs.write", "jobs.read", "approvals.write"]).await;
    let other = person("other", &["jobs.write", "approvals.write"]).await;
    let failing = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "ask", "type": "approval", "config": {"title": "Go?"}},
            {"id": "n", "type": "command", "config": {"command": "none-of-this-name", "hosts": ["h1"]}},
            {"id": "end", "type": "end"},
        ],
        "edges": [{"source": "start", "target": "ask"}, {"source": "ask", "target": "n"}, {"source": "n", "target": "end"}],
    });
    stored(&server, "command", "none-of-this-name", json!({"argv": ["true"]})).await;
    stored(&server, "workflow", "failing", failing).await;
    // There is no host h1, so what follows the yes fails.
    let job = begun(&server, &starter, json!({"workflow": "failing"})).await;
    server.until_status(&job, "paused").await;
    server.post(&format!("/jobs/{job}/approve"), json!({})).await.expect(200);
    server.until_status(&job, "failed").await;
    let retry = format!("/jobs/{job}/retry");
    let answer = server.send("POST", &retry, &runner, Some(json!({}))).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.body.to_string().contains("approvals.write"), "{answer:?}");
    let answer = server.send("POST", &retry, &starter, Some(json!({}))).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.body.to_string().contains("four eyes"), "{answer:?}");
    server.send("POST", &retry, &other, Some(json!({}))).await.expect(200);
}

#[tokio::test]
async fn a_second_try_of_a_job_behind_an_approval_is_a_decision() {
    let server = TestServer::start().await;
    let runner = runner(&server).await;
    let behind_a_yes = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "ask", "type": "approval", "config": {"title": "Go?"}},
            {"id": "n", "type": "task", "config": {"type": "consent.nobody"}},
            {"id": "end", "type": "end"},
        ],
        "edges": [{"source": "start", "target": "ask"}, {"source": "ask", "target": "n"}, {"source": "n", "target": "end"}],
    });
    stored(&server, "workflow", "behind-a-yes", behind_a_yes).await;
    let job = begun(&server, &runner, json!({"workflow": "behind-a-yes"})).await;
    server.until_status(&job, "paused").await;
    server.post(&format!("/jobs/{job}/approve"), json!({})).await.expect(200);
    let child = until(Duration::from_secs(30), "the task has started", async || {
        let list = server.get(&format!("/jobs?parent={job}")).await.expect(200);
        list["jobs"][0]["id"].as_str().map(str::to_owned).ok_or_else(|| list.to_string())
    });
    let child = child.await;
    server.post(&format!("/jobs/{child}/cancel"), json!({})).await.expect(200);
    let retry = format!("/jobs/{child}/retry");
    let answer = server.send("POST", &retry, &runner, Some(json!({}))).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.body.to_string().contains("approvals.write"), "{answer:?}");
    server.post(&retry, json!({})).await.expect(200);
}
