//! What must hold after a fault, as judgements over what was seen.
//!
//! Enters: what a client was told, what the ledger shows, what the receiver outside wrote down. Leaves: `Ok`, or what is
//! wrong. A judgement never panics, so that each fault's file can also show it a tampered sight and see it complain: an
//! oracle that cannot say no proves nothing by saying yes.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_testkit::SinkLine;
use serde_json::Value;

use super::Answer;

pub type Judgement = Result<(), String>;

/// What a client was promised: its idempotency key, and the job it was told.
pub type Journal = BTreeMap<String, String>;

/// Everything promised is in the ledger, ended well, and under its own key; and no key, promised or not, has two jobs.
pub fn accounted(journal: &Journal, jobs: &[Value]) -> Judgement {
    let mut by_key: BTreeMap<&str, &Value> = BTreeMap::new();
    for job in jobs {
        if let Some(key) = job["idempotency_key"].as_str()
            && let Some(other) = by_key.insert(key, job)
        {
            return Err(format!("key {key} has two jobs: {} and {}", other["id"], job["id"]));
        }
    }
    for (key, promised) in journal {
        let Some(job) = by_key.get(key.as_str()) else {
            return Err(format!("job {promised} was promised under key {key} and is not there"));
        };
        if job["id"] != promised.as_str() || job["status"] != "success" {
            return Err(format!("key {key} was promised as {promised}, and is {} ({})", job["id"], job["status"]));
        }
    }
    Ok(())
}

/// A job that was begun once, by a worker that nobody gave up. `shown` is what `GET /jobs/{id}` answers.
pub fn begun_once(shown: &Value) -> Judgement {
    match shown["runs"].as_array().map(Vec::as_slice) {
        Some([run]) if run["status"] == "success" => Ok(()),
        other => Err(format!("not one run that ended well, but {other:?}")),
    }
}

/// A job whose effect was asked for under its own key by every attempt, each with a higher fence than the one before; so a
/// receiver that knows keys does it once, and one that knows fences refuses the older. One attempt was taken as the truth.
pub fn one_effect(shown: &Value, lines: &[SinkLine]) -> Judgement {
    let job = shown["job"]["id"].as_str().unwrap_or("");
    let calls: Vec<_> = lines.iter().filter(|line| line.body.contains(job)).collect();
    if calls.is_empty() {
        return Err(format!("job {job} had no effect"));
    }
    if let Some(call) = calls.iter().find(|call| call.idempotency_key.as_deref() != Some(job)) {
        return Err(format!("a call of job {job} came under the key {:?}", call.idempotency_key));
    }
    let fence = |call: &SinkLine| serde_json::from_str::<Value>(&call.body).ok()?["fence"].as_u64();
    if !calls.windows(2).all(|pair| fence(pair[0]) < fence(pair[1])) {
        return Err(format!("the fences of job {job} do not grow: {calls:?}"));
    }
    let runs = shown["runs"].as_array().cloned().unwrap_or_default();
    let taken = runs.iter().filter(|run| run["status"] == "success").count();
    if shown["job"]["status"] == "success" && taken == 1 {
        return Ok(());
    }
    Err(format!("{taken} results were recorded: {shown}"))
}

/// While the ledger is not itself, a caller hears yes, or "come back later", and hears it soon.
pub fn answered_well(answer: &Answer, took: Duration) -> Judgement {
    let soon = took < Duration::from_secs(6);
    match answer.status {
        200..=299 if soon => Ok(()),
        503 if soon && answer.retry_after.is_some() => Ok(()),
        _ => Err(format!("after {took:?}: {} (Retry-After {:?}) {}", answer.status, answer.retry_after, answer.body)),
    }
}
