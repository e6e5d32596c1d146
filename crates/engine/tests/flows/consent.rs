//! Where an execution asks people, and whether a run that starts from one of its steps takes their decision along.

use std::time::Duration;

use bowline_engine::flow::{BlueprintChoice, FlowRequest, WorkflowChoice};
use bowline_model::resource::ResourceKind;
use bowline_model::workflow::NodeId;
use bowline_model::{JobId, JobStatus};
use bowline_store::FlowAnswer;
use bowline_testkit::until;
use bowline_workflow::flow::Order;
use serde_json::{Value, json};

use crate::questions::{children, put};
use crate::{House, ask, id_of, node, row};

fn question() -> Value {
    node("ask", "approval", json!({"title": "Go?", "four_eyes": false}))
}

fn asking() -> Value {
    row(&[question()])
}

/// Runs the workflow of this name.
fn running(name: &str) -> Value {
    row(&[node("run", "workflow", json!({"name": name}))])
}

/// A blueprint with one state before its last.
fn machine(state: Value) -> Value {
    json!({"start": "work", "states": {"work": state, "done": {"final": true}}})
}

fn doing(action: Value) -> Value {
    machine(json!({"actions": [action]}))
}

fn asking_machine() -> Value {
    let transitions = json!({"approved": "done", "rejected": "done", "expired": "done"});
    let approval = json!({"title": "Go?", "four_eyes": false, "timeout_seconds": 60, "transitions": transitions});
    doing(json!({"await_approval": approval}))
}

fn running_machine(name: &str) -> Value {
    let transitions = json!({"success": "done", "failure": "done"});
    doing(json!({"run_blueprint": {"blueprint": name, "transitions": transitions}}))
}

async fn begin_machine(house: &House, spec: &Value) -> JobId {
    let spec = serde_json::from_value(spec.clone()).expect("a blueprint");
    let choice = BlueprintChoice::Inline { name: "machine".to_owned(), spec };
    let request = FlowRequest { workflow: WorkflowChoice::Blueprint(choice), ..ask(row(&[]), json!({})) };
    id_of(&house.submit(request).await)
}

async fn asks(house: &House, job: JobId) -> bool {
    house.engine.flows.asks_people(house.tenant, job).await.expect("read")
}

async fn decided(house: &House, job: JobId, step: u32) -> bool {
    house.engine.flows.decided_before(house.tenant, job, step).await.expect("read")
}

/// Waits for the question, and says yes.
async fn say_yes(house: &House, job: JobId) {
    house.until(job, |status| status == JobStatus::Paused).await;
    let answer = house.engine.flows.decide(house.tenant, job, None, true, house.author(), None).await;
    assert_eq!(answer.expect("an answer"), FlowAnswer::Taken);
    house.until(job, JobStatus::is_terminal).await;
}

#[tokio::test]
async fn a_workflow_asks_people_if_it_or_one_that_it_runs_has_a_question() {
    let house = House::open_still().await;
    for (name, workflow) in
        [("asks", asking()), ("runs-one-that-asks", running("asks")), ("calm", row(&[])), ("itself", running("itself"))]
    {
        put(&house, ResourceKind::Workflow, name, workflow).await;
    }
    for (workflow, expected) in [
        (row(&[]), false),
        (asking(), true),
        (running("calm"), false),
        (running("asks"), true),
        (running("runs-one-that-asks"), true),
        (running("itself"), false),
        // What is not there any more may have asked anything.
        (running("nowhere"), true),
    ] {
        let job = house.begin(workflow.clone(), json!(null)).await;
        assert_eq!(asks(&house, job).await, expected, "{workflow}");
        assert_eq!(house.engine.flows.kind_of(house.tenant, job).await.expect("read"), ResourceKind::Workflow);
    }
}

