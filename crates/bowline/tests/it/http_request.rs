//! The task type `http_request`, through a real server and to real sockets.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use bowline_testkit::{ScriptedServer, until};
use serde_json::{Value, json};

use crate::support::{Setup, TestServer};

const PATIENCE: Duration = Duration::from_secs(30);
const ALLOWED: &str = "[log]\nlevel = \"debug\"\n[egress.tenants.default]\nallow_networks = [\"127.0.0.1/32\"]\n";
const VALUE: &str = "p\"a/s&s w%rd-7b3e91c0";

/// A server whose tenant may call `127.0.0.1`. Its environment names a proxy where nobody is.
async fn server() -> TestServer {
    let proxy = |name: &str| (name.to_owned(), "http://127.0.0.1:9".to_owned());
    let env = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"].map(proxy).into();
    TestServer::with(Setup { config: ALLOWED.to_owned(), env, ..Setup::default() }).await
}

fn json_answer(body: &Value) -> ScriptedServer {
    let body = body.to_string();
    ScriptedServer::start(move |_, stream| {
        ScriptedServer::answer(stream, "200 OK", "content-type: application/json\r\n", &body)
    })
}

async fn ask(server: &TestServer, payload: Value) -> String {
    let policy = json!({"retry": {"max_attempts": 3, "base_ms": 10, "max_backoff_ms": 20}});
    server.submit(json!({"type": "http_request", "payload": payload, "policy": policy})).await
}

/// How a call failed that was not tried again.
async fn refused(server: &TestServer, payload: Value) -> String {
    let job = ask(server, payload).await;
    let shown = server.until_status(&job, "dead").await;
    assert_eq!(
        (&shown["job"]["attempts"], &shown["job"]["error"]["class"]),
        (&json!(1), &json!("permanent")),
        "{shown}"
    );
    shown["job"]["error"]["message"].as_str().expect("a message").to_owned()
}

#[tokio::test]
async fn an_answer_is_the_result_of_the_job() {
    let server = server().await;
    let other = json_answer(&json!({"userId": 123, "balance": 500}));
    let url = other.url("/users/123");
    let payload = json!({
        "method": "POST", "url": url, "query": {"full": true}, "headers": {"X-Team": "a"}, "body": {"amount": 7},
    });
    let job = ask(&server, payload).await;
    let shown = server.until_status(&job, "success").await;
    let expected = json!({
        "status_code": 200,
        "headers": {"content-length": "28", "content-type": "application/json"},
        "body": {"userId": 123, "balance": 500},
        "url": format!("{url}?full=true"),
    });
    assert_eq!(shown["job"]["result"], expected);
    let seen = other.requests().remove(0);
    assert!(
        seen.starts_with("POST /users/123?full=true HTTP/1.1\r\n") && seen.ends_with("\r\n\r\n{\"amount\":7}"),
        "{seen}"
    );
    for (name, value) in [
        ("idempotency-key", job.as_str()),
        ("bowline-fence", "1"),
        ("user-agent", concat!("bowline/", env!("CARGO_PKG_VERSION"))),
        ("content-type", "application/json"),
        ("x-team", "a"),
    ] {
        assert_eq!(ScriptedServer::header(&seen, name), Some(value), "{seen}");
    }
    let trace = shown["job"]["trace_id"].as_str().expect("a trace");
    let parent = ScriptedServer::header(&seen, "traceparent").expect("the call belongs to a trace");
    assert!(parent.starts_with(&format!("00-{trace}-")) && parent.ends_with("-01"), "{parent} is not of {trace}");
    let own = json!({"url": other.url("/"), "headers": {"Idempotency-Key": "mine", "User-Agent": "me"}});
    let job = ask(&server, own).await;
    server.until_status(&job, "success").await;
    let seen = other.requests().remove(1);
    assert_eq!(ScriptedServer::header(&seen, "idempotency-key"), Some("mine"), "{seen}");
    assert_eq!(ScriptedServer::header(&seen, "user-agent"), Some("me"), "{seen}");
}

