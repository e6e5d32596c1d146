//! Progress: numbered, kept, and sent until the server holds it.

use bowline_agent::{TaskContext, TaskError};
use serde_json::{Value, json};

use crate::fake::{Fake, Reply, Word, Working};

#[tokio::test]
async fn progress_arrives_complete_whatever_happens_on_the_way() {
    let fake = Fake::start().await;
    let worker = fake.worker().task("steps", |task: TaskContext| async move {
        for step in 1..=2_500 {
            task.progress(json!({ "step": step }));
            if step % 100 == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok::<_, TaskError>(task.try_progress(json!("last")).is_ok())
    });
    let working = Working::start(worker);
    let busy = Reply::Busy { retry_after_s: 0 };
    fake.script(Word::Events, [Reply::Cut, Reply::LoseAnswer, busy, Reply::Status(500), Reply::LoseAnswer]);
    let task = fake.queue("steps", &json!({}));
    let result = fake.until_result(&task).await;
    assert_eq!((&result["result"], &result["last_seq"]), (&json!(true), &json!(2_501)));
    let held =
        fake.until("all events", |state| state.events.get(&task).filter(|held| held.len() == 2_501).cloned()).await;
    for (seq, data) in held.range(..=2_500) {
        assert_eq!(data, &json!({ "step": seq }));
    }
    assert_eq!(held[&2_501], "last");
    for seen in fake.get(|state| state.seen(Word::Events).cloned().collect::<Vec<_>>()) {
        let events = seen.body["events"].as_array().unwrap();
        assert!((1..=1_000).contains(&events.len()));
        assert_eq!(seen.body["fence"], 7);
        assert!(events.iter().all(|event| event["at"].is_string()));
    }
    working.stop().await.unwrap();
}

#[tokio::test]
async fn progress_comes_before_the_result_when_the_server_is_well() {
    let fake = Fake::start().await;
    let worker = fake.worker().task("steps", |task: TaskContext| async move {
        task.progress(1);
        task.progress(2);
        Ok(())
    });
    let working = Working::start(worker);
    let task = fake.queue("steps", &json!({}));
    fake.until_result(&task).await;
    let order: Vec<Word> = fake.get(|state| state.seen.iter().map(|seen| seen.word).collect());
    let last = |word| order.iter().rposition(|seen| *seen == word);
    assert!(last(Word::Events) < last(Word::Result), "{order:?}");
    working.stop().await.unwrap();
}

#[tokio::test]
async fn progress_that_the_server_refuses_does_not_hurt_the_result() {
    let fake = Fake::start().await;
    let worker = fake.worker().task("steps", |task: TaskContext| async move {
        task.progress("refused");
        // Until the worker knows: then there is no point in recording more.
        while task.try_progress("more").is_ok() {
            tokio::task::yield_now().await;
        }
        Ok("done")
    });
    let working = Working::start(worker);
    fake.script(Word::Events, [Reply::Refuse(409, "SEQ_CONFLICT")]);
    let task = fake.queue("steps", &json!({}));
    assert_eq!(fake.until_result(&task).await["result"], "done");
    assert_eq!(fake.get(|state| state.seen(Word::Events).count()), 1);
    working.stop().await.unwrap();
}

#[tokio::test]
async fn progress_that_is_stuck_does_not_hold_up_the_result_or_the_slot() {
    let fake = Fake::start().await;
    let worker = fake.worker().task("steps", |task: TaskContext| async move {
        task.progress("stuck");
        task.params::<Value>()
    });
    let working = Working::start(worker);
    fake.script(Word::Events, std::iter::repeat_n(Reply::Status(500), 10_000));
    let tasks = [fake.queue("steps", &json!(1)), fake.queue("steps", &json!(2))];
    for task in &tasks {
        fake.until_result(task).await;
    }
    fake.set(|state| state.scripts.clear());
    for task in &tasks {
        fake.until("its event", |state| state.events.get(task).map(|_| ())).await;
    }
    working.stop().await.unwrap();
}
