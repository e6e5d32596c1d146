//! Delivering results to a server that loses answers, is busy, or is away.

use bowline_agent::TaskContext;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::fake::{Fake, Reply, Word, Working, next};

#[tokio::test]
async fn a_result_whose_answer_got_lost_is_sent_again_in_the_same_words() {
    let fake = Fake::start().await;
    let working = Working::start(fake.worker().task("one", |_: TaskContext| async { Ok(json!({"n": 1})) }));
    fake.script(
        Word::Result,
        [Reply::LoseAnswer, Reply::Cut, Reply::Busy { retry_after_s: 0 }, Reply::Status(429), Reply::LoseAnswer],
    );
    let task = fake.queue("one", &json!({}));
    let seen = fake.until_seen(Word::Result, 6).await;
    assert!(seen.iter().all(|s| s.body == seen[0].body), "{seen:?}");
    assert_eq!(fake.get(|state| state.results.len()), 1);
    assert_eq!(seen[0].body["task_id"], task);
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_result_waits_for_a_server_that_is_away() {
    let fake = Fake::start().await;
    let go = CancellationToken::new();
    let (sender, mut at_work) = tokio::sync::mpsc::channel(1);
    let worker = fake.worker().task("wait", {
        let go = go.clone();
        move |_: TaskContext| {
            let (go, sender) = (go.clone(), sender.clone());
            async move {
                sender.send(()).await?;
                go.cancelled().await;
                Ok(())
            }
        }
    });
    let working = Working::start(worker);
    let task = fake.queue("wait", &json!({}));
    next("the task at work", &mut at_work).await;
    fake.set(|state| state.away = true);
    go.cancel();
    assert!(fake.get(|state| state.result_of(&task)).is_none());
    fake.set(|state| state.away = false);
    assert_eq!(fake.until_result(&task).await["status"], "success");
    // And everything goes on as before.
    let next = fake.queue("wait", &json!({}));
    fake.until_result(&next).await;
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_whose_result_was_not_heard_keeps_its_lease_and_its_slot() {
    let fake = Fake::start().await;
    let working = Working::start(fake.worker().task("one", |_: TaskContext| async { Ok(1) }));
    fake.script(Word::Result, std::iter::repeat_n(Reply::Status(500), 10_000));
    let task = fake.queue("one", &json!({}));
    fake.until_seen(Word::Result, 2).await;
    let (named, polls) = fake.get(|state| (state.named(&task), state.seen(Word::Tasks).count()));
    fake.until("more heartbeats about it", |state| (state.named(&task) > named + 3).then_some(())).await;
    assert_eq!(fake.get(|state| state.seen(Word::Tasks).count()), polls, "there is no room for another");
    fake.set(|state| state.scripts.clear());
    fake.until_result(&task).await;
    fake.until_seen(Word::Tasks, polls + 1).await;
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_result_that_the_server_cannot_take_becomes_a_failure_and_not_a_loss() {
    let fake = Fake::start().await;
    let working = Working::start(fake.worker().task("large", |_: TaskContext| async { Ok("x".repeat(1_000)) }));
    fake.script(Word::Result, [Reply::Refuse(413, "PAYLOAD_TOO_LARGE")]);
    let task = fake.queue("large", &json!({}));
    let result = fake.until_result(&task).await;
    assert_eq!((&result["status"], &result["error"]["class"]), (&json!("failure"), &json!("permanent")));
    assert!(result["error"]["message"].as_str().unwrap().contains("PAYLOAD_TOO_LARGE"));
    assert!(result["result"].is_null());
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_result_that_the_server_refuses_is_not_sent_for_ever() {
    let fake = Fake::start().await;
    let working = Working::start(fake.worker().task("one", |_: TaskContext| async { Ok(1) }));
    fake.script(Word::Result, [Reply::Refuse(404, "RUN_NOT_FOUND")]);
    let task = fake.queue("one", &json!({}));
    let next = fake.queue("one", &json!({}));
    fake.until_result(&next).await;
    let told = fake.get(|state| state.seen(Word::Result).filter(|seen| seen.body["task_id"] == *task).count());
    assert_eq!(told, 1);
    working.stop().await.unwrap();
}