/// In a small container there are no root certificates. That is no reason not to serve, and none to believe anybody.
#[tokio::test]
async fn a_machine_without_root_certificates_serves_all_the_same() {
    let env = ["SSL_CERT_FILE", "SSL_CERT_DIR"].map(|name| (name.to_owned(), "/nowhere".to_owned())).into();
    let server = TestServer::with(Setup { config: ALLOWED.to_owned(), env, ..Setup::default() }).await;
    assert!(server.child().log().contains("https cannot be called"), "{}", server.child().log());
    let other = json_answer(&json!([1]));
    let job = ask(&server, json!({"url": other.url("/")})).await;
    assert_eq!(server.until_status(&job, "success").await["job"]["result"]["body"], json!([1]));
}

#[tokio::test]
async fn a_server_that_is_down_is_asked_again_under_the_same_key() {
    let server = server().await;
    let asked = AtomicUsize::new(0);
    let other = ScriptedServer::start(move |_, stream| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => ScriptedServer::answer(stream, "503 Service Unavailable", "retry-after: 1\r\n", "later"),
        // No answer at all.
        1 => Ok(()),
        _ => ScriptedServer::answer(stream, "404 Not Found", "", ""),
    });
    let job = ask(&server, json!({"url": other.url("/")})).await;
    let shown = server.until_status(&job, "success").await;
    assert_eq!((&shown["job"]["result"]["status_code"], &shown["job"]["result"]["body"]), (&json!(404), &json!(null)));
    let classes: Vec<_> = shown["runs"].as_array().expect("runs").iter().map(|run| &run["error"]["class"]).collect();
    assert_eq!(classes, [&json!("transient"), &json!("transient"), &json!(null)], "{shown}");
    let first = shown["runs"][0]["error"]["message"].as_str().expect("a message");
    assert!(first.contains("503") && first.contains("come back in 1 s: later"), "{first}");
    let seen = other.requests();
    let told = |name| seen.iter().map(|request| ScriptedServer::header(request, name)).collect::<Vec<_>>();
    assert_eq!(told("idempotency-key"), [Some(job.as_str()); 3]);
    assert_eq!(told("bowline-fence"), [Some("1"), Some("2"), Some("3")]);
}

#[tokio::test]
async fn a_status_that_is_not_accepted_is_a_failure() {
    let server = server().await;
    let other = ScriptedServer::start(|request, stream| {
        let status = request.split([' ', '/']).nth(2).unwrap_or_default();
        ScriptedServer::answer(stream, &format!("{status} X"), "", "no such thing")
    });
    let accept = json!(["2xx", "404"]);
    let message = refused(&server, json!({"url": other.url("/422"), "accept": accept})).await;
    assert_eq!(message, "UPSTREAM_ERROR: the server answered 422 Unprocessable Entity: no such thing");
    let job = ask(&server, json!({"url": other.url("/404"), "accept": accept})).await;
    assert_eq!(server.until_status(&job, "success").await["job"]["result"]["body"], "no such thing");
}

/// Addresses that are closed, however they are written.
const CLOSED: [&str; 16] = [
    "127.0.0.1",
    "localhost",
    "a.localhost",
    "[::1]",
    "0.0.0.0",
    "127.1",
    "2130706433",
    "0x7f.1",
    "0177.0.0.1",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[::127.0.0.1]",
    "169.254.169.254",
    "100.100.100.200",
];

