//! `events`, with and without `--follow`.

use bowline_cli::Exit;

use crate::fake::{Fake, Reply, ok, refused};
use crate::jobs::ID;

fn sse(n: u32) -> String {
    format!(
        "id: 0-{n}\nevent: job_queued\ndata: {{\"event_id\":\"e{n}\",\"ts\":\"2026-01-03T11:59:58Z\",\"severity\":\"info\",\
         \"type\":\"job_queued\",\"message\":\"Job queued\",\"data\":{{\"job_id\":\"j{n}\",\"attempt\":{n}}}}}\n\n"
    )
}

#[tokio::test]
async fn a_list_asks_with_all_filters() {
    let fake = Fake::start(|_, _| ok(r#"{"events":[],"next_cursor":"x","more":false}"#));
    let ran = fake
        .run(&[
            "events",
            "--type",
            "job_failed",
            "--type",
            "job_errored",
            "--severity",
            "error",
            "--job",
            ID,
            "--trace-id",
            "abc",
            "--since",
            "2026-01-03T11:00:00Z",
            "--limit",
            "10",
        ])
        .await;
    assert_eq!(
        fake.lines(),
        [format!(
            "GET /events?type=job_failed%2Cjob_errored&severity=error&job_id={ID}&trace_id=abc&since=2026-01-03T11%3A00%3A00.000000Z&limit=10"
        )]
    );
    assert_eq!(ran.out, "No such events. `bowline events --follow` shows them as they happen.\n");
}

#[tokio::test]
async fn a_list_goes_on_while_there_is_more() {
    let fake = Fake::start(|_, before| {
        let (cursor, more) = [("a", true), ("b", false)][before];
        ok(format!(
            r#"{{"events":[{{"event_id":"e","ts":"2026-01-03T11:59:58Z","severity":"warning","type":"run_lost","message":"m","data":{{"job_id":"j"}}}}],"next_cursor":"{cursor}","more":{more}}}"#
        ))
    });
    let ran = fake.run(&["events"]).await;
    insta::assert_snapshot!(ran.out, @r"
    WHEN    SEVERITY  TYPE      JOB  MESSAGE
    2s ago  warning   run_lost  j    m
    2s ago  warning   run_lost  j    m
    ");
    assert_eq!(ran.err, "", "nothing more is there");
}

#[tokio::test]
async fn following_goes_on_where_a_broken_stream_ended() {
    let fake = Fake::start(|asked, before| match before {
        0 => Reply::Stream { pieces: vec!["retry: 10\n\n".into(), sse(1), sse(2)], stays: false },
        1 => Reply::Later(503, 0),
        _ => {
            assert_eq!(asked.header("last-event-id").as_deref(), Some("0-2"));
            Reply::Stream { pieces: vec![": heartbeat\n\n".into(), sse(3)], stays: true }
        }
    });
    let ran = fake.run(&["events", "--follow", "--limit", "3", "--severity", "info"]).await;
    assert_eq!(ran.exit, Exit::Success);
    insta::assert_snapshot!(ran.out, @r"
    11:59:58.000Z  info     job_queued            j1  Job queued attempt=1
    11:59:58.000Z  info     job_queued            j2  Job queued attempt=2
    11:59:58.000Z  info     job_queued            j3  Job queued attempt=3
    ");
    let asked = fake.asked();
    assert!(asked.iter().all(|asked| asked.line == "GET /events/stream?severity=info"));
    assert_eq!(asked[0].header("accept").as_deref(), Some("text/event-stream"));
    assert_eq!(asked[0].header("last-event-id"), None);
}

#[tokio::test]
async fn a_stream_that_breaks_before_its_first_event_is_taken_up_from_when_it_began() {
    let fake = Fake::start(|_, before| match before {
        0 => Reply::Stream { pieces: vec![": hello\n\n".into()], stays: false },
        _ => Reply::Stream { pieces: vec![sse(1)], stays: true },
    });
    fake.run(&["events", "--follow", "--limit", "1"]).await;
    let lines = fake.lines();
    assert_eq!(lines[0], "GET /events/stream");
    assert!(lines[1].starts_with("GET /events/stream?since=20"), "{}", lines[1]);
}

#[tokio::test]
async fn a_reset_is_told_and_the_old_position_is_forgotten() {
    let fake = Fake::start(|asked, before| match before {
        0 => Reply::Stream { pieces: vec![sse(1)], stays: false },
        1 => {
            assert_eq!(asked.header("last-event-id").as_deref(), Some("0-1"));
            Reply::Stream { pieces: vec!["event: reset\ndata: {}\n\n".into()], stays: false }
        }
        _ => {
            assert_eq!(asked.header("last-event-id"), None);
            Reply::Stream { pieces: vec!["event: cut\ndata: {}\n\n".into(), sse(9)], stays: true }
        }
    });
    let ran = fake.run(&["--json", "events", "--follow", "--limit", "2"]).await;
    assert!(ran.err.contains("reset: the server no longer has all events"), "{}", ran.err);
    let lines: Vec<serde_json::Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["event_id"], &lines[1]["event_id"]), (&"e1".into(), &"e9".into()), "{}", ran.out);
}

#[tokio::test]
async fn what_is_no_event_is_left_out() {
    let pieces = vec!["data: <html>\n\n".into(), "data: {\"type\":\n".into(), "data: \"a\u{9b}\"}\n\n".into()];
    let pieces = std::sync::Mutex::new(pieces);
    let fake =
        Fake::start(move |_, _| Reply::Stream { pieces: std::mem::take(&mut pieces.lock().unwrap()), stays: true });
    let ran = fake.run(&["--json", "events", "--follow", "--limit", "1"]).await;
    assert_eq!(ran.out, "{\"type\": \"a\\u009b\"}\n");
    assert_eq!(ran.err, "an event that is not JSON was left out\n");
}

#[tokio::test]
async fn a_refused_stream_is_a_refusal() {
    let fake = Fake::start(|_, _| refused(403, "FORBIDDEN", "events.read is needed"));
    let ran = fake.run(&["events", "--follow"]).await;
    assert_eq!(ran.exit, Exit::Refused);
    assert!(ran.err.contains("`bowline whoami` shows what this token may do"));
}
