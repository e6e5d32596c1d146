//! The stream.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::TestServer;

/// Reads a stream until `enough` says so. Answers the events and the last id.
async fn read(
    server: &TestServer,
    path: &str,
    last_id: Option<&str>,
    enough: impl Fn(&[Value]) -> bool,
) -> (Vec<Value>, String) {
    let mut request = server.http().get(server.url(path)).bearer_auth(server.admin());
    if let Some(id) = last_id {
        request = request.header("last-event-id", id);
    }
    let mut answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let (mut text, mut events, mut last) = (String::new(), Vec::new(), String::new());
    loop {
        let chunk = tokio::time::timeout(Duration::from_secs(20), answer.chunk()).await.expect("the stream goes on");
        text.push_str(&String::from_utf8_lossy(&chunk.expect("a chunk").expect("the stream goes on")));
        while let Some(end) = text.find("\n\n") {
            let message: String = text.drain(..end + 2).collect();
            let field = |name: &str| message.lines().find_map(|l| l.strip_prefix(name)).map(str::to_owned);
            if let (Some(id), Some(data)) = (field("id: "), field("data: ")) {
                last = id;
                events.push(serde_json::from_str::<Value>(&data).expect("JSON"));
            }
            if enough(&events) {
                return (events, last);
            }
        }
    }
}

#[tokio::test]
async fn a_reader_that_comes_back_misses_nothing_and_gets_nothing_twice() {
    let server = TestServer::start().await;
    let first = server.submit(json!({"type": "noop"})).await;
    let done = |job: &str| {
        let job = job.to_owned();
        move |events: &[Value]| {
            events.iter().any(|e| e["type"] == "job_succeeded" && e["data"]["job_id"] == job.as_str())
        }
    };
    let since = "/events/stream?since=2020-01-01T00:00:00Z";
    let (before, last) = read(&server, since, None, done(&first)).await;
    // While nobody reads:
    let second = server.submit(json!({"type": "noop"})).await;
    server.until_status(&second, "success").await;
    let (after, _) = read(&server, "/events/stream", Some(&last), done(&second)).await;
    let ids: Vec<&str> = before.iter().chain(&after).map(|e| e["event_id"].as_str().unwrap()).collect();
    let unique: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len());
    let of_second: Vec<&str> =
        after.iter().filter(|e| e["data"]["job_id"] == second.as_str()).map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(of_second, ["job_enqueued", "job_started", "job_succeeded"]);
}

#[tokio::test]
async fn filters_narrow_and_a_foreign_tenant_is_not_found() {
    let server = TestServer::start().await;
    let job = server.submit(json!({"type": "fail", "payload": {"class": "permanent"}})).await;
    server.until_status(&job, "dead").await;
    let loud = server.get("/events?severity=error").await.expect(200);
    assert!(loud["events"].as_array().unwrap().iter().all(|e| e["severity"] == "error"));
    let one = server.get(&format!("/events?job_id={job}&type=job_started,job_deadlettered")).await.expect(200);
    assert_eq!(one["events"].as_array().unwrap().len(), 2);
    let foreign = server.get("/events?tenant_id=018f0000-0000-7000-8000-000000000000").await;
    assert_eq!(foreign.status, 404);
    let foreign = server.get("/events/stream?tenant_id=018f0000-0000-7000-8000-000000000000").await;
    assert_eq!(foreign.status, 404);
    let misspelt = server.get("/events?typ=x").await;
    assert_eq!((misspelt.status, misspelt.code()), (400, "VALIDATION_ERROR"));
}

#[tokio::test]
async fn a_list_can_begin_with_the_newest() {
    let server = TestServer::start().await;
    let job = server.submit(json!({"type": "noop"})).await;
    server.until_status(&job, "success").await;
    let ids = |page: &Value| -> Vec<String> {
        page["events"].as_array().unwrap().iter().map(|e| e["event_id"].to_string()).collect()
    };
    let mut forwards = ids(&server.get("/events?limit=100").await.expect(200));
    let (mut backwards, mut path) = (Vec::new(), "/events?order=newest&limit=2".to_owned());
    let mut cursor = String::new();
    loop {
        let page = server.get(&path).await.expect(200);
        backwards.extend(ids(&page));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = next.to_owned();
        path = format!("/events?order=newest&limit=2&cursor={next}");
    }
    forwards.reverse();
    assert_eq!(backwards, forwards);
    let mixed = server.get(&format!("/events?cursor={cursor}")).await;
    assert_eq!((mixed.status, mixed.code()), (400, "VALIDATION_ERROR"), "a cursor belongs to its order");
    let unknown = server.get("/events?order=sideways").await;
    assert_eq!((unknown.status, unknown.code()), (400, "VALIDATION_ERROR"));
}

/// F36: a ledger that was put back to an older copy; its readers are ahead of it.
#[tokio::test]
async fn a_reader_ahead_of_the_ledger_is_told_to_start_over() {
    let server = TestServer::start().await;
    let (told, id) = read(&server, "/events/stream", Some("0-999999999"), |events| !events.is_empty()).await;
    assert_eq!(told[0]["from"], id.as_str());
    let job = server.submit(json!({"type": "noop"})).await;
    let (after, _) = read(&server, "/events/stream", Some(&id), |events| events.len() == 3).await;
    assert!(after.iter().all(|e| e["data"]["job_id"] == job.as_str()), "{after:?}");
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let server = TestServer::start().await;
    let made = server.post("/tokens", json!({"kind": "api", "name": "reader"})).await.expect(201);
    let (id, token) = (made["id"].as_str().expect("an id"), made["token"].as_str().expect("a token"));
    let request = server.http().get(server.url("/events/stream")).bearer_auth(token);
    let mut answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    server.post(&format!("/tokens/{id}/revoke"), json!({})).await.expect(200);
    let to_its_end = async { while let Ok(Some(_)) = answer.chunk().await {} };
    tokio::time::timeout(Duration::from_secs(20), to_its_end).await.expect("the stream ends");
}

#[tokio::test]
async fn a_stream_of_one_actor_has_nothing_of_others() {
    let server = TestServer::start().await;
    let ann = server.token(json!({"kind": "api", "name": "ann", "scopes": ["jobs.write"]})).await;
    server.submit(json!({"type": "noop"})).await;
    let submit = async || {
        let asked = server.send("POST", "/jobs", &ann, Some(json!({"type": "noop"}))).await.expect(202);
        asked["job_id"].as_str().expect("a job").to_owned()
    };
    let before = submit().await;
    let path = "/events/stream?since=2020-01-01T00:00:00Z&actor=ann";
    let enqueued = |events: &[Value], job: &str| events.iter().any(|one| one["data"]["job_id"] == job);
    let (events, last) = read(&server, path, None, |events| enqueued(events, &before)).await;
    server.submit(json!({"type": "noop"})).await;
    let after = submit().await;
    let (more, _) = read(&server, path, Some(&last), |events| enqueued(events, &after)).await;
    let all: Vec<&Value> = events.iter().chain(&more).collect();
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all.iter().all(|one| one["actor"]["name"] == "ann" && one["type"] == "job_enqueued"), "{all:?}");
}
