//! Workflows through the door: asking for runs, looking at them, steering them; and the same with the real program.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use bowline_testkit::{Child, until};
use serde_json::{Value, json};

use crate::support::{Answer, TestServer};

const PATIENCE: Duration = Duration::from_secs(60);

/// Counts to three in a loop, and says how far it came.
fn counting() -> Value {
    json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "add", "type": "math", "config": {"expression": "variables.n + 1", "store_as": "n"}},
            {"id": "more", "type": "condition", "config": {"expression": "{{ variables.n < webhook.payload.to }}"}},
            {"id": "end", "type": "end", "config": {"output": {"n": "{{ variables.n }}"}}},
        ],
        "edges": [
            {"source": "start", "target": "add"},
            {"source": "add", "target": "more"},
            {"source": "more", "target": "add", "on": "true"},
            {"source": "more", "target": "end", "on": "false"},
        ],
        "variables": {"n": 0},
    })
}

/// One node that waits, between a beginning and an end that tells what it gave.
fn waiting(node: Value) -> Value {
    let mut node = node;
    node["id"] = "ask".into();
    json!({
        "nodes": [{"id": "start", "type": "start"}, node,
            {"id": "end", "type": "end", "config": {"output": "{{ steps.ask.output }}"}}],
        "edges": [{"source": "start", "target": "ask"}, {"source": "ask", "target": "end"}],
    })
}

async fn stored(server: &TestServer, name: &str, spec: Value) {
    let path = format!("/resources/workflow/{name}");
    let answer = server.send("PUT", &path, &server.admin(), Some(json!({ "spec": spec }))).await;
    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
}

async fn begin(server: &TestServer, body: Value) -> Value {
    server.post("/jobs", body).await.expect(202)
}

fn id(answer: &Value) -> String {
    answer["job_id"].as_str().expect("an id").to_owned()
}

async fn job(server: &TestServer, id: &str) -> Value {
    server.get(&format!("/jobs/{id}")).await.expect(200)
}

async fn steer(server: &TestServer, id: &str, order: Value) -> Answer {
    server.post(&format!("/jobs/{id}/steer"), json!({ "order": order })).await
}

/// The field that a refusal names.
fn field(answer: &Answer) -> &str {
    let details = &answer.body["error"]["details"];
    details["field"].as_str().or_else(|| details["path"].as_str()).unwrap_or("")
}

#[tokio::test]
async fn a_definition_that_is_sent_along_is_listed_by_its_name() {
    let server = TestServer::start().await;
    let mut named = json!({"workflow": counting(), "name": "first", "input": {"to": 2}, "idempotency_key": "k"});
    let answer = begin(&server, named.clone()).await;
    let shown = job(&server, &id(&answer)).await;
    assert_eq!((&shown["job"]["title"], &shown["workflow"]["name"]), (&json!("workflow first"), &json!("first")));
    let context = server.get(&format!("/jobs/{}/context", id(&answer))).await.expect(200);
    assert_eq!(context["context"]["execution"]["workflow"], "first");
    assert_eq!(server.get("/jobs?workflow=first").await.expect(200)["jobs"].as_array().map(Vec::len), Some(1));
    // The same request is the same job; by another name it is another request.
    assert_eq!(begin(&server, named.clone()).await["idempotency"]["replayed"], true);
    named["name"] = json!("second");
    assert_eq!(server.post("/jobs", named).await.code(), "IDEMPOTENCY_CONFLICT");
    let blueprint = json!({"start": "done", "states": {"done": {"final": true}}});
    let answer = begin(&server, json!({"blueprint": blueprint, "name": "small"})).await;
    assert_eq!(job(&server, &id(&answer)).await["job"]["title"], "workflow small");
    let unnamed = begin(&server, json!({"workflow": counting(), "input": {"to": 2}})).await;
    assert_eq!(job(&server, &id(&unnamed)).await["job"]["title"], "workflow inline");
    // A name is for a definition, and can be one.
    for bad in [json!({"workflow": "count", "name": "x"}), json!({"type": "echo", "name": "x"})] {
        let refused = server.post("/jobs", bad).await;
        assert_eq!((refused.status, field(&refused)), (400, "name"), "{refused:?}");
    }
    assert_eq!(server.post("/jobs", json!({"workflow": counting(), "name": "No Name!"})).await.status, 400);
}

#[tokio::test]
async fn a_run_that_needs_nobody_is_over_in_the_answer() {
    let server = TestServer::start().await;
    stored(&server, "count", counting()).await;
    let body = json!({"workflow": "count", "input": {"to": 3}, "idempotency_key": "k1", "external_id": "x1"});
    let answer = begin(&server, body.clone()).await;
    assert_eq!((&answer["status"], &answer["result"]), (&json!("success"), &json!({"n": 3})));
    assert!(answer.get("error").is_none(), "{answer}");
    let again = begin(&server, body.clone()).await;
    assert_eq!((&again["job_id"], &again["idempotency"]["replayed"]), (&answer["job_id"], &json!(true)));
    assert_eq!(again["result"], json!({"n": 3}), "the second answer is the first one");
    // Security: whoever may not read jobs learns from a duplicate that it is one, and not what came of the first.
    let writer = server.token(json!({"kind": "api", "name": "w", "scopes": ["jobs.write"]})).await;
    let blind = server.send("POST", "/jobs", &writer, Some(body)).await.expect(202);
    assert_eq!((&blind["job_id"], &blind["idempotency"]["replayed"]), (&answer["job_id"], &json!(true)));
    assert_eq!((blind.get("result"), blind.get("error")), (None, None), "{blind}");
    let other = json!({"workflow": "count", "input": {"to": 4}, "idempotency_key": "k1"});
    assert_eq!(server.post("/jobs", other).await.code(), "IDEMPOTENCY_CONFLICT");
    let id = id(&answer);
    let shown = job(&server, &id).await;
    let view = &shown["workflow"];
    assert_eq!((&view["name"], &view["version"], &view["steps"]), (&json!("count"), &json!(1), &json!(8)));
    assert_eq!((&view["node"], &view["paused_for"], &view["waits"]), (&Value::Null, &Value::Null, &json!([])));
    // Steps, in pages.
    let first = server.get(&format!("/jobs/{id}/steps?limit=3")).await.expect(200);
    assert_eq!(first["next"], 4);
    let step = &first["steps"][1];
    assert_eq!((&step["n"], &step["node"], &step["type"]), (&json!(2), &json!("add"), &json!("math")));
    assert_eq!((&step["visit"], &step["status"], &step["origin"]), (&json!(1), &json!("success"), &json!("own")));
    assert_eq!(step["set"], json!({"n": 1}));
    assert_eq!(first["steps"][2]["exit"], json!({"port": "true"}));
    let rest = server.get(&format!("/jobs/{id}/steps?from=4&limit=500")).await.expect(200);
    assert_eq!((rest["steps"].as_array().map(Vec::len), &rest["next"]), (Some(5), &Value::Null));
    // What each received, where it came from and where it led; worked out again.
    assert_eq!((&step["input"], &first["steps"][0]["input"]), (&json!({"variables.n": 0}), &json!({"to": 3})));
    assert_eq!((&step["previous"], &step["next"]), (&json!(["start"]), &json!(["more"])));
    assert_eq!((&first["skipped"], &rest["skipped"], &rest["skipped_count"]), (&json!([]), &json!([]), &json!(0)));
    assert_eq!((&rest["created_by"]["name"], &view["created_by"]), (&json!("admin"), &shown["job"]["actor"]));
    // The context after any step.
    let seen = server.get(&format!("/jobs/{id}/context?step=4")).await.expect(200);
    assert_eq!((&seen["step"], &seen["steps"]), (&json!(4), &json!(8)));
    assert_eq!(seen["context"]["variables"], json!({"n": 2}));
    assert_eq!(seen["context"]["webhook"]["payload"], json!({"to": 3}));
    let change = seen["diff"].as_array().expect("a list").iter().find(|c| c["path"] == "variables.n");
    assert_eq!(change.map(|c| (&c["before"], &c["after"])), Some((&json!(1), &json!(2))));
    assert_eq!(seen["places"][0]["node"], "more");
    // Pictures.
    let mermaid = server.get(&format!("/jobs/{id}/graph")).await;
    assert_eq!(mermaid.status, 200);
    let drawn = server.get(&format!("/jobs/{id}/graph?format=json")).await.expect(200);
    assert_eq!(drawn["nodes"], json!({"start": "done", "add": "done", "more": "done", "end": "done"}));
    assert_eq!(drawn["definition"]["edges"].as_array().map(Vec::len), Some(4));
    let svg = server.http().get(server.url(&format!("/jobs/{id}/graph?format=svg"))).bearer_auth(server.admin());
    let svg = svg.send().await.expect("an answer");
    assert_eq!(svg.headers()["content-type"], "image/svg+xml");
    assert!(svg.text().await.expect("a text").starts_with("<svg"));
}

