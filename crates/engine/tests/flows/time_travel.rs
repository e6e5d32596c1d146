//! Looking back, and going on from there.

use bowline_engine::flow::{Definition, FlowRequest, Forking, LookError};
use bowline_model::JobStatus;
use bowline_store::Submitted;
use bowline_workflow::draw::NodeStatus;
use bowline_workflow::flow::{Differences, Order};
use serde_json::{Map, Value, json};

use crate::{House, node, result_of, row};

fn price() -> Value {
    row(&[
        node("get", "task", json!({"type": "echo", "payload": {"price": "{{webhook.payload.price}}"}})),
        node(
            "tax",
            "math",
            json!({"operation": "multiply", "operands": ["{{steps.get.output.price}}", 2], "store_as": "total"}),
        ),
        node("out", "end", json!({"output": "{{variables.total}}"})),
    ])
}

#[tokio::test]
async fn the_context_of_every_step_can_be_seen() {
    let house = House::open().await;
    let record = house.run(price(), json!({"price": 4})).await;
    let job = record.id;
    let flows = &house.engine.flows;
    let at = |step| flows.context(house.tenant, job, Some(step));
    assert_eq!(at(0).await.unwrap().context["steps"], json!({}));
    let second = at(2).await.unwrap();
    assert_eq!(second.context["steps"]["get"]["output"], json!({"price": 4}));
    assert_eq!(second.diff.len(), 1);
    assert_eq!(second.diff[0].path, "steps.get");
    let third = at(3).await.unwrap();
    let paths: Vec<&str> = third.diff.iter().map(|changed| changed.path.as_str()).collect();
    assert_eq!(paths, ["steps.tax", "variables.total"]);
    assert_eq!(third.context["variables"]["total"], json!(8));
    assert!(matches!(at(9).await, Err(LookError::NoStep { asked: 9, has: 4 })));
    let nobody = bowline_model::TenantId::from_uuid(uuid::Uuid::from_u128(2));
    assert!(matches!(flows.context(nobody, job, None).await, Err(LookError::NotFound)));
}

#[tokio::test]
async fn a_run_goes_on_from_a_past_step_of_another() {
    let house = House::open().await;
    let record = house.run(price(), json!({"price": 4})).await;
    let mut definition: Value = price();
    definition["nodes"][2]["config"]["operands"][1] = json!(3);
    let fork = |from_step, definition: Option<Value>, variables: Map<String, Value>| Forking {
        from_step,
        variables,
        definition: definition.map(|d| Definition::Workflow(serde_json::from_value(d).unwrap())),
        debug: false,
        key: None,
    };
    let engine = &house.engine;
    let forked = async |forking| {
        let forked =
            engine.flows.fork(engine.hands(), house.tenant, record.id, &house.origin(), forking).await.unwrap();
        let Submitted::Accepted { id, .. } = forked else { panic!("{forked:?}") };
        house.until(id, JobStatus::is_terminal).await
    };
    let again = forked(fork(2, Some(definition), Map::new())).await;
    assert_eq!(result_of(&again), json!(12));
    // The job before it was not begun again.
    assert_eq!(house.path(again.id).await, ["tax", "out"]);
    let set = json!({"total": 99}).as_object().unwrap().clone();
    let patched = forked(fork(3, None, set)).await;
    assert_eq!(result_of(&patched), json!(99));
    let link = engine.ledger.find_flow(house.tenant, patched.id).await.unwrap().unwrap();
    assert_eq!(link.forked_from, Some((record.id, 3)));
    // What was before that step is in the other run.
    let at = |step| engine.flows.context(house.tenant, patched.id, Some(step));
    let before = at(2).await;
    assert!(matches!(&before, Err(LookError::Bad(what)) if what.contains("goes on from step 3")), "{before:?}");
    assert_eq!(at(3).await.unwrap().step, 3);
    // Where a step had not ended, it is entered again.
    let whole = forked(fork(1, None, Map::new())).await;
    assert_eq!((house.path(whole.id).await.len(), result_of(&whole)), (3, json!(8)));
    house.check().await;
}

