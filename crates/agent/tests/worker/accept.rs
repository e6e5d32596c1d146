//! Accepting before starting, and starting once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bowline_agent::{TaskContext, TaskError, WorkerBuilder};
use serde_json::json;

use crate::fake::{Fake, Reply, Word, Working, task};

/// A handler that counts its starts.
fn counting(worker: WorkerBuilder) -> (WorkerBuilder, Arc<AtomicUsize>) {
    let starts = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&starts);
    let worker = worker.task("count", move |_: TaskContext| {
        counter.fetch_add(1, Ordering::SeqCst);
        async { Ok(()) }
    });
    (worker, starts)
}

#[tokio::test]
async fn a_task_is_named_and_answered_before_it_starts() {
    let fake = Arc::new(Fake::start().await);
    let eyes = Arc::clone(&fake);
    let worker = fake.worker().task("look", move |task: TaskContext| {
        let named = eyes.get(|state| state.named(&task.task_id().to_string()));
        async move { Ok::<_, TaskError>(named) }
    });
    let working = Working::start(worker);
    let task = fake.queue("look", &json!({}));
    assert!(fake.until_result(&task).await["result"].as_u64().unwrap() >= 1);
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_that_went_stale_on_its_way_is_not_started() {
    let fake = Fake::start().await;
    let (worker, starts) = counting(fake.worker());
    let working = Working::start(worker);
    let gone = task("count", &json!({}));
    let gone_id = gone["task_id"].as_str().unwrap().to_owned();
    fake.set(|state| state.stale.extend([gone_id.clone()]));
    fake.queue_raw(gone);
    fake.until("the stale task named", |state| (state.named(&gone_id) > 0).then_some(())).await;

    let task = fake.queue("count", &json!({}));
    fake.until_result(&task).await;
    assert_eq!(starts.load(Ordering::SeqCst), 1, "only the second one");
    assert!(fake.get(|state| state.result_of(&gone_id)).is_none());
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_that_cannot_be_accepted_in_time_is_not_started() {
    let fake = Fake::start().await;
    fake.set(|state| {
        state.terms["accept_ms"] = json!(1_000);
        // No beat but the first comes in between: all heartbeats after it are about accepting.
        state.terms["heartbeat_ms"] = json!(20_000);
    });
    let (worker, starts) = counting(fake.worker());
    let working = Working::start(worker);
    fake.until_seen(Word::Heartbeat, 1).await;
    fake.script(Word::Heartbeat, std::iter::repeat_n(Reply::Cut, 1_000));
    let dropped = fake.queue("count", &json!({}));
    let polls = fake.get(|state| state.seen(Word::Tasks).count());
    // The next poll comes when the worker has given up on it.
    fake.until("the next poll", |state| {
        (state.seen(Word::Tasks).count() > polls && state.queue.is_empty()).then_some(())
    })
    .await;
    let tries = fake.get(|state| state.named(&dropped));
    assert!(tries > 1, "it kept trying, {tries} times");

    fake.set(|state| state.scripts.clear());
    let task = fake.queue("count", &json!({}));
    fake.until_result(&task).await;
    assert_eq!(starts.load(Ordering::SeqCst), 1, "only the second one");
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_that_arrives_twice_starts_once() {
    let fake = Fake::start().await;
    let (worker, starts) = counting(fake.worker().slots(4));
    let working = Working::start(worker);
    let twice = task("count", &json!({}));
    let id = twice["task_id"].as_str().unwrap().to_owned();
    fake.set(|state| state.queue.extend([twice.clone(), twice.clone()]));
    fake.until_result(&id).await;
    // And once more, when it has ended.
    fake.queue_raw(twice);
    let last = fake.queue("count", &json!({}));
    fake.until_result(&last).await;
    assert_eq!(starts.load(Ordering::SeqCst), 2, "each of the two once");
    working.stop().await.unwrap();
}

#[tokio::test]
async fn an_acceptance_whose_answer_got_lost_is_sent_again_and_starts_once() {
    let fake = Fake::start().await;
    fake.set(|state| state.terms["heartbeat_ms"] = json!(20_000));
    let (worker, starts) = counting(fake.worker());
    let working = Working::start(worker);
    fake.until_seen(Word::Heartbeat, 1).await;
    fake.script(Word::Heartbeat, [Reply::LoseAnswer, Reply::Busy { retry_after_s: 0 }, Reply::LoseAnswer]);
    let task = fake.queue("count", &json!({}));
    fake.until_result(&task).await;
    assert_eq!(fake.get(|state| state.named(&task)), 4);
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_that_was_canceled_on_its_way_is_reported_and_not_started() {
    let fake = Fake::start().await;
    let (worker, starts) = counting(fake.worker());
    let working = Working::start(worker);
    let canceled = task("count", &json!({}));
    let id = canceled["task_id"].as_str().unwrap().to_owned();
    fake.set(|state| state.cancel.extend([id.clone()]));
    fake.queue_raw(canceled);
    assert_eq!(fake.until_result(&id).await["status"], "canceled");
    assert_eq!(starts.load(Ordering::SeqCst), 0);
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_that_nobody_here_can_do_fails_and_does_not_hurt_the_others() {
    let fake = Fake::start().await;
    let (worker, starts) = counting(fake.worker().slots(4));
    let working = Working::start(worker);
    let unknown = task("juggle", &json!({}));
    let mut unreadable = task("count", &json!({}));
    unreadable["lane"] = json!("a lane from the future");
    let fine = task("count", &json!({}));
    fake.set(|state| state.queue.extend([json!({"no": "id"}), unknown.clone(), unreadable.clone(), fine.clone()]));
    for broken in [unknown, unreadable] {
        let result = fake.until_result(broken["task_id"].as_str().unwrap()).await;
        assert_eq!(result["status"], "failure");
        assert_eq!(result["error"]["class"], "handler");
    }
    assert_eq!(fake.until_result(fine["task_id"].as_str().unwrap()).await["status"], "success");
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_worker_asks_for_as_many_tasks_as_it_has_room_for() {
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
    let asked = |max: &'static str| {
        move |state: &crate::fake::State| {
            let query = format!("max={max}&wait=10000");
            state.seen(Word::Tasks).last().filter(|seen| seen.query == query).map(|_| ())
        }
    };
    fake.until("a poll for two", asked("2")).await;
    let one = fake.queue("wait", &json!({}));
    fake.until("a poll for one", asked("1")).await;
    let two = fake.queue("wait", &json!({}));
    fake.until("both at work", |state| (state.named(&one) > 1 && state.named(&two) > 2).then_some(())).await;
    let polls = fake.get(|state| state.seen(Word::Tasks).count());
    let beats = fake.get(|state| state.seen(Word::Heartbeat).count());
    fake.until_seen(Word::Heartbeat, beats + 5).await;
    assert_eq!(fake.get(|state| state.seen(Word::Tasks).count()), polls, "a full worker asks for nothing");
    go.cancel();
    fake.until("a poll for two again", asked("2")).await;
    working.stop().await.unwrap();
}