/// Payloads that are wrong, and where.
fn wrong(url: &str) -> Vec<(Value, &'static str)> {
    vec![
        (json!({"url": "file:///etc/passwd"}), "url"),
        (json!({"url": "gopher://a.example"}), "url"),
        (json!({"url": "http://user:pw@a.example/"}), "url"),
        (json!({"url": "http://a.example#@evil"}), "url"),
        (json!({"url": url, "headers": {"x-a": "b\r\nhost: evil"}}), "headers.x-a"),
        (json!({"url": url, "headers": {"Host": "evil"}}), "headers.Host"),
        (json!({"url": url, "headers": {"Content-Length": "7"}}), "headers.Content-Length"),
        (json!({"url": url, "headers": {"Transfer-Encoding": "chunked"}}), "headers.Transfer-Encoding"),
        (json!({"url": url, "headers": {"X-A": "1", "x-a": "2"}}), "headers.x-a"),
        (json!({"url": url, "timeout_ms": 3_600_001}), "timeout_ms"),
    ]
}

/// B083 to B085, B089 and B090: refused at the door, alone and in a batch, without a connection and without a word about
/// addresses.
#[tokio::test]
async fn what_must_not_be_called_is_refused_when_it_is_asked_for() {
    // Its own network is closed to a server unless somebody opened it.
    let server = TestServer::start().await;
    let inside = json_answer(&json!({"secret": "metadata"}));
    let port = inside.port();
    let mut bad: Vec<(Value, u16, &str, String)> = Vec::new();
    for host in CLOSED {
        let payload = json!({"url": format!("http://{host}:{port}/")});
        bad.push((payload, 422, "EGRESS_DENIED", "payload.url".to_owned()));
    }
    for (payload, place) in wrong("http://a.example/") {
        bad.push((payload, 400, "VALIDATION_ERROR", format!("payload.{place}")));
    }
    bad.push((
        json!({"url": "http://a.example", "tls_verify": false}),
        400,
        "VALIDATION_ERROR",
        "payload.tls_verify".into(),
    ));
    bad.push((json!({"url": "http://a.example:22/"}), 422, "EGRESS_DENIED", "payload.url".into()));
    bad.push((json!(null), 400, "VALIDATION_ERROR", "payload".into()));
    let wish = |payload: &Value| json!({"type": "http_request", "payload": payload});
    for (payload, status, code, place) in &bad {
        let answer = server.post("/jobs", wish(payload)).await;
        assert_eq!((answer.status, answer.code()), (*status, *code), "{payload}: {answer:?}");
        assert_eq!(answer.body["error"]["details"]["field"], *place, "{payload}: {answer:?}");
        let message = answer.body["error"]["message"].as_str().expect("a message");
        assert!(!message.contains("evil") && !message.contains("pw@"), "{message}");
    }
    let mut jobs: Vec<Value> = bad.iter().map(|(payload, ..)| wish(payload)).collect();
    jobs.push(json!({"type": "noop"}));
    let batch = server.post("/jobs/batch", json!({ "jobs": jobs })).await.expect(202);
    assert_eq!((&batch["accepted"], &batch["refused"]), (&json!(1), &json!(bad.len())), "{batch}");
    for (n, (_, _, code, place)) in bad.iter().enumerate() {
        let error = &batch["results"][n]["error"];
        assert_eq!((error["code"].as_str(), &error["details"]["field"]), (Some(*code), &json!(place)), "{error}");
        if *code == "EGRESS_DENIED" {
            let option = if bad[n].0["url"] == "http://a.example:22/" { "allow_ports" } else { "allow_networks" };
            let message = error["message"].as_str().expect("a message");
            assert!(message.contains(&format!("`{option}` under [egress]")), "it says how to allow it: {message}");
        }
    }
    // What a schedule would start is looked at when it is stored.
    let start = wish(&json!({"url": format!("http://127.0.0.1:{port}/")}));
    let spec = json!({"spec": {"cron": "0 3 * * *", "start": start}});
    let answer = server.send("PUT", "/resources/schedule/nightly", &server.admin(), Some(spec)).await;
    assert_eq!(
        (answer.status, answer.body["error"]["details"]["path"].as_str()),
        (422, Some("spec.start.payload.url")),
        "{answer:?}"
    );
    assert_eq!(inside.connections(), 0);
}

