//! Registering with a server that is not ready, says no, or forgets.

use std::time::Duration;

use bowline_agent::{TaskContext, TaskError, WorkerError};
use serde_json::json;

use crate::fake::{Fake, Reply, Word, Working, next};

async fn echo(task: TaskContext) -> Result<serde_json::Value, TaskError> {
    task.params()
}

#[tokio::test]
async fn a_worker_waits_for_a_server_that_is_not_ready_as_long_as_it_is_told() {
    let fake = Fake::start().await;
    let retry_after_s = 1;
    fake.script(Word::Register, [Reply::Busy { retry_after_s }, Reply::Status(429), Reply::Cut, Reply::Status(500)]);
    let worker = fake.worker().worker_type("gpu").label("gpu", "a100").slots(8).resources(json!({"cores": 2}));
    let working = Working::start(worker.task("echo", echo));

    let task = fake.queue("echo", &json!([1]));
    assert_eq!(fake.until_result(&task).await["result"], json!([1]));

    let seen = fake.until_seen(Word::Register, 5).await;
    assert_eq!(seen.len(), 5);
    assert!(seen[1].at - seen[0].at >= Duration::from_secs(retry_after_s), "the server asked for a second");
    assert_eq!(seen[4].authorization, "Bearer secret");
    assert_eq!(
        seen[4].body,
        json!({"worker_id": "w1", "worker_type": "gpu", "task_types": ["echo"], "labels": {"gpu": "a100"}, "slots": 8,
               "resources": {"cores": 2}})
    );
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_that_says_no_is_asked_once() {
    for (status, code) in [(400, "VALIDATION_ERROR"), (401, "UNAUTHENTICATED"), (403, "FORBIDDEN"), (404, "NOT_FOUND")]
    {
        let fake = Fake::start().await;
        fake.script(Word::Register, [Reply::Refuse(status, code)]);
        let end = Working::start(fake.worker().task("echo", echo)).end().await;
        let Err(WorkerError::NotRegistered { refusal, .. }) = end else { panic!("{end:?}") };
        assert_eq!((refusal.status, refusal.code.as_str()), (status, code));
        assert_eq!(fake.get(|state| state.seen.len()), 1);
    }
}

#[tokio::test]
async fn a_server_that_speaks_another_protocol_is_left_alone() {
    let fake = Fake::start().await;
    fake.set(|state| state.terms["protocol"] = json!(2));
    let end = Working::start(fake.worker().task("echo", echo)).end().await;
    assert!(matches!(end, Err(WorkerError::OtherProtocol { server: 2, worker: 1 })), "{end:?}");
}

#[tokio::test]
async fn a_worker_that_was_forgotten_registers_again_and_keeps_its_tasks() {
    let fake = Fake::start().await;
    let go = tokio_util::sync::CancellationToken::new();
    let worker = fake.worker().slots(2).task("wait", {
        let go = go.clone();
        move |_: TaskContext| {
            let go = go.clone();
            async move {
                go.cancelled().await;
                Ok(())
            }
        }
    });
    let working = Working::start(worker);
    let task = fake.queue("wait", &json!({}));
    fake.until("the task at work", |state| (state.named(&task) > 1).then_some(())).await;

    // By a heartbeat, and later by a poll, with a proxy in between that is not quite back.
    fake.script(Word::Register, [Reply::Refuse(404, "NOT_FOUND"), Reply::Status(502)]);
    fake.script(Word::Heartbeat, [Reply::Refuse(404, "WORKER_NOT_FOUND")]);
    fake.until_seen(Word::Register, 4).await;
    fake.script(Word::Tasks, [Reply::Refuse(404, "WORKER_NOT_FOUND")]);
    fake.until_seen(Word::Register, 5).await;

    let named = fake.get(|state| state.named(&task));
    fake.until("the task named again", |state| (state.named(&task) > named).then_some(())).await;
    go.cancel();
    assert_eq!(fake.until_result(&task).await["status"], "success");
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_token_that_was_revoked_ends_the_worker_and_stops_its_handlers() {
    for word in [Word::Heartbeat, Word::Tasks] {
        let fake = Fake::start().await;
        let (stopped, mut told) = tokio::sync::mpsc::channel(1);
        let worker = fake.worker().slots(2).task("wait", move |task: TaskContext| {
            let stopped = stopped.clone();
            async move {
                task.canceled().await;
                stopped.send(()).await?;
                Err::<(), _>(TaskError::stopped())
            }
        });
        let working = Working::start(worker);
        let task = fake.queue("wait", &json!({}));
        fake.until("the task at work", |state| (state.named(&task) > 1).then_some(())).await;
        fake.script(word, [Reply::Refuse(401, "UNAUTHENTICATED")]);
        let end = working.end().await;
        assert!(matches!(end, Err(WorkerError::Unauthorized { .. })), "{end:?}");
        next("the handler that was asked to stop", &mut told).await;
    }
}