#[tokio::test]
async fn the_shadow_of_a_run_shows_what_another_definition_would_have_done() {
    let house = House::open().await;
    let record = house.run(price(), json!({"price": 4})).await;
    let flows = &house.engine.flows;
    let same = flows.shadow(house.tenant, record.id, None).await.unwrap();
    assert_eq!((same.steps, &same.differences), (4, &Differences::default()));
    let mut other = price();
    other["nodes"][2]["config"]["operands"][1] = json!(3);
    let other = Definition::Workflow(serde_json::from_value(other).unwrap());
    let shadow = flows.shadow(house.tenant, record.id, Some(&other)).await.unwrap();
    let text = serde_json::to_value(&shadow.differences.listed).unwrap();
    assert_eq!(text[0]["kind"], json!("step"));
    assert_eq!(text[0]["node"], json!("tax"));
    assert_eq!(text[0]["shadow"]["output"], json!({"result": 12}));
    // Nobody was asked anything: there is one job for the run, and one for its task.
    let jobs = house.engine.ledger.list_jobs(house.tenant, Default::default(), None, 100).await.unwrap();
    assert_eq!(jobs.items.len(), 2);
}

#[tokio::test]
async fn the_shadow_shows_that_something_else_would_be_asked_for() {
    let house = House::open().await;
    let record = house.run(price(), json!({"price": 4})).await;
    let mut other = price();
    other["nodes"][1]["config"]["payload"]["price"] = json!(5);
    let other = Definition::Workflow(serde_json::from_value(other).unwrap());
    let shadow = house.engine.flows.shadow(house.tenant, record.id, Some(&other)).await.unwrap();
    let text = serde_json::to_value(&shadow.differences.listed).unwrap();
    assert_eq!(text.as_array().map(Vec::len), Some(1), "the answer is the one that came then: {text}");
    assert_eq!((&text[0]["kind"], &text[0]["node"]), (&json!("asks"), &json!("get")));
    assert_eq!(text[0]["recorded"][0]["what"]["task"]["payload"], json!({"price": 4}));
    assert_eq!(text[0]["shadow"][0]["what"]["task"]["payload"], json!({"price": 5}));
}

/// More turns without a step than are read at a time.
#[tokio::test]
async fn looking_back_sees_past_the_items_of_a_long_foreach() {
    let house = House::open().await;
    let config = json!({
        "items": (0..450).collect::<Vec<u32>>(), "concurrency": 1,
        "node": {"type": "task", "config": {"type": "echo", "payload": {"price": "{{item}}"}}},
    });
    let each = node("each", "foreach", config);
    let sum = json!({"output": "{{steps.each.output.succeeded}}"});
    let record = house
        .run(row(&[each, node("said", "log", json!({"message": "done"})), node("out", "end", sum)]), json!({}))
        .await;
    assert_eq!(result_of(&record), json!(450), "{:?}", record.error);
    let flows = &house.engine.flows;
    assert_eq!(house.path(record.id).await, ["start", "each", "said", "out"]);
    let page = flows.steps(house.tenant, record.id, 3, 1).await.expect("steps");
    assert_eq!((page.steps.len(), page.steps[0].step.n, page.next), (1, 3, Some(4)));
    let picture = flows.picture(house.tenant, record.id).await.expect("a picture");
    assert!(picture.statuses.values().all(|status| *status == NodeStatus::Done), "{:?}", picture.statuses);
    let shadow = flows.shadow(house.tenant, record.id, None).await.expect("a shadow");
    assert_eq!((shadow.steps, &shadow.differences), (4, &Differences::default()));
    // It is not all in one page.
    let first = house.engine.ledger.flow_records(house.tenant, record.id, 0, 0, 200).await.expect("records");
    assert!(first.next.is_some(), "{} turns", first.items.len());
}

