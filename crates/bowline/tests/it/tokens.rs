//! Credentials that are handed on: never more than their maker's, and no longer.

use std::time::{Duration, Instant};

use bowline_testkit::until;
use serde_json::{Value, json};

use crate::auth::{SECRET, jwt, now_s};
use crate::support::{Setup, TestServer};

async fn server_with_services() -> TestServer {
    let env = vec![
        ("ORCH_JWT_SHARED_SECRET".to_owned(), SECRET.to_owned()),
        ("ORCH_JWT_ISSUER".to_owned(), "issuer".to_owned()),
    ];
    TestServer::with(Setup { env, ..Setup::default() }).await
}

/// A service token of this tenant, issued now and good for this long.
async fn service(server: &TestServer, audience: &str, scopes: Value, seconds: u64, jti: &str) -> String {
    let tenant = server.get("/whoami").await.expect(200)["tenant_id"].clone();
    let now = now_s();
    jwt(&json!({
        "iss": "issuer", "aud": audience, "sub": "svc:maker", "iat": now, "exp": now + seconds, "scopes": scopes,
        "tid": tenant, "jti": jti,
    }))
}

/// Of a moment in RFC 3339, in Unix seconds.
fn seconds_of(moment: &str) -> i64 {
    moment.parse::<bowline_model::Timestamp>().expect("a moment").as_millis() / 1_000
}

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|token| token["name"].as_str().expect("a name")).collect()
}

/// A service with five minutes on the control plane made itself a year on both.
#[tokio::test]
async fn a_token_is_good_for_no_more_and_no_longer_than_its_makers_credential() {
    let server = server_with_services().await;
    let scopes = json!(["tokens.write", "jobs.write"]);
    let control = async |jti: &str| service(&server, "orchestrator-control", scopes.clone(), 120, jti).await;
    let body = json!({"kind": "api", "name": "handed-on", "scopes": ["jobs.write"]});
    let made = server.send("POST", "/tokens", &control("1").await, Some(body.clone())).await.expect(201);
    assert_eq!(made["audiences"], json!(["control"]), "{made}");
    let expires = made["expires_at"].as_str().expect("a moment");
    let lasts = seconds_of(expires) - seconds_of(made["created_at"].as_str().expect("a moment"));
    assert!((1..=120).contains(&lasts), "it lasts {lasts} s: {made}");
    let token = made["token"].as_str().expect("a token");
    let answer = server.send("POST", "/jobs", token, Some(json!({"type": "noop"}))).await;
    assert_eq!(answer.status, 401, "it opens the other door: {}", answer.body);
    // What is asked for in so many words is refused in so many words.
    let longer = json!({"kind": "api", "name": "x", "scopes": ["jobs.write"], "expires_in_s": 3600});
    let refused = server.send("POST", "/tokens", &control("2").await, Some(longer)).await;
    assert_eq!((refused.status, refused.code()), (400, "VALIDATION_ERROR"), "{}", refused.body);
    assert!(refused.body.to_string().contains("expires_in_s"), "{}", refused.body);
    let wider = json!({"kind": "api", "name": "x", "scopes": ["jobs.write"], "audiences": ["exec"]});
    assert_eq!(server.send("POST", "/tokens", &control("3").await, Some(wider)).await.status, 403);
    // A token's own tokens obey the same rule.
    let short = json!({"kind": "api", "name": "short", "scopes": ["tokens.write", "jobs.read"], "expires_in_s": 600});
    let short = server.post("/tokens", short).await.expect(201);
    let child = json!({"kind": "api", "name": "child", "scopes": ["jobs.read"]});
    let child =
        server.send("POST", "/tokens", short["token"].as_str().expect("a token"), Some(child)).await.expect(201);
    let (child, short) =
        (child["expires_at"].as_str().expect("a moment"), short["expires_at"].as_str().expect("a moment"));
    assert!(child <= short && seconds_of(child) >= seconds_of(short) - 1, "{child} and {short}");
    // Workers do the work of many, and outlive their maker.
    let maker = service(&server, "orchestrator-control", json!(["tokens.write", "workers.run"]), 120, "4").await;
    let worker = json!({"kind": "worker", "name": "w1", "expires_in_s": 86_400});
    server.send("POST", "/tokens", &maker, Some(worker)).await.expect(201);
}

#[tokio::test]
async fn a_revoked_token_takes_along_what_it_made_and_names_the_workers_it_leaves() {
    let server = TestServer::start().await;
    let scopes = json!(["tokens.write", "jobs.read", "workers.run"]);
    let make = async |maker: &str, body: Value| {
        let made = server.send("POST", "/tokens", maker, Some(body)).await.expect(201);
        (made["id"].as_str().expect("an id").to_owned(), made["token"].as_str().expect("a token").to_owned())
    };
    let admin = server.admin();
    let (id, root) = make(&admin, json!({"kind": "api", "name": "root", "scopes": scopes})).await;
    let (_, child) = make(&root, json!({"kind": "api", "name": "child", "scopes": scopes})).await;
    let (_, grandchild) = make(&child, json!({"kind": "api", "name": "grandchild", "scopes": ["jobs.read"]})).await;
    let (_, worker) = make(&child, json!({"kind": "worker", "name": "w1"})).await;
    let (_, _join) = make(&root, json!({"kind": "join", "name": "h1"})).await;
    for token in [&root, &child, &grandchild] {
        assert_eq!(server.send("GET", "/jobs", token, None).await.status, 200);
    }
    let revoked = server.send("POST", &format!("/tokens/{id}/revoke"), &admin, None).await.expect(200);
    assert_eq!(ids(&revoked["also_revoked"]), ["child", "grandchild"], "{revoked}");
    assert_eq!(ids(&revoked["remaining"]), ["w1", "h1"], "{revoked}");
    assert_eq!(revoked["remaining"][1]["kind"], "join", "{revoked}");
    for token in [&root, &child, &grandchild] {
        assert_eq!(server.send("GET", "/jobs", token, None).await.status, 401);
    }
    let registration = json!({"worker_id": "w1", "task_types": ["t"], "slots": 1});
    server.send("POST", "/workers/register", &worker, Some(registration.clone())).await.expect(200);
    let ended = server.send("POST", &format!("/tokens/{id}/revoke?with_workers=true"), &admin, None).await.expect(200);
    assert_eq!(ids(&ended["also_revoked"]), ["w1", "h1"], "{ended}");
    assert_eq!(server.send("POST", "/workers/register", &worker, Some(registration)).await.status, 401);
    let audit = server.get("/audit?action=token.revoke&limit=50").await.expect(200).to_string();
    assert_eq!(audit.matches("made with token").count(), 4, "each has its record: {audit}");
    let again = server.send("POST", &format!("/tokens/{id}/revoke?with_workers=true"), &admin, None).await;
    assert_eq!(again.status, 404);
}

