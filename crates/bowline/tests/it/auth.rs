//! Who may do what.

use std::time::Duration;

use bowline_api::{Access, table};
use bowline_testkit::until;
use serde_json::{Value, json};

use crate::support::{Setup, TestServer};

fn concrete(path: &str) -> String {
    let id = "018f0000-0000-7000-8000-000000000001";
    path.replace("{lane}", "default").replace("{id}", id).replace("{kind}", "command").replace("{name}", "main")
}

/// Every route, with no credential, a bad one, one without the scope, and one of another tenant.
#[tokio::test]
async fn every_route_refuses_whoever_may_not_pass() {
    let server = TestServer::start().await;
    let worker = server.worker("w1", &["t"]).await;
    let other = server.post("/tenants", json!({"name": "other"})).await.expect(201);
    let mut tampered = server.admin();
    let last = tampered.pop().unwrap();
    tampered.push(if last == '0' { '1' } else { '0' });
    let mut walked = 0;
    for route in table() {
        let path = concrete(route.path);
        let body = (route.method == "POST").then(|| json!({}));
        if route.access == Access::Open {
            let answer = server.try_send(route.method, &path, None, body).await.unwrap();
            assert_eq!(answer.status, 200, "{route:?}");
            continue;
        }
        walked += 1;
        for bad in [
            None,
            Some(""),
            Some("null"),
            Some(tampered.as_str()),
            Some("eyJhbGciOiJub25lIn0.e30."),
            Some("bow_api_x_y"),
        ] {
            let answer = server.try_send(route.method, &path, bad, body.clone()).await.unwrap();
            assert_eq!((answer.status, answer.code()), (401, "AUTH_REQUIRED"), "{route:?} with {bad:?}");
            assert!(answer.body["request_id"].is_string() && answer.body["trace_id"].is_string());
        }
        let Access::Needs { scope, .. } = route.access else { continue };
        // Everything but what this route wants.
        let scopes: Vec<&str> = [
            "jobs.read",
            "jobs.write",
            "events.read",
            "dlq.read",
            "dlq.write",
            "control.read",
            "control.write",
            "tokens.write",
            "metrics.read",
            "fleet.read",
            "fleet.write",
            "resources.read",
            "resources.write",
            "audit.read",
        ]
        .into_iter()
        .filter(|s| *s != scope.to_string())
        .collect();
        let under = server.token(json!({"kind": "api", "name": "under", "scopes": scopes})).await;
        let answer = server.send(route.method, &path, &under, body.clone()).await;
        assert_eq!((answer.status, answer.code()), (403, "FORBIDDEN"), "{route:?} without {scope}");
        if scope.to_string() != "workers.run" {
            let answer = server.send(route.method, &path, &worker, body).await;
            assert_eq!(answer.status, 403, "{route:?} with a worker's token");
        }
    }
    assert!(walked > 20);
    assert!(other["id"].is_string());
}

#[tokio::test]
async fn another_tenants_things_do_not_exist() {
    let server = TestServer::start().await;
    let job = server.submit(json!({"type": "fail", "payload": {"class": "permanent"}})).await;
    server.until_status(&job, "dead").await;
    let tenant = server.post("/tenants", json!({"name": "other"})).await.expect(201)["id"].clone();
    let scopes = ["jobs.read", "jobs.write", "events.read", "dlq.read", "dlq.write", "control.read"];
    let stranger = server.token(json!({"kind": "api", "name": "s", "scopes": scopes, "tenant_id": tenant})).await;
    let nothing = "018f0000-0000-7000-8000-000000000001";
    for (method, path) in [
        ("GET", "/jobs/{}"),
        ("GET", "/jobs/{}/events"),
        ("GET", "/jobs/{}/why"),
        ("POST", "/jobs/{}/cancel"),
        ("POST", "/jobs/{}/retry"),
    ] {
        let body = (method == "POST").then(|| json!({}));
        let theirs = server.send(method, &path.replace("{}", &job), &stranger, body.clone()).await;
        let none = server.send(method, &path.replace("{}", nothing), &stranger, body).await;
        assert_eq!((theirs.status, &theirs.body["error"]), (404, &none.body["error"]), "{method} {path}");
    }
    assert_eq!(server.send("GET", "/jobs", &stranger, None).await.expect(200)["jobs"], json!([]));
    let events = server.send("GET", "/events", &stranger, None).await.expect(200);
    let events = events["events"].as_array().unwrap();
    assert!(events.iter().all(|e| e["tenant_id"] == tenant && e["type"] == "token_created"), "{events:?}");
    assert_eq!(server.send("GET", "/dlq/default", &stranger, None).await.expect(200)["entries"], json!([]));
    let order = json!({"job_ids": [job], "reason": "mine now"});
    let answer = server.send("POST", "/dlq/default/replay", &stranger, Some(order)).await.expect(200);
    assert_eq!(answer["results"][0]["outcome"], "not_found");
    // A cursor is good for its own tenant only.
    server.submit(json!({"type": "noop"})).await;
    let page = server.get("/jobs?limit=1").await.expect(200);
    let cursor = page["next_cursor"].as_str().unwrap();
    let stolen = server.send("GET", &format!("/jobs?cursor={cursor}"), &stranger, None).await;
    assert_eq!(stolen.status, 400);
    let claimed = server.send("POST", "/jobs", &stranger, Some(json!({"type": "noop", "tenant_id": "x"}))).await;
    assert_eq!((claimed.status, claimed.code()), (400, "VALIDATION_ERROR"));
}

