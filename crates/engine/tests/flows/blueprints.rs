//! Runs of blueprints are runs like any others: they can be looked at, steered, forked and compared.

use bowline_engine::flow::{BlueprintChoice, Definition, FlowRequest, Forking, WorkflowChoice};
use bowline_model::JobStatus;
use bowline_store::Submitted;
use bowline_workflow::flow::Order;
use serde_json::{Map, Value, json};

use crate::{House, ask, id_of, result_of, row};

fn price(factor: u32) -> Value {
    json!({
        "start": "look",
        "states": {
            "look": {
                "actions": [{"dispatch_task": {"type": "echo", "params": {"net": "{{variables.net}}"},
                    "transitions": {"success": "add"}}}],
            },
            "add": {
                "actions": [{"set": {"gross": format!("{{{{variables.task_result.result.net * {factor}}}}}")}}],
                "transitions": [{"when": "variables.gross > 100", "to": "dear"}, {"to": "cheap"}],
            },
            "dear": {"final": true},
            "cheap": {"final": true},
        },
    })
}

fn request(spec: Value, data: Value) -> FlowRequest {
    let spec = serde_json::from_value(spec).expect("a blueprint");
    let choice = BlueprintChoice::Inline { name: "price".to_owned(), spec };
    FlowRequest { workflow: WorkflowChoice::Blueprint(choice), ..ask(row(&[]), data) }
}

#[tokio::test]
async fn a_run_is_looked_at_forked_and_compared() {
    let house = House::open().await;
    let job = id_of(&house.submit(request(price(2), json!({"net": 30}))).await);
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!(result_of(&record), json!({"net": 30, "gross": 60}));
    let path = ["blueprint.start", "look", "look.act", "add", "add.act", "cheap", "cheap.act"];
    assert_eq!(house.path(job).await, path);
    // After the program was read again from the ledger, too.
    let house = house.die_and_return().await;
    // Ids are made of time and a seed that is the same again.
    house.clock.advance_ms(1);
    let (engine, flows) = (&house.engine, &house.engine.flows);
    let shadow = flows.shadow(house.tenant, job, None).await.unwrap();
    assert_eq!((shadow.steps, shadow.differences.len()), (7, 0), "{:?}", shadow.differences);
    let other = Definition::Blueprint(serde_json::from_value(price(4)).unwrap());
    let shadow = flows.shadow(house.tenant, job, Some(&other)).await.unwrap();
    assert!(!shadow.differences.is_empty());
    let forking = Forking {
        from_step: 3,
        variables: Map::from_iter([("color".to_owned(), json!("red"))]),
        definition: Some(other),
        debug: false,
    };
    let forked = flows.fork(engine.hands(), house.tenant, job, &house.origin(), forking).await.unwrap();
    let Submitted::Accepted { id, .. } = forked else { panic!("{forked:?}") };
    let record = house.until(id, JobStatus::is_terminal).await;
    assert_eq!(result_of(&record), json!({"net": 30, "gross": 120, "color": "red"}));
    let picture = flows.picture(house.tenant, id).await.unwrap();
    let drawn = bowline_workflow::draw::mermaid(&picture.spec, &picture.statuses);
    assert!(drawn.contains("dear") && !drawn.contains(".act"), "{drawn}");
    house.check().await;
}

#[tokio::test]
async fn a_run_is_stepped_through_and_changed() {
    let house = House::open().await;
    let mut wish = request(price(2), json!({"net": 30}));
    wish.debug = true;
    let job = id_of(&house.submit(wish).await);
    let flows = &house.engine.flows;
    house.until(job, |status| status == JobStatus::Paused).await;
    assert_eq!(house.path(job).await, ["blueprint.start"]);
    for order in [Order::Edit(Map::from_iter([("net".to_owned(), json!(300))])), Order::Continue] {
        flows.steer(house.tenant, job, order, house.author(), None).await.unwrap();
    }
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!(result_of(&record), json!({"net": 300, "gross": 600}));
    house.check().await;
}