#[tokio::test]
async fn wrong_definitions_are_told_with_every_mistake_and_its_place() {
    let server = TestServer::start().await;
    let mut wrong = counting();
    wrong["nodes"][1]["config"]["expression"] = "variables.n +".into();
    wrong["edges"][3]["target"] = "nowhere".into();
    let answer = server.post("/jobs", json!({ "workflow": wrong })).await;
    assert_eq!((answer.status, answer.code()), (422, "VALIDATION_ERROR"), "{answer:?}");
    let mistakes = answer.body["error"]["details"]["mistakes"].as_array().expect("a list").clone();
    let places: Vec<&str> = mistakes.iter().filter_map(|mistake| mistake["path"].as_str()).collect();
    assert!(places.contains(&"workflow.nodes[1].config.expression"), "{mistakes:?}");
    assert!(places.contains(&"workflow.edges[3].target"), "{mistakes:?}");
    let unreadable = json!({"workflow": {"nodes": [{"id": "a"}, 7], "edges": []}});
    let answer = server.post("/jobs", unreadable).await;
    assert_eq!(answer.status, 422);
    assert_eq!(answer.body["error"]["details"]["mistakes"].as_array().map(Vec::len), Some(2), "{answer:?}");
    for (body, status, place) in [
        (json!({"workflow": "nothing"}), 422, "workflow"),
        (json!({"workflow": {"name": "nothing", "version": 3}}), 422, "workflow"),
        (json!({"workflow": 7}), 400, "workflow"),
        (json!({"workflow": counting(), "breakpoints": [{"node": "nowhere"}]}), 422, "breakpoints[0]"),
        (json!({"workflow": counting(), "breakpoints": [{"node": "add", "when": "{{"}]}), 422, "breakpoints[0]"),
        (json!({"workflow": counting(), "breakpoints": [{"node": "add", "wenn": "x"}]}), 400, "breakpoints[0].wenn"),
        (json!({"workflow": counting(), "type": "echo"}), 400, "type"),
        (json!({"workflow": counting(), "payload": {}}), 400, "payload"),
        (json!({"workflow": counting(), "params": {}}), 400, "params"),
        (json!({"workflow": counting(), "priority": 1000}), 400, "priority"),
        (json!({"workflow": counting(), "debug": "yes"}), 400, "debug"),
        (json!({"type": "echo", "input": {}}), 400, "input"),
        (json!({"type": "echo", "debug": true}), 400, "debug"),
    ] {
        let answer = server.post("/jobs", body.clone()).await;
        assert_eq!((answer.status, field(&answer)), (status, place), "{body}: {answer:?}");
    }
    let batch = server.post("/jobs/batch", json!({"jobs": [{"workflow": "x"}, {"type": "echo"}]})).await.expect(202);
    assert_eq!((&batch["accepted"], &batch["refused"]), (&json!(1), &json!(1)));
    // Whoever may only run what others have written cannot write it into the wish.
    let runner = server.token(json!({"kind": "api", "name": "runner", "scopes": ["jobs.write", "jobs.read"]})).await;
    let inline = server.send("POST", "/jobs", &runner, Some(json!({ "workflow": counting() }))).await;
    assert_eq!((inline.status, inline.code()), (403, "FORBIDDEN"));
    stored(&server, "count", counting()).await;
    let named = json!({"workflow": {"name": "count", "version": 1}, "input": {"to": 1}});
    assert_eq!(server.send("POST", "/jobs", &runner, Some(named)).await.status, 202);
    let types = server.get("/workflows/node-types").await.expect(200);
    let types: Vec<&str> =
        types["types"].as_array().expect("a list").iter().filter_map(|t| t["type"].as_str()).collect();
    assert!(types.contains(&"approval") && types.contains(&"start"), "{types:?}");
}

