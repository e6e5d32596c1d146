//! Stepping through runs, changing them, and retrying them.

use bowline_engine::flow::LookError;
use bowline_model::JobStatus;
use bowline_model::workflow::NodeId;
use bowline_store::{Clock, FlowAnswer, JobOrder};
use bowline_workflow::flow::{Breakpoint, Order};
use serde_json::{Value, json};

use crate::{House, node, result_of, row};

fn counting() -> Value {
    let add =
        |id: &str| node(id, "math", json!({"operation": "add", "operands": ["{{variables.n}}", 1], "store_as": "n"}));
    let mut workflow = row(&[add("a"), add("b"), add("c"), node("out", "end", json!({"output": "{{variables.n}}"}))]);
    workflow["variables"] = json!({"n": 0});
    workflow
}

async fn steer(house: &House, job: bowline_model::JobId, order: Order) -> FlowAnswer {
    house.engine.flows.steer(house.tenant, job, order, house.author(), Some("to see".into())).await.expect("steered")
}

async fn until_steps(house: &House, job: bowline_model::JobId, steps: usize) {
    for _ in 0..500 {
        if house.steps(job).await.len() == steps && house.job(job).await.state.status != JobStatus::Running {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{} steps instead of {steps}", house.steps(job).await.len());
}

#[tokio::test]
async fn debug_stops_after_each_node() {
    let house = House::open().await;
    let mut request = crate::ask(counting(), json!(null));
    request.debug = true;
    let job = crate::id_of(&house.submit(request).await);
    let record = house.engine.ledger.find_flow(house.tenant, job).await.unwrap().unwrap();
    assert_eq!((record.paused_for.as_deref(), record.steps), (Some("debug"), 1));
    assert_eq!(steer(&house, job, Order::Step).await, FlowAnswer::Taken);
    until_steps(&house, job, 2).await;
    let edit = json!({"n": 40}).as_object().unwrap().clone();
    assert_eq!(steer(&house, job, Order::Edit(edit)).await, FlowAnswer::Taken);
    assert_eq!(steer(&house, job, Order::RunTo(NodeId::from("c"))).await, FlowAnswer::Taken);
    until_steps(&house, job, 3).await;
    assert_eq!(steer(&house, job, Order::Continue).await, FlowAnswer::Taken);
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!(result_of(&record), json!(42));
    let trail = house.engine.ledger.verify(10).await.unwrap();
    assert!(trail.audit >= 4, "every order is in the audit trail");
    house.check().await;
}

#[tokio::test]
async fn a_breakpoint_holds_where_its_condition_does() {
    let house = House::open().await;
    let mut request = crate::ask(counting(), json!(null));
    let point = |node: &str, when: &str| Breakpoint { node: NodeId::from(node), when: Some(when.to_owned()) };
    request.breakpoints = vec![point("b", "{{variables.n}} > 5"), point("c", "{{variables.n}} == 2")];
    let job = crate::id_of(&house.submit(request).await);
    let record = house.until(job, |status| status == JobStatus::Paused).await;
    assert_eq!(house.path(record.id).await, ["start", "a", "b"]);
    steer(&house, job, Order::Pin { node: NodeId::from("c"), output: json!({"result": 7}) }).await;
    steer(&house, job, Order::Continue).await;
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!(result_of(&record), json!(7), "the variable is set as the node sets it");
    let steps = house.steps(job).await;
    assert_eq!(steps[3].step.output, json!({"result": 7}));
    let mistaken = Order::RunTo(NodeId::from("nowhere"));
    let refused = house.engine.flows.steer(house.tenant, job, mistaken, house.author(), None).await;
    assert!(matches!(refused, Err(LookError::Bad(_))));
    house.check().await;
}

#[tokio::test]
async fn a_run_that_begins_later_stops_where_it_was_told() {
    let house = House::open().await;
    let mut request = crate::ask(counting(), json!(null));
    request.breakpoints = vec![Breakpoint { node: NodeId::from("b"), when: None }];
    request.run_at = Some(house.clock.now().plus_millis(60_000));
    let job = crate::id_of(&house.submit(request).await);
    assert_eq!(house.path(job).await, [""; 0], "it has not begun");
    house.clock.advance_ms(60_000);
    house.until(job, |status| status == JobStatus::Paused).await;
    assert_eq!(house.path(job).await, ["start", "a"]);
    steer(&house, job, Order::Continue).await;
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!(result_of(&record), json!(3));
    house.check().await;
}

#[tokio::test]
async fn a_failed_run_goes_on_where_it_failed() {
    let house = House::open().await;
    let half =
        node("half", "math", json!({"operation": "divide", "operands": [84, "{{variables.by}}"], "store_as": "half"}));
    let mut workflow = row(&[half, node("out", "end", json!({"output": "{{variables.half}}"}))]);
    workflow["variables"] = json!({"by": 0});
    let record = house.run(workflow, json!(null)).await;
    assert_eq!(record.state.status, JobStatus::Failed);
    let job = record.id;
    let order = JobOrder { tenant: house.tenant, job, by: house.author(), reason: Some("again".into()) };
    house.engine.ledger.retry_job(order.clone()).await.unwrap();
    assert_eq!(house.until(job, JobStatus::is_terminal).await.state.status, JobStatus::Failed);
    assert_eq!(house.path(job).await, ["start", "half", "half"]);
    house.check().await;
}

/// It does not end well because nothing was left of it.
#[tokio::test]
async fn a_canceled_run_goes_on_where_it_was() {
    let house = House::open().await;
    let nap = node("nap", "sleep", json!({"duration_ms": 60_000}));
    let endless = node("endless", "task", json!({"type": "endless"}));
    let workflow = json!({
        "nodes": [
            node("start", "start", json!({})), node("fork", "parallel", json!({})), nap, endless,
            node("join", "join", json!({"mode": "all"})), node("out", "end", json!({"output": "whole"})),
        ],
        "edges": [
            {"source": "start", "target": "fork"}, {"source": "fork", "target": "nap"},
            {"source": "fork", "target": "endless"}, {"source": "nap", "target": "join"},
            {"source": "endless", "target": "join"}, {"source": "join", "target": "out"},
        ],
    });
    let job = house.begin(workflow, json!(null)).await;
    house.until(job, |status| status == JobStatus::Running).await;
    let order = JobOrder { tenant: house.tenant, job, by: house.author(), reason: None };
    house.engine.cancel_job(order.clone()).await.unwrap();
    house.until(job, |status| status == JobStatus::Canceled).await;
    house.engine.ledger.retry_job(order).await.unwrap();
    for _ in 0..500 {
        let view = house.engine.flows.context(house.tenant, job, None).await.unwrap();
        if view.places.len() == 2 && view.places.iter().all(|place| place.get("waits").is_some()) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let view = house.engine.flows.context(house.tenant, job, None).await.unwrap();
    let mut places: Vec<_> = view.places.iter().map(|place| (&place["node"], &place["visit"])).collect();
    places.sort_by_key(|(node, _)| node.to_string());
    assert_eq!(places, [(&json!("endless"), &json!(2)), (&json!("nap"), &json!(2))]);
    assert_eq!(house.job(job).await.state.status, JobStatus::Running);
    house.check().await;
}
