//! Bad input gets a clear 4xx and loses nothing. The names are those of the catalogue.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::TestServer;

/// Sends a body as it is. Answers the status and the error's code and message.
async fn raw(server: &TestServer, body: impl Into<Vec<u8>>) -> (u16, String, String) {
    let request = server.http().post(server.url("/jobs")).bearer_auth(server.admin());
    let answer = request.header("content-type", "application/json").body(body.into()).send().await.expect("an answer");
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.expect("JSON");
    let text = |name: &str| body["error"][name].as_str().unwrap_or("").to_owned();
    (status, text("code"), text("message"))
}

#[tokio::test]
async fn bodies_that_are_not_acceptable_are_refused_with_their_place() {
    let server = TestServer::start().await;
    let deep = format!(r#"{{"type":"noop","payload":{}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("B013", br#"{"type":"noop","tenant_id":"T2"}"#.to_vec(), "tenant_id"),
        ("B015", br#"{"type":"noop","status":"success"}"#.to_vec(), "status"),
        ("B016", br#"{"type":"a","type":"b"}"#.to_vec(), "duplicate"),
        ("B016 deep", br#"{"type":"a","payload":{"x":{"y":1,"y":2}}}"#.to_vec(), "/payload/x"),
        ("B027", deep.into_bytes(), "deep"),
        ("B028", br#"{"type":"noop","payload":{"n":1e999}}"#.to_vec(), "number"),
        ("B029 utf8", b"{\"type\":\"noop\",\"payload\":\"\xff\xfe\"}".to_vec(), "UTF-8"),
        ("B029 surrogate", br#"{"type":"noop","payload":"\ud800"}"#.to_vec(), "surrogate"),
        ("B029 nul", br#"{"type":"noop\u0000"}"#.to_vec(), "NUL"),
        ("B118 zone", br#"{"type":"noop","run_at":"2030-01-01T00:00:00"}"#.to_vec(), "RFC 3339"),
        ("B118 far", br#"{"type":"noop","run_at":"9999-01-01T00:00:00Z"}"#.to_vec(), "run_at"),
        ("B119 attempts", br#"{"type":"noop","policy":{"retry":{"max_attempts":-1}}}"#.to_vec(), "whole number"),
        ("B119 many", br#"{"type":"noop","policy":{"retry":{"max_attempts":1000000000}}}"#.to_vec(), "max_attempts"),
        ("B119 timeout", br#"{"type":"noop","policy":{"timeout_ms":0}}"#.to_vec(), "timeout_ms"),
        ("no type", br#"{"payload":1}"#.to_vec(), "type"),
        ("wrong type", br#"{"type":17}"#.to_vec(), "string"),
        ("bad name", br#"{"type":"../../etc"}"#.to_vec(), "task type"),
        ("lane", br#"{"type":"noop","lane":"express"}"#.to_vec(), "lane"),
        ("priority", br#"{"type":"noop","priority":1000}"#.to_vec(), "priority"),
        ("empty", b"".to_vec(), ""),
        ("array", b"[]".to_vec(), ""),
        ("tail", br#"{"type":"noop"} x"#.to_vec(), ""),
        ("key", br#"{"type":"noop","idempotency_key":""}"#.to_vec(), "idempotency_key"),
    ];
    for (name, body, says) in cases {
        let started = Instant::now();
        let (status, code, message) = raw(&server, body).await;
        assert_eq!((status, code.as_str()), (400, "VALIDATION_ERROR"), "{name}: {message}");
        assert!(message.contains(says), "{name}: `{message}` does not say `{says}`");
        assert!(started.elapsed() < Duration::from_secs(2), "{name}");
    }
    assert_eq!(server.get("/jobs").await.expect(200)["jobs"], json!([]), "nothing was stored");
}

#[tokio::test]
async fn numbers_are_kept_exactly() {
    let server = TestServer::start().await;
    let body = br#"{"type":"echo","payload":{"big":9007199254740993,"zero":-0,"huge":123456789012345678901234567890,"f":0.1}}"#;
    let request = server.http().post(server.url("/jobs")).bearer_auth(server.admin());
    let answer = request.header("content-type", "application/json").body(body.to_vec()).send().await.unwrap();
    let job = answer.json::<Value>().await.unwrap()["job_id"].as_str().unwrap().to_owned();
    server.until_status(&job, "success").await;
    let text = server.http().get(server.url(&format!("/jobs/{job}"))).bearer_auth(server.admin());
    let text = text.send().await.unwrap().text().await.unwrap();
    let payload = r#"{"big":9007199254740993,"zero":-0,"huge":123456789012345678901234567890,"f":0.1}"#;
    assert_eq!(text.matches(payload).count(), 2, "payload and result, as written: {text}");
}

#[tokio::test]
async fn sizes_and_kinds_of_bodies_are_limited() {
    let server = TestServer::start().await;
    let large = format!(r#"{{"type":"noop","payload":"{}"}}"#, "x".repeat(1 << 20));
    assert_eq!(raw(&server, large).await.0, 413);
    let fits = format!(r#"{{"type":"noop","payload":"{}"}}"#, "x".repeat((1 << 20) - 200));
    assert_eq!(raw(&server, fits).await.0, 202);
    let post = |kind: &str| {
        let request = server.http().post(server.url("/jobs")).bearer_auth(server.admin());
        request.header("content-type", kind.to_owned()).body(r#"{"type":"noop"}"#).send()
    };
    assert_eq!(post("text/xml").await.unwrap().status(), 415);
    assert_eq!(post("multipart/form-data").await.unwrap().status(), 415);
    assert_eq!(post("application/json; charset=utf-8").await.unwrap().status(), 202);
    let zipped = server.http().post(server.url("/jobs")).bearer_auth(server.admin());
    let zipped = zipped.header("content-type", "application/json").header("content-encoding", "gzip").body("x");
    assert_eq!(zipped.send().await.unwrap().status(), 415);
}

#[tokio::test]
async fn paths_that_lead_nowhere_are_not_found() {
    let server = TestServer::start().await;
    for path in ["/nothing", "//jobs", "/jobs/..%2f..%2fadmin", "/jobs/%00", "/jobs/not-an-id", "/jobs/", "/dlq/%2e%2e"]
    {
        let answer = server.get(path).await;
        assert!([400, 404].contains(&answer.status), "{path}: {}", answer.status);
        assert!(!answer.code().is_empty(), "{path} has the one error shape: {}", answer.body);
    }
    let answer = server.send("DELETE", "/jobs", &server.admin(), None).await;
    assert_eq!((answer.status, answer.code()), (405, "METHOD_NOT_ALLOWED"));
    for cursor in ["x", "AAAA", "%F0%9F%92%A9"] {
        assert_eq!(server.get(&format!("/jobs?cursor={cursor}")).await.status, 400);
    }
    for query in ["limit=0", "limit=100000", "limit=x", "status=lovely", "colour=red"] {
        assert_eq!(server.get(&format!("/jobs?{query}")).await.status, 400, "{query}");
    }
}

/// Writes bytes to the socket and reads what comes back, until it is closed or time is up.
async fn socket(server: &TestServer, bytes: &[u8], patience: Duration) -> (String, bool) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.expect("a connection");
    stream.write_all(bytes).await.expect("the bytes go out");
    let mut text = Vec::new();
    let closed = tokio::time::timeout(patience, stream.read_to_end(&mut text)).await.is_ok();
    (String::from_utf8_lossy(&text).into_owned(), closed)
}

#[tokio::test]
async fn slow_and_malformed_requests_do_not_hold_a_connection() {
    let server = TestServer::start().await;
    let admin = server.admin();
    let head = format!(
        "POST /jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {admin}\r\ncontent-type: application/json\r\n"
    );
    // B026: ten bytes are promised, five come.
    let (text, closed) =
        socket(&server, format!("{head}content-length: 10\r\n\r\n12345").as_bytes(), Duration::from_secs(15)).await;
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    assert!(closed);
    // B031: too many and too large headers.
    let many: String = (0..500).map(|n| format!("x-{n}: y\r\n")).collect();
    let (text, _) = socket(&server, format!("{head}{many}\r\n").as_bytes(), Duration::from_secs(5)).await;
    assert!(text.starts_with("HTTP/1.1 431"), "{text}");
    let large = "y".repeat(64 * 1024);
    let (text, _) = socket(&server, format!("{head}x-large: {large}\r\n\r\n").as_bytes(), Duration::from_secs(5)).await;
    assert!(text.starts_with("HTTP/1.1 431"), "{text}");
    // B032: a length and chunks.
    let both = format!("{head}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n");
    let (text, _) = socket(&server, both.as_bytes(), Duration::from_secs(5)).await;
    assert!(text.starts_with("HTTP/1.1 400"), "{text}");
    // A request line that is none.
    let (text, closed) = socket(&server, b"\x16\x03\x01 hello\r\n\r\n", Duration::from_secs(5)).await;
    assert!(closed && !text.starts_with("HTTP/1.1 200"), "{text}");
    let job = server.submit(json!({"type": "noop"})).await;
    server.until_status(&job, "success").await;
}

#[tokio::test]
async fn what_workers_say_is_checked_too() {
    let server = TestServer::start().await;
    let token = server.worker("w1", &["t"]).await;
    for name in ["../../keys/root", "", "a b"] {
        assert_eq!(server.post("/tokens", json!({"kind": "worker", "name": name})).await.status, 400, "{name}");
    }
    let run = "018f0000-0000-7000-8000-000000000001";
    let result = json!({"task_id": run, "status": "success"});
    assert_eq!(server.send("POST", "/tasks/result", &token, Some(result)).await.status, 404);
    server.submit(json!({"type": "t"})).await;
    let task = server.send("GET", "/workers/w1/tasks?wait=5000", &token, None).await.expect(200)[0].clone();
    let path = format!("/runs/{}/events", task["task_id"].as_str().unwrap());
    for seq in [json!(0), json!(-1), json!(9223372036854775808u64), json!("1"), json!(1.5)] {
        let body = json!({"events": [{"seq": seq, "data": 1}]});
        assert_eq!(server.send("POST", &path, &token, Some(body)).await.status, 400, "{seq}");
    }
    let gap = json!({"events": [{"seq": 1_000_000_000, "data": 1}]});
    assert_eq!(server.send("POST", &path, &token, Some(gap)).await.expect(200)["acknowledged"], 0);
    let stale = json!({"fence": 99, "events": [{"seq": 1, "data": 1}]});
    let refused = server.send("POST", &path, &token, Some(stale)).await;
    assert_eq!((refused.status, refused.code()), (409, "STALE_LEASE"));
    for query in ["max=0", "max=5000", "wait=9999999", "max=x"] {
        let answer = server.send("GET", &format!("/workers/w1/tasks?{query}"), &token, None).await;
        assert_eq!(answer.status, 400, "{query}");
    }
}

/// A shape is written by the names of its fields; an array is not one, at whatever depth.
#[tokio::test]
async fn arrays_are_no_objects() {
    let server = TestServer::start().await;
    let token = server.worker("w1", &["t"]).await;
    let job = server.submit(json!({"type": "t"})).await;
    let task = server.send("GET", "/workers/w1/tasks", &token, None).await.expect(200)[0]["task_id"].clone();
    let run = task.as_str().expect("an id");
    let cases = [
        ("/jobs".to_owned(), json!(["noop", {"a": 1}])),
        ("/jobs".to_owned(), json!({"type": "noop", "policy": []})),
        ("/jobs".to_owned(), json!({"type": "noop", "policy": {"retry": [3]}})),
        ("/tenants".to_owned(), json!(["acme"])),
        (format!("/jobs/{job}/cancel"), json!([])),
    ];
    for (path, body) in cases {
        let refused = server.post(&path, body.clone()).await;
        assert_eq!((refused.status, refused.code()), (400, "VALIDATION_ERROR"), "{path} {body}");
    }
    let items = server.post("/jobs/batch", json!({"jobs": [["noop"], {"type": "noop"}]})).await.expect(202);
    assert_eq!(items["results"][0]["error"]["code"], "VALIDATION_ERROR", "{items}");
    for (path, body) in [
        (format!("/runs/{run}/events"), json!({"events": [[1, null, 1]]})),
        ("/tasks/result".to_owned(), json!({"task_id": run, "status": "failure", "error": ["permanent", "m"]})),
        ("/tasks/result".to_owned(), json!({"task_id": run, "status": "success", "last_seq": u64::MAX})),
    ] {
        let refused = server.send("POST", &path, &token, Some(body.clone())).await;
        assert_eq!((refused.status, refused.code()), (400, "VALIDATION_ERROR"), "{path} {body}");
    }
}
