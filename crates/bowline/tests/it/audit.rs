//! The audit trail, through the door and with the real program: who did what is recorded with the deed, nobody can write
//! it, and whoever changes it behind the server's back is found out.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::TestServer;

async fn bowline(server: &TestServer, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(["--server", &server.url("")]).args(args).env("BOWLINE_TOKEN", server.admin()).stdin(Stdio::null());
    let run = move || command.output().expect("the program runs");
    let Output { status, stdout, stderr } = tokio::task::spawn_blocking(run).await.expect("it ends");
    (status.code(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

async fn records(server: &TestServer, query: &str) -> Vec<Value> {
    let page = server.get(&format!("/audit?order=oldest&limit=500{query}")).await.expect(200);
    page["records"].as_array().cloned().unwrap_or_default()
}

/// Cancels jobs that wait for a worker that never comes.
async fn deeds(server: &TestServer, count: usize) {
    for n in 0..count {
        let job = server.submit(json!({"type": "nobody.does"})).await;
        server.post(&format!("/jobs/{job}/cancel"), json!({"reason": format!("deed {n}")})).await.expect(200);
    }
}

#[tokio::test]
async fn what_people_do_is_recorded_with_who_where_from_and_why() {
    let server = TestServer::start().await;
    let job = server.submit(json!({"type": "nobody.does"})).await;
    server.post(&format!("/jobs/{job}/cancel"), json!({"reason": "a mistake"})).await.expect(200);
    server.post("/workers/nobody/drain", json!({})).await.expect(404);
    let made = server.post("/tokens", json!({"kind": "api", "name": "ci", "scopes": ["jobs.read"]})).await.expect(201);
    let token = made["token"].as_str().expect("a token");
    let records = records(&server, "").await;
    let actions: Vec<_> = records.iter().map(|r| (r["action"].clone(), r["result"].clone())).collect();
    let wanted = json!([
        ["token.create", "done"],
        ["job.cancel", "done"],
        ["worker.drain", "not_found"],
        ["token.create", "done"],
    ]);
    assert_eq!(json!(actions), wanted);
    assert_eq!(records[0]["actor"], "bowline", "the first administrator is made by the house");
    let canceled = &records[1];
    let who = server.get("/whoami").await.expect(200);
    assert_eq!(canceled["actor"], who["actor"], "{who}");
    assert_eq!(canceled["resource"], format!("job/{job}"));
    assert_eq!((&canceled["reason"], &canceled["ip"]), (&json!("a mistake"), &json!("127.0.0.1")));
    assert_eq!(canceled["scopes"], "admin");
    assert!(canceled["request_id"].is_string());
    let all = json!(records).to_string();
    assert!(!all.contains(token) && !all.contains(&server.admin()), "no secret is ever recorded");
    let of_tokens = server.get("/audit?resource=token&action=token.create&limit=1").await.expect(200);
    assert_eq!(of_tokens["records"][0]["number"], 4, "newest first");
    let cursor = of_tokens["next_cursor"].as_str().expect("there is more");
    let next = server.get(&format!("/audit?resource=token&action=token.create&limit=1&cursor={cursor}")).await;
    assert_eq!(next.expect(200)["records"][0]["number"], 1);
    let system = server.get("/audit?chain=system").await.expect(200);
    assert_eq!(system["records"][0]["action"], "tenant.create", "{system}");
}

/// B102, and who may read.
#[tokio::test]
async fn nobody_writes_the_trail_and_few_read_it() {
    let server = TestServer::start().await;
    for (method, path, status) in [
        ("POST", "/audit", 405),
        ("PUT", "/audit", 405),
        ("PATCH", "/audit", 405),
        ("DELETE", "/audit", 405),
        ("DELETE", "/audit/1", 404),
        ("GET", "/audit?shoe_size=44", 400),
        ("GET", "/audit?since=yesterday", 400),
        ("GET", "/audit?chain=nobody", 400),
        ("GET", "/audit?cursor=abc", 400),
    ] {
        let answer = server.send(method, path, &server.admin(), None).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
    }
    let blind = server.token(json!({"kind": "api", "name": "blind", "scopes": ["jobs.read", "tokens.write"]})).await;
    assert_eq!(server.send("GET", "/audit", &blind, None).await.status, 403);
    let auditor = server.token(json!({"kind": "api", "name": "auditor", "scopes": ["audit.read"]})).await;
    server.send("GET", "/audit", &auditor, None).await.expect(200);
    let other = server.post("/tenants", json!({"name": "acme"})).await.expect(201)["id"].clone();
    for chain in ["system", other.as_str().expect("an id")] {
        let answer = server.send("GET", &format!("/audit?chain={chain}"), &auditor, None).await;
        assert_eq!((answer.status, answer.code()), (404, "TENANT_NOT_FOUND"), "{chain}");
        server.get(&format!("/audit?chain={chain}")).await.expect(200);
    }
}

/// B101 and U4, with the whole program: a healthy trail is walked, and every sort of damage is named.
#[tokio::test]
async fn audit_verify_names_the_spot() {
    let mut server = TestServer::start().await;
    deeds(&server, 29).await;
    let directory = server.data_dir().join("audit");
    let heads = directory.join("heads.jsonl").display().to_string();
    server.stop().await;
    server.assert_verified();
    let ledger = server.data_dir().join("bowline.db");
    let copy = server.data_dir().join("copy.db");
    // What was stored last may still lie beside the file itself.
    let whole = rusqlite::Connection::open(&ledger).expect("the file is there");
    whole.execute("vacuum into ?1", [copy.display().to_string()]).expect("the ledger can be copied");
    drop(whole);
    server.start_again().await;
    let (code, said) = bowline(&server, &["audit", "verify", "--heads", &heads]).await;
    assert!(code == Some(0) && said.contains("30 records"), "{said}");
    let (_, exported) = bowline(&server, &["audit", "export"]).await;
    let file = server.data_dir().join("export.jsonl").display().to_string();
    std::fs::write(&file, &exported).expect("it can be written");
    let (code, said) = bowline(&server, &["audit", "verify", "--file", &file, "--heads", &heads]).await;
    assert!(code == Some(0) && said.contains("30 records"), "{said}");
    let (code, said) = bowline(&server, &["audit", "list", "--limit", "3"]).await;
    assert!(code == Some(0) && said.contains("deed 28"), "{said}");
    for (what, damage, named) in [
        (
            "one field",
            "update audit set reason = 'none' where number = 7 and action = 'job.cancel'",
            "record 7 was changed",
        ),
        ("one row", "delete from audit where number = 7 and action = 'job.cancel'", "record 7 is missing"),
        (
            "two swapped",
            "update audit set number = -7 where number = 7; update audit set number = 7 where number = 12;
             update audit set number = 12 where number = -7",
            "record 7 was changed",
        ),
        (
            "the last ten, made to fit",
            "delete from audit where number > 20;
             update audit_chain set number = 20, hash = (select hash from audit where number = 20) where number = 30",
            "records 21 to 30 are missing",
        ),
    ] {
        server.stop().await;
        for rest in ["bowline.db-wal", "bowline.db-shm"] {
            drop(std::fs::remove_file(server.data_dir().join(rest)));
        }
        std::fs::copy(&copy, &ledger).expect("the ledger can be restored");
        let vandal = rusqlite::Connection::open(&ledger).expect("the file is there");
        vandal.execute_batch(damage).expect("the damage can be done");
        drop(vandal);
        let verified = server.verify();
        assert_eq!(verified["ok"], false, "{what}: {verified}");
        server.start_again().await;
        let (code, said) = bowline(&server, &["audit", "verify", "--heads", &heads]).await;
        assert!(code == Some(1) && said.contains(named), "{what}: {said}");
    }
    let forged =
        std::fs::read_to_string(&heads).expect("heads were signed").replacen("\"number\":30", "\"number\":20", 1);
    let path = directory.join("forged.jsonl").display().to_string();
    std::fs::write(&path, forged).expect("it can be written");
    let (code, said) = bowline(&server, &["audit", "verify", "--heads", &path]).await;
    assert!(code == Some(2) && said.contains("was not signed"), "{said}");
}

/// B103: the trail cannot be written, so the deed is refused and nothing has changed.
#[tokio::test]
async fn what_cannot_be_recorded_is_refused() {
    let server = TestServer::start().await;
    let job = server.submit(json!({"type": "nobody.does"})).await;
    let vandal = rusqlite::Connection::open(server.data_dir().join("bowline.db")).expect("the file is there");
    let full = "create trigger full before insert on audit begin select raise(abort, 'no room'); end";
    vandal.execute_batch(full).expect("it can be said");
    for (path, body) in [
        (format!("/jobs/{job}/cancel"), json!({"reason": "no"})),
        ("/tokens".to_owned(), json!({"kind": "api", "name": "ci"})),
        ("/tenants".to_owned(), json!({"name": "acme"})),
    ] {
        let answer = server.post(&path, body).await;
        assert_eq!((answer.status, answer.code()), (503, "LEDGER_UNAVAILABLE"), "{path}: {}", answer.body);
    }
    assert_eq!(server.get(&format!("/jobs/{job}")).await.expect(200)["job"]["status"], "queued");
    assert_eq!(server.get("/tokens").await.expect(200)["tokens"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.get("/tenants").await.expect(200)["tenants"].as_array().map(Vec::len), Some(1));
    let other = server.submit(json!({"type": "echo"})).await;
    server.until_status(&other, "success").await;
    vandal.execute_batch("drop trigger full").expect("it can be said");
    server.post(&format!("/jobs/{job}/cancel"), json!({})).await.expect(200);
}
