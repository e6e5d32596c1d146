//! What is logged names the job and the run that it is about.

use std::io::Write;
use std::sync::{Arc, Mutex};

use bowline_engine::builtin::Task;
use bowline_model::{JobStatus, RunError};
use serde_json::{Value, json};

use crate::{House, node, row};

/// Logs, before and after it has waited.
pub async fn warns(_: Task) -> Result<Option<Arc<str>>, RunError> {
    tracing::warn!("at once");
    tokio::task::yield_now().await;
    tracing::warn!("later");
    Ok(None)
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("lines").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn with(&self, message: &str) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().expect("lines").clone()).expect("text");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.filter(|line| line["message"] == message).collect()
    }
}

#[tokio::test]
async fn what_a_handler_logs_names_its_job_and_its_run() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().json().flatten_event(true).with_writer(move || writer.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).expect("no other test of this process logs");
    let house = House::open().await;
    let record = house.run(row(&[node("it", "task", json!({"type": "warns"}))]), json!({})).await;
    assert_eq!(record.state.status, JobStatus::Succeeded, "{:?}", record.error);
    let jobs = house.engine.ledger.list_jobs(house.tenant, Default::default(), None, 10).await.expect("jobs").items;
    let task = jobs.iter().find(|job| job.task_type.as_str() == "warns").expect("the task");
    let runs = house.engine.ledger.find_job(house.tenant, task.id).await.expect("a look").expect("a job").1;
    for message in ["at once", "later"] {
        let found = lines.with(message);
        assert_eq!(found.len(), 1, "{message}");
        let span = &found[0]["span"];
        assert_eq!((&span["job.id"], &span["run.id"]), (&json!(task.id), &json!(runs[0].id)), "{found:?}");
    }
}
