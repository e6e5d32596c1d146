//! F02, F05 for runs of workflows: the server dies between the intent, the effect and the result of a node; and one of two
//! servers dies in the middle of many runs. Every node has one result, and every effect one key.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use bowline_testkit::{ScriptedServer, Sink, fresh_database, until};
use serde_json::{Value, json};

use crate::mid_request::{Receiver, config};
use crate::support::oracle::Judgement;
use crate::support::{SHORT_LEASES, Setup, TestServer};

/// Two effects, and something to think about between them.
fn two_calls(first: &str, second: &str) -> Value {
    let call = |id: &str, url: &str| json!({"id": id, "type": "http_request", "config": {"method": "POST", "url": url, "body": {"node": id}}});
    json!({
        "nodes": [
            {"id": "start", "type": "start"},
            call("first", first),
            {"id": "think", "type": "transform", "config": {"value": "{{ steps.first.output.status_code }}"}},
            call("second", second),
            {"id": "end", "type": "end", "config": {"output": ["{{ steps.think.output }}", "{{ steps.second.output.status_code }}"]}},
        ],
        "edges": [
            {"source": "start", "target": "first"},
            {"source": "first", "target": "think"},
            {"source": "think", "target": "second"},
            {"source": "second", "target": "end"},
        ],
    })
}

const PATH: [&str; 5] = ["start", "first", "think", "second", "end"];

async fn steps(server: &TestServer, token: &str, job: &str) -> Vec<Value> {
    let page = server.send("GET", &format!("/jobs/{job}/steps?limit=500"), token, None).await.expect(200);
    assert_eq!(page["next"], Value::Null, "all of them are on one page");
    page["steps"].as_array().expect("steps").clone()
}

/// W1: every node of the path has one result, in its order, and it is a good one.
fn one_result_each(steps: &[Value], path: &[&str]) -> Judgement {
    let seen: Vec<_> = steps.iter().map(|step| step["node"].as_str().unwrap_or("")).collect();
    let visits: BTreeSet<_> = steps.iter().map(|step| (step["node"].as_str(), step["visit"].as_u64())).collect();
    let numbers: Vec<_> = steps.iter().map(|step| step["n"].as_u64()).collect();
    let in_order = numbers.iter().copied().eq((1..=steps.len() as u64).map(Some));
    let well = steps.iter().all(|step| step["status"] == "success");
    if seen == path && visits.len() == steps.len() && in_order && well { Ok(()) } else { Err(format!("{steps:#?}")) }
}

/// So many keys came in, each so often.
fn keys(seen: &BTreeMap<String, usize>, times: &[usize]) -> Judgement {
    let mut counts: Vec<usize> = seen.values().copied().collect();
    counts.sort_unstable();
    if counts == times && !seen.contains_key("") { Ok(()) } else { Err(format!("{seen:?}")) }
}

/// What a judge must not take for good.
fn controls(steps: &[Value], seen: &BTreeMap<String, usize>, times: &[usize]) {
    let twice = [steps, &steps[1..2]].concat();
    assert!(one_result_each(&twice, &PATH).is_err(), "a node with two results");
    assert!(one_result_each(&steps[1..], &PATH).is_err(), "a node without a result");
    let mut failed = steps.to_vec();
    failed[1]["status"] = json!("failed");
    assert!(one_result_each(&failed, &PATH).is_err(), "a result that is none");
    let mut other = seen.clone();
    other.insert("a key of its own".to_owned(), 1);
    assert!(keys(&other, times).is_err(), "an effect under two keys");
    let without: BTreeMap<_, _> = seen.values().map(|count| (String::new(), *count)).collect();
    assert!(keys(&without, times).is_err() && keys(&BTreeMap::new(), times).is_err());
}

