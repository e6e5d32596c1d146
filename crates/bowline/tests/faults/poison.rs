//! F26: poison. Work that takes its worker down with it, and words that make no sense.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use bowline_testkit::{Sink, until};
use serde_json::{Value, json};

use crate::support::oracle::{Judgement, begun_once, one_effect};
use crate::support::{SHORT_LEASES, Setup, TestServer};

async fn short() -> TestServer {
    TestServer::with(Setup { config: SHORT_LEASES.to_owned(), ..Setup::default() }).await
}

/// A job that is out of the way and can still be looked into: what it was, how often it was tried, why it ended.
fn buried(shown: &Value, letters: &Value, payload: &Value, attempts: u64) -> Judgement {
    let job = &shown["job"];
    let known = job["status"] == "dead" && job["error"]["class"] == "lost" && job["payload"] == *payload;
    let counted =
        job["attempts"] == attempts && shown["runs"].as_array().map(Vec::len) == usize::try_from(attempts).ok();
    let letter = &letters["entries"][0];
    if known && counted && letter["job_id"] == job["id"] && letter["class"] == "lost" {
        return Ok(());
    }
    Err(format!("{shown}, {letters}"))
}

#[tokio::test]
async fn work_that_aborts_its_worker_ends_in_the_dead_letters_and_harms_no_neighbour() {
    let sink = Sink::start();
    let mut server = short().await;
    let payload = json!({"exact": 1.1});
    let policy = json!({"retry": {"max_losses": 1}});
    let poison = server.submit(json!({"type": "poison", "payload": payload, "policy": policy})).await;
    let mut neighbours = Vec::new();
    for _ in 0..10 {
        neighbours.push(server.submit(json!({"type": "call", "payload": {"url": sink.url()}})).await);
    }
    let token = server.token(json!({"kind": "worker", "name": "w1"})).await;
    let mut worker = server.worker_process("w1", &token);
    let mut aborts = 0;
    let shown = until(Duration::from_secs(60), "the poison is out of the way", async || {
        if !worker.is_running() {
            let status = worker.wait_exit(Duration::from_secs(1)).await;
            assert_eq!(status.signal(), Some(libc::SIGABRT), "{}", worker.log());
            aborts += 1;
            // Somebody starts it again, as an init system does; and others are not held up meanwhile.
            worker = server.worker_process("w1", &token);
            let other = server.submit(json!({"type": "noop"})).await;
            begun_once(&server.until_status(&other, "success").await).expect("a neighbour in the server");
        }
        let shown = server.get(&format!("/jobs/{poison}")).await.expect(200);
        if shown["job"]["status"] == "dead" { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await;
    // Each hand-out was counted before it was begun; otherwise this would go on for ever.
    assert_eq!(aborts, 2);
    let letters = server.get("/dlq/default").await.expect(200);
    buried(&shown, &letters, &payload, 2).expect("a dead letter with everything in it");
    for job in &neighbours {
        let shown = server.until_status(job, "success").await;
        begun_once(&shown).and(one_effect(&shown, &sink.lines())).expect("a neighbour on the same worker");
    }

    // The control: another payload, another count, a neighbour in its place, no letter at all.
    assert!(buried(&shown, &letters, &json!({"exact": 1}), 2).is_err());
    assert!(buried(&shown, &letters, &payload, 3).is_err());
    let neighbour = server.get(&format!("/jobs/{}", neighbours[0])).await.expect(200);
    assert!(buried(&neighbour, &letters, &payload, 2).is_err());
    assert!(buried(&shown, &json!({"entries": []}), &payload, 2).is_err());

    worker.kill_9();
    assert!(server.stop().await.success());
    server.assert_verified();
}

#[tokio::test]
async fn words_that_make_no_sense_are_refused_and_disturb_nobody() {
    // Ordinary leases: how fast this machine is today is not the question here.
    let mut server = TestServer::start().await;
    let token = server.worker("w1", &["t"]).await;
    let job = server.submit(json!({"type": "t"})).await;
    let task = server.send("GET", "/workers/w1/tasks?wait=5000", &token, None).await.expect(200)[0].clone();
    let run = task["task_id"].as_str().expect("a run").to_owned();
    let nobody = "01985c40-1111-7aaa-8bbb-222233334444";
    let (result, beat, events) = ("/tasks/result", "/workers/w1/heartbeat", format!("/runs/{run}/events"));
    let events = events.as_str();
    let of_nobody = format!("/runs/{nobody}/events");
    let crowd = vec![json!({"seq": 1, "data": 1}); 1_001];
    let register = json!({"worker_id": "w1", "task_types": ["t"], "protocol": 99}).to_string();
    let words: Vec<(&str, Vec<u8>, u16)> = vec![
        (result, b"".to_vec(), 400),
        (result, format!(r#"{{"task_id":"{run}","status":"#).into_bytes(), 400),
        (result, format!(r#"{{"task_id":"{run}","status":"success","colour":"red"}}"#).into_bytes(), 400),
        (result, format!(r#"{{"task_id":"{run}","status":"success","status":"failure"}}"#).into_bytes(), 400),
        (result, format!(r#"{{"task_id":"{run}","status":"perhaps"}}"#).into_bytes(), 400),
        (result, format!("{{\"task_id\":\"{run}\",\"status\":\"success\",\"result\":\"\u{fffd}").into_bytes(), 400),
        (result, b"{\"task_id\":\"\xff\xfe\",\"status\":\"success\"}".to_vec(), 400),
        (result, br#"{"task_id":17,"status":"success"}"#.to_vec(), 400),
        (result, format!(r#"{{"task_id":"{run}","status":"success","fence":-1}}"#).into_bytes(), 400),
        (result, format!(r#"{{"task_id":"{run}","status":"success","fence":7}}"#).into_bytes(), 409),
        (result, format!(r#"{{"task_id":"{nobody}","status":"success"}}"#).into_bytes(), 404),
        (result, json!({"task_id": run, "status": "success", "result": "x".repeat(33 << 20)}).to_string().into(), 413),
        (beat, br#"{"runs":["not an id"]}"#.to_vec(), 400),
        (beat, br#"{"runs":[],"version":99}"#.to_vec(), 400),
        (beat, b"[[[[".to_vec(), 400),
        (events, br#"{"events":[]}"#.to_vec(), 400),
        (events, br#"{"events":[{"seq":0,"data":1}]}"#.to_vec(), 400),
        (events, br#"{"events":[{"seq":1}]}"#.to_vec(), 400),
        (events, json!({"events": crowd}).to_string().into(), 400),
        (&of_nobody, br#"{"events":[{"seq":1,"data":1}]}"#.to_vec(), 404),
        ("/workers/register", register.into(), 400),
    ];
    for (path, body, status) in words {
        let neighbour = server.submit(json!({"type": "noop"})).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(120)]).into_owned();
        let request = server.http().post(server.url(path)).bearer_auth(&token);
        let answer = request.header("content-type", "application/json").body(body).send().await.expect("an answer");
        assert_eq!(answer.status(), status, "{path} {shown}");
        begun_once(&server.until_status(&neighbour, "success").await).expect("a neighbour");
        // The one it was said about goes on, too.
        let answer = server.send("POST", beat, &token, Some(json!({"runs": [run]}))).await.expect(200);
        assert_eq!(answer["renewed"], json!([run]), "after {path} {shown}");
    }
    let done = json!({"task_id": run, "fence": task["fence"], "status": "success", "result": "whole"});
    server.send("POST", result, &token, Some(done)).await.expect(200);
    let shown = server.until_status(&job, "success").await;
    begun_once(&shown).expect("it was not disturbed");
    assert_eq!(shown["job"]["result"], "whole");
    assert!(server.stop().await.success());
    server.assert_verified();
}
