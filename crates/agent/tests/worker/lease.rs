//! Keeping leases, losing them, and being told to stop.

use std::time::Duration;

use bowline_agent::{TaskContext, TaskError, WorkerBuilder};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::fake::{Fake, Reply, Word, Working, next};

/// `obedient` stops when it is told to, `stubborn` waits for `go` and finishes, whatever it is told.
fn handlers(worker: WorkerBuilder, go: &CancellationToken) -> WorkerBuilder {
    let go = go.clone();
    worker
        .task("obedient", |task: TaskContext| async move {
            task.canceled().await;
            Err::<(), _>(TaskError::stopped())
        })
        .task("stubborn", move |_: TaskContext| {
            let go = go.clone();
            async move {
                go.cancelled().await;
                Ok("done")
            }
        })
        .task("quick", |_: TaskContext| async { Ok(()) })
}

async fn until_at_work(fake: &Fake, task: &str) {
    // The first naming accepts; the ones after it are heartbeats of a task at work.
    fake.until("the task at work", |state| (state.named(task) > 2).then_some(())).await;
}

#[tokio::test]
async fn a_canceled_task_stops_and_is_reported_as_canceled() {
    let fake = Fake::start().await;
    let working = Working::start(handlers(fake.worker(), &CancellationToken::new()));
    let task = fake.queue("obedient", &json!({}));
    until_at_work(&fake, &task).await;
    fake.set(|state| state.cancel.extend([task.clone()]));
    let result = fake.until_result(&task).await;
    assert_eq!(result["status"], "canceled");
    assert_eq!(result["fence"], 7);
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_canceled_task_that_finishes_all_the_same_says_so() {
    let fake = Fake::start().await;
    let go = CancellationToken::new();
    let working = Working::start(handlers(fake.worker(), &go));
    let task = fake.queue("stubborn", &json!({}));
    until_at_work(&fake, &task).await;
    fake.set(|state| state.cancel.extend([task.clone()]));
    let named = fake.get(|state| state.named(&task));
    fake.until("it is told", |state| (state.named(&task) > named + 1).then_some(())).await;
    go.cancel();
    let result = fake.until_result(&task).await;
    assert_eq!((&result["status"], &result["result"]), (&json!("success"), &json!("done")));
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_that_is_not_ours_any_more_is_stopped_and_not_spoken_about() {
    let fake = Fake::start().await;
    let working = Working::start(handlers(fake.worker(), &CancellationToken::new()));
    let gone = fake.queue("obedient", &json!({}));
    until_at_work(&fake, &gone).await;
    fake.set(|state| state.stale.extend([gone.clone()]));
    // Its slot, the only one, becomes free.
    let next = fake.queue("quick", &json!({}));
    fake.until_result(&next).await;
    assert!(fake.get(|state| state.result_of(&gone)).is_none());
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_that_is_not_ours_any_more_and_finishes_is_told_as_evidence_once() {
    let fake = Fake::start().await;
    let go = CancellationToken::new();
    let working = Working::start(handlers(fake.worker(), &go));
    let gone = fake.queue("stubborn", &json!({}));
    until_at_work(&fake, &gone).await;
    fake.set(|state| state.stale.extend([gone.clone()]));
    // Once it is told, it does not name the task any more.
    let mut named = usize::MAX;
    fake.until("a heartbeat without it", |state| {
        let before = std::mem::replace(&mut named, state.named(&gone));
        let last = state.seen(Word::Heartbeat).last()?;
        (before == named && last.body["runs"] == json!([])).then_some(())
    })
    .await;
    fake.script(Word::Result, [Reply::Refuse(409, "STALE_LEASE")]);
    go.cancel();
    let next = fake.queue("quick", &json!({}));
    fake.until_result(&next).await;
    let told: Vec<_> = fake.get(|state| state.seen(Word::Result).map(|seen| seen.body.clone()).collect());
    assert_eq!(told.iter().filter(|body| body["task_id"] == *gone && body["status"] == "success").count(), 1);
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_worker_that_is_cut_off_goes_on_and_reports_late() {
    let fake = Fake::start().await;
    fake.set(|state| state.terms["lease_ms"] = json!(1_500));
    let (sender, mut outlasted) = tokio::sync::mpsc::channel(1);
    let worker = fake.worker().task("outlast", move |task: TaskContext| {
        let sender = sender.clone();
        async move {
            // Until the lease may be over, by the worker's own clock.
            while task.holds_lease() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            sender.send(()).await?;
            Ok(task.is_canceled())
        }
    });
    let working = Working::start(worker);
    let task = fake.queue("outlast", &json!({}));
    until_at_work(&fake, &task).await;
    fake.set(|state| state.away = true);
    let outlasted = tokio::time::timeout(Duration::from_secs(60), outlasted.recv()).await;
    outlasted.expect("the worker's lease should end within its 1.5 s").expect("the handler reports it");
    assert!(fake.get(|state| state.result_of(&task)).is_none());
    fake.set(|state| state.away = false);
    let result = fake.until_result(&task).await;
    assert_eq!((&result["status"], &result["result"]), (&json!("success"), &json!(false)), "it was not asked to stop");
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_worker_may_be_told_to_stop_when_it_is_cut_off() {
    let fake = Fake::start().await;
    fake.set(|state| state.terms["lease_ms"] = json!(1_500));
    let (sender, mut stopped) = tokio::sync::mpsc::channel(2);
    let worker = fake.worker().slots(2).stop_when_cut_off(true);
    let worker = worker
        .task("obedient", {
            let sender = sender.clone();
            move |task: TaskContext| {
                let sender = sender.clone();
                async move {
                    task.canceled().await;
                    sender.send("asked").await?;
                    Err::<(), _>(TaskError::stopped())
                }
            }
        })
        .task("deaf", move |_: TaskContext| {
            let sender = sender.clone();
            async move {
                let _told = OnDrop(sender);
                std::future::pending::<()>().await;
                Ok(())
            }
        })
        .task("quick", |_: TaskContext| async { Ok(()) });
    let working = Working::start(worker);
    let tasks = [fake.queue("obedient", &json!({})), fake.queue("deaf", &json!({}))];
    for task in &tasks {
        until_at_work(&fake, task).await;
    }
    fake.set(|state| state.away = true);
    assert_eq!(next("the first to be stopped", &mut stopped).await, "asked", "a margin before the end");
    assert_eq!(next("the second to be stopped", &mut stopped).await, "dropped", "at the end");
    fake.set(|state| state.away = false);
    let next = fake.queue("quick", &json!({}));
    fake.until_result(&next).await;
    assert!(fake.get(|state| tasks.iter().all(|task| state.result_of(task).is_none())));
    working.stop().await.unwrap();
}

struct OnDrop(tokio::sync::mpsc::Sender<&'static str>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.try_send("dropped").unwrap();
    }
}
