//! Looking back, and going on from there.

use bowline_engine::flow::{Definition, Forking, LookError};
use bowline_model::JobStatus;
use bowline_store::Submitted;
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
    assert_eq!((same.steps, same.differences.len()), (4, 0));
    let mut other = price();
    other["nodes"][2]["config"]["operands"][1] = json!(3);
    let other = Definition::Workflow(serde_json::from_value(other).unwrap());
    let shadow = flows.shadow(house.tenant, record.id, Some(&other)).await.unwrap();
    let text = serde_json::to_value(&shadow.differences).unwrap();
    assert_eq!(text[0]["kind"], json!("step"));
    assert_eq!(text[0]["node"], json!("tax"));
    assert_eq!(text[0]["shadow"]["output"], json!({"result": 12}));
    // Nobody was asked anything: there is one job for the run, and one for its task.
    let jobs = house.engine.ledger.list_jobs(house.tenant, Default::default(), None, 100).await.unwrap();
    assert_eq!(jobs.items.len(), 2);
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
