//! Runs of blueprints are runs like any others: they can be looked at, steered, forked and compared; on both ledgers.

use bowline_engine::flow::{BlueprintChoice, Definition, FlowRequest, Forking, WorkflowChoice};
use bowline_model::resource::Spec;
use bowline_model::{JobStatus, ResourceName};
use bowline_store::{Clock, FlowAnswer, Submitted};
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
    looked_at_forked_and_compared(House::open().await).await;
}

#[tokio::test]
async fn a_run_is_looked_at_forked_and_compared_on_postgresql() {
    let database = bowline_testkit::fresh_database();
    looked_at_forked_and_compared(House::on_postgres(database.url()).await).await;
}

async fn looked_at_forked_and_compared(house: House) {
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
    let shadow = flows.shadow(house.tenant, job, None).await.expect("a shadow");
    assert_eq!((shadow.steps, shadow.differences.listed.len()), (7, 0), "{:?}", shadow.differences);
    let other = Definition::Blueprint(serde_json::from_value(price(4)).expect("a blueprint"));
    let shadow = flows.shadow(house.tenant, job, Some(&other)).await.expect("a shadow");
    assert!(!shadow.differences.listed.is_empty());
    let forking = Forking {
        from_step: 3,
        variables: Map::from_iter([("color".to_owned(), json!("red"))]),
        definition: Some(other),
        debug: false,
        key: None,
    };
    let forked = flows.fork(engine.hands(), house.tenant, job, &house.origin(), forking).await.expect("a fork");
    let Submitted::Accepted { id, .. } = forked else { panic!("{forked:?}") };
    let record = house.until(id, JobStatus::is_terminal).await;
    assert_eq!(result_of(&record), json!({"net": 30, "gross": 120, "color": "red"}));
    let picture = flows.picture(house.tenant, id).await.expect("a picture");
    let drawn = bowline_workflow::draw::mermaid(&picture.spec, &picture.statuses);
    assert!(drawn.contains("dear") && !drawn.contains(".act"), "{drawn}");
    house.check().await;
}

#[tokio::test]
async fn a_run_is_stepped_through_and_changed() {
    stepped_through_and_changed(&House::open().await).await;
}

#[tokio::test]
async fn a_run_is_stepped_through_and_changed_on_postgresql() {
    let database = bowline_testkit::fresh_database();
    stepped_through_and_changed(&House::on_postgres(database.url()).await).await;
}

async fn stepped_through_and_changed(house: &House) {
    let mut wish = request(price(2), json!({"net": 30}));
    wish.debug = true;
    let job = id_of(&house.submit(wish).await);
    let flows = &house.engine.flows;
    house.until(job, |status| status == JobStatus::Paused).await;
    assert_eq!(house.path(job).await, ["blueprint.start"]);
    for order in [Order::Edit(Map::from_iter([("net".to_owned(), json!(300))])), Order::Continue] {
        flows.steer(house.tenant, job, order, house.author(), None).await.expect("taken");
    }
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!(result_of(&record), json!({"net": 300, "gross": 600}));
    house.check().await;
}

