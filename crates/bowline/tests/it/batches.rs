//! Batches: wishes of every sort in one request, stored together and answered one by one.

use serde_json::{Value, json};

use crate::support::TestServer;

/// Doubles what it is given, at once.
fn doubling() -> Value {
    json!({
        "nodes": [{"id": "start", "type": "start"},
            {"id": "end", "type": "end", "config": {"output": "{{ webhook.payload.n * 2 }}"}}],
        "edges": [{"source": "start", "target": "end"}],
    })
}

/// Waits for somebody to say yes.
fn asking() -> Value {
    json!({
        "nodes": [{"id": "start", "type": "start"}, {"id": "ask", "type": "approval", "config": {"title": "Go?", "four_eyes": false}},
            {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "ask"}, {"source": "ask", "target": "end"}],
    })
}

fn turnstile() -> Value {
    json!({"start": "closed", "states": {
        "closed": {"transitions": [{"when": "variables.coins > 0", "to": "open"}, {"to": "stuck"}]},
        "open": {"final": true}, "stuck": {"final": true}}})
}

async fn saved(server: &TestServer, kind: &str, name: &str, spec: Value) {
    let path = format!("/resources/{kind}/{name}");
    let answer = server.send("PUT", &path, &server.admin(), Some(json!({ "spec": spec }))).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

fn counts(answer: &Value) -> (Option<u64>, Option<u64>, Option<u64>) {
    (answer["accepted"].as_u64(), answer["replayed"].as_u64(), answer["refused"].as_u64())
}

#[tokio::test]
async fn a_batch_takes_workflows_and_blueprints_as_single_wishes_do() {
    let server = TestServer::start().await;
    saved(&server, "workflow", "double", doubling()).await;
    saved(&server, "blueprint", "turnstile", turnstile()).await;
    let jobs = json!([
        {"workflow": "double", "input": {"n": 4}, "idempotency_key": "a"},
        {"type": "noop"},
        {"workflow": "double", "input": {"n": 4}, "idempotency_key": "a"},
        {"workflow": "double", "input": {"n": 5}, "idempotency_key": "a"},
        {"blueprint": {"name": "turnstile", "version": 1}, "data": {"coins": 1}, "external_id": "b"},
        {"workflow": asking(), "lane": "low"},
        {"workflow": "double", "input": {"n": 1}, "debug": true},
        {"blueprint": turnstile(), "data": {"coins": 0}},
    ]);
    let answer = server.post("/jobs/batch", json!({ "jobs": jobs.clone() })).await.expect(202);
    assert_eq!(counts(&answer), (Some(6), Some(1), Some(1)), "{answer}");
    let results = answer["results"].as_array().expect("a list");
    let words: Vec<&str> = results.iter().map(|item| item["status"].as_str().unwrap_or("refused")).collect();
    assert_eq!(words, ["success", "queued", "success", "refused", "success", "paused", "paused", "success"]);
    assert_eq!(results[2]["job_id"], results[0]["job_id"]);
    assert_eq!(results[3]["error"]["code"], "IDEMPOTENCY_CONFLICT");
    // They came into the ledger together, tasks and workflows alike.
    let moments: std::collections::BTreeSet<&str> = results.iter().filter_map(|r| r["queued_at"].as_str()).collect();
    assert_eq!(moments.len(), 1, "{answer}");
    let path = |n: usize| format!("/jobs/{}", results[n]["job_id"].as_str().expect("an id"));
    let shown = server.get(&path(0)).await.expect(200);
    assert_eq!((&shown["job"]["result"], &shown["workflow"]["name"]), (&json!(8), &json!("double")));
    let states = server.get(&format!("{}/steps", path(4))).await.expect(200);
    assert_eq!(states["steps"][3]["node"], "open", "{states}");
    // What is not over goes on from there.
    let approved = server.post(&format!("{}/approve", path(5)), json!({})).await.expect(200);
    assert_eq!(approved["status"], "success", "{approved}");
    let stepped = server.post(&format!("{}/steer", path(6)), json!({"order": "continue"})).await.expect(200);
    assert_eq!(stepped["status"], "success", "{stepped}");
    // The second ask is the first one.
    let keyed: Vec<&Value> = [0, 4].iter().filter_map(|n| jobs.get(*n)).collect();
    let again = server.post("/jobs/batch", json!({ "jobs": keyed })).await.expect(202);
    assert_eq!(counts(&again), (Some(0), Some(2), Some(0)), "{again}");
    assert_eq!(
        (&again["results"][0]["job_id"], &again["results"][1]["job_id"]),
        (&results[0]["job_id"], &results[4]["job_id"])
    );
    let single = server.post("/jobs", jobs[0].clone()).await.expect(202);
    assert_eq!((&single["job_id"], &single["result"]), (&results[0]["job_id"], &json!(8)));
}

#[tokio::test]
async fn a_bad_workflow_in_a_batch_is_refused_as_it_is_alone_and_holds_up_nobody() {
    let server = TestServer::start().await;
    saved(&server, "workflow", "double", doubling()).await;
    let mut wrong = doubling();
    wrong["nodes"][1]["config"]["output"] = "{{ 1 + }}".into();
    let bad = [
        json!({"workflow": "nothing"}),
        json!({"workflow": {"name": "double", "version": 9}}),
        json!({"workflow": wrong}),
        json!({"workflow": {"nodes": 7}}),
        json!({"workflow": "double", "payload": 1}),
        json!({"workflow": "double", "breakpoints": [{"node": "nowhere"}]}),
        json!({"blueprint": "nothing"}),
        json!({"blueprint": turnstile(), "data": 7}),
        json!({"blueprint": {"start": "nowhere", "states": {}}}),
    ];
    let mut jobs = bad.to_vec();
    jobs.push(json!({"workflow": "double", "input": {"n": 1}}));
    let answer = server.post("/jobs/batch", json!({ "jobs": jobs })).await.expect(202);
    assert_eq!(counts(&answer), (Some(1), Some(0), Some(bad.len() as u64)), "{answer}");
    for (n, body) in bad.into_iter().enumerate() {
        let alone = server.post("/jobs", body.clone()).await;
        assert!((400..500).contains(&alone.status), "{alone:?}");
        assert_eq!(answer["results"][n]["error"], alone.body["error"], "{body}");
    }
    // Whoever may only run what others have written cannot write it into a batch either.
    let runner = server.token(json!({"kind": "api", "name": "runner", "scopes": ["jobs.write", "jobs.read"]})).await;
    let jobs = json!({"jobs": [{"workflow": doubling()}, {"workflow": "double", "input": {"n": 2}}]});
    let answer = server.send("POST", "/jobs/batch", &runner, Some(jobs)).await.expect(202);
    assert_eq!(answer["results"][0]["error"]["code"], "FORBIDDEN", "{answer}");
    assert_eq!(answer["results"][1]["status"], "success", "{answer}");
    let command = json!({"command": {"argv": ["true"]}, "selector": "all"});
    let answer = server.post("/jobs/batch", json!({ "jobs": [command] })).await.expect(202);
    assert_eq!(answer["results"][0]["error"]["details"]["field"], "command", "{answer}");
}
