//! An agent that reports on runs that are not its own: nothing it says is believed, and nothing of it is kept.
//!
//! The agent whose run it is, its keeper and its command are real. The rogue is enrolled like everybody else, and speaks
//! the protocol well.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_testkit::until;
use serde_json::{Value, json};

use super::judge::{executed, nobody_lost, nothing_of, printed};
use super::scene::{Fleet, ask, history, output, runs_on, server, ticks};
use crate::support::TestServer;
use crate::support::agent::TestAgent;

/// What every lie has in it.
const MARK: &str = "rogue-was-here";

/// Everything that an agent can say about a run, said by somebody else.
async fn lies_are_refused(server: &TestServer, rogue: &TestAgent<'_>, run: &Value, fence: u64) {
    let path = format!("/runs/{}/events", run.as_str().expect("a run"));
    let event = json!({"seq": 1_000, "data": {"kind": MARK}});
    let ended = json!({"status": "failure", "exit_code": 66, "last_seq": 1_000,
                       "error": {"class": "permanent", "message": MARK}});
    let news = |fence: u64| json!([{"run_id": run, "fence": fence, "events": [event], "ended": ended}]);
    // Under its own name, with the right fence and with others.
    for fence in [0, fence, fence + 1, 4_000_000_000] {
        let heard = rogue.ship(news(fence)).await.expect(200);
        let answer = &heard["runs"][0];
        assert_eq!((&answer["refused"], &answer["ended"]), (&json!("NOT_YOURS"), &json!(false)), "fence {fence}");
        assert_eq!(answer["acknowledged"], 0);
        let told = rogue.send("POST", &path, json!({"fence": fence, "events": [event]})).await;
        assert_eq!((told.status, told.code()), (403, "FORBIDDEN"), "{}", told.body);
        let result = json!({"task_id": run, "fence": fence, "status": "success", "result": MARK});
        let result = rogue.send("POST", "/tasks/result", result).await;
        assert_eq!((result.status, result.code()), (403, "FORBIDDEN"), "{}", result.body);
    }
    // Under the name of the one whose run it is (B049, B050).
    for (method, path, body) in [
        ("GET", "/workers/web1/tasks?wait=0", None),
        ("POST", "/workers/web1/events", Some(json!({"runs": news(fence)}))),
        ("POST", "/workers/web1/heartbeat", Some(json!({"runs": [run]}))),
    ] {
        let answer = server.send(method, path, &rogue.token, body).await;
        assert_eq!((answer.status, answer.code()), (403, "FORBIDDEN"), "{method} {path}: {}", answer.body);
    }
    // A heartbeat for a run of another one keeps no lease, and tells nothing about it.
    let beat = rogue.send("POST", "/workers/rogue/heartbeat", json!({"runs": [run]})).await.expect(200);
    assert_eq!((&beat["renewed"], &beat["cancel"], &beat["stale"]), (&json!([]), &json!([]), &json!([run])));
    for (stream, offset) in [("stdout", 0), ("stdout", 1 << 20), ("stderr", 0)] {
        let brought = rogue.bring(run, stream, offset, MARK.as_bytes()).await;
        assert_eq!((brought.status, brought.code()), (403, "FORBIDDEN"), "{}", brought.body);
    }
}