/// A machine that does everything a state can do: asks a handler, has tasks done one by one and side by side, asks a person,
/// rests, runs another blueprint, and is helped up when a state fails.
fn everything() -> Value {
    json!({
        "start": "decide",
        "states": {
            "decide": {"handler": "noop", "actions": [{"set": {"words": "zwölf \u{1f980} ' \" \\"}}],
                "transitions": [{"when": "variables.n > 3", "to": "nowhere_near"}, {"to": "work"}]},
            "nowhere_near": {"failed": true},
            "work": {"actions": [{"dispatch_task": {"type": "flaky", "params": {"failures": 1}, "retries": 2,
                "transitions": {"success": "several", "failure": "nowhere_near"}}}]},
            "several": {"actions": [{"dispatch_parallel": {"aggregate_into": "counted", "concurrency": 2, "tasks": [
                {"type": "echo", "params": {"n": 1}}, {"type": "witnessed", "params": {"by": 0}},
                {"type": "echo", "params": {"n": "{{variables.n}}"}}]}}]},
            "counted": {
                "actions": [{"set": {"good": "{{variables.task_result.succeeded}}", "bad": "{{variables.task_result.failed}}"}}],
                "transitions": [{"when": "variables.good == 2 and variables.bad == 1", "to": "ask"}, {"to": "nowhere_near"}]},
            "ask": {"actions": [{"await_approval": {"title": "{{variables.words}}?", "four_eyes": false, "timeout_seconds": 60,
                "transitions": {"approved": "rest", "rejected": "nowhere_near", "expired": "nowhere_near"}}}]},
            "rest": {"actions": [{"set": {"by": "{{variables.task_result.by}}"}}, {"sleep": {"seconds": 3600, "then": "other"}}]},
            "other": {"actions": [{"run_blueprint": {"blueprint": "price", "data": {"net": "{{variables.n * 100}}"},
                "transitions": {"success": "stumble", "failure": "nowhere_near"}}}]},
            "stumble": {"actions": [{"set": {"gross": "{{variables.task_result.result.gross}}"}},
                {"dispatch_task": {"type": "witnessed", "params": {"by": 0}, "transitions": {"success": "nowhere_near"}}}],
                "on_failure": "helped"},
            "helped": {"actions": [{"set": {"why": "{{execution.error.message}}"}}], "transitions": [{"to": "done"}]},
            "done": {"final": true},
        },
    })
}

async fn everything_that_a_state_can_do(house: House) {
    let spec = serde_json::from_value(price(2)).expect("a blueprint");
    let (name, spec) = (ResourceName::new("price").expect("a name"), Spec::Blueprint(Box::new(spec)));
    house.engine.resources.put(house.tenant, name, &spec, None, house.author(), true, None).await.expect("stored");
    let job = id_of(&house.submit(request(everything(), json!({"n": 3}))).await);
    let asked = async |house: &House| {
        for _ in 0..1_000 {
            let run = house.engine.ledger.find_flow(house.tenant, job).await.expect("a look").expect("a run");
            if run.paused_for.as_deref() == Some("approval") {
                return run;
            }
            house.clock.advance_ms(100);
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            let record = house.job(job).await;
            assert!(!record.state.status.is_terminal(), "{:?} {:?}", record.error, house.path(job).await);
        }
        panic!("nobody was asked: {:?}", house.path(job).await);
    };
    let run = asked(&house).await;
    assert_eq!(&*run.waits[0].wait.name, "zwölf \u{1f980} ' \" \\?");
    let house = house.die_and_return().await;
    house.clock.advance_ms(1);
    let flows = &house.engine.flows;
    let taken = flows.decide(house.tenant, job, None, true, house.author(), None).await.expect("decided");
    assert_eq!(taken, FlowAnswer::Taken);
    // It stood still before it was answered, too.
    while house.path(job).await.last().is_none_or(|last| last != "rest") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let resting = house.until(job, |status| status == JobStatus::Paused).await;
    assert!(resting.state.due_at.is_some_and(|due| due > house.clock.now()), "{:?}", resting.state);
    let house = house.die_and_return().await;
    house.clock.advance_ms(3_600_000);
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!(record.state.status, JobStatus::Succeeded, "{:?} {:?}", record.error, house.path(job).await);
    let result = result_of(&record);
    assert_eq!((&result["good"], &result["bad"], &result["by"]), (&json!(2), &json!(1), &json!("ada")), "{result}");
    assert_eq!((&result["gross"], &result["words"]), (&json!(600), &json!("zwölf \u{1f980} ' \" \\")), "{result}");
    assert!(result["why"].as_str().is_some_and(|why| why.contains("asked to fail")), "{result}");
    // Once more with the answers it got, it is the same run.
    let shadow = house.engine.flows.shadow(house.tenant, job, None).await.expect("a shadow");
    assert_eq!(shadow.differences.listed.len(), 0, "{:?}", shadow.differences);
    house.check().await;
}

#[tokio::test]
async fn a_state_can_do_everything_across_two_deaths() {
    everything_that_a_state_can_do(House::open().await).await;
}

#[tokio::test]
async fn a_state_can_do_everything_across_two_deaths_on_postgresql() {
    let database = bowline_testkit::fresh_database();
    everything_that_a_state_can_do(House::on_postgres(database.url()).await).await;
}
