//! Executions of a tenant whose quotas are used up.

use std::time::Duration;

use bowline_engine::QuotaLimits;
use bowline_model::{JobId, JobStatus};
use bowline_store::{Clock, JobOrder};
use serde_json::{Value, json};

use crate::{House, node, row};

/// How long a call that found no room waits in these tests.
const RETRY_MS: i64 = 5_000;

fn limits(queued_jobs: u64, stored_bytes: u64) -> QuotaLimits {
    QuotaLimits { queued_jobs, stored_bytes, ..QuotaLimits::default() }
}

async fn jobs_of(house: &House) -> usize {
    house.engine.ledger.list_jobs(house.tenant, Default::default(), None, 10_000).await.expect("jobs").items.len()
}

/// What counts as used is what the ledger has.
async fn recount(house: &House) {
    house.engine.quotas.recount(&*house.engine.ledger, true).await.expect("counted");
}

/// A node that is tried so many times in all, each time after the same wait.
fn with_attempts(max_attempts: u32, mut node: Value) -> Value {
    let retry = json!({"max_attempts": max_attempts, "base_ms": RETRY_MS, "factor": 1.0, "jitter": "none"});
    node["policy"] = json!({ "retry": retry });
    node
}

/// An execution that sleeps first, so that what follows happens in the background, where nobody can be refused.
async fn begin_after_a_nap(house: &House, then: Value) -> JobId {
    house.begin(row(&[node("nap", "sleep", json!({"duration_ms": 1})), then]), json!(null)).await
}

async fn begin_waiting(house: &House) -> JobId {
    house.begin(row(&[node("wait", "wait_event", json!({"event": "never"}))]), json!(null)).await
}

/// Waits until a call has found no room and is to be tried again.
async fn until_refused(house: &House, job: JobId) {
    let now = house.clock.now();
    let record = house.until_record(job, |record| record.state.due_at > Some(now)).await;
    assert_eq!(record.state.due_at, Some(now.plus_millis(RETRY_MS)));
    let why = house.engine.why(house.tenant, job).await.expect("read").expect("a job");
    assert_eq!(why.reasons[0].code, "no_room", "{why:?}");
}

#[tokio::test]
async fn a_call_without_room_is_tried_again_and_then_its_node_fails() {
    let house = House::open_with_quotas(limits(3, 1 << 30));
    let job =
        begin_after_a_nap(&house, with_attempts(3, node("call", "task", json!({"type": "nobody.takes.it"})))).await;
    // Two others wait, so there is no room for a third next to the execution itself.
    for _ in 0..2 {
        begin_waiting(&house).await;
    }
    recount(&house).await;
    house.clock.advance_ms(1);
    for _ in 0..2 {
        until_refused(&house, job).await;
        house.clock.advance_ms(RETRY_MS);
    }
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!(record.state.status, JobStatus::Failed);
    let error = record.error.expect("an error").message;
    assert!(error.contains("QUOTA_EXCEEDED") && error.contains("queued_jobs"), "{error}");
    assert_eq!(jobs_of(&house).await, 3, "nothing was made");
    house.check().await;
}

#[tokio::test]
async fn calls_without_room_are_made_when_there_is_some_again() {
    let house = House::open_with_quotas(limits(3, 1 << 30));
    let echo = json!({"type": "task", "config": {"type": "echo", "payload": {"n": "{{item}}"}}});
    let each = node("each", "foreach", json!({"items": [1, 2, 3], "concurrency": 3, "node": echo}));
    let job = begin_after_a_nap(&house, with_attempts(100, each)).await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.push(begin_waiting(&house).await);
    }
    house.clock.advance_ms(1);
    until_refused(&house, job).await;
    for other in waiting {
        let order = JobOrder { tenant: house.tenant, job: other, by: house.author(), reason: None };
        house.engine.cancel_job(order).await.expect("taken");
        house.until(other, |status| status == JobStatus::Canceled).await;
    }
    // Two of them at first, and the third when one of these has ended.
    let mut record = house.job(job).await;
    for _ in 0..1_000 {
        if record.state.status.is_terminal() {
            break;
        }
        recount(&house).await;
        if house.engine.quotas.usage(house.tenant).queued_jobs < 3 {
            house.clock.advance_ms(RETRY_MS);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        record = house.job(job).await;
    }
    assert_eq!(record.state.status, JobStatus::Succeeded, "{:?}", record.error);
    let steps = house.steps(job).await;
    let each = steps.iter().find(|view| view.step.node.as_str() == "each").expect("a step");
    assert_eq!(each.step.output["succeeded"], json!(3), "{:?}", each.step.output);
    house.check().await;
}

#[tokio::test]
async fn an_execution_without_room_for_its_records_ends_and_says_so() {
    let house = House::open_with_quotas(limits(100, 100_000));
    let large = house
        .begin(
            row(&[
                node("nap", "sleep", json!({"duration_ms": 1})),
                node("keep", "variable_set", json!({"name": "copy", "value": "{{webhook.payload}}"})),
                node("wait", "wait_event", json!({"event": "never"})),
            ]),
            json!("x".repeat(60_000)),
        )
        .await;
    // The count at the start may have seen what was accepted during it, too, which then counts twice.
    recount(&house).await;
    let small =
        begin_after_a_nap(&house, node("keep", "variable_set", json!({"name": "copy", "value": "little"}))).await;
    house.clock.advance_ms(1);
    let record = house.until(large, JobStatus::is_terminal).await;
    assert_eq!(record.state.status, JobStatus::Failed);
    let error = record.error.expect("an error").message;
    assert!(error.contains("QUOTA_EXCEEDED") && error.contains("stored_bytes"), "{error}");
    assert_eq!(house.path(large).await, ["start"], "what was stored is kept, and nothing more");
    let record = house.until(small, JobStatus::is_terminal).await;
    assert_eq!(record.state.status, JobStatus::Succeeded, "others go on: {:?}", record.error);
    house.check().await;
}