#[tokio::test]
async fn a_token_gives_no_more_than_its_maker_has_and_ends_when_revoked() {
    let server = TestServer::start().await;
    let maker = server.token(json!({"kind": "api", "name": "maker", "scopes": ["tokens.write", "jobs.read"]})).await;
    let wider = json!({"kind": "api", "name": "x", "scopes": ["admin"]});
    assert_eq!(server.send("POST", "/tokens", &maker, Some(wider)).await.status, 403);
    let long = json!({"kind": "api", "name": "x", "expires_in_s": 100 * 366 * 24 * 3600u64});
    assert_eq!(server.post("/tokens", long).await.status, 400);
    let made = json!({"kind": "api", "name": "reader", "scopes": ["jobs.read"]});
    let made = server.send("POST", "/tokens", &maker, Some(made)).await.expect(201);
    let (id, reader) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    assert_eq!(server.send("GET", "/jobs", reader, None).await.status, 200);
    let listed = server.get("/tokens").await.expect(200).to_string();
    assert!(listed.contains(id) && !listed.contains(reader), "secrets are shown once");
    server.send("POST", &format!("/tokens/{id}/revoke"), &maker, None).await.expect(200);
    until(Duration::from_secs(5), "the revoked token is refused", async || {
        server.send("GET", "/jobs", reader, None).await.status == 401
    })
    .await;
    let in_url = server.try_send("GET", &format!("/jobs?token={maker}"), None, None).await.unwrap();
    assert_eq!(in_url.status, 401);
}

#[tokio::test]
async fn the_administrators_token_is_made_once_and_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let mut server = TestServer::start().await;
    let path = server.data_dir().join("admin.token");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let before = server.admin();
    assert!(server.stop().await.success());
    server.start_again().await;
    assert_eq!(server.admin(), before);
    assert_eq!(server.get("/whoami").await.expect(200)["scopes"], json!(["admin"]));
}

pub const SECRET: &str = "a shared secret of at least thirty-two bytes";

/// A service token, signed by hand.
pub fn jwt(claims: &Value) -> String {
    use base64::Engine as _;
    let b64 = |bytes: &[u8]| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    let text = format!("{}.{}", b64(br#"{"alg":"HS256","typ":"JWT"}"#), b64(claims.to_string().as_bytes()));
    let seal = hmac(SECRET.as_bytes(), text.as_bytes());
    format!("{text}.{}", b64(&seal))
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    let mut block = [0u8; 64];
    if key.len() <= 64 {
        block[..key.len()].copy_from_slice(key);
    } else {
        block[..32].copy_from_slice(&Sha256::digest(key));
    }
    let pad = |byte: u8| block.map(|b| b ^ byte);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

#[expect(clippy::disallowed_methods, reason = "a service signs by its own clock")]
pub fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
}

#[tokio::test]
async fn service_tokens_are_believed_within_their_bounds() {
    let env = vec![
        ("ORCH_JWT_SHARED_SECRET".to_owned(), SECRET.to_owned()),
        ("ORCH_JWT_ISSUER".to_owned(), "buildos-internal".to_owned()),
    ];
    let server = TestServer::with(Setup { env, ..Setup::default() }).await;
    let tenant = server.get("/whoami").await.expect(200)["tenant_id"].clone();
    let now = now_s();
    let claims = |changes: Value| {
        let mut claims = json!({
            "iss": "buildos-internal", "aud": "orchestrator-exec", "sub": "svc:buildos-backend", "iat": now,
            "exp": now + 200, "scopes": ["orchestrator.jobs.write", "orchestrator.jobs.read"], "tid": tenant,
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        jwt(&claims)
    };
    let body = json!({"type": "noop"});
    server.send("POST", "/jobs", &claims(json!({})), Some(body.clone())).await.expect(202);
    let named = claims(json!({"email": "ann@example.com"}));
    assert_eq!(server.send("GET", "/whoami", &named, None).await.expect(200)["email"], "ann@example.com");
    for (change, status) in [
        (json!({"iss": "somebody"}), 401),
        (json!({"aud": "something-else"}), 401),
        (json!({"exp": now - 31}), 401),
        (json!({"nbf": now + 100}), 401),
        (json!({"exp": null}), 401),
        (json!({"email": "nobody"}), 401),
        (json!({"tid": null}), 403),
        (json!({"tid": [tenant]}), 401),
        (json!({"tid": "018f0000-0000-7000-8000-000000000001"}), 404),
        (json!({"scopes": ["orchestrator.jobs.read"]}), 403),
    ] {
        let answer = server.send("POST", "/jobs", &claims(change.clone()), Some(body.clone())).await;
        assert_eq!(answer.status, status, "{change}: {}", answer.body);
    }
    // The control plane wants its own audience, and takes a write once.
    let order = json!({"all": true, "reason": "sweeping up"});
    let scopes = json!(["orchestrator.dlq.write"]);
    let exec = claims(json!({"scopes": scopes, "jti": "a"}));
    assert_eq!(server.send("POST", "/dlq/low/purge", &exec, Some(order.clone())).await.status, 401);
    let control = claims(json!({"aud": "orchestrator-control", "scopes": scopes, "jti": "b"}));
    server.send("POST", "/dlq/low/purge", &control, Some(order.clone())).await.expect(200);
    assert_eq!(server.send("POST", "/dlq/low/purge", &control, Some(order)).await.status, 401);
}
