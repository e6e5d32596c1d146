//! The order workflow of `examples/`, on a server: as data with guards, and with its handlers in a Python worker. Whichever
//! form it has, the same must come of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use bowline_testkit::Child;
use serde_json::{Value, json};

use crate::support::{Setup, TestServer};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn apply(server: &TestServer, file: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(["--server", &server.url(""), "apply", "-f"]).arg(file).env("BOWLINE_TOKEN", server.admin());
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

async fn begin(server: &TestServer, card: &str, price: u32) -> String {
    let data = json!({"customer": "ada", "card": card, "price": price, "quantity": 2});
    server.submit(json!({"blueprint": "order", "data": data})).await
}

async fn result(server: &TestServer, job: &str) -> Value {
    server.until_status(job, "success").await["job"]["result"].clone()
}

async fn decide(server: &TestServer, job: &str, decision: &str) {
    server.until_status(job, "paused").await;
    server.post(&format!("/jobs/{job}/{decision}"), json!({"reason": "looked at it"})).await.expect(200);
}

async fn promises(server: &TestServer) {
    let paid = begin(server, "4242", 20).await;
    let result_of_paid = result(server, &paid).await;
    let shown = server.get(&format!("/jobs/{paid}")).await.expect(200);
    assert_eq!(shown["workflow"]["final_state"], "done", "{shown}");
    assert_eq!((&result_of_paid["status"], &result_of_paid["total"]), (&json!("paid"), &json!(40)));
    assert_eq!(result_of_paid["steps_done"], json!(2));
    let approved = begin(server, "4242", 200).await;
    decide(server, &approved, "approve").await;
    assert_eq!(result(server, &approved).await["status"], json!("paid"));
    let refused = begin(server, "4242", 200).await;
    decide(server, &refused, "reject").await;
    let result_of_refused = result(server, &refused).await;
    assert_eq!(result_of_refused["status"], json!("refused"));
    assert_eq!(result_of_refused.get("charge_id"), None);
    let declined = begin(server, "0000", 20).await;
    assert_eq!(result(server, &declined).await["status"], json!("declined"));
    let refunded = begin(server, "9999", 20).await;
    assert_eq!(result(server, &refunded).await["status"], json!("refunded"));
}

#[tokio::test]
async fn an_order_as_data_and_with_handlers_in_python() {
    as_data_and_with_handlers(Setup::default()).await;
}

#[tokio::test]
async fn an_order_as_data_and_with_handlers_in_python_on_postgresql() {
    let database = bowline_testkit::fresh_database();
    as_data_and_with_handlers(Setup { database_url: Some(database.url().to_owned()), ..Setup::default() }).await;
}

async fn as_data_and_with_handlers(setup: Setup) {
    let mut server = TestServer::with(setup).await;
    let token = server.token(json!({"kind": "worker", "name": "order-py"})).await;
    let mut command = Command::new("python3");
    command.arg(example("order-remote/worker.py")).arg("order-py");
    command.env("BOWLINE_URL", server.url("")).env("BOWLINE_TOKEN", token);
    let worker = Child::spawn(command, "python worker");

    apply(&server, &example("order-remote/order.yaml"));
    promises(&server).await;
    // The same name from now on means the other form; runs that have begun keep theirs.
    apply(&server, &example("order-blueprint.yaml"));
    promises(&server).await;

    worker.term();
    let status = worker.wait_exit(std::time::Duration::from_secs(40)).await;
    assert!(status.success(), "{}", worker.log());
    server.stop().await;
    server.assert_verified();
}

fn said(arguments: &[&str], server: &TestServer) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(["--server", &server.url("")]).args(arguments).env("BOWLINE_TOKEN", server.admin());
    let output = command.output().expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// In the file and on the server, it is the same picture.
#[tokio::test]
async fn the_examples_are_valid_and_can_be_drawn() {
    let server = TestServer::start().await;
    let (data, remote) = (example("order-blueprint.yaml"), example("order-remote/order.yaml"));
    let (data, remote) = (data.to_str().expect("a path"), remote.to_str().expect("a path"));
    assert_eq!(said(&["workflow", "validate", data, remote], &server), (true, "valid: 2 blueprints\n".to_owned()));
    let (drawn, mermaid) = said(&["workflow", "graph", data], &server);
    assert!(drawn && mermaid.contains("variables.total #62; 100") && mermaid.contains("otherwise"), "{mermaid}");
    apply(&server, Path::new(data));
    assert_eq!(said(&["workflow", "graph", "order"], &server), (true, mermaid));
    let (drawn, svg) = said(&["workflow", "graph", "order", "--format", "svg"], &server);
    assert!(drawn && svg.starts_with("<svg ") && svg.contains("variables.total &gt; 100"), "{svg}");
    // What the command finds is what the server would say.
    let wrong = server.data_dir().join("wrong.yaml");
    let text = "kind: blueprint\nname: wrong\nspec: {start: a, states: {a: {transitions: [{when: 'x >', to: b}]}}}\n";
    std::fs::write(&wrong, text).expect("a file");
    let wrong = wrong.to_str().expect("a path");
    let (valid, mistakes) = said(&["workflow", "validate", wrong], &server);
    let (applied, refusal) = said(&["apply", "-f", wrong], &server);
    assert!(!valid && !applied);
    for place in ["spec.states.a.transitions[0].to: ", "spec.states.a.transitions[0].when: "] {
        assert!(mistakes.contains(place) && refusal.contains(place), "{mistakes}\n{refusal}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_blueprint_is_told_where_it_is_written() {
    let server = TestServer::start().await;
    let spec =
        json!({"start": "a", "states": {"a": {"transitions": [{"when": "1 +", "to": "b"}]}, "c": {"final": true}}});
    let answer = server.post("/jobs", json!({"blueprint": spec})).await.expect(422);
    let mistakes = answer["error"]["details"]["mistakes"].as_array().cloned().unwrap_or_default();
    let paths: Vec<&str> = mistakes.iter().filter_map(|mistake| mistake["path"].as_str()).collect();
    for place in ["states.a.transitions[0].to", "states.a.transitions[0].when", "states.c"] {
        assert!(paths.contains(&format!("blueprint.{place}").as_str()), "{place}: {answer}");
    }
    let answer = server.post("/jobs", json!({"blueprint": "nobody"})).await.expect(422);
    assert_eq!(answer["error"]["code"], json!("BLUEPRINT_NOT_FOUND"), "{answer}");
    let spec = json!({"start": "a", "states": {"a": {"final": true}}});
    let answer = server.post("/jobs", json!({"blueprint": spec, "data": [1]})).await.expect(422);
    assert_eq!(answer["error"]["details"]["field"], json!("data"), "{answer}");
    let answer = server.post("/jobs", json!({"blueprint": spec, "data": {"n": 1}})).await.expect(202);
    assert_eq!(answer["result"], json!({"n": 1}), "{answer}");
}

/// An execution that has ended shows the state in which it ended, whichever node of the state came last.
#[tokio::test]
async fn an_ended_blueprint_shows_its_final_state() {
    let server = TestServer::start().await;
    let ask = json!({"await_approval": {
        "title": "Charge?", "four_eyes": false,
        "transitions": {"approved": "charge", "rejected": "refused", "expired": "refused"},
    }});
    let charge = json!({"dispatch_task": {
        "type": "fail", "params": {"class": "permanent"}, "transitions": {"success": "done"},
    }});
    let spec = json!({"start": "ask", "states": {
        "ask": {"actions": [ask]}, "charge": {"actions": [charge]}, "done": {"final": true}, "refused": {"final": true},
    }});
    for (decision, status, state) in [("reject", "success", "refused"), ("approve", "failed", "charge")] {
        let job = server.submit(json!({"blueprint": spec})).await;
        let shown = server.until_status(&job, "paused").await;
        assert_eq!(shown["workflow"].get("final_state"), None, "it has not ended: {shown}");
        decide(&server, &job, decision).await;
        let shown = server.until_status(&job, status).await;
        assert_eq!(shown["workflow"]["final_state"], json!(state), "{shown}");
        if decision == "approve" {
            let steps = server.get(&format!("/jobs/{job}/steps")).await.expect(200);
            let last = steps["steps"].as_array().and_then(|steps| steps.last()).expect("a step");
            assert_eq!(last["node"], "charge.act", "the node that does what the state says: {steps}");
        }
    }
}