#[tokio::test]
async fn a_run_is_stepped_through_changed_and_let_go() {
    let server = TestServer::start().await;
    let begun = begin(&server, json!({"workflow": counting(), "input": {"to": 3}, "debug": true})).await;
    let id = id(&begun);
    let path = format!("/jobs/{id}/steer");
    assert_eq!(begun["status"], "paused");
    assert_eq!(job(&server, &id).await["workflow"]["paused_for"], "debug");
    let stepped = steer(&server, &id, json!("step")).await.expect(200);
    assert_eq!((&stepped["status"], &stepped["paused_for"]), (&json!("paused"), &json!("debug")));
    // What makes no sense is refused, and changes nothing.
    for (body, status) in [
        (json!({"order": "jump"}), 400),
        (json!({"order": {"run_to": 7}}), 400),
        (json!({"order": {"run_to": "nowhere"}}), 422),
        (json!({"order": {"break": {"node": "add", "when": "{{ variables. }}"}}}), 422),
        (json!({"order": {"pin": {"node": "add", "output": 1, "more": 2}}}), 400),
        (json!({"order": {"pin": {"node": "add"}}}), 400),
        (json!({"order": "step", "why": "x"}), 400),
        (json!({"order": {"edit": {"n": 1}}}), 400),
        (json!({"order": {"edit": {}}, "reason": "nothing to do"}), 400),
        (json!({"order": {"edit": {"a b": 1}}, "reason": "a bad name"}), 422),
        (json!({}), 400),
    ] {
        let answer = server.post(&path, body.clone()).await;
        assert_eq!(answer.status, status, "{body}: {answer:?}");
    }
    steer(&server, &id, json!({"break": {"node": "add", "when": "{{ variables.n == 2 }}"}})).await.expect(200);
    let stopped = steer(&server, &id, json!("continue")).await.expect(200);
    assert_eq!((&stopped["status"], &stopped["node"]), (&json!("paused"), &json!("add")), "{stopped}");
    let seen = server.get(&format!("/jobs/{id}/context")).await.expect(200);
    assert_eq!((&seen["context"]["variables"]["n"], &seen["debug"]["halted"]), (&json!(2), &json!("breakpoint")));
    let edit = json!({"order": {"edit": {"n": 40}}, "reason": "see what happens"});
    server.post(&path, edit).await.expect(200);
    steer(&server, &id, json!({"unbreak": "add"})).await.expect(200);
    let done = steer(&server, &id, json!("continue")).await.expect(200);
    assert_eq!(done["status"], "success", "{done}");
    assert_eq!(job(&server, &id).await["job"]["result"], json!({"n": 41}));
    // It is over.
    let late = steer(&server, &id, json!("step")).await;
    assert_eq!((late.status, late.code()), (409, "JOB_FINISHED"));
    let audit = server.get("/audit?limit=50").await.expect(200).to_string();
    assert!(audit.contains("edit n") && audit.contains("see what happens"), "{audit}");
    // A pinned output is not carried out.
    let begun = begin(
        &server,
        json!({"workflow": waiting(json!({"type": "approval", "config": {"title": "Go?", "four_eyes": false}})), "debug": true}),
    )
    .await;
    let id = self::id(&begun);
    let runner = server.token(json!({"kind": "api", "name": "runner", "scopes": ["jobs.write", "jobs.read"]})).await;
    let pin = json!({"order": {"pin": {"node": "ask", "output": {"approved": true}}}});
    let pinned = server.send("POST", &format!("/jobs/{id}/steer"), &runner, Some(pin.clone())).await;
    assert_eq!(pinned.status, 403, "whoever pins an approval says yes: {pinned:?}");
    server.post(&format!("/jobs/{id}/steer"), pin).await.expect(200);
    let done = steer(&server, &id, json!("continue")).await.expect(200);
    assert_eq!(done["status"], "success", "{done}");
    let steps = server.get(&format!("/jobs/{id}/steps")).await.expect(200);
    assert_eq!(steps["steps"][1]["origin"], "pinned", "{steps}");
}

#[tokio::test]
async fn from_any_step_another_run_goes_on() {
    let server = TestServer::start().await;
    let begun = begin(&server, json!({"workflow": counting(), "input": {"to": 3}})).await;
    let id = id(&begun);
    let path = format!("/jobs/{id}/fork");
    let forked = server.post(&path, json!({"from_step": 4, "patch": {"variables": {"n": 10}}})).await.expect(202);
    let other = self::id(&forked);
    assert_eq!(forked["forked_from"], json!({"job_id": id, "step": 4}));
    assert_eq!(forked["links"]["parent"], format!("/jobs/{id}"));
    let shown = server.until_status(&other, "success").await;
    assert_eq!(shown["job"]["result"], json!({"n": 10}), "{shown}");
    assert_eq!(shown["workflow"]["forked_from"], json!({"job_id": id, "step": 4}));
    let steps = server.get(&format!("/jobs/{other}/steps")).await.expect(200);
    assert_eq!(steps["steps"][0]["n"], 5, "{steps}");
    assert_eq!(server.get(&format!("/jobs/{other}/context?step=5")).await.expect(200)["step"], 5);
    let first = server.get(&format!("/jobs/{other}/context?step=4")).await.expect(200);
    assert_eq!((&first["context"]["variables"]["n"], &first["diff"]), (&json!(10), &json!([])), "{first}");
    assert_eq!(server.get(&format!("/jobs/{other}/context?step=3")).await.status, 422, "that is in the other run");
    assert_eq!(server.post(&format!("/jobs/{other}/shadow"), json!({})).await.status, 422);
    assert_eq!(server.get(&format!("/jobs/{other}/graph?format=json")).await.expect(200)["nodes"]["add"], "done");
    // The first one is as it was, and its shadow says so.
    let shadow = server.post(&format!("/jobs/{id}/shadow"), json!({})).await.expect(200);
    assert_eq!(shadow, json!({"steps": 8, "differences": [], "unlisted": 0}));
    let mut changed = counting();
    changed["nodes"][1]["config"]["expression"] = "variables.n + 2".into();
    let shadow = server.post(&format!("/jobs/{id}/shadow"), json!({ "definition": changed })).await.expect(200);
    let kinds: Vec<&str> =
        shadow["differences"].as_array().expect("a list").iter().filter_map(|d| d["kind"].as_str()).collect();
    assert!(kinds.contains(&"step") && kinds.contains(&"ending"), "{shadow}");
    // With another definition, and from the beginning.
    let forked = server.post(&path, json!({"from_step": 0, "definition": changed})).await.expect(202);
    let shown = server.until_status(&self::id(&forked), "success").await;
    assert_eq!(shown["job"]["result"], json!({"n": 4}), "{shown}");
    for (body, status, code) in [
        (json!({"from_step": 9}), 422, "STEP_NOT_FOUND"),
        (json!({}), 400, "VALIDATION_ERROR"),
        (json!({"from_step": -1}), 400, "VALIDATION_ERROR"),
        (json!({"from_step": 1, "patch": {"vars": {}}}), 400, "VALIDATION_ERROR"),
        (json!({"from_step": 1, "patch": {"variables": {"a b": 1}}}), 422, "VALIDATION_ERROR"),
        (json!({"from_step": 1, "definition": {"nodes": [], "edges": []}}), 422, "VALIDATION_ERROR"),
        (json!({"from_step": 1, "step": 2}), 400, "VALIDATION_ERROR"),
    ] {
        let answer = server.post(&path, body.clone()).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{body}: {answer:?}");
    }
    let beyond = server.get(&format!("/jobs/{id}/context?step=99")).await;
    assert_eq!((beyond.status, beyond.code()), (422, "STEP_NOT_FOUND"));
    assert_eq!(server.get(&format!("/jobs/{id}/steps?limit=0")).await.status, 400);
    assert_eq!(server.get(&format!("/jobs/{id}/steps?limit=100000")).await.status, 400);
    assert_eq!(server.get(&format!("/jobs/{id}/steps?after=1")).await.status, 400);
    assert_eq!(server.get(&format!("/jobs/{id}/graph?format=gif")).await.status, 400);
    let runner = server.token(json!({"kind": "api", "name": "runner", "scopes": ["jobs.write", "jobs.read"]})).await;
    let with = json!({"from_step": 1, "definition": counting()});
    assert_eq!(server.send("POST", &path, &runner, Some(with)).await.status, 403);
}