#[tokio::test]
async fn what_a_rogue_agent_says_about_the_runs_of_others_is_refused_and_not_kept() {
    let mut server = server().await;
    let fleet = Fleet::join(&server, &server.url("")).await;
    let rogue = server.agent("rogue", json!({})).await;
    let job = ask(&server, fleet.command(4)).await;
    fleet.begun(1).await;
    let shown = runs_on(&server, &job, "web1").await;
    let (run, fence) = (shown[0]["id"].clone(), shown[0]["fence"].as_u64().expect("a fence"));
    assert!(run.is_string(), "{shown:?}");
    lies_are_refused(&server, &rogue, &run, fence).await;
    server.until_status(&job, "success").await;
    // The run has ended, and they are still not true.
    lies_are_refused(&server, &rogue, &run, fence).await;
    let now = runs_on(&server, &job, "web1").await;
    assert_eq!((&now[0]["status"], &now[0]["exit_code"]), (&json!("success"), &json!(0)));
    assert_eq!(now[0]["incomplete"], false, "a number that nobody's executor gave is not missed: {now:?}");
    executed(&fleet.account(), 1, 1).expect("the command ran once");
    printed(&output(&server, &job).await, &ticks(4)).expect("and nothing is in its output but its own");
    let mut seen = history(&server).await;
    nobody_lost(&seen).expect("nobody was called lost");
    seen.extend(now);
    seen.push(server.get(&format!("/jobs/{job}")).await.expect(200));
    nothing_of(MARK, &seen).expect("nothing of it was kept");
    let brought = files_with(&server.data_dir(), MARK.as_bytes());
    assert_eq!(brought, Vec::<PathBuf>::new(), "not even as a file that nobody names");
    drop(rogue);
    assert!(server.stop().await.success());
    server.assert_verified();
}

/// The right agent with a fence that is not the run's (B051), numbers that are none (B052), and one number for two things
/// (B053), all said with the real agent's credential while its command runs.
#[tokio::test]
async fn what_an_agent_says_about_its_own_run_must_fit() {
    let server = server().await;
    let fleet = Fleet::join(&server, &server.url("")).await;
    let job = ask(&server, fleet.command(5)).await;
    fleet.begun(1).await;
    let shown = runs_on(&server, &job, "web1").await;
    let (run, fence) = (shown[0]["id"].clone(), shown[0]["fence"].as_u64().expect("a fence"));
    let real = TestAgent { server: &server, name: "web1".to_owned(), token: fleet.token() };
    let event = json!({"seq": 1, "data": {"kind": MARK}});
    let old = json!([{"run_id": run, "fence": fence - 1, "events": [event],
                      "ended": {"status": "success", "exit_code": 0, "last_seq": 1}}]);
    let heard = real.ship(old).await.expect(200);
    assert_eq!((&heard["runs"][0]["refused"], &heard["runs"][0]["ended"]), (&json!("STALE_LEASE"), &json!(false)));
    let path = format!("/runs/{}/events", run.as_str().expect("a run"));
    let old = real.send("POST", &path, json!({"fence": fence - 1, "events": [event]})).await;
    assert_eq!((old.status, old.code()), (409, "STALE_LEASE"), "{}", old.body);
    let result = json!({"task_id": run, "fence": fence - 1, "status": "success", "result": MARK});
    let result = real.send("POST", "/tasks/result", result).await;
    assert_eq!((result.status, result.code()), (409, "STALE_LEASE"), "{}", result.body);
    until(Duration::from_secs(20), "the start is told", async || {
        let history = history(&server).await;
        history.iter().any(|event| event["type"] == "run_progressed" && event["data"]["seq"] == 1)
    })
    .await;
    let told = real.send("POST", &path, json!({"fence": fence, "events": [event]})).await;
    assert_eq!((told.status, told.code()), (409, "SEQ_CONFLICT"), "{}", told.body);
    for seq in [json!(0), json!(-1), json!(u64::MAX), json!(1.5)] {
        let odd = json!({"fence": fence, "events": [{"seq": seq, "data": {"kind": MARK}}]});
        assert_eq!(real.send("POST", &path, odd).await.status, 400, "seq {seq}");
    }
    server.until_status(&job, "success").await;
    executed(&fleet.account(), 1, 1).expect("the command ran once");
    printed(&output(&server, &job).await, &ticks(5)).expect("and whole");
    nothing_of(MARK, &history(&server).await).expect("nothing of it was kept");
}

/// Files below a directory that contain these bytes.
fn files_with(directory: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if std::fs::read(&path).is_ok_and(|text| text.windows(bytes.len()).any(|part| part == bytes)) {
            found.push(path);
        }
    }
    found
}
