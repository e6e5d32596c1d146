//! Whoever may only write jobs cannot say yes: not by pinning what asks, and not by going on from behind an answer.

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
        (json!({"workflow": "approval"}), "start", json!({}), 200),
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
            server.post(&format!("/jobs/{job}/approve"), json!({"reason": "looked at it"})).await.expect(200);
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