#[tokio::test]
async fn a_fork_begins_once_for_each_key() {
    let server = TestServer::start().await;
    let logging = |text: &str| waiting(json!({"type": "log", "config": {"message": text}}));
    stored(&server, "log", logging("x")).await;
    let job = id(&begin(&server, json!({"workflow": "log"})).await);
    let other = id(&begin(&server, json!({"workflow": "log"})).await);
    let fork = async |job: &str, key: &str, body: Value| {
        let path = server.url(&format!("/jobs/{job}/fork"));
        let sent = server.http().post(path).bearer_auth(server.admin()).header("Idempotency-Key", key).json(&body);
        Answer::read(sent.send().await.expect("an answer")).await.expect("a body")
    };
    let body = json!({"from_step": 1, "patch": {"variables": {"a": 1}}});
    let first = fork(&job, "k1", body.clone()).await.expect(202);
    assert_eq!(first["idempotency"], json!({"key": "k1", "replayed": false}));
    let again = fork(&job, "k1", body.clone()).await.expect(202);
    assert_eq!((&again["job_id"], &again["number"]), (&first["job_id"], &first["number"]));
    assert_eq!(again["idempotency"], json!({"key": "k1", "replayed": true}));
    for (job, body) in [
        (&job, json!({"from_step": 2, "patch": {"variables": {"a": 1}}})),
        (&job, json!({"from_step": 1, "patch": {"variables": {"a": 2}}})),
        (&job, json!({"from_step": 1, "patch": {"variables": {"a": 1}}, "debug": true})),
        (&job, json!({"from_step": 1, "patch": {"variables": {"a": 1}}, "definition": logging("y")})),
        (&other, body.clone()),
    ] {
        let answer = fork(job, "k1", body.clone()).await;
        assert_eq!((answer.status, answer.code()), (409, "IDEMPOTENCY_CONFLICT"), "{body}");
    }
    // A key is for everything that begins a job.
    let wish = json!({"workflow": "log", "idempotency_key": "k1"});
    assert_eq!(server.post("/jobs", wish).await.code(), "IDEMPOTENCY_CONFLICT");
    assert_ne!(fork(&job, "k2", body.clone()).await.expect(202)["job_id"], first["job_id"]);
    assert_eq!(fork(&job, "", body).await.status, 400);
    assert_eq!(server.jobs().await.len(), 4, "two runs and two forks");
}

#[tokio::test]
async fn people_and_events_let_runs_go_on() {
    let server = TestServer::start().await;
    stored(
        &server,
        "release",
        waiting(json!({"type": "approval", "config": {"title": "Release?", "four_eyes": false}})),
    )
    .await;
    let id = id(&begin(&server, json!({"workflow": "release"})).await);
    let shown = job(&server, &id).await;
    assert_eq!((&shown["job"]["status"], &shown["workflow"]["paused_for"]), (&json!("paused"), &json!("approval")));
    let wait = &shown["workflow"]["waits"][0];
    assert_eq!((&wait["kind"], &wait["node"], &wait["name"]), (&json!("approval"), &json!("ask"), &json!("Release?")));
    let list = server.get("/approvals").await.expect(200);
    let listed = &list["approvals"][0];
    assert_eq!(
        (&listed["job_id"], &listed["workflow"], &listed["title"]),
        (&json!(id), &json!("release"), &json!("Release?"))
    );
    let one = server.get("/approvals?limit=1").await.expect(200);
    let cursor = one["next_cursor"].as_str().expect("commands may follow");
    assert_eq!(server.get(&format!("/approvals?cursor={cursor}")).await.expect(200)["approvals"], json!([]));
    let path = format!("/jobs/{id}/approve");
    let hash = "0".repeat(64);
    assert_eq!(server.post(&path, json!({ "hash": hash })).await.code(), "APPROVAL_SUPERSEDED");
    assert_eq!(server.post(&path, json!({"node": "start"})).await.code(), "APPROVAL_NOT_NEEDED");
    let viewer = server.token(json!({"kind": "api", "name": "viewer", "scopes": ["jobs.write", "jobs.read"]})).await;
    assert_eq!(server.send("POST", &path, &viewer, Some(json!({}))).await.status, 403);
    let approved = server.post(&path, json!({"node": "ask", "reason": "looks good"})).await.expect(200);
    assert_eq!((&approved["decision"], &approved["status"]), (&json!("approved"), &json!("success")));
    let twice = server.post(&path, json!({})).await;
    assert_eq!((twice.status, twice.code()), (409, "APPROVAL_NOT_NEEDED"), "{twice:?}");
    let rejected = self::id(&begin(&server, json!({"workflow": "release"})).await);
    let path = format!("/jobs/{rejected}/reject");
    let answer = server.post(&path, json!({"reason": "not today"})).await.expect(200);
    assert_eq!((&answer["decision"], &answer["status"]), (&json!("rejected"), &json!("failed")));
    // A run that failed goes on where it failed.
    server.post(&format!("/jobs/{rejected}/retry"), json!({"reason": "today"})).await.expect(200);
    server.until_status(&rejected, "paused").await;
    server.post(&format!("/jobs/{rejected}/approve"), json!({})).await.expect(200);
    server.until_status(&rejected, "success").await;
    // Events.
    let order = waiting(json!({"type": "wait_event", "config": {"event": "paid", "key": "{{ webhook.payload.id }}"}}));
    stored(&server, "order", order).await;
    let (a, b) = (
        self::id(&begin(&server, json!({"workflow": "order", "input": {"id": "a"}})).await),
        self::id(&begin(&server, json!({"workflow": "order", "input": {"id": "b"}})).await),
    );
    assert_eq!(job(&server, &a).await["workflow"]["waits"][0]["key"], "a");
    assert_eq!(server.post("/signals/nothing", json!({})).await.expect(200), json!({"runs": 0, "replayed": false}));
    assert_eq!(
        server.post("/signals/paid", json!({"key": "c"})).await.expect(200),
        json!({"runs": 0, "replayed": false})
    );
    let told = server.post("/signals/paid", json!({"key": "a", "payload": {"amount": 5}})).await.expect(200);
    assert_eq!(told, json!({"runs": 1, "replayed": false}));
    assert_eq!(server.until_status(&a, "success").await["job"]["result"], json!({"amount": 5}));
    let tell = json!({"event": "paid", "key": "b", "payload": 7});
    assert_eq!(
        server.post(&format!("/jobs/{b}/signal"), tell.clone()).await.expect(200),
        json!({"runs": 1, "replayed": false})
    );
    assert_eq!(server.until_status(&b, "success").await["job"]["result"], 7);
    let late = server.post(&format!("/jobs/{b}/signal"), tell).await;
    assert_eq!((late.status, late.code()), (409, "JOB_FINISHED"));
    for (path, body) in [
        ("/signals/a%20b".to_owned(), json!({})),
        ("/signals/paid".to_owned(), json!({"keys": "a"})),
        (format!("/jobs/{b}/signal"), json!({})),
        (format!("/jobs/{b}/signal"), json!({"event": ""})),
        (format!("/jobs/{b}/signal"), json!({"event": "x".repeat(200)})),
    ] {
        assert_eq!(server.post(&path, body.clone()).await.status, 400, "{path} {body}");
    }
}

