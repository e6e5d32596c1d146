//! `job get|list|cancel|retry|events|why`.

use bowline_cli::Exit;

use crate::fake::{Fake, ok, refused};

pub const ID: &str = "0198c0de-0000-7000-8000-000000000001";

const JOB: &str = r#"{"job":{"id":"0198c0de-0000-7000-8000-000000000001","number":42,"tenant_id":"t","type":"mail.send",
 "lane":"critical","priority":5,"status":"failed","state":"failed","attempts":2,"max_attempts":4,
 "created_at":"2026-01-03T11:59:00Z","updated_at":"2026-01-03T11:59:58Z","finished_at":"2026-01-03T11:59:58Z","run_at":null,
 "payload":{"to":"a@b.c","amount":1.10},"result":null,"error":{"class":"permanent","message":"no such\u001b[31m mailbox"},
 "idempotency_key":null,"external_id":"order-7","correlation_id":null,"trace_id":"abc","replay_of":null,
 "labels":{"site":"fra"},"policy":{}},
 "runs":[{"id":"r1","attempt":1,"fence":1,"status":"failed","state":"failed","worker_id":"w1","claimed_at":"2026-01-03T11:59:01Z",
 "started_at":"2026-01-03T11:59:01.5Z","finished_at":"2026-01-03T11:59:03Z","error":{"class":"transient","message":"timeout"},
 "last_seq":2,"acknowledged_seq":2,"incomplete":false}]}"#;

