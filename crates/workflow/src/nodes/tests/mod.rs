//! What each type of node does, entered with real contexts and given real answers.

mod calls;
mod flow;
mod numbers;
mod schemas;
mod waits;

use bowline_model::workflow::{EdgeSpec, NodePolicy, NodeSpec, WorkflowSpec};
use bowline_model::{ErrorClass, JobStatus, RunError, Timestamp};
use serde_json::{Value, json};

use crate::expression::Context;
use crate::node::{Answer, Call, Done, Ended, Exit, Next, Visit, Wait};
use crate::program::Program;

/// The time of all these tests.
const NOW: Timestamp = Timestamp::from_millis(1_767_398_400_000);

fn context() -> Context {
    let mut context = Context::new(
        json!({"payload": {"orders": [{"id": 7, "sum": 10}, {"id": 8, "sum": 2}], "evil": "a/b?c=d&e\r\nX: y", "none": null}}),
        json!({"id": 2, "email": "user@example.com"}),
        json!({"id": "f237bcb0-0b59-48e5-a2a2-85e668748c8b"}),
    );
    context.set_output("before", json!({"status_code": 200, "body": {"balance": 500}}));
    context.set_variable("price", json!(99.5)).unwrap();
    context.set_variable("count", json!(4)).unwrap();
    context
}

/// A workflow of one node between others, with edges of these names.
fn program(node_type: &str, config: Value, edges: &[&str]) -> Program {
    let node = |id: &str, node_type: &str, config: Value| NodeSpec {
        id: id.into(),
        node_type: node_type.to_owned(),
        config: config.as_object().unwrap().clone(),
        policy: NodePolicy::default(),
        undo: None,
        label: None,
        position: None,
    };
    let edge = |source: &str, target: &str, on: &str| EdgeSpec {
        source: source.into(),
        target: target.into(),
        on: on.to_owned(),
    };
    let mut spec = WorkflowSpec {
        description: String::new(),
        nodes: vec![
            node("start", "start", json!({})),
            node("before", "transform", json!({"value": {}})),
            node("it", node_type, config),
        ],
        edges: vec![edge("start", "before", "success"), edge("before", "it", "success")],
        variables: serde_json::Map::new(),
        on_error: None,
        max_steps: 100,
    };
    for (number, on) in edges.iter().enumerate() {
        let id = format!("after_{number}");
        spec.nodes.push(node(&id, "log", json!({"message": "done"})));
        spec.edges.push(edge("it", &id, on));
    }
    Program::compile(&spec).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"))
}

/// Enters a node of this type.
fn enter_with(node_type: &str, config: Value, edges: &[&str], policy: &NodePolicy) -> Result<Next, RunError> {
    let program = program(node_type, config, edges);
    let context = context();
    program.nodes[2].node.enter(Visit { context: &context, now: NOW, number: 1, policy })
}

fn enter(node_type: &str, config: Value) -> Result<Next, RunError> {
    enter_with(node_type, config, &[], &NodePolicy::default())
}

/// Gives a node of this type an answer.
fn answered(node_type: &str, config: Value, edges: &[&str], answer: Answer) -> Result<Next, RunError> {
    let (program, context, policy) = (program(node_type, config, edges), context(), NodePolicy::default());
    program.nodes[2].node.answered(Visit { context: &context, now: NOW, number: 1, policy: &policy }, answer)
}

#[track_caller]
fn done(next: Result<Next, RunError>) -> Done {
    match next {
        Ok(Next::Done(done)) => done,
        other => panic!("not done: {other:?}"),
    }
}

#[track_caller]
fn failed(next: Result<Next, RunError>) -> (RunError, Value) {
    match next {
        Ok(Next::Failed(failed)) => failed.into_parts(),
        other => panic!("has not failed: {other:?}"),
    }
}

#[track_caller]
fn wait(next: Result<Next, RunError>) -> Wait {
    match next {
        Ok(Next::Wait(wait)) => wait,
        other => panic!("does not wait: {other:?}"),
    }
}

#[track_caller]
fn call(next: Result<Next, RunError>) -> Call {
    match wait(next) {
        Wait::Call(call) => *call,
        other => panic!("not a call: {other:?}"),
    }
}

fn port(name: &str) -> Exit {
    Exit::Port(name.into())
}

fn ended(result: Value) -> Ended {
    Ended { job: None, status: JobStatus::Succeeded, result, error: None }
}

fn broken(message: &str) -> Ended {
    let error = Some(RunError::new(ErrorClass::Transient, message));
    Ended { job: None, status: JobStatus::Failed, result: Value::Null, error }
}