#[tokio::test]
async fn a_run_says_what_it_waits_for() {
    let server = TestServer::start().await;
    let why = async |body: Value| {
        let id = id(&begin(&server, body).await);
        let why = server.get(&format!("/jobs/{id}/why")).await.expect(200);
        let code = why["reasons"][0]["code"].as_str().expect("a code").to_owned();
        (id, code, why["sentence"].as_str().expect("a sentence").to_owned(), why)
    };
    let approval = waiting(json!({"type": "approval", "config": {"title": "Pay?", "timeout": "1d"}}));
    stored(&server, "approval", approval).await;
    let (id, code, sentence, told) = why(json!({"workflow": "approval"})).await;
    let wait = &job(&server, &id).await["workflow"]["waits"][0];
    let (since, until) = (wait["since"].as_str().expect("since"), wait["expires_at"].as_str().expect("until"));
    let wanted = format!("It waits at `ask` for somebody's approval (`Pay?`), since {since}; until {until}.");
    assert_eq!((code.as_str(), &sentence), ("awaiting_approval", &wanted), "{told}");
    assert_eq!(job(&server, &id).await["workflow"]["wakes_at"], wait["expires_at"]);

    let event = json!({"type": "wait_event", "config": {"event": "paid", "key": "{{ webhook.payload }}"}});
    let (_, code, sentence, told) = why(json!({"workflow": waiting(event), "input": "o-7"})).await;
    assert_eq!(code, "awaiting_event", "{told}");
    assert!(sentence.starts_with("It waits at `ask` for the event `paid` (key `o-7`), since 20"), "{sentence}");
    assert_eq!(
        (&told["reasons"][0]["data"]["key"], &told["reasons"][0]["data"]["node"]),
        (&json!("o-7"), &json!("ask"))
    );

    let sleep = json!({"type": "sleep", "config": {"duration": "2d"}});
    let (id, code, sentence, told) = why(json!({"workflow": waiting(sleep)})).await;
    let shown = job(&server, &id).await;
    let until = shown["workflow"]["wakes_at"].as_str().expect("a moment");
    assert_eq!((code.as_str(), sentence), ("sleeping", format!("It sleeps at `ask` until {until}.")), "{told}");
    assert_eq!(shown["job"]["run_at"], shown["workflow"]["wakes_at"]);

    let task = waiting(json!({"type": "task", "config": {"type": "nobody.takes"}}));
    let (_, code, sentence, told) = why(json!({"workflow": task})).await;
    let child = told["reasons"][0]["data"]["job_id"].as_str().expect("a job");
    let wanted = format!("It waits at `ask` for job {child}: no worker takes nobody.takes: none has ever registered.");
    assert_eq!((code.as_str(), &sentence), ("awaiting_job", &wanted), "{told}");
    assert_eq!(told["reasons"][0]["data"]["because"]["code"], "no_worker", "{told}");

    let nested = waiting(json!({"type": "workflow", "config": {"name": "approval"}}));
    let (id, _, _, _) = why(json!({"workflow": nested})).await;
    until_why(&server, &id, "for somebody's approval (`Pay?`)").await;

    let each =
        json!({"items": [1, 2, 3], "concurrency": 2, "node": {"type": "task", "config": {"type": "nobody.takes"}}});
    let (_, code, sentence, told) = why(json!({"workflow": waiting(json!({"type": "foreach", "config": each}))})).await;
    let wanted = "It waits at `ask` for 2 jobs at once; 0 of 3 have ended.";
    assert_eq!((code.as_str(), sentence.as_str()), ("awaiting_jobs", wanted), "{told}");

    let (id, code, sentence, told) = why(json!({"workflow": counting(), "input": {"to": 3}, "debug": true})).await;
    let wanted = format!("It stands in the debugger at `add`; `bowline workflow debug {id}` goes on with it.");
    assert_eq!((code.as_str(), &sentence), ("in_debugger", &wanted), "{told}");
    server.post(&format!("/jobs/{id}/cancel"), json!({"reason": "enough"})).await;
    let shown = server.until_status(&id, "canceled").await;
    assert_eq!(shown["workflow"]["wakes_at"], Value::Null);
    let told = server.get(&format!("/jobs/{id}/why")).await.expect(200);
    assert_eq!(told["reasons"][0]["code"], "finished", "{told}");
    // What begins later has its moment in `run_at`.
    let (id, code, _, told) = why(json!({"workflow": counting(), "run_at": "2030-01-01T00:00:00Z"})).await;
    assert_eq!(code, "scheduled", "{told}");
    assert_eq!(job(&server, &id).await["workflow"]["wakes_at"], Value::Null);
}

/// Waits until a run says this of itself: what its child does, it does a little later.
async fn until_why(server: &TestServer, id: &str, part: &str) {
    until(PATIENCE, part, async || {
        let told = server.get(&format!("/jobs/{id}/why")).await.expect(200);
        let sentence = told["sentence"].as_str().expect("a sentence").to_owned();
        if sentence.contains(part) { Ok(()) } else { Err(sentence) }
    })
    .await;
}