#[tokio::test]
async fn a_shadow_changes_what_people_changed() {
    let house = House::open().await;
    let mut workflow = row(&[node("out", "end", json!({"output": "{{variables.extra}}"}))]);
    workflow["variables"] = json!({"extra": 0});
    let job = crate::id_of(&house.submit(FlowRequest { debug: true, ..crate::ask(workflow, json!(null)) }).await);
    let order = |order| house.engine.flows.steer(house.tenant, job, order, house.author(), None);
    let edit = json!({"extra": 5}).as_object().unwrap().clone();
    order(Order::Edit(edit)).await.unwrap();
    order(Order::Continue).await.unwrap();
    assert_eq!(result_of(&house.until(job, JobStatus::is_terminal).await), json!(5));
    let same = house.engine.flows.shadow(house.tenant, job, None).await.unwrap();
    assert_eq!(same.differences, Differences::default());
}

#[tokio::test]
async fn a_shadow_that_does_not_end_is_left() {
    let house = House::open().await;
    let record = house.run(price(), json!({"price": 4})).await;
    let endless = json!({
        "max_steps": 1_000_000,
        "nodes": [node("start", "start", json!({})), node("again", "condition", json!({"expression": "true"}))],
        "edges": [{"source": "start", "target": "again"}, {"source": "again", "target": "again", "on": "true"}],
    });
    let other = Definition::Workflow(serde_json::from_value(endless).unwrap());
    let shadow = house.engine.flows.shadow(house.tenant, record.id, Some(&other)).await.unwrap();
    let (listed, unlisted) = (&shadow.differences.listed, shadow.differences.unlisted);
    assert_eq!(listed.len(), 1_000);
    assert!((1..100).contains(&unlisted), "{unlisted}: it takes a thousand steps more than the run, and no more");
}

#[tokio::test]
async fn a_long_run_can_be_folded_from_its_snapshots() {
    let house = House::open().await;
    let workflow = json!({
        "variables": {"n": 0},
        "nodes": [
            node("start", "start", json!({})),
            node("add", "math", json!({"operation": "add", "operands": ["{{variables.n}}", 1], "store_as": "n"})),
            node("more", "condition", json!({"expression": "{{variables.n}} < 2000"})),
            node("nap", "sleep", json!({"duration_ms": 1000})),
            node("out", "end", json!({"output": "{{variables.n}}"})),
        ],
        "edges": [
            {"source": "start", "target": "add"},
            {"source": "add", "target": "more"},
            {"source": "more", "target": "add", "on": "true"},
            {"source": "more", "target": "nap", "on": "false"},
            {"source": "nap", "target": "out"},
        ],
    });
    let job = house.begin(workflow, json!(null)).await;
    house.until(job, |status| status == JobStatus::Paused).await;
    let house = house.die_and_return().await;
    for step in [1_u32, 2, 777, 2_000, 3_999] {
        let view = house.engine.flows.context(house.tenant, job, Some(step)).await.unwrap();
        assert_eq!(view.context["variables"]["n"], json!(step / 2), "after step {step}");
    }
    house.clock.advance_ms(1_000);
    assert_eq!(result_of(&house.until(job, JobStatus::is_terminal).await), json!(2_000));
    house.check().await;
}

#[tokio::test]
async fn a_fork_of_what_was_about_to_end_ends() {
    let house = House::open().await;
    let half =
        node("half", "math", json!({"operation": "divide", "operands": [84, "{{variables.by}}"], "store_as": "half"}));
    let mut workflow = row(&[half, node("out", "end", json!({"output": "{{variables.half}}"}))]);
    workflow["variables"] = json!({"by": 0});
    let record = house.run(workflow, json!(null)).await;
    assert_eq!(record.state.status, JobStatus::Failed);
    let engine = &house.engine;
    let variables = json!({"by": 2}).as_object().unwrap().clone();
    let forking =
        |from_step| Forking { from_step, variables: variables.clone(), definition: None, debug: false, key: None };
    let forked = async |from_step| {
        let origin = house.origin();
        let forked = engine.flows.fork(engine.hands(), house.tenant, record.id, &origin, forking(from_step));
        let Submitted::Accepted { id, .. } = forked.await.unwrap() else { panic!("it was not accepted") };
        house.until(id, JobStatus::is_terminal).await
    };
    // After the step that failed there was nothing left to do but to fail.
    let after = forked(2).await;
    assert_eq!(after.state.status, JobStatus::Failed, "{:?}", after.result);
    let before = forked(1).await;
    assert_eq!((before.state.status, result_of(&before)), (JobStatus::Succeeded, json!(42)));
    // And where it failed it can be tried again, with what it knows.
    let order = bowline_store::JobOrder { tenant: house.tenant, job: after.id, by: house.author(), reason: None };
    engine.ledger.retry_job(order).await.unwrap();
    let again = house.until(after.id, |status| status == JobStatus::Succeeded).await;
    assert_eq!(result_of(&again), json!(42));
    house.check().await;
}

