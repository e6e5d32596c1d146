//! Calls that are refused with a wish: who says `Retry-After` is not asked before then, by a job or by a node.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use bowline_engine::JobRequest;
use bowline_engine::builtin::HttpRequest;
use bowline_model::retry::{Jitter, RetryPolicy};
use bowline_model::{JobId, JobPolicy, JobStatus, Labels, Lane, Timestamp};
use bowline_store::{JobRecord, Submitted};
use bowline_testkit::ScriptedServer;
use serde_json::{Value, json};

use crate::{House, node, result_of, row, start_of_time};

/// What the policy itself waits.
const BACKOFF_MS: i64 = 500;

/// Answers each request with the next of these values of `Retry-After`, and then with 200.
fn stage(wishes: Vec<String>) -> ScriptedServer {
    let asked = AtomicUsize::new(0);
    ScriptedServer::start(move |_: &str, stream: &mut TcpStream| -> io::Result<()> {
        match wishes.get(asked.fetch_add(1, Ordering::SeqCst)) {
            Some(wish) => {
                ScriptedServer::answer(stream, "429 Too Many Requests", &format!("retry-after: {wish}\r\n"), "busy")
            }
            None => ScriptedServer::answer(stream, "200 OK", "", "done"),
        }
    })
}

fn http_date(at: Timestamp) -> String {
    let millis = u64::try_from(at.as_millis()).expect("after 1970");
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(millis))
}

fn retry() -> RetryPolicy {
    let base_ms = u64::try_from(BACKOFF_MS).expect("not negative");
    RetryPolicy { max_attempts: 4, base_ms, factor: 1.0, jitter: Jitter::None, ..RetryPolicy::default() }
}

async fn submit(house: &House, payload: Value) -> JobId {
    let request = JobRequest {
        id: None,
        lane: Lane::Default,
        task_type: HttpRequest::task_type(),
        labels: Labels::default(),
        priority: 0,
        payload: payload.to_string().into(),
        policy: Some(Arc::new(JobPolicy { retry: retry(), ..JobPolicy::default() })),
        run_at: None,
        idempotency_key: None,
        external_id: None,
        fleet: None,
        flow: None,
    };
    let answers = house.engine.intake.submit(house.tenant, &house.origin(), vec![request]).await.expect("stored");
    let [Submitted::Accepted { id, .. }] = answers[..] else { panic!("{answers:?}") };
    id
}

/// Waits until the job rests after so many attempts.
async fn resting(house: &House, job: JobId, attempts: u32) -> JobRecord {
    for _ in 0..1_000 {
        let record = house.job(job).await;
        if record.state.status == JobStatus::Pending && record.state.attempts == attempts {
            return record;
        }
        assert!(!record.state.status.is_terminal(), "{:?}", record.error);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", house.job(job).await.state);
}

/// The job rests until `due` and is tried then: not a millisecond before.
async fn comes_back_at(house: &House, stage: &ScriptedServer, job: JobId, attempts: u32, due: Timestamp) {
    let record = resting(house, job, attempts).await;
    assert_eq!(record.state.due_at, Some(due), "after attempt {attempts}: {:?}", record.error);
    house.clock.set(due.plus_millis(-1));
    // Longer than the timers rest between two looks.
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    assert_eq!(stage.connections(), attempts as usize, "nobody came before the time");
    house.clock.set(due);
}

#[tokio::test]
async fn a_job_comes_back_when_it_was_told_to_and_the_policy_s_delay_comes_on_top() {
    let house = House::open_calling().await;
    let first = start_of_time().plus_millis(120_000 + BACKOFF_MS);
    let moment = first.plus_millis(-BACKOFF_MS + 60_000);
    let second = moment.plus_millis(BACKOFF_MS);
    let stage = stage(vec!["120".to_owned(), http_date(moment), "soon".to_owned()]);
    let job = submit(&house, json!({"url": stage.url("/")})).await;
    comes_back_at(&house, &stage, job, 1, first).await;
    comes_back_at(&house, &stage, job, 2, second).await;
    // What cannot be read is as if it were not there.
    comes_back_at(&house, &stage, job, 3, second.plus_millis(BACKOFF_MS)).await;
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!((record.state.status, &result_of(&record)["body"]), (JobStatus::Succeeded, &json!("done")));
    assert_eq!(stage.connections(), 4);
    house.check().await;
}

#[tokio::test]
async fn nobody_is_sent_away_for_longer_than_a_day() {
    let house = House::open_calling().await;
    let stage = stage(vec!["31536000".to_owned()]);
    let job = submit(&house, json!({"url": stage.url("/")})).await;
    let record = resting(&house, job, 1).await;
    assert_eq!(record.state.due_at, Some(start_of_time().plus_millis(86_400_000 + BACKOFF_MS)));
    house.clock.advance_ms(86_400_000 + BACKOFF_MS);
    assert_eq!(house.until(job, JobStatus::is_terminal).await.state.status, JobStatus::Succeeded);
}

#[tokio::test]
async fn a_node_obeys_as_a_job_does() {
    let house = House::open_calling().await;
    let stage = stage(vec!["30".to_owned()]);
    let mut call = node("call", "http_request", json!({"url": stage.url("/")}));
    call["policy"] = json!({"retry": {"max_attempts": 2, "base_ms": BACKOFF_MS, "factor": 1.0, "jitter": "none"}});
    let out = node("out", "end", json!({"output": "{{steps.call.output.body}}"}));
    let run = house.begin(row(&[call, out]), json!(null)).await;
    let job = loop {
        let jobs = house.engine.ledger.list_jobs(house.tenant, Default::default(), None, 10).await.expect("jobs");
        if let Some(job) = jobs.items.iter().find(|job| job.task_type == HttpRequest::task_type()) {
            break job.id;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    comes_back_at(&house, &stage, job, 1, start_of_time().plus_millis(30_000 + BACKOFF_MS)).await;
    assert_eq!(result_of(&house.until(run, JobStatus::is_terminal).await), json!("done"));
    assert_eq!(stage.connections(), 2);
    house.check().await;
}