#[tokio::test]
async fn what_is_wrong_with_an_order_is_said_in_words_for_people() {
    let server = TestServer::start().await;
    stored(&server, "count", counting()).await;
    let id = id(&begin(&server, json!({"workflow": "count", "input": {"to": 3}, "debug": true})).await);
    let message = |answer: &Answer| answer.body["error"]["message"].as_str().expect("a message").to_owned();
    for order in [json!(null), json!(5), json!([]), json!({}), json!({"step": 1, "pause": 2}), json!("jump")] {
        let answer = steer(&server, &id, order.clone()).await;
        let said = message(&answer);
        assert_eq!((answer.status, field(&answer)), (400, "order"), "{answer:?}");
        assert!(said.contains("an order is \"step\", \"continue\""), "{order}: {said}");
    }
    for order in [json!({"step": 5}), json!("pin"), json!({"break": 5}), json!({"pin": []}), json!({"run_to": 7})] {
        let answer = steer(&server, &id, order.clone()).await;
        let said = message(&answer);
        let rust = ["struct", "unit", "variant", "u32", "u64", "f64"].into_iter().find(|word| said.contains(word));
        assert_eq!((answer.status, rust), (400, None), "{order}: {said}");
    }
    let long = "x".repeat(2_000_000);
    for (variables, name) in [(json!({"fine": 1, "a b": 1}), "a b"), (json!({"fine": 1, "large": long}), "large")] {
        let body = json!({"order": {"edit": variables}, "reason": "to see what is said"});
        let answer = server.post(&format!("/jobs/{id}/steer"), body).await;
        // What is too large for a body is refused before anybody reads it.
        if answer.status == 413 {
            continue;
        }
        assert_eq!(answer.status, 422, "{answer:?}");
        assert!(message(&answer).starts_with(&format!("order.edit.{name}: ")), "{answer:?}");
    }
    // Wishes and their parts.
    for (body, says) in [
        (json!({"workflow": "count", "type": "echo"}), "type: a job has a `type` or a `workflow`, not both"),
        (json!({"blueprint": "count", "type": "echo"}), "type: a job has a `type` or a `blueprint`, not both"),
        (json!({"command": "count", "type": "echo"}), "type: a job has a `type` or a `command`, not both"),
        (json!({"workflow": "count", "breakpoints": [5]}), "expected an object"),
        (json!({"workflow": "count", "priority": "x"}), "expected a whole number"),
    ] {
        let answer = server.post("/jobs", body.clone()).await;
        assert!(answer.status == 400 && message(&answer).contains(says), "{body}: {answer:?}");
    }
    let fork = server.post(&format!("/jobs/{id}/fork"), json!({"from_step": "x"})).await;
    assert!(message(&fork).contains("from_step: invalid type: string \"x\", expected a whole number"), "{fork:?}");
    let query = server.get("/jobs?limit=x").await;
    assert_eq!((query.status, message(&query).as_str()), (400, "query: limit: expected a whole number"), "{query:?}");
    let marked = server.http().post(server.url("/jobs")).bearer_auth(server.admin());
    let marked = marked.header("content-type", "application/json").body("\u{feff}{\"workflow\": \"count\"}");
    let marked = Answer::read(marked.send().await.expect("an answer")).await.expect("a body");
    assert!(marked.status == 400 && message(&marked).contains("byte order mark"), "{marked:?}");
    // Lists say which workflow it is.
    assert_eq!(server.jobs().await[0]["title"], "workflow count");
}

#[tokio::test]
async fn what_a_schedule_gives_a_blueprint_stays_its_data() {
    let server = TestServer::start().await;
    let blueprint = json!({"start": "a", "states": {"a": {"final": true}}});
    let put = async |path: &str, spec: Value| {
        server.send("PUT", path, &server.admin(), Some(json!({ "spec": spec }))).await.expect(201)
    };
    put("/resources/blueprint/order", blueprint).await;
    let start = json!({"blueprint": "order", "data": {"price": 20}});
    put("/resources/schedule/orders", json!({"cron": "@daily", "start": start})).await;
    let shown = server.get("/resources/schedule/orders").await.expect(200);
    assert_eq!(shown["resource"]["spec"]["start"], start, "{shown}");
    let begun = server.post("/schedules/orders/trigger", json!({})).await.expect(202);
    let shown = server.until_status(&id(&begun), "success").await;
    assert_eq!(shown["job"]["result"], json!({"price": 20}), "{shown}");
}

#[tokio::test]
async fn runs_of_others_are_not_there() {
    let server = TestServer::start().await;
    let id = id(&begin(&server, json!({"workflow": counting(), "input": {"to": 1}, "debug": true})).await);
    let tenant = server.post("/tenants", json!({"name": "other"})).await.expect(201);
    let body = json!({"kind": "api", "name": "stranger", "tenant_id": tenant["id"], "scopes": ["admin"]});
    let stranger = server.token(body).await;
    let task = server.submit(json!({"type": "echo"})).await;
    for (token, id) in [(&stranger, &id), (&server.admin(), &task)] {
        for (method, verb, body) in [
            ("GET", "steps", None),
            ("GET", "context", None),
            ("GET", "graph", None),
            ("POST", "steer", Some(json!({"order": "step"}))),
            ("POST", "steer", Some(json!({"order": {"pin": {"node": "add", "output": 1}}}))),
            ("POST", "fork", Some(json!({"from_step": 0}))),
            ("POST", "shadow", Some(json!({}))),
            ("POST", "signal", Some(json!({"event": "paid"}))),
        ] {
            let answer = server.send(method, &format!("/jobs/{id}/{verb}"), token, body).await;
            assert_eq!((answer.status, answer.code()), (404, "JOB_NOT_FOUND"), "{method} {verb}: {answer:?}");
        }
    }
    let nobody = server.send("POST", &format!("/jobs/{id}/approve"), &stranger, Some(json!({}))).await;
    assert_eq!(nobody.status, 404);
    let reader = server.token(json!({"kind": "api", "name": "reader", "scopes": ["jobs.read"]})).await;
    for verb in ["steer", "fork", "signal"] {
        let answer = server.send("POST", &format!("/jobs/{id}/{verb}"), &reader, Some(json!({}))).await;
        assert_eq!(answer.status, 403, "{verb}");
    }
    assert_eq!(server.send("POST", "/signals/paid", &reader, Some(json!({}))).await.status, 403);
    assert_eq!(job(&server, &id).await["workflow"]["steps"], 1, "nobody has moved it");
}

#[tokio::test]
async fn a_task_that_a_run_began_says_so() {
    let server = TestServer::start().await;
    let spec = waiting(json!({"type": "task", "config": {"type": "echo", "payload": {"hello": "world"}}}));
    let id = id(&begin(&server, json!({ "workflow": spec })).await);
    let shown = server.until_status(&id, "success").await;
    assert_eq!(shown["job"]["status"], "success");
    let jobs = server.jobs().await;
    let child = jobs.iter().find(|job| job["type"] == "echo").expect("the task");
    assert_eq!(child["begun_by"], json!(id), "{child}");
}

