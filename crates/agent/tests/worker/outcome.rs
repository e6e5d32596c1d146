//! What becomes of handlers that fail, panic, or do not end.

use std::time::Duration;

use bowline_agent::{TaskContext, TaskError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fake::{Fake, Working, task};

#[tokio::test]
async fn a_handler_sees_its_task() {
    let fake = Fake::start().await;
    let worker = fake.worker().task("look", |task: TaskContext| async move {
        #[derive(Deserialize)]
        struct Params {
            text: String,
        }
        let params: Params = task.params()?;
        Ok::<Value, TaskError>(json!({
            "text": params.text, "raw": task.raw_params().get(), "attempt": task.attempt(), "fence": task.fence(),
            "key": task.idempotency_key(), "type": task.task_type(), "held": task.holds_lease(),
        }))
    });
    let working = Working::start(worker);
    let mut given = task("look", &json!({"text": "hi", "more": [1, null]}));
    given["idempotency_key"] = json!("order-1");
    fake.queue_raw(given.clone());
    let result = fake.until_result(given["task_id"].as_str().unwrap()).await;
    assert_eq!(
        result["result"],
        json!({"text": "hi", "raw": given["params"].to_string(), "attempt": 2, "fence": 7, "key": "order-1",
               "type": "look", "held": true})
    );
    assert_eq!((&result["job_id"], &result["fence"], &result["last_seq"]), (&given["job_id"], &json!(7), &json!(0)));
    working.stop().await.unwrap();
}

#[tokio::test]
async fn failures_have_the_class_that_the_handler_gave_them() {
    let fake = Fake::start().await;
    let worker = fake
        .worker()
        .slots(4)
        .task("transient", |_: TaskContext| async { Err::<(), _>(TaskError::transient("later")) })
        .task("permanent", |_: TaskContext| async { Err::<(), _>(TaskError::permanent("never")) })
        .task("error", |_: TaskContext| async { Ok("x".parse::<u32>()?) })
        .task("params", |task: TaskContext| async move { task.params::<Vec<String>>() })
        .task("panic", |_: TaskContext| async { if true { panic!("oh {}", "no") } else { Ok(()) } })
        .task("early", |_: TaskContext| {
            assert!(std::env::args().count() > 1_000, "not even a future");
            std::future::ready(Ok(()))
        });
    let working = Working::start(worker);
    for (task_type, class, message) in [
        ("transient", "transient", "later"),
        ("permanent", "permanent", "never"),
        ("error", "transient", "invalid digit"),
        ("params", "permanent", "the params are not what this task takes"),
        ("panic", "handler", "the handler panicked: oh no"),
        ("early", "handler", "the handler panicked: not even a future"),
    ] {
        let task = fake.queue(task_type, &json!({}));
        let result = fake.until_result(&task).await;
        assert_eq!(result["status"], "failure", "{task_type}");
        assert_eq!(result["error"]["class"], class, "{task_type}");
        assert!(result["error"]["message"].as_str().unwrap().contains(message), "{result}");
    }
    working.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_that_takes_longer_than_it_may_is_stopped() {
    let fake = Fake::start().await;
    let worker = fake
        .worker()
        .slots(2)
        .task("obedient", |task: TaskContext| async move {
            task.canceled().await;
            Err::<(), _>(TaskError::stopped())
        })
        .task("deaf", |_: TaskContext| async {
            std::future::pending::<()>().await;
            Ok(())
        });
    let working = Working::start(worker);
    let tasks = ["obedient", "deaf"].map(|task_type| {
        let mut task = task(task_type, &json!({}));
        task["timeout_ms"] = json!(100);
        task
    });
    fake.set(|state| state.queue.extend(tasks.clone()));
    for task in tasks {
        let result = fake.until_result(task["task_id"].as_str().unwrap()).await;
        assert_eq!((&result["status"], &result["error"]["class"]), (&json!("failure"), &json!("timeout")));
    }
    working.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_does_not_hold_up_its_own_timeout() {
    let fake = Fake::start().await;
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(Some(wait));
    let worker = fake.worker().task("block", move |_: TaskContext| {
        let wait = wait.lock().unwrap().take();
        async move {
            // Ends when the test drops the other side, however that happens.
            let _ = wait.map(|wait| wait.recv_timeout(Duration::from_secs(60)));
            Ok(())
        }
    });
    let working = Working::start(worker);
    let mut blocking = task("block", &json!({}));
    blocking["timeout_ms"] = json!(100);
    fake.queue_raw(blocking.clone());
    let result = fake.until_result(blocking["task_id"].as_str().unwrap()).await;
    assert_eq!(result["error"]["class"], "timeout");
    drop(release);
    working.stop().await.unwrap();
}