#[tokio::test]
async fn a_blueprint_asks_people_if_an_action_a_handler_or_another_blueprint_may() {
    let house = House::open_still().await;
    let nap = doing(json!({"sleep": {"seconds": 3600, "then": "done"}}));
    for (name, spec) in [("asks", asking_machine()), ("calm", nap.clone())] {
        put(&house, ResourceKind::Blueprint, name, spec).await;
    }
    for (spec, expected) in [
        (nap, false),
        (asking_machine(), true),
        (running_machine("calm"), false),
        (running_machine("asks"), true),
        (running_machine("nowhere"), true),
        // What a handler wants is not known before it is asked.
        (machine(json!({"handler": "noop", "transitions": [{"to": "done"}]})), true),
    ] {
        let job = begin_machine(&house, &spec).await;
        assert_eq!(asks(&house, job).await, expected, "{spec}");
        assert_eq!(house.engine.flows.kind_of(house.tenant, job).await.expect("read"), ResourceKind::Blueprint);
    }
}

#[tokio::test]
async fn an_execution_asks_people_if_the_one_that_started_it_does() {
    let house = House::open().await;
    put(&house, ResourceKind::Workflow, "calm", row(&[])).await;
    let job = house.begin(row(&[node("run", "workflow", json!({"name": "calm"})), question()]), json!(null)).await;
    house.until(job, |status| status == JobStatus::Paused).await;
    let started = children(&house, job).await;
    assert_eq!(started.len(), 1);
    assert!(asks(&house, started[0]).await);
    let alone = house.begin(row(&[]), json!(null)).await;
    assert!(!asks(&house, alone).await);
}

#[tokio::test]
async fn a_decision_is_taken_along_from_behind_its_question_only() {
    let house = House::open().await;
    let job = house.begin(asking(), json!(null)).await;
    say_yes(&house, job).await;
    assert_eq!(house.path(job).await, ["start", "ask", "end"]);
    assert!(!decided(&house, job, 1).await);
    assert!(decided(&house, job, 2).await);
    let job = begin_machine(&house, &asking_machine()).await;
    say_yes(&house, job).await;
    assert_eq!(house.path(job).await, ["blueprint.start", "work", "work.act", "done", "done.act"]);
    assert!(!decided(&house, job, 2).await);
    assert!(decided(&house, job, 3).await);
}

#[tokio::test]
async fn a_handler_that_has_answered_has_asked_what_its_answer_says() {
    let house = House::open().await;
    let job = begin_machine(&house, &machine(json!({"handler": "noop", "transitions": [{"to": "done"}]}))).await;
    house.until(job, JobStatus::is_terminal).await;
    assert_eq!(house.path(job).await, ["blueprint.start", "work", "work.act", "done", "done.act"]);
    assert!(!decided(&house, job, 5).await);
}

#[tokio::test]
async fn a_pin_may_stand_in_for_a_decision_except_at_the_question_itself() {
    let house = House::open().await;
    let call = node("call", "http_request", json!({"method": "POST", "url": "http://example.com/"}));
    let workflow = row(&[call, question()]);
    for (pinned, output, expected) in [
        (None, json!(null), false),
        (Some("ask"), json!({"approved": true}), false),
        (Some("call"), json!({"status_code": 200}), true),
    ] {
        let request = FlowRequest { debug: true, ..ask(workflow.clone(), json!(null)) };
        let job = id_of(&house.submit(request).await);
        house.until(job, |status| status == JobStatus::Paused).await;
        if let Some(id) = pinned {
            let order = Order::Pin { node: NodeId::from(id), output };
            let taken = house.engine.flows.steer(house.tenant, job, order, house.author(), None).await;
            assert_eq!(taken.expect("steered"), FlowAnswer::Taken);
            until(Duration::from_secs(20), "the execution has the pin", async || {
                let context = house.engine.flows.context(house.tenant, job, None).await.expect("a context");
                !context.debug.pins.is_empty()
            })
            .await;
        }
        assert_eq!(decided(&house, job, 1).await, expected, "{pinned:?}");
    }
}
