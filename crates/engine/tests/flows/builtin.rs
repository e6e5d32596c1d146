//! The built-in worker, where its leases end under it.

use std::time::Duration;

use bowline_engine::JobRequest;
use bowline_model::job::OnLost;
use bowline_model::{JobPolicy, JobStatus, Labels, Lane, TaskType};
use bowline_store::{Listened, Submitted};

use crate::House;

/// A run that the ledger gave to nobody any more is stopped, or two would do the same work.
#[tokio::test]
async fn a_handler_is_stopped_when_its_run_is_not_ours_any_more() {
    let house = House::open().await;
    let engine = &house.engine;
    let policy = JobPolicy { on_lost: OnLost::Error, ..JobPolicy::default() };
    let request = JobRequest {
        id: None,
        lane: Lane::Default,
        task_type: TaskType::new("endless").expect("a name"),
        labels: Labels::default(),
        priority: 0,
        payload: "{}".into(),
        policy: Some(policy.into()),
        run_at: None,
        idempotency_key: None,
        external_id: None,
        fleet: None,
        flow: None,
    };
    let stored = engine.intake.submit(house.tenant, &house.origin(), vec![request]).await.expect("accepted");
    let Some(Submitted::Accepted { id: job, .. }) = stored.first() else { panic!("it was not accepted: {stored:?}") };
    house.until(*job, |status| status == JobStatus::Running).await;
    // A whole lease passes at once. The next heartbeat may still come first and renew it: then another lease passes.
    let mut tries = 0;
    while house.job(*job).await.state.status == JobStatus::Running {
        assert!(tries < 1_000, "the run should be lost when its lease has passed in silence");
        tries += 1;
        let since = bowline_store::Clock::now(&*house.clock);
        house.clock.advance_ms(31_000);
        let listened = Listened { since, until: bowline_store::Clock::now(&*house.clock) };
        engine.ledger.reap(engine.settings.lease, listened).await.expect("the ledger judges leases");
    }
    assert_eq!(house.job(*job).await.state.status, JobStatus::Error);
    let stopped = async {
        while engine.builtin.busy() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), stopped).await.expect("the handler should be told to stop");
    house.check().await;
}