fn bowline(server: &TestServer, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(["--server", &server.url("")]).args(args).env("BOWLINE_TOKEN", server.admin());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn ran(mut command: Command, input: &'static str) -> Output {
    command.stdin(Stdio::piped());
    let running = move || {
        let mut child = command.spawn().expect("the program runs");
        child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("it reads");
        child.wait_with_output().expect("it ends")
    };
    tokio::task::spawn_blocking(running).await.expect("it ends")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn told(output: &Output) -> String {
    format!("{}{}", text(output), String::from_utf8_lossy(&output.stderr))
}

/// The id of the job that a run of the program told of.
fn job_in(text: &str) -> String {
    let after = text.split("job ").nth(1).expect("a job");
    after.split(|c: char| !c.is_ascii_hexdigit() && c != '-').next().expect("an id").to_owned()
}

#[tokio::test]
async fn the_program_runs_workflows_and_looks_at_them() {
    let server = TestServer::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("count.json");
    std::fs::write(&file, counting().to_string()).expect("a file");
    let file = file.to_str().expect("a path");
    let out = ran(bowline(&server, &["workflow", "run", file, "--set", "to=2"]), "").await;
    assert_eq!(out.status.code(), Some(0), "{}", told(&out));
    let said = text(&out);
    assert!(said.contains("✓   1  start") && said.contains("success after 6 steps"), "{said}");
    assert!(said.contains("{\"n\": 2}"), "{said}");
    let id = job_in(&said);
    let steps = text(&ran(bowline(&server, &["workflow", "steps", &id]), "").await);
    assert_eq!(steps.lines().filter(|line| line.contains('✓')).count(), 6, "{steps}");
    let n = text(&ran(bowline(&server, &["workflow", "context", &id, "variables.n", "--step", "2"]), "").await);
    assert_eq!(n, "1\n");
    let same = ran(bowline(&server, &["workflow", "shadow", &id]), "").await;
    assert_eq!((same.status.code(), text(&same).as_str()), (Some(0), "the same in all 6 steps\n"), "{}", told(&same));
    let forked = ran(bowline(&server, &["workflow", "fork", &id, "--from-step", "2", "--set", "n=5"]), "").await;
    assert!(text(&forked).contains("{\"n\": 5}"), "{}", told(&forked));
    let bad = ran(bowline(&server, &["workflow", "fork", &id, "--from-step", "99"]), "").await;
    assert!(bad.status.code() == Some(1) && told(&bad).contains("STEP_NOT_FOUND"), "{}", told(&bad));
    let json = ran(bowline(&server, &["workflow", "run", file, "--input", "{\"to\": 1}", "--json"]), "").await;
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["job"]["result"], json!({"n": 1}));
    // One that fails.
    let failing = waiting(json!({"type": "math", "config": {"expression": "1 / 0", "store_as": "x"}}));
    let bad_file = directory.path().join("bad.json");
    std::fs::write(&bad_file, failing.to_string()).expect("a file");
    let out = ran(bowline(&server, &["workflow", "run", bad_file.to_str().expect("a path")]), "").await;
    assert_eq!(out.status.code(), Some(1), "{}", told(&out));
    assert!(text(&out).contains("✗   2  ask"), "{}", told(&out));
    // One that waits, for a person and for an event.
    stored(
        &server,
        "release",
        waiting(json!({"type": "approval", "config": {"title": "Release?", "four_eyes": false}})),
    )
    .await;
    let begun = text(&ran(bowline(&server, &["workflow", "run", "release", "--no-wait"]), "").await);
    let id = job_in(&begun);
    let listed = text(&ran(bowline(&server, &["approvals", "list"]), "").await);
    assert!(listed.contains("release at ask: Release?"), "{listed}");
    let yes = ran(bowline(&server, &["approvals", "approve", &id, "--yes"]), "").await;
    assert!(text(&yes).contains("approved; it has succeeded"), "{}", told(&yes));
    stored(&server, "order", waiting(json!({"type": "wait_event", "config": {"event": "paid"}}))).await;
    let begun = text(&ran(bowline(&server, &["workflow", "run", "order", "--no-wait"]), "").await);
    let id = job_in(&begun);
    assert_eq!(
        text(&ran(bowline(&server, &["workflow", "signal", "nothing"]), "").await),
        "no execution waits for it\n"
    );
    let signal = ["workflow", "signal", "paid", "--payload", "{\"amount\": 5}"];
    assert_eq!(text(&ran(bowline(&server, &signal), "").await), "1 execution was signaled\n");
    server.until_status(&id, "success").await;
}

#[tokio::test]
async fn the_program_runs_stored_blueprints() {
    let server = TestServer::start().await;
    let blueprint = json!({"start": "a", "states": {"a": {"transitions": [{"to": "b"}]}, "b": {"final": true}}});
    for name in ["machine", "both"] {
        let path = format!("/resources/blueprint/{name}");
        server.send("PUT", &path, &server.admin(), Some(json!({ "spec": blueprint }))).await.expect(201);
    }
    let by = async |args: &[&str], input: &'static str| {
        let mut all = vec!["workflow", "run"];
        all.extend(args);
        ran(bowline(&server, &all), input).await
    };
    // What comes by standard input comes once, and is given to the blueprint.
    let out = by(&["machine", "--input", "@-"], "{\"n\": 7}").await;
    assert_eq!(out.status.code(), Some(0), "{}", told(&out));
    assert!(text(&out).contains("{\"n\": 7}"), "{}", told(&out));
    assert!(told(&out).contains("a run of the blueprint machine"), "{}", told(&out));
    assert_eq!(by(&["machine@1"], "").await.status.code(), Some(0));
    let out = by(&["machine@2"], "").await;
    assert!(told(&out).contains("has no version 2"), "{}", told(&out));
    let out = by(&["nothing"], "").await;
    assert!(told(&out).contains("there is no workflow nothing"), "{}", told(&out));
    let out = by(&["nothing", "--kind", "blueprint"], "").await;
    assert!(told(&out).contains("there is no blueprint nothing"), "{}", told(&out));
    let out = by(&["machine", "--kind", "workflow"], "").await;
    assert!(told(&out).contains("there is no workflow machine"), "{}", told(&out));
    // Of two with one name it is the workflow, unless somebody says otherwise.
    stored(&server, "both", counting()).await;
    let out = text(&by(&["both", "--set", "to=1"], "").await);
    assert!(out.contains("{\"n\": 1}"), "{out}");
    let out = by(&["both", "--kind", "blueprint", "--set", "to=1"], "").await;
    assert!(text(&out).contains("{\"to\": 1}"), "{}", told(&out));
    // One that sleeps says until when.
    stored(&server, "nap", waiting(json!({"type": "sleep", "config": {"until": "2035-01-01T00:00:00Z"}}))).await;
    let id = job_in(&text(&by(&["nap", "--no-wait"], "").await));
    let steps = text(&ran(bowline(&server, &["workflow", "steps", &id]), "").await);
    assert!(steps.contains("sleeps at ask until 2035-01-01T00:00:00"), "{steps}");
}

#[tokio::test]
async fn ctrl_c_leaves_a_run_running() {
    let server = TestServer::start().await;
    stored(&server, "order", waiting(json!({"type": "wait_event", "config": {"event": "paid"}}))).await;
    let mut command = bowline(&server, &["workflow", "run", "order"]);
    command.stdin(Stdio::null());
    let watch = Child::spawn(command, "bowline workflow run");
    let words = "waits for the event paid at ask";
    until(PATIENCE, words, async || if watch.log().contains(words) { Ok(()) } else { Err(watch.log()) }).await;
    watch.interrupt();
    let status = watch.wait_exit(PATIENCE).await;
    assert_eq!(status.code(), Some(130), "{}", watch.log());
    let id = server.jobs().await[0]["id"].as_str().expect("an id").to_owned();
    assert!(watch.stderr().contains(&format!("bowline workflow steps {id}")), "{}", watch.log());
    assert_eq!(job(&server, &id).await["job"]["status"], "paused");
}

