//! What is said when it does not work, and what is tried before.

use bowline_cli::Exit;
use serde_json::json;

use crate::fake::{Fake, Reply, ok, refused, run};

#[tokio::test]
async fn a_server_that_is_not_there_has_its_own_exit_code_and_a_hint() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = format!("http://127.0.0.1:{port}");
    let ran = run(["bowline", "--server", &server, "lanes"], None).await;
    assert_eq!((ran.exit, ran.exit.code()), (Exit::Unreachable, 4));
    assert!(ran.err.starts_with(&format!("error: cannot reach {server}: ")), "{}", ran.err);
    assert!(ran.err.contains("Connection refused"), "{}", ran.err);
    assert!(
        ran.err.contains("hint: is the server running? start it with `make run` or `bowline serve`"),
        "{}",
        ran.err
    );
    let ran = run(["bowline", "--server", &server, "--json", "lanes"], None).await;
    let document: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(document["error"]["code"], "CLIENT_UNREACHABLE");
    assert_eq!(ran.out, "");
}

#[tokio::test]
async fn without_credentials_it_says_where_they_are_looked_for() {
    let fake = Fake::start(|_, _| refused(401, "UNAUTHORIZED", "the credential is missing"));
    let ran = fake.run(&["whoami"]).await;
    assert_eq!(ran.exit, Exit::Refused);
    assert!(ran.err.contains("hint: the token given with --token was not accepted"), "{}", ran.err);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("absent");
    let line = ["bowline", "--server", &fake.url, "--token-file", path.to_str().unwrap(), "whoami"];
    let ran = run(line, None).await;
    assert_eq!(ran.exit, Exit::Usage);
    assert!(ran.err.starts_with("error: cannot read the token file "), "{}", ran.err);
}