#[tokio::test]
async fn get_shows_a_job_and_its_runs() {
    let fake = Fake::with(&[("GET /jobs/0198c0de-0000-7000-8000-000000000001", JOB)]);
    let ran = fake.run(&["job", "get", ID]).await;
    assert_eq!(ran.exit, Exit::Success);
    insta::assert_snapshot!(ran.out, @r#"
    job #42 mail.send  failed
    id           0198c0de-0000-7000-8000-000000000001
    lane         critical (priority 5)
    attempts     2 of 4
    created      1m ago
    finished     2s ago, 58.0s after it was created
    labels       site=fra
    external id  order-7
    trace        abc
    error        permanent: no such[31m mailbox
    payload      {"to": "a@b.c", "amount": 1.10}

    RUN  STATUS  WORKER  CLAIMED  TOOK  ERROR
      1  failed  w1      59s ago  1.5s  transient: timeout
    "#);
    assert_eq!(fake.asked()[0].header("authorization").as_deref(), Some("Bearer t0ken"));
}

#[tokio::test]
async fn get_with_json_is_the_servers_own_text() {
    let fake = Fake::with(&[("GET /jobs/0198c0de-0000-7000-8000-000000000001", JOB)]);
    let ran = fake.run(&["job", "get", ID, "--json"]).await;
    assert_eq!(ran.out.trim_end(), JOB);
    assert_eq!(ran.err, "");
}

#[tokio::test]
async fn what_is_no_id_is_not_asked_for() {
    let fake = Fake::with(&[]);
    let line = ["bowline", "--server", &fake.url, "job", "get", "../tokens"];
    let error = <crate::fake::Cli as clap::Parser>::try_parse_from(line).err().unwrap();
    assert_eq!(error.exit_code(), 2);
    assert!(
        error.to_string().contains("its id, its number such as 5003, or at least the last 4 characters"),
        "{error}"
    );
}

fn page(ids: std::ops::Range<u32>, next: Option<&str>) -> String {
    let jobs: Vec<_> = ids
        .map(|n| {
            serde_json::json!({
                "id": format!("0198c0de-0000-7000-8000-{n:012}"), "number": n, "type": "echo", "lane": "default",
                "status": "queued", "attempts": 0, "max_attempts": 4, "created_at": "2026-01-03T11:59:57Z",
            })
        })
        .collect();
    serde_json::json!({ "jobs": jobs, "next_cursor": next }).to_string()
}

/// People know the command they asked for, not what the server calls it inside.
#[tokio::test]
async fn a_command_is_listed_by_its_own_name() {
    let fake = Fake::start(|_, _| {
        let job = serde_json::json!({
            "id": "0198c0de-0000-7000-8000-000000000001", "number": 7, "type": "bowline.command", "title": "restart-nginx",
            "lane": "default", "status": "running", "attempts": 0, "max_attempts": 1, "created_at": "2026-01-03T11:59:57Z",
        });
        ok(serde_json::json!({"jobs": [job], "next_cursor": null}).to_string())
    });
    let ran = fake.run(&["job", "list"]).await;
    assert!(
        ran.out.contains("  restart-nginx  default  running") && !ran.out.contains("bowline.command"),
        "{}",
        ran.out
    );
}

/// Three pages, the second of them empty.
fn paged() -> Fake {
    Fake::start(|asked, _| {
        ok(match asked.line.split("cursor=").nth(1) {
            None => page(0..100, Some("a/b")),
            Some("a%2Fb") => page(0..0, Some("c")),
            Some("c") => page(100..150, Some("d")),
            Some(other) => panic!("{other}"),
        })
    })
}

#[tokio::test]
async fn list_follows_cursors_until_there_are_enough() {
    let fake = paged();
    let ran =
        fake.run(&["job", "list", "--limit", "120", "--status", "queued", "--lane", "low", "--type", "a b"]).await;
    assert_eq!(ran.exit, Exit::Success);
    assert_eq!(ran.out.lines().count(), 121);
    assert_eq!(
        ran.out.lines().next(),
        Some("ID                                    WHAT  LANE     STATUS  TRIES  CREATED  NUMBER")
    );
    assert_eq!(
        ran.out.lines().nth(120),
        Some("0198c0de-0000-7000-8000-000000000119  echo  default  queued    0/4  3s ago      119")
    );
    assert_eq!(ran.err, "these are the first 120; --limit N shows more\n");
    assert_eq!(
        fake.lines(),
        [
            "GET /jobs?status=queued&lane=low&type=a+b&children=false&limit=100",
            "GET /jobs?status=queued&lane=low&type=a+b&children=false&limit=20&cursor=a%2Fb",
            "GET /jobs?status=queued&lane=low&type=a+b&children=false&limit=20&cursor=c",
        ]
    );
}

#[tokio::test]
async fn list_with_json_is_one_document_however_many_pages() {
    let ran = paged().run(&["--json", "job", "list", "--limit", "120"]).await;
    let document = ran.json();
    assert_eq!(document["jobs"].as_array().unwrap().len(), 120);
    assert_eq!(document["jobs"][119]["number"], 119);
    assert_eq!(document["next_cursor"], "d");
    let ran =
        Fake::with(&[("GET /jobs", "{ \"jobs\" : [], \"next_cursor\":null }")]).run(&["--json", "job", "list"]).await;
    assert_eq!(ran.out, "{ \"jobs\" : [], \"next_cursor\":null }\n");
}

#[tokio::test]
async fn an_empty_list_says_what_to_do_next() {
    let fake = Fake::with(&[("GET /jobs", r#"{"jobs":[],"next_cursor":null}"#)]);
    let ran = fake.run(&["job", "list"]).await;
    assert!(ran.out.starts_with("No jobs yet. Submit one with `bowline job submit echo"), "{}", ran.out);
    assert_eq!(ran.exit, Exit::Success);
    assert!(fake.run(&["job", "list", "--status", "dead"]).await.out.starts_with("No such jobs."));
}

#[tokio::test]
async fn a_cursor_that_does_not_move_ends_the_list() {
    let fake = Fake::start(|_, _| ok(page(0..0, Some("same"))));
    assert_eq!(fake.run(&["job", "list"]).await.exit, Exit::Success);
    assert_eq!(fake.lines().len(), 2);
}

#[tokio::test]
async fn cancel_sends_the_reason_and_says_what_became_of_it() {
    let fake = Fake::start(|_, _| ok(r#"{"job_id":"x","status":"canceling","changed":true}"#));
    let ran = fake.run(&["job", "cancel", ID, "--reason", "a \"mistake\""]).await;
    assert_eq!((ran.exit, ran.out), (Exit::Success, format!("job {ID} is canceling\n")));
    let asked = &fake.asked()[0];
    assert_eq!(asked.line, format!("POST /jobs/{ID}/cancel"));
    assert_eq!(asked.json(), serde_json::json!({"reason": "a \"mistake\""}));
}

#[tokio::test]
async fn an_order_that_changed_nothing_says_so() {
    let fake = Fake::start(|_, _| ok(r#"{"job_id":"x","status":"canceled","changed":false}"#));
    assert_eq!(fake.run(&["job", "cancel", ID]).await.out, format!("job {ID} is already canceled\n"));
    assert_eq!(fake.asked()[0].body, "{}");
}

#[tokio::test]
async fn a_retry_that_the_server_refuses_is_told_and_not_repeated() {
    let fake = Fake::start(|_, _| refused(409, "JOB_NOT_READY", "a job that is running cannot be retried"));
    let ran = fake.run(&["job", "retry", ID]).await;
    assert_eq!(ran.exit, Exit::Refused);
    assert_eq!(
        ran.err,
        "error: a job that is running cannot be retried\n  code JOB_NOT_READY, status 409, request req-1\n"
    );
    // Looked at once, for its hosts, and asked for once.
    assert_eq!(fake.lines(), [format!("GET /jobs/{ID}"), format!("POST /jobs/{ID}/retry")]);
}

#[tokio::test]
async fn events_of_a_job_are_a_table() {
    let fake = Fake::with(&[(
        "GET /jobs/0198c0de-0000-7000-8000-000000000001/events",
        r#"{"events":[{"event_id":"e1","ts":"2026-01-03T11:59:50Z","severity":"info","type":"job_queued","message":"Job queued","data":{"job_id":"j"}},
        {"event_id":"e2","ts":"2026-01-03T11:59:57Z","severity":"error","type":"job_failed","message":"Job failed","data":{"job_id":"j","attempt":4,"error":"no way"}}],"next_cursor":null}"#,
    )]);
    let ran = fake.run(&["job", "events", ID]).await;
    insta::assert_snapshot!(ran.out, @r#"
    WHEN     SEVERITY  TYPE        MESSAGE
    10s ago  info      job_queued  Job queued
    3s ago   error     job_failed  Job failed attempt=4 error="no way"
    "#);
}

#[tokio::test]
async fn why_is_a_sentence_and_its_reasons() {
    let fake = Fake::with(&[(
        "GET /jobs/0198c0de-0000-7000-8000-000000000001/why",
        r#"{"job_id":"j","status":"queued","sentence":"It waits for a worker.","reasons":[
        {"code":"NO_WORKER","sentence":"No worker takes mail.send.","data":{}},{"code":"SAME","sentence":"it waits for a worker","data":{}}]}"#,
    )]);
    let ran = fake.run(&["job", "why", ID]).await;
    assert_eq!(ran.out, "queued: It waits for a worker.\n  - No worker takes mail.send. (NO_WORKER)\n");
}

#[tokio::test]
async fn a_result_is_printed_or_saved_to_a_file() {
    let fake = Fake::with(&[("GET /jobs/0198c0de-0000-7000-8000-000000000001/result", r#"{"n": 1.10}"#)]);
    let ran = fake.run(&["job", "result", ID, "-o", "json"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, "{\"n\": 1.10}\n"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("result.json");
    let ran = fake.run(&["job", "result", ID, "--save", path.to_str().unwrap()]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, ""));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), r#"{"n": 1.10}"#);
    let ran = fake.run(&["job", "result", ID, "--save", directory.path().to_str().unwrap()]).await;
    assert!(ran.exit == Exit::Usage && ran.err.contains("cannot write"), "{}", ran.err);
}