/// The server dies at its own hand after this commit; what the other side has seen by then is the evidence of where it died.
async fn dies_after(sort: &str, called_before: usize, database_url: Option<String>) {
    let embedded = database_url.is_none();
    let sink = Sink::start();
    let env = vec![("BOWLINE_FAILPOINT".to_owned(), format!("after_commit:{sort}:1"))];
    let mut server = TestServer::with(Setup { config: config(), env, database_url, ..Setup::default() }).await;
    let (caller, admin) = (server.caller(), server.admin());
    let wish = json!({"workflow": two_calls(&sink.url(), &sink.url())});
    // A careful client: the same key until it is answered.
    let client = caller.submit_surely("once", wish);
    let death = async {
        let status = server.child().wait_exit(Duration::from_secs(30)).await;
        assert_eq!(status.signal(), Some(libc::SIGABRT), "it died at its own hand: {status}");
        assert_eq!(sink.lines().len(), called_before, "and not anywhere else");
        server.start_again_unharmed().await;
    };
    let (job, ()) = tokio::join!(client, death);
    let shown = server.until_status(&job, "success").await;
    assert_eq!(shown["job"]["result"], json!([200, 200]), "{shown}");
    let steps = steps(&server, &admin, &job).await;
    one_result_each(&steps, &PATH).expect("one result for each node");
    let seen = sink.by_key();
    keys(&seen, &[1, 1]).expect("each effect once, under its own key");
    controls(&steps, &seen, &[1, 1]);
    assert!(keys(&seen, &[1, 2]).is_err(), "nor is it taken for one that was asked twice");
    let jobs = server.jobs().await;
    assert_eq!(jobs.len(), 3, "the run and two calls: {jobs:?}");
    if embedded {
        assert!(server.stop().await.success());
    }
    server.assert_verified();
}

/// The first intent is stored together with the run, and nobody has heard of either.
#[tokio::test]
async fn a_run_whose_first_intent_was_stored_goes_on() {
    dies_after("submit", 0, None).await;
}

/// The first result was heard, the second intent is stored, and its effect has not begun.
#[tokio::test]
async fn an_intent_that_was_stored_is_carried_out_once() {
    dies_after("turn", 1, None).await;
}

#[tokio::test]
async fn an_intent_that_was_stored_is_carried_out_once_on_postgresql() {
    let database = fresh_database();
    dies_after("turn", 1, Some(database.url().to_owned())).await;
}

/// The effect has happened, its result is stored, and the run has not heard of it.
#[tokio::test]
async fn a_result_that_was_stored_is_heard_and_not_fetched_again() {
    dies_after("report", 1, None).await;
}

#[tokio::test]
async fn a_result_that_was_stored_is_heard_and_not_fetched_again_on_postgresql() {
    let database = fresh_database();
    dies_after("report", 1, Some(database.url().to_owned())).await;
}

/// Killed while the effect is under way. Whether it happened, nobody knows; so it is asked for again, under the same key.
#[tokio::test]
async fn an_effect_that_was_cut_off_is_asked_for_again_under_its_key() {
    let (receiver, sink) = (Receiver::start(), Sink::start());
    let mut server = TestServer::with(Setup { config: config(), ..Setup::default() }).await;
    let admin = server.admin();
    let job = server.submit(json!({"workflow": two_calls(&receiver.server.url("/pay"), &sink.url())})).await;
    receiver.is_called().await;
    assert_eq!((receiver.cut(), sink.lines().len()), (0, 0), "the first call is under way");
    server.child().kill_9();
    let status = server.child().wait_exit(Duration::from_secs(10)).await;
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    until(Duration::from_secs(20), "the call was cut off", async || receiver.cut() == 1).await;
    server.start_again().await;
    let shown = server.until_status(&job, "success").await;
    assert_eq!(shown["job"]["result"], json!([200, 200]), "{shown}");
    let steps = steps(&server, &admin, &job).await;
    one_result_each(&steps, &PATH).expect("one result for each node");
    assert_eq!(steps[1]["output"]["body"], json!({"call": 2}), "the answer that was heard");
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for request in receiver.server.requests() {
        *seen.entry(ScriptedServer::header(&request, "idempotency-key").unwrap_or("").to_owned()).or_default() += 1;
    }
    keys(&seen, &[2]).expect("two calls, one key");
    keys(&sink.by_key(), &[1]).expect("the other effect once");
    controls(&steps, &seen, &[2]);
    assert!(keys(&seen, &[1, 1]).is_err() && keys(&seen, &[1]).is_err());
    assert!(server.stop().await.success());
    server.assert_verified();
}

