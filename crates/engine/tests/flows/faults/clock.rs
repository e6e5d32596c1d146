//! The clock is moved by a day while runs sleep: forwards they wake once, backwards they wake when their time comes by the
//! clock, and never before.

use std::time::Duration;

use bowline_engine::flow::StepView;
use bowline_model::{EventKind, JobId, JobStatus, Timestamp};
use bowline_store::Clock;
use serde_json::{Value, json};

use super::Judgement;
use crate::{House, node, row, start_of_time};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Longer than any loop waits before it looks again.
const A_WHILE: Duration = Duration::from_millis(1_300);

fn nap() -> Value {
    row(&[node("nap", "sleep", json!({"duration": "1h"})), node("out", "end", json!({"output": "awake"}))])
}

/// It slept once, and no less than it wanted to.
fn slept_once(steps: &[StepView], due: Timestamp) -> Judgement {
    let naps: Vec<_> = steps.iter().filter(|view| view.step.node.as_str() == "nap").collect();
    match naps[..] {
        [nap] if nap.step.ended_at >= due => Ok(()),
        _ => Err(format!("{naps:#?}")),
    }
}

async fn asleep(house: &House) -> (JobId, Timestamp) {
    let job = house.begin(nap(), json!(null)).await;
    let record = house.until(job, |status| status == JobStatus::Paused).await;
    (job, record.state.due_at.expect("a time"))
}

async fn events(house: &House, job: JobId, kind: EventKind) -> usize {
    let story = house.engine.ledger.job_events(house.tenant, job, None, 500).await.expect("events").expect("a job");
    story.items.iter().filter(|(_, event)| event.kind == kind).count()
}

/// The server believes that the time to begin has come, and the ledger does not.
#[tokio::test]
async fn a_run_for_now_begins_although_the_ledgers_clock_is_behind() {
    let house = House::open_still().await;
    let ahead = bowline_store::ManualClock::at(start_of_time().plus_millis(2_000));
    let (ledger, checks) = (std::sync::Arc::clone(&house.engine.ledger), std::sync::Arc::clone(&house.engine.checks));
    let flows = bowline_engine::flow::Flows::new(
        ledger,
        ahead,
        checks,
        std::sync::Arc::default() as std::sync::Arc<bowline_backbone::MemoryBlobs>,
        std::sync::Arc::clone(&house.engine.quotas),
    );
    let mut request = crate::ask(row(&[]), json!(null));
    request.run_at = Some(start_of_time().plus_millis(1_000));
    let answers = flows.submit(house.engine.hands(), house.tenant, &house.origin(), vec![request]).await;
    let job = crate::id_of(&answers.expect("it is accepted")[0]);
    assert_eq!(house.job(job).await.state.status, JobStatus::Succeeded);
    house.check().await;
}

#[tokio::test]
async fn a_day_too_far_wakes_a_sleeper_once() {
    let house = House::open().await;
    let (job, due) = asleep(&house).await;
    house.clock.advance_ms(DAY_MS);
    // The evidence: by the clock its time is long over.
    assert_eq!(house.clock.now(), start_of_time().plus_millis(DAY_MS));
    house.until(job, JobStatus::is_terminal).await;
    let steps = house.steps(job).await;
    slept_once(&steps, due).expect("once");
    assert_eq!(steps[1].step.ended_at, house.clock.now());
    // It goes back to where it was, and by its own time the nap is due once more. Nobody wakes again.
    house.clock.set(start_of_time());
    tokio::time::sleep(A_WHILE).await;
    house.clock.set(due);
    tokio::time::sleep(A_WHILE).await;
    let steps = house.steps(job).await;
    slept_once(&steps, due).expect("still once");
    assert_eq!(house.path(job).await, ["start", "nap", "out"]);
    // The controls: two naps, none, and one that was over too early.
    let twice = [steps.as_slice(), &steps[1..2]].concat();
    assert!(slept_once(&twice, due).is_err() && slept_once(&[], due).is_err());
    assert!(slept_once(&steps, house.clock.now().plus_millis(2 * DAY_MS)).is_err());
    house.check().await;
}

#[tokio::test]
async fn a_day_back_wakes_nobody_before_the_time() {
    let house = House::open().await;
    let (job, due) = asleep(&house).await;
    house.clock.set(start_of_time().plus_millis(-DAY_MS));
    assert!(house.clock.now() < start_of_time(), "the clock went back");
    for moment in [due.plus_millis(-DAY_MS), due.plus_millis(-1)] {
        house.clock.set(moment);
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(house.job(job).await.state.status, JobStatus::Paused, "at {moment}");
        assert!(slept_once(&house.steps(job).await, due).is_err(), "the control: it has not slept yet");
    }
    house.clock.set(due);
    house.until(job, JobStatus::is_terminal).await;
    house.clock.set(start_of_time().plus_millis(-DAY_MS));
    tokio::time::sleep(A_WHILE).await;
    house.clock.set(due.plus_millis(DAY_MS));
    tokio::time::sleep(A_WHILE).await;
    let steps = house.steps(job).await;
    slept_once(&steps, due).expect("once");
    assert_eq!(steps[1].step.ended_at, due);
    assert_eq!(house.path(job).await, ["start", "nap", "out"]);
    house.check().await;
}

/// A sleeper is woken, and before it looks at the clock, the clock goes back. The ledger has said that its time has come, so
/// it gets up, once, and nobody wakes it again.
#[tokio::test]
async fn a_clock_that_goes_back_between_the_bell_and_the_look_changes_nothing() {
    // Nobody rings or looks here but this test.
    let house = House::open_still().await;
    let (engine, ledger) = (&house.engine, &house.engine.ledger);
    let (job, due) = asleep(&house).await;
    let look = async || engine.flows.round(engine.hands()).await.expect("a round").turned;
    house.clock.set(due.plus_millis(-1));
    ledger.promote(100).await.expect("nobody");
    assert_eq!((look().await, events(&house, job, EventKind::FlowWoken).await), (0, 0));
    assert!(slept_once(&house.steps(job).await, due).is_err(), "the control: it has not slept yet");
    house.clock.set(due);
    ledger.promote(100).await.expect("woken");
    house.clock.set(due.plus_millis(-DAY_MS));
    assert!(house.clock.now() < due, "the clock went back");
    assert_eq!((look().await, events(&house, job, EventKind::FlowWoken).await), (1, 1), "it was woken, and looked");
    for moment in [due.plus_millis(-DAY_MS), due, due.plus_millis(DAY_MS)] {
        house.clock.set(moment);
        ledger.promote(100).await.expect("nobody");
        assert_eq!((look().await, events(&house, job, EventKind::FlowWoken).await), (0, 1), "at {moment}");
    }
    let steps = house.steps(job).await;
    slept_once(&steps, due).expect("once");
    assert_eq!((steps[1].step.ended_at, house.path(job).await.len()), (due, 3));
    assert_eq!(house.job(job).await.state.status, JobStatus::Succeeded);
    house.check().await;
}
