//! Runs that fail and undo what they did.

use bowline_model::JobStatus;
use bowline_store::JobOrder;
use serde_json::{Value, json};

use crate::{House, node};

/// Reserves, charges, and cannot ship. What undoes the charge waits for somebody.
fn order() -> Value {
    let mut reserve = node("reserve", "task", json!({"type": "echo", "payload": {"shelf": 7}}));
    reserve["undo"] = json!("release");
    let mut charge = node("charge", "task", json!({"type": "echo", "payload": {"paid": 5}}));
    charge["undo"] = json!("refund");
    let mut ship = node("ship", "task", json!({"type": "flaky", "payload": {"failures": 99}}));
    ship["policy"] = json!({"retry": {"max_attempts": 1}});
    let release = json!({"type": "echo", "payload": {"shelf": "{{steps.reserve.output.shelf}}"}});
    json!({
        "nodes": [
            node("start", "start", json!({})), reserve, charge, ship, node("end", "end", json!({})),
            node("release", "task", release),
            node("refund", "wait_event", json!({"event": "refunded"})),
        ],
        "edges": [
            {"source": "start", "target": "reserve"}, {"source": "reserve", "target": "charge"},
            {"source": "charge", "target": "ship"}, {"source": "ship", "target": "end"},
        ],
    })
}

#[tokio::test]
async fn a_run_that_fails_undoes_what_it_did_also_after_the_server_died() {
    let house = House::open().await;
    let job = house.begin(order(), json!(null)).await;
    house.until(job, |status| status == JobStatus::Paused).await;
    let house = house.die_and_return().await;
    // Names of jobs that are made at the same moment are the same in a test.
    house.clock.advance_ms(1_000);
    let view = house.engine.flows.context(house.tenant, job, None).await.expect("a context");
    assert_eq!(view.context["execution"]["undoing"], json!({"node": "charge", "visit": 1}));
    let told = house.engine.flows.signal(house.tenant, "refunded", None, json!({}), house.author()).await;
    assert_eq!(told.expect("an answer"), 1);
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!(record.state.status, JobStatus::Failed, "{:?}", record.error);
    assert_eq!(record.error.expect("an error").message, "node \"ship\": not yet");
    assert_eq!(house.path(job).await, ["start", "reserve", "charge", "ship", "refund", "release"]);
    let steps = house.engine.flows.steps(house.tenant, job, 1, 100).await.expect("steps").steps;
    assert_eq!(steps[5].step.output, json!({"shelf": 7}));
    // Each job was begun once, whoever was asked.
    let jobs = house.engine.ledger.list_jobs(house.tenant, Default::default(), None, 100).await.expect("jobs");
    assert_eq!(jobs.items.len(), 5, "the run and its four tasks");
    // A shadow of it goes the same way, back as well.
    let shadow = house.engine.flows.shadow(house.tenant, job, None).await.expect("a shadow");
    assert_eq!((shadow.steps, shadow.differences), (6, Default::default()));
    // Nothing of it is left: tried again, it begins again.
    let order = JobOrder { tenant: house.tenant, job, reason: None, by: house.author() };
    house.engine.ledger.retry_job(order).await.expect("an answer");
    house.until(job, |status| status == JobStatus::Paused).await;
    assert_eq!(house.path(job).await[6..], ["start", "reserve", "charge", "ship"]);
    house.check().await;
}