const RUNS: usize = 100;
const LONG_PATH: [&str; 5] = ["start", "work", "nap", "echo", "end"];

fn work_and_sleep() -> Value {
    json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "work", "type": "task", "config": {"type": "sleep", "payload": {"ms": 300}}},
            {"id": "nap", "type": "sleep", "config": {"duration_ms": 500}},
            {"id": "echo", "type": "task", "config": {"type": "echo", "payload": "{{ webhook.payload }}"}},
            {"id": "end", "type": "end", "config": {"output": "{{ steps.echo.output }}"}},
        ],
        "edges": [
            {"source": "start", "target": "work"},
            {"source": "work", "target": "nap"},
            {"source": "nap", "target": "echo"},
            {"source": "echo", "target": "end"},
        ],
    })
}

/// Every run has ended well, with its own output, and began two jobs.
fn all_done(begun: &[String], jobs: &[Value]) -> Judgement {
    let by_id: BTreeMap<_, _> = jobs.iter().map(|job| (job["id"].as_str().unwrap_or(""), job)).collect();
    let left: Vec<_> =
        begun.iter().filter(|job| by_id.get(job.as_str()).is_none_or(|job| job["status"] != "success")).collect();
    if !left.is_empty() {
        return Err(format!("{} runs are not done", left.len()));
    }
    if jobs.len() == 3 * begun.len() { Ok(()) } else { Err(format!("{} jobs for {} runs", jobs.len(), begun.len())) }
}

#[tokio::test]
async fn runs_go_on_when_one_of_two_servers_is_killed() {
    let database = fresh_database();
    let objects = tempfile::tempdir().expect("a directory");
    let config = format!("{SHORT_LEASES}\n[server]\nobjects_dir = {:?}\n", objects.path().display().to_string());
    let setup = Setup { database_url: Some(database.url().to_owned()), config, ..Setup::default() };
    let one = TestServer::with(setup.clone()).await;
    let two = TestServer::with(setup).await;
    let admin = one.admin();
    let mut begun = Vec::new();
    for n in 0..RUNS {
        let server = if n % 2 == 0 { &one } else { &two };
        let wish = json!({"workflow": work_and_sleep(), "input": n});
        let answer = server.send("POST", "/jobs", &admin, Some(wish)).await.expect(202);
        begun.push(answer["job_id"].as_str().expect("an id").to_owned());
    }
    one.child().kill_9();
    let status = one.child().wait_exit(Duration::from_secs(10)).await;
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    let jobs = async || {
        let mut jobs = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = two.send("GET", &format!("/jobs?limit=500{cursor}"), &admin, None).await.expect(200);
            jobs.extend(page["jobs"].as_array().expect("jobs").iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return jobs,
            }
        }
    };
    // The evidence, and a control: runs are under way, and this is seen.
    let under_way = all_done(&begun, &jobs().await);
    assert!(under_way.is_err(), "nothing was under way when it was killed");
    until(Duration::from_secs(90), "every run is over", async || {
        let there = jobs().await;
        let over =
            |job: &&Value| ["success", "failed", "error", "dead"].contains(&job["status"].as_str().unwrap_or(""));
        let left = there.len() - there.iter().filter(over).count();
        let waiting = begun.iter().filter(|id| !there.iter().any(|job| job["id"] == **id && over(&job))).count();
        if left == 0 && waiting == 0 { Ok(()) } else { Err(format!("{left} jobs are left, {waiting} of them runs")) }
    })
    .await;
    let there = jobs().await;
    all_done(&begun, &there).expect("all runs are done, and no job was begun twice");
    let mut double = there.clone();
    double.push(there[0].clone());
    assert!(all_done(&begun, &double).is_err() && all_done(&begun, &there[1..]).is_err(), "the controls");
    for (n, job) in begun.iter().enumerate() {
        let steps = steps(&two, &admin, job).await;
        one_result_each(&steps, &LONG_PATH).unwrap_or_else(|wrong| panic!("run {n}: {wrong}"));
        let shown = two.send("GET", &format!("/jobs/{job}"), &admin, None).await.expect(200);
        assert_eq!(shown["job"]["result"], json!(n));
    }
    two.assert_verified();
}