fn calling(config: &Value) -> Value {
    json!({
        "nodes": [{"id": "start", "type": "start"}, {"id": "call", "type": "http_request", "config": config},
            {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "call"}, {"source": "call", "target": "end"}],
    })
}

/// What stands in a workflow literally is looked at when it is stored, and when it is written into a wish.
#[tokio::test]
async fn what_a_workflow_must_not_call_is_refused_when_it_is_stored() {
    let server = TestServer::start().await;
    let inside = json_answer(&json!({"secret": "metadata"}));
    let mut bad: Vec<(Value, String)> = Vec::new();
    for host in CLOSED {
        let config = json!({"url": format!("http://{host}:{}/", inside.port())});
        bad.push((calling(&config), "nodes[1].config.url".to_owned()));
    }
    for (config, place) in wrong("http://a.example/") {
        bad.push((calling(&config), format!("nodes[1].config.{place}")));
    }
    let closed = json!({"url": inside.url("/")});
    let mut each = calling(&closed);
    each["nodes"][1] = json!({"id": "call", "type": "foreach", "config": {"items": [1], "node": {"type": "http_request", "config": closed}}});
    bad.push((each, "nodes[1].config.node.config.url".to_owned()));
    let mut task = calling(&closed);
    task["nodes"][1] = json!({"id": "call", "type": "task", "config": {"type": "http_request", "payload": closed}});
    bad.push((task, "nodes[1].config.payload.url".to_owned()));
    let mut patient = calling(&json!({"url": "http://a.example/"}));
    patient["nodes"][1]["policy"] = json!({"timeout_ms": 3_600_001});
    bad.push((patient, "nodes[1].policy.timeout_ms".to_owned()));
    for (spec, place) in &bad {
        let stored = server.send("PUT", "/resources/workflow/w", &server.admin(), Some(json!({ "spec": spec }))).await;
        let path = stored.body["error"]["details"]["path"].as_str();
        assert_eq!((stored.status, path), (422, Some(format!("spec.{place}").as_str())), "{spec}: {stored:?}");
        let inline = server.post("/jobs", json!({ "workflow": spec })).await;
        let path = inline.body["error"]["details"]["path"].as_str();
        assert_eq!((inline.status, path), (422, Some(format!("workflow.{place}").as_str())), "{spec}: {inline:?}");
    }
    assert_eq!(inside.connections(), 0);
}

/// B083 to B090 once more, where nobody could look before: refused once, when the run begins.
#[tokio::test]
async fn what_an_expression_becomes_is_judged_when_it_is_called() {
    let server = TestServer::start().await;
    let inside = json_answer(&json!({"secret": "metadata"}));
    let port = inside.port();
    let open = json!({"url": "{{ webhook.payload.url }}", "headers": {"x-a": "{{ webhook.payload.header }}"},
        "query": {"q": "{{ webhook.payload.header }}"}, "body": {"said": "{{ webhook.payload.header }}"}});
    let stored =
        server.send("PUT", "/resources/workflow/call", &server.admin(), Some(json!({"spec": calling(&open)}))).await;
    assert_eq!(stored.status, 201, "{stored:?}");
    for host in CLOSED {
        let input = json!({"url": format!("http://{host}:{port}/"), "header": "a"});
        let begun = server.post("/jobs", json!({"workflow": "call", "input": input})).await.expect(202);
        let shown = server.until_status(begun["job_id"].as_str().expect("an id"), "failed").await;
        let message = shown["job"]["error"]["message"].as_str().expect("a message");
        assert!(message.contains("EGRESS_DENIED: this address may not be called"), "{host}: {message}");
    }
    let input = json!({"url": "http://user:pw@a.example/", "header": "a"});
    let begun = server.post("/jobs", json!({"workflow": "call", "input": input})).await.expect(202);
    let shown = server.until_status(begun["job_id"].as_str().expect("an id"), "failed").await;
    let message = shown["job"]["error"]["message"].as_str().expect("a message");
    assert!(message.contains("VALIDATION_ERROR: url: "), "{message}");
    assert_eq!(inside.connections(), 0);
}