#[tokio::test]
async fn a_fork_of_what_was_being_canceled_goes_on_everywhere() {
    let house = House::open().await;
    let endless = node("endless", "task", json!({"type": "endless"}));
    let nap = node("nap", "sleep", json!({"duration_ms": 60_000}));
    let workflow = json!({
        "nodes": [node("start", "start", json!({})), node("fork", "parallel", json!({})), nap, endless],
        "edges": [
            {"source": "start", "target": "fork"}, {"source": "fork", "target": "nap"},
            {"source": "fork", "target": "endless"},
        ],
    });
    let job = house.begin(workflow, json!(null)).await;
    let order = bowline_store::JobOrder { tenant: house.tenant, job, by: house.author(), reason: None };
    house.engine.cancel_job(order).await.unwrap();
    house.until(job, |status| status == JobStatus::Canceled).await;
    // The last step is the one of the task that was stopped.
    assert_eq!(house.path(job).await, ["start", "fork", "endless"]);
    let forking = Forking { from_step: 3, variables: Map::new(), definition: None, debug: false, key: None };
    let engine = &house.engine;
    let forked = engine.flows.fork(engine.hands(), house.tenant, job, &house.origin(), forking).await.unwrap();
    let Submitted::Accepted { id, .. } = forked else { panic!("{forked:?}") };
    for _ in 0..500 {
        if engine.flows.context(house.tenant, id, None).await.unwrap().places.iter().all(|p| p.get("waits").is_some()) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let places = engine.flows.context(house.tenant, id, None).await.unwrap().places;
    let mut nodes: Vec<&Value> = places.iter().map(|place| &place["node"]).collect();
    nodes.sort_by_key(std::string::ToString::to_string);
    assert_eq!(nodes, [&json!("endless"), &json!("nap")]);
    house.check().await;
}

#[tokio::test]
async fn a_fork_is_made_once_for_each_key() {
    let house = House::open().await;
    let record = house.run(price(), json!({"price": 4})).await;
    let forking = || Forking {
        from_step: 2,
        variables: Map::new(),
        definition: None,
        debug: false,
        key: Some("again".to_owned()),
    };
    let engine = &house.engine;
    let fork = async |forking| {
        engine.flows.fork(engine.hands(), house.tenant, record.id, &house.origin(), forking).await.expect("an answer")
    };
    let Submitted::Accepted { id: first, .. } = fork(forking()).await else { panic!("it was not accepted") };
    let again = fork(forking()).await;
    assert!(matches!(again, Submitted::Replayed { id, .. } if id == first), "{again:?}");
    let variables = json!({"total": 1}).as_object().unwrap().clone();
    let mut definition = price();
    definition["nodes"][2]["config"]["operands"][1] = json!(3);
    let definition = Some(Definition::Workflow(serde_json::from_value(definition).unwrap()));
    for other in [
        Forking { from_step: 1, ..forking() },
        Forking { variables, ..forking() },
        Forking { definition, ..forking() },
        Forking { debug: true, ..forking() },
    ] {
        let answer = fork(other).await;
        assert!(matches!(answer, Submitted::Conflict { .. }), "{answer:?}");
    }
    house.until(first, JobStatus::is_terminal).await;
    house.check().await;
}
