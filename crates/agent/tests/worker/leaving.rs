//! Leaving: because the server asks, because somebody stops the worker, and when time is short.

use std::time::Duration;

use bowline_agent::{TaskContext, WorkerBuilder, WorkerError};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::fake::{Fake, Reply, Word, Working};

fn waiting(worker: WorkerBuilder, go: &CancellationToken) -> WorkerBuilder {
    let go = go.clone();
    worker.task("wait", move |_: TaskContext| {
        let go = go.clone();
        async move {
            go.cancelled().await;
            Ok("done")
        }
    })
}

async fn until_at_work(fake: &Fake, task: &str) {
    fake.until("the task at work", |state| (state.named(task) > 2).then_some(())).await;
}

#[tokio::test]
async fn a_worker_that_is_drained_finishes_and_leaves() {
    let fake = Fake::start().await;
    let go = CancellationToken::new();
    let working = Working::start(waiting(fake.worker().slots(2), &go));
    let task = fake.queue("wait", &json!({}));
    until_at_work(&fake, &task).await;
    fake.set(|state| state.drain = true);
    let beats = fake.get(|state| state.seen(Word::Heartbeat).count());
    fake.until_seen(Word::Heartbeat, beats + 3).await;
    let polls = fake.get(|state| state.seen(Word::Tasks).count());
    fake.until_seen(Word::Heartbeat, beats + 10).await;
    assert_eq!(fake.get(|state| state.seen(Word::Tasks).count()), polls, "it asks for nothing more");
    go.cancel();
    working.end().await.unwrap();
    assert_eq!(fake.get(|state| state.result_of(&task)).unwrap()["result"], "done");
}

#[tokio::test]
async fn a_worker_that_is_stopped_finishes_what_it_has() {
    let fake = Fake::start().await;
    let go = CancellationToken::new();
    let working = Working::start(waiting(fake.worker(), &go));
    let task = fake.queue("wait", &json!({}));
    until_at_work(&fake, &task).await;
    working.stop.cancel();
    // Its leases are kept to the end.
    let named = fake.get(|state| state.named(&task));
    fake.until("more heartbeats", |state| (state.named(&task) > named + 3).then_some(())).await;
    fake.script(Word::Result, [Reply::LoseAnswer, Reply::Status(503)]);
    go.cancel();
    working.end().await.unwrap();
    assert_eq!(fake.get(|state| state.result_of(&task)).unwrap()["result"], "done");
}

#[tokio::test]
async fn a_task_that_does_not_finish_in_the_grace_is_given_back_as_a_failure() {
    let fake = Fake::start().await;
    let worker = waiting(fake.worker().grace(Duration::from_millis(50)), &CancellationToken::new());
    let working = Working::start(worker);
    let task = fake.queue("wait", &json!({}));
    until_at_work(&fake, &task).await;
    working.stop().await.unwrap();
    let result = fake.get(|state| state.result_of(&task)).unwrap();
    assert_eq!((&result["status"], &result["error"]["class"]), (&json!("failure"), &json!("transient")));
}

#[tokio::test]
async fn a_worker_that_must_leave_before_it_was_heard_says_so() {
    let fake = Fake::start().await;
    let go = CancellationToken::new();
    let working = Working::start(waiting(fake.worker().grace(Duration::from_millis(100)), &go));
    let task = fake.queue("wait", &json!({}));
    until_at_work(&fake, &task).await;
    fake.set(|state| state.away = true);
    go.cancel();
    let end = working.stop().await;
    let Err(WorkerError::Undelivered { runs }) = end else { panic!("{end:?}") };
    assert_eq!(runs.iter().map(ToString::to_string).collect::<Vec<_>>(), [task]);
}

#[tokio::test]
async fn a_worker_that_waits_for_its_server_can_be_stopped() {
    let fake = Fake::start().await;
    fake.script(Word::Register, std::iter::repeat_n(Reply::Busy { retry_after_s: 60 }, 10));
    let working = Working::start(waiting(fake.worker(), &CancellationToken::new()));
    fake.until_seen(Word::Register, 1).await;
    working.stop().await.unwrap();
    assert_eq!(fake.get(|state| state.seen.len()), 1);
}