#[tokio::test]
async fn a_token_file_is_read_and_its_token_sent() {
    let fake = Fake::start(|_, _| ok("{}"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "from-file\n").unwrap();
    run(["bowline", "--server", &fake.url, "--token-file", path.to_str().unwrap(), "whoami"], None).await;
    assert_eq!(fake.asked()[0].header("authorization").as_deref(), Some("Bearer from-file"));
    let ran = run(["bowline", "--server", &fake.url, "--token", "a\nb", "whoami"], None).await;
    assert_eq!(ran.exit, Exit::Usage);
}

#[tokio::test]
async fn reads_are_tried_again_while_the_server_asks_for_patience() {
    let fake = Fake::start(|_, before| match before {
        0 => Reply::Later(503, 0),
        1 => Reply::Later(429, 0),
        2 => Reply::Hangup,
        _ => ok(r#"{"actor":"me"}"#),
    });
    assert_eq!(fake.run(&["whoami"]).await.out, "actor  me\n");
    let busy = Fake::start(|_, _| Reply::Later(503, 0));
    let ran = busy.run(&["whoami"]).await;
    assert_eq!((ran.exit, busy.lines().len()), (Exit::Refused, 4));
    assert!(ran.err.contains("error: not now\n  code OVERLOADED, status 503, request r\n"), "{}", ran.err);
    let later = Fake::start(|_, _| Reply::Later(503, 3_600));
    let ran = later.run(&["whoami"]).await;
    assert_eq!((later.lines().len(), ran.err.contains("hint: the server asks to try again in 3600s")), (1, true));
}

#[tokio::test]
async fn with_json_a_refusal_is_the_servers_own_document_on_standard_error() {
    let fake = Fake::start(|_, _| refused(404, "JOB_NOT_FOUND", "no\u{9b}such job"));
    let ran = fake.run(&["--json", "lanes"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Refused, ""));
    assert!(!ran.err.contains('\u{9b}'));
    let document: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(document["error"], json!({"code": "JOB_NOT_FOUND", "message": "no\u{9b}such job", "details": {}}));
}

#[tokio::test]
async fn an_answer_that_no_bowline_server_gives_is_told() {
    for body in
        ["<html>hello</html>", "", "[1", "{\"workers\":[]}", "{\"lanes\":7}", "{\"lanes\":[{\"queued\":\"x\"}]}"]
    {
        let fake = Fake::start(move |_, _| ok(body));
        let ran = fake.run(&["lanes"]).await;
        assert_eq!((ran.exit, ran.out.as_str()), (Exit::Refused, ""), "{body}");
        assert!(ran.err.contains("is this really a Bowline server?"), "{body}: {}", ran.err);
    }
    let fake = Fake::start(|_, _| Reply::Text(500, "\u{1b}]0;owned\u{7}oops".to_owned()));
    let ran = fake.run(&["lanes"]).await;
    assert!(ran.err.starts_with("error: the server answered 500: ]0;ownedoops\n"), "{}", ran.err);
}

#[tokio::test]
async fn no_text_of_the_server_reaches_the_terminal_unclean() {
    let evil = "x\u{1b}[2J\u{7}\u{9b}31m\u{202e}y\r\n";
    let job = json!({"id": evil, "number": evil, "type": evil, "lane": evil, "status": evil, "attempts": evil,
        "max_attempts": evil, "created_at": evil, "finished_at": evil, "payload": {evil: evil}, "result": evil,
        "error": {"class": evil, "message": evil}, "external_id": evil, "labels": {evil: evil}});
    let run_view = json!({"attempt": evil, "status": evil, "worker_id": evil, "claimed_at": evil, "error": evil});
    let event = json!({"event_id": evil, "ts": evil, "severity": evil, "type": evil, "message": evil, "data": {evil: evil, "job_id": evil}});
    let answer = json!({
        "job": job, "runs": [run_view], "jobs": [job], "events": [event], "next_cursor": null, "status": evil, "sentence": evil,
        "reasons": [{"code": evil, "sentence": evil}], "lanes": [{"lane": evil}], "workers": [{"worker_id": evil, "task_types": [evil]}],
        "entries": [{"job_id": evil, "error": evil, "class": evil}], "tenants": [{"id": evil, "name": evil}],
        "tokens": [{"id": evil, "scopes": [evil]}], "actor": evil, "scopes": [evil], "token": evil, "id": evil, "name": evil,
        "results": [{"job_id": evil, "outcome": evil}], "changed": 1, "job_id": evil,
    });
    let fake = Fake::start(move |asked, _| {
        let mut answer = answer.clone();
        if asked.path().ends_with("/cancel") {
            answer["changed"] = true.into();
        }
        ok(answer.to_string())
    });
    let id = crate::jobs::ID;
    for command in [
        &["job", "get", id][..],
        &["job", "list"],
        &["job", "events", id],
        &["job", "why", id],
        &["job", "cancel", id],
        &["job", "submit", "noop"],
        &["dlq", "list", "low"],
        &["dlq", "replay", "low", "--job", id, "--reason", "why"],
        &["events"],
        &["lanes"],
        &["workers"],
        &["tenant", "list"],
        &["tenant", "create", "x"],
        &["token", "list"],
        &["token", "create", "--kind", "api", "--name", "x"],
        &["whoami"],
    ] {
        for json in [&[][..], &["--json"]] {
            let ran = fake.run(&[json, command].concat()).await;
            let unclean = |text: &str| text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}');
            assert_eq!(ran.exit, Exit::Success, "{command:?}: {}", ran.err);
            assert!(!unclean(&ran.out) && !unclean(&ran.err), "{command:?}: {:?} {:?}", ran.out, ran.err);
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_token() {
    let other = Fake::start(|_, _| ok("{}"));
    let to = other.url.clone();
    let fake = Fake::start(move |_, _| Reply::Text(307, format!("moved to {to}")));
    assert_eq!(fake.run(&["whoami"]).await.exit, Exit::Refused);
    assert_eq!(other.lines().len(), 0);
}

#[tokio::test]
async fn a_server_below_a_path_is_asked_there() {
    let fake = Fake::start(|_, _| ok("{}"));
    for base in ["/ops/bowline", "/ops/bowline/"] {
        let server = format!("{}{base}", fake.url);
        run(["bowline", "--server", &server, "--token", "t", "whoami"], None).await;
    }
    assert_eq!(fake.lines(), ["GET /ops/bowline/whoami"; 2]);
}