#[tokio::test]
async fn the_debugger_takes_lines() {
    let server = TestServer::start().await;
    stored(&server, "count", counting()).await;
    let script = "step\nbreak add if variables.n == 2\nbreak nowhere\ncontinue\nedit n=40\nedit n=40 because of a test\n\
                  context variables.n\ngraph\njump\nsteps\npin end {\"n\": \"pinned\"}\ncontinue\nfork 4 n=1\nstep\nquit\n";
    let out = ran(bowline(&server, &["workflow", "debug", "count", "--set", "to=5"]), script).await;
    assert_eq!(out.status.code(), Some(0), "{}", told(&out));
    let said = told(&out);
    let id = job_in(&said);
    for words in [
        "stops before add if {{ variables.n == 2 }}",
        "the workflow has no node \"nowhere\"",
        "stopped at a breakpoint",
        "edit: say why",
        "variables.n = 40",
        "> context variables.n\n40\n",
        "● ▶ add",
        "\"jump\" means nothing here",
        "end gives {\"n\":\"pinned\"} from now on",
        "success after",
        "continues from step 4 of",
        "the run stays where it is",
    ] {
        assert!(said.contains(words), "{words:?} is missing:\n{said}");
    }
    let shown = job(&server, &id).await;
    assert_eq!(shown["job"]["result"], json!({"n": "pinned"}), "{shown}");
    let fork = &server.jobs().await.into_iter().find(|job| job["id"] != json!(id)).expect("the fork");
    assert_eq!(fork["status"], "paused");
    let fork = fork["id"].as_str().expect("an id").to_owned();
    // Back again, and gone for good.
    let out = ran(bowline(&server, &["workflow", "debug", &fork]), "cancel\n").await;
    assert_eq!(out.status.code(), Some(3), "{}", told(&out));
    assert_eq!(job(&server, &fork).await["job"]["status"], "canceled");
}

/// The context of a run is the seed's: also the address of whoever began it, in children, in forks and after a restart.
#[tokio::test]
async fn a_run_knows_the_address_of_whoever_began_it() {
    let mut server = TestServer::start().await;
    for (body, what) in [
        (json!({"kind": "api", "name": "x", "email": "nobody"}), "email: an address has one @"),
        (json!({"kind": "api", "name": "x", "email": ""}), "email: an address has one @"),
        (json!({"kind": "worker", "name": "x", "email": "w@example.com"}), "email: only an API token has one"),
    ] {
        let refused = server.post("/tokens", body).await;
        assert_eq!((refused.status, refused.code()), (400, "VALIDATION_ERROR"));
        assert!(refused.body.to_string().contains(what), "{}", refused.body);
    }
    let scopes = ["jobs.read", "jobs.write", "resources.write"];
    let made = json!({"kind": "api", "name": "ann", "email": "ann@example.com", "scopes": scopes});
    let ann = server.token(made).await;
    assert_eq!(server.send("GET", "/whoami", &ann, None).await.expect(200)["email"], "ann@example.com");
    let listed = server.get("/tokens").await.expect(200);
    let known: Vec<&Value> = listed["tokens"].as_array().unwrap().iter().filter_map(|t| t.get("email")).collect();
    assert_eq!(known, ["ann@example.com"]);
    let child = json!({
        "nodes": [
            {"id": "start", "type": "start", "config": {}},
            {"id": "end", "type": "end", "config": {"output": "{{user.email}}"}},
        ],
        "edges": [{"source": "start", "target": "end"}],
    });
    stored(&server, "child", child).await;
    let workflow = json!({
        "nodes": [
            {"id": "start", "type": "start", "config": {}},
            {"id": "wait", "type": "wait_event", "config": {"event": "go"}},
            {"id": "child", "type": "workflow", "config": {"name": "child"}},
            {"id": "end", "type": "end", "config": {"output": {"own": "{{user}}", "child": "{{steps.child.output}}"}}},
        ],
        "edges": [
            {"source": "start", "target": "wait"},
            {"source": "wait", "target": "child"},
            {"source": "child", "target": "end"},
        ],
    });
    let begin = async |token: &str| {
        let answer = server.send("POST", "/jobs", token, Some(json!({"workflow": workflow}))).await.expect(202);
        id(&answer)
    };
    let job = begin(&ann).await;
    let nobodys = begin(&server.admin()).await;
    server.stop().await;
    server.start_again().await;
    server.post("/signals/go", json!({})).await.expect(200);
    let result = server.until_status(&job, "success").await["job"]["result"].clone();
    assert_eq!(
        (&result["own"]["email"], &result["child"]),
        (&json!("ann@example.com"), &json!("ann@example.com")),
        "{result}"
    );
    let result = server.until_status(&nobodys, "success").await["job"]["result"].clone();
    assert_eq!((&result["own"]["email"], &result["child"]), (&json!(null), &json!(null)));
    // It is the address of whoever began the run that a fork goes on from.
    let fork = server.post(&format!("/jobs/{job}/fork"), json!({"from_step": 2})).await.expect(202);
    let result = server.until_status(&id(&fork), "success").await["job"]["result"].clone();
    assert_eq!(result["child"], "ann@example.com");
}

/// The commands of the README, with the same file.
#[tokio::test]
async fn the_first_example_goes_on_after_a_kill() {
    let mut server = TestServer::start().await;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/workflows/first.yaml");
    let run = ["workflow", "run", file, "--set", "price=20", "--set", "rest=2s", "--no-wait", "--json"];
    let begun: Value = serde_json::from_str(&text(&ran(bowline(&server, &run), "").await)).expect("JSON");
    let job = id(&begun);
    let why = text(&ran(bowline(&server, &["job", "why", &job]), "").await);
    assert!(why.contains("rest"), "{why}");
    server.kill_9();
    server.start_again().await;
    until(Duration::from_secs(30), "it asks", async || {
        server.get("/approvals").await.expect(200).to_string().contains("Pay 24")
    })
    .await;
    let said = ran(bowline(&server, &["approvals", "approve", &job]), "").await;
    assert_eq!(said.status.code(), Some(0), "{}", told(&said));
    assert_eq!(server.until_status(&job, "success").await["job"]["result"], json!({"paid": 24.0}));
    let steps = text(&ran(bowline(&server, &["workflow", "steps", &job]), "").await);
    assert!(["total", "rest", "ask", "paid"].iter().all(|node| steps.contains(node)), "{steps}");
    let forked = ["workflow", "fork", &job, "--from-step", "2", "--set", "total=7", "--no-wait"];
    let forked = job_in(&text(&ran(bowline(&server, &forked), "").await));
    let path = format!("/jobs/{forked}/approve");
    until(Duration::from_secs(30), "it asks", async || server.post(&path, json!({"node": "ask"})).await.status == 200)
        .await;
    assert_eq!(server.until_status(&forked, "success").await["job"]["result"], json!({"paid": 7}));
}