/// B091, with the cap that everybody has: just below it an answer is kept whole, above it there is none.
#[tokio::test]
async fn an_answer_may_be_large_but_not_endless() {
    let server = server().await;
    let other = ScriptedServer::start(|request, stream| {
        let bytes = if request.starts_with("GET /large") { 9 << 20 } else { (10 << 20) + 1 };
        ScriptedServer::answer(stream, "200 OK", "content-type: text/plain\r\n", &"x".repeat(bytes))
    });
    let job = ask(&server, json!({"url": other.url("/large")})).await;
    let shown = server.until_status(&job, "success").await;
    assert!(shown["job"]["result_ref"]["bytes"].as_u64().is_some_and(|bytes| bytes > 9 << 20), "{shown}");
    let result = server.get(&format!("/jobs/{job}/result")).await.expect(200);
    assert_eq!(result["body"].as_str().map(str::len), Some(9 << 20));
    let message = refused(&server, json!({"url": other.url("/endless")})).await;
    assert_eq!(message, "UPSTREAM_ERROR: the answer is longer than 10485760 bytes");
}

#[tokio::test]
async fn a_canceled_call_hangs_up() {
    let server = server().await;
    let (tell, hears) = mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let other = ScriptedServer::start(move |_, stream| {
        ScriptedServer::until_hung_up(stream)?;
        tell.lock().expect("nobody panicked").send(()).map_err(std::io::Error::other)
    });
    let job = ask(&server, json!({"url": other.url("/"), "timeout_ms": 600_000})).await;
    until(PATIENCE, "the call is under way", async || !other.requests().is_empty()).await;
    server.post(&format!("/jobs/{job}/cancel"), json!({})).await.expect(200);
    let shown = server.until_status(&job, "canceled").await;
    assert_eq!((&shown["runs"][0]["status"], &shown["job"]["result"]), (&json!("canceled"), &json!(null)));
    until(PATIENCE, "the other side was hung up on", async || hears.try_recv().is_ok()).await;
}