/// What lasts longer than a request ends with the credential it was opened with.
#[tokio::test]
async fn streams_and_polls_end_with_their_credential() {
    let server = server_with_services().await;
    // A service token that runs out.
    let short = service(&server, "orchestrator-exec", json!(["events.read"]), 3, "1").await;
    let opened = Instant::now();
    let stream = server.http().get(server.url("/events/stream")).bearer_auth(&short).send().await.expect("an answer");
    assert_eq!(stream.status().as_u16(), 200);
    let read = tokio::time::timeout(Duration::from_secs(25), stream.bytes()).await;
    assert!(read.is_ok(), "the stream outlived its service token");
    assert!(opened.elapsed() < Duration::from_secs(3 + 10), "{:?}", opened.elapsed());
    assert!(opened.elapsed() > Duration::from_secs(1), "it was open before: {:?}", opened.elapsed());
    // A token that is revoked, while nothing happens that a stream or a poll would bring.
    let made = server.post("/tokens", json!({"kind": "worker", "name": "w1"})).await.expect(201);
    let (id, worker) = (made["id"].as_str().expect("an id"), made["token"].as_str().expect("a token").to_owned());
    let registration = json!({"worker_id": "w1", "task_types": ["never"], "slots": 1});
    server.send("POST", "/workers/register", &worker, Some(registration)).await.expect(200);
    let (http, url) = (server.http().clone(), server.url("/workers/w1/tasks?wait=25000"));
    let poll = http.get(url).bearer_auth(&worker).send();
    let revoke = async {
        // The poll waits at the dispatcher by then, or arrives with a revoked token; it is refused either way.
        until(Duration::from_secs(10), "the worker was seen", async || {
            server.get("/workers").await.expect(200).to_string().contains("w1")
        })
        .await;
        server.post(&format!("/tokens/{id}/revoke"), json!({})).await.expect(200);
        Instant::now()
    };
    let (answer, revoked) = tokio::join!(poll, revoke);
    assert_eq!(answer.expect("an answer").status().as_u16(), 401);
    assert!(revoked.elapsed() < Duration::from_secs(10), "{:?}", revoked.elapsed());
}

#[tokio::test]
async fn a_service_token_is_not_good_again_after_a_restart() {
    let mut server = server_with_services().await;
    let scopes = json!(["tokens.write", "jobs.read"]);
    let body = json!({"kind": "api", "name": "x", "scopes": ["jobs.read"]});
    let token = service(&server, "orchestrator-control", scopes.clone(), 200, "once").await;
    server.send("POST", "/tokens", &token, Some(body.clone())).await.expect(201);
    assert_eq!(server.send("POST", "/tokens", &token, Some(body.clone())).await.status, 401, "used");
    let issued = now_s();
    server.stop().await;
    // Within the second in which it was issued it could still be taken for a new one.
    until(Duration::from_secs(5), "the next second", async || now_s() > issued).await;
    server.start_again().await;
    let replayed = server.send("POST", "/tokens", &token, Some(body.clone())).await;
    assert_eq!(replayed.status, 401, "{}", replayed.body);
    assert!(replayed.body.to_string().contains("before this server started"), "{}", replayed.body);
    let fresh = service(&server, "orchestrator-control", scopes, 200, "anew").await;
    server.send("POST", "/tokens", &fresh, Some(body)).await.expect(201);
}

/// `bowline token revoke --with-workers` ends what was made with a token, and says so.
#[tokio::test]
async fn the_command_line_ends_workers_together_with_the_token_that_made_them() {
    let server = TestServer::start().await;
    let made = server
        .post("/tokens", json!({"kind": "api", "name": "root", "scopes": ["tokens.write", "workers.run"]}))
        .await
        .expect(201);
    let (id, root) = (made["id"].as_str().expect("an id"), made["token"].as_str().expect("a token"));
    let body = json!({"kind": "worker", "name": "w1"});
    let made = server.send("POST", "/tokens", root, Some(body)).await.expect(201);
    let worker = made["token"].as_str().expect("a token").to_owned();
    let registration = json!({"worker_id": "w1", "task_types": ["t"], "slots": 1});
    server.send("POST", "/workers/register", &worker, Some(registration.clone())).await.expect(200);
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_bowline"))
        .args(["token", "revoke", id, "--with-workers", "--server", &server.url("")])
        .env("BOWLINE_TOKEN", server.admin())
        .output()
        .expect("the command line runs");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success() && said.contains("worker token") && said.contains("(w1)"), "{said}");
    assert_eq!(server.send("POST", "/workers/register", &worker, Some(registration)).await.status, 401);
}