/// The value of a secret is in the request, and in nothing that stays.
#[tokio::test]
async fn a_secret_is_sent_and_left_nowhere() {
    let mut server = server().await;
    let directory = server.data_dir().join("secrets/default");
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join("key"), VALUE).expect("a file");
    fs::set_permissions(directory.join("key"), Permissions::from_mode(0o600)).expect("its mode");
    let refer = async |name: &str, spec: Value| {
        let path = format!("/resources/secret_ref/{name}");
        let put = server.send("PUT", &path, &server.admin(), Some(json!({"spec": spec}))).await;
        assert!(put.status < 300, "{}", put.body);
    };
    refer("key", json!({"ref": "file://key", "connectors": ["http_request"], "hosts": ["127.0.0.1"]})).await;
    refer("charge", json!({"ref": "file://key", "commands": ["*"]})).await;
    refer("silent", json!({"ref": "file://key"})).await;
    refer("elsewhere", json!({"ref": "file://key", "connectors": ["http_request"], "hosts": ["api.example"]})).await;
    refer("gone", json!({"ref": "file://gone", "connectors": ["http_request"], "hosts": ["*"]})).await;

    // A server that tells everybody what it was told, and one that fails with it.
    let other = ScriptedServer::start(|request, stream| {
        let told = ScriptedServer::header(request, "authorization").unwrap_or_default().to_owned();
        let status = if request.starts_with("GET /echo") { "200 OK" } else { "422 X" };
        let headers = format!("content-type: application/json\r\nx-told: {told}\r\n");
        ScriptedServer::answer(stream, status, &headers, &json!({"told": told}).to_string())
    });
    let with = |name: &str, path: &str| {
        let secret = json!({"secret_ref": name, "prefix": "Bearer "});
        json!({"url": other.url(path), "headers": {"Authorization": secret}, "accept": ["2xx"]})
    };
    for _ in 0..2 {
        let job = ask(&server, with("key", "/echo")).await;
        let shown = server.until_status(&job, "success").await;
        let result = &shown["job"]["result"];
        assert_eq!(
            (&result["body"], &result["headers"]["x-told"]),
            (&json!({"told": "Bearer ***"}), &json!("Bearer ***"))
        );
    }
    let sent = other.requests();
    assert_eq!(ScriptedServer::header(&sent[0], "authorization"), Some(format!("Bearer {VALUE}").as_str()));
    let message = refused(&server, with("key", "/refuse")).await;
    assert!(message.contains("422") && message.contains("***"), "{message}");
    for (name, why) in [("nowhere", "there is no secret_ref nowhere"), ("gone", "secret gone has no value")] {
        let message = refused(&server, with(name, "/echo")).await;
        assert!(message.contains(why), "{message}");
    }
    // What its `secret_ref` does not allow is refused when it is asked for.
    refer("tls", json!({"ref": "file://key", "connectors": ["http_request"], "hosts": ["https://127.0.0.1"]})).await;
    for (name, why) in [
        ("charge", "the secret_ref charge is not for http_request"),
        ("silent", "the secret_ref silent is not for http_request"),
        ("elsewhere", "the secret_ref elsewhere may not be sent to http://127.0.0.1:"),
        ("tls", "the secret_ref tls may not be sent to http://127.0.0.1:"),
    ] {
        let answer = server.post("/jobs", json!({"type": "http_request", "payload": with(name, "/echo")})).await;
        assert_eq!((answer.status, answer.code()), (422, "EGRESS_DENIED"), "{}", answer.body);
        let text = answer.body.to_string();
        assert!(text.contains(why) && text.contains("headers.authorization"), "{text}");
    }
    // And when the call is made: this one is narrowed between two attempts.
    refer("later", json!({"ref": "file://key", "connectors": ["http_request"], "hosts": ["127.0.0.1"]})).await;
    let job = ask(&server, with("later", "/refuse")).await;
    server.until_status(&job, "dead").await;
    refer("later", json!({"ref": "file://key", "connectors": ["http_request"], "hosts": ["http://127.0.0.1"]})).await;
    server.post(&format!("/jobs/{job}/retry"), json!({"reason": "once more"})).await.expect(200);
    until(PATIENCE, "the second attempt to fail", async || {
        let shown = server.get(&format!("/jobs/{job}")).await.expect(200);
        let message = shown["job"]["error"]["message"].as_str().unwrap_or_default().to_owned();
        shown["job"]["status"] == "dead"
            && message.contains("the secret_ref later may not be sent to http://127.0.0.1:")
    })
    .await;
    assert_eq!(other.connections(), 4, "without its secret nothing is sent");

    let logs = server.child().output_directory();
    assert!(server.stop().await.success());
    fs::remove_file(directory.join("key")).expect("the file of the secret");
    for place in [server.data_dir(), logs] {
        assert_eq!(found_in(&place, "7b3e91c0"), Vec::<std::path::PathBuf>::new());
    }
    // The search finds what is there.
    assert!(!found_in(&server.data_dir(), "secret_ref").is_empty());
    server.assert_verified();
}

fn found_in(place: &std::path::Path, text: &str) -> Vec<std::path::PathBuf> {
    if place.is_dir() {
        let entries = fs::read_dir(place).into_iter().flatten().flatten();
        return entries.flat_map(|entry| found_in(&entry.path(), text)).collect();
    }
    let has = fs::read(place).is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()));
    if has { vec![place.to_owned()] } else { Vec::new() }
}
