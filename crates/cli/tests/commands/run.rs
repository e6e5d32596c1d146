//! `run`, and what `job` says of commands on hosts.

use bowline_cli::Exit;
use serde_json::{Value, json};

use crate::fake::{Asked, Fake, Reply, ok, refused};
use crate::jobs::ID;

/// A job that is a command, with this many hosts where.
pub fn command(status: &str, counts: &[(&str, u64)], approval: Value) -> String {
    let total: u64 = counts.iter().map(|(_, hosts)| hosts).sum();
    let by_status: serde_json::Map<String, Value> =
        counts.iter().map(|(status, hosts)| ((*status).to_owned(), json!(hosts))).collect();
    let finished = ["success", "failed", "canceled"].contains(&status).then_some("2026-01-03T11:59:12.300Z");
    let error = (status == "failed").then(|| json!({"class": "permanent", "message": "of 1000 hosts 2 failed"}));
    json!({
        "job": {
            "id": ID, "number": 7, "type": "bowline.command", "status": status, "lane": "default", "priority": 0,
            "attempts": 0, "max_attempts": 1, "created_at": "2026-01-03T11:59:00Z", "finished_at": finished,
            "error": error,
            "payload": {"name": "restart", "version": 3, "params": {"unit": "nginx"}, "spec": {
                "argv": ["systemctl", "restart", "{{ params.unit }}"], "timeout_ms": 60_000, "idempotent": true}},
        },
        "runs": [],
        "command": {
            "command": "restart", "inventory": "main", "selector": "role=web", "lock": "exclusive",
            "rollout": {"canary": 2, "serial": "10%", "max_failures": 1}, "deadline_ms": 600_000,
            "hosts": {"total": total, "begun": total, "by_status": by_status}, "stopped": null, "approval": approval,
        },
    })
    .to_string()
}

pub fn unit(host: &str, status: &str) -> Value {
    let bad = status != "success";
    json!({
        "host": host, "host_id": 1, "status": status, "attempts": 1, "exit_code": if bad { 2 } else { 0 },
        "error": bad.then(|| json!({"class": "permanent", "message": "exit code 2"})), "result": null,
        "started_at": "2026-01-03T11:59:01Z", "finished_at": "2026-01-03T11:59:02.500Z", "waits_for_host": false,
    })
}

/// The page of hosts that was asked for: `web1` to `web<n>` in this status.
pub fn hosts(asked: &Asked, of: impl Fn(&str) -> u64) -> Reply {
    let query = |name: &str| {
        let query = asked.line.split_once('?').map_or("", |(_, query)| query);
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    let limit: u64 = query("limit").map_or(50, |limit| limit.parse().unwrap());
    let from: u64 = query("cursor").map_or(0, |cursor| cursor.parse().unwrap());
    let statuses = match query("status") {
        Some(status) => vec![status],
        None => ["failed", "success"].map(str::to_owned).to_vec(),
    };
    let all: Vec<Value> = statuses
        .iter()
        .flat_map(|status| (1..=of(status)).map(move |n| unit(&format!("{}{n}", &status[..1]), status)))
        .collect();
    let page: Vec<_> = all.iter().skip(from as usize).take(limit as usize).collect();
    let end = from + page.len() as u64;
    let next = (end < all.len() as u64).then(|| end.to_string());
    ok(json!({ "hosts": page, "next_cursor": next }).to_string())
}

/// What a host wrote: nothing, unless its name begins with `s` and it ran `echo`.
fn output(asked: &Asked) -> Reply {
    let query = |name: &str| {
        let query = asked.line.split_once('?').map_or("", |(_, query)| query);
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default().to_owned()
    };
    let host = query("host");
    let text = match (host.as_str(), query("stream").as_str(), query("offset").as_str()) {
        ("s1", "stdout", "0") => "hello from the first\n",
        ("s2", "stderr", "0") => "a warning\n",
        (host, "stdout", "0") if host.starts_with('s') => "hello\n",
        _ => "",
    };
    Reply::Bytes { bytes: text.into(), next_offset: None }
}

fn accepted() -> Reply {
    Reply::Text(202, format!(r#"{{"job_id":"{ID}","number":7,"status":"running","idempotency":{{"replayed":false}}}}"#))
}

fn selected(count: u64) -> Reply {
    let hosts: Vec<String> = (1..=count.min(20)).map(|n| format!("web{n}")).collect();
    ok(json!({"inventory": "main", "selector": "role=web", "count": count, "hosts": hosts}).to_string())
}

const RESTART: &str = r#"{"resource":{"name":"restart","version":3,"spec":{"argv":["systemctl"],
    "params":{"properties":{"unit":{"type":"string"},"n":{"type":"integer"}}}}}}"#;

/// A server with one command type and `total` hosts, on which every look at the job answers the next of these; the last
/// one stays.
fn server(total: u64, looks: Vec<Reply>, of: impl Fn(&str) -> u64 + Send + Sync + 'static) -> Fake {
    let looks = std::sync::Mutex::new(looks);
    let job = format!("GET /jobs/{ID}");
    Fake::start(move |asked, _| match asked.path() {
        "GET /resources/command/restart" => ok(RESTART),
        path if path.starts_with("GET /resources/") => refused(404, "RESOURCE_NOT_FOUND", "no such command"),
        "POST /inventories/main/select" => selected(total),
        "POST /jobs" => accepted(),
        path if *path == *job => {
            let mut looks = looks.lock().unwrap();
            if looks.len() > 1 {
                return looks.remove(0);
            }
            match &looks[0] {
                Reply::Text(status, text) => Reply::Text(*status, text.clone()),
                _ => panic!("the last look is a text"),
            }
        }
        path if path.ends_with("/hosts") => hosts(asked, &of),
        path if path.ends_with("/output") => output(asked),
        path if path.ends_with("/cancel") => ok(r#"{"status":"canceling","changed":true}"#),
        path => panic!("{path}"),
    })
}

fn good(total: u64) -> Fake {
    server(total, vec![ok(command("success", &[("success", total)], Value::Null))], move |status| {
        if status == "success" { total } else { 0 }
    })
}

fn submitted(fake: &Fake) -> Option<Value> {
    fake.asked().iter().find(|asked| asked.path() == "POST /jobs").map(Asked::json)
}

#[tokio::test]
async fn a_command_type_is_run_by_its_name_and_every_option_arrives() {
    let fake = good(3);
    let args = [
        "run",
        "restart",
        "--on",
        "role=web",
        "--param",
        "unit=3",
        "--param",
        "n=3",
        "--serial",
        "10%",
        "--canary",
        "2",
        "--max-failures",
        "5%",
        "--deadline",
        "10m",
        "--lane",
        "critical",
        "--external-id",
        "change-7",
        "--no-output",
    ];
    let ran = fake.run(&args).await;
    assert_eq!(ran.exit, Exit::Success);
    assert_eq!(
        submitted(&fake).unwrap(),
        json!({
            "command": "restart", "params": {"unit": "3", "n": 3}, "inventory": "main", "selector": "role=web",
            "rollout": {"canary": 2, "serial": "10%", "max_failures": "5%"}, "deadline_ms": 600_000,
            "lane": "critical", "external_id": "change-7",
        })
    );
    insta::assert_snapshot!(ran.err, @r"
    3 hosts: web1, web2, web3
    job 0198c0de-0000-7000-8000-000000000001 (#7) running
    all output: `bowline job logs 0198c0de-0000-7000-8000-000000000001`
    ");
    insta::assert_snapshot!(ran.out, @r"
    HOST  STATUS   EXIT  TRIES  TOOK  WHAT
    s1    success     0      1  1.5s
    s2    success     0      1  1.5s
    s3    success     0      1  1.5s
    success: 3 hosts: 3 ok, in 12.3s (job 0198c0de-0000-7000-8000-000000000001)
    ");
}

#[tokio::test]
async fn a_text_that_is_no_type_is_a_program_and_its_words() {
    let fake = good(1);
    let args =
        ["run", "echo 'a  b' c", "--on", "all", "--run-timeout", "5m", "--shared", "--idempotent", "--retries", "2"];
    assert_eq!(fake.run(&args).await.exit, Exit::Success);
    assert_eq!(
        submitted(&fake).unwrap()["command"],
        json!({"argv": ["echo", "a  b", "c"], "timeout_ms": 300_000, "lock": "shared", "idempotent": true,
               "retry": {"max_attempts": 3}})
    );
    let fake = good(1);
    let ran = fake.run(&["run", "uptime", "--hosts", "web1"]).await;
    assert!(ran.err.starts_with("\"uptime\" is not a command type; running it as a program\n"), "{}", ran.err);
    assert_eq!(
        submitted(&fake).unwrap(),
        json!({"command": {"argv": ["uptime"]}, "inventory": "main", "hosts": ["web1"]})
    );
}

#[tokio::test]
async fn words_after_two_dashes_are_taken_as_they_are() {
    let fake = good(1);
    let args = ["run", "--on", "all", "--", "docker", "ps", "--format", "{{.Names}}", "| $x *"];
    assert_eq!(fake.run(&args).await.exit, Exit::Success);
    let argv = json!(["docker", "ps", "--format", "{{ \"{{\" }}.Names}}", "| $x *"]);
    assert_eq!(submitted(&fake).unwrap()["command"], json!({ "argv": argv }));
    assert!(!fake.lines().iter().any(|line| line.contains("/resources/")), "nobody asks for a type");
}

#[tokio::test]
async fn what_only_a_shell_understands_needs_a_shell() {
    let fake = good(1);
    let ran = fake.run(&["run", "ps aux | wc -l", "--on", "all"]).await;
    assert_eq!(ran.exit, Exit::Usage);
    insta::assert_snapshot!(ran.err, @"error: no shell reads the command, so '|' would be an ordinary character in it: quote it ('|') if it is one, or add --shell to make all of it a script for /bin/sh");
    assert_eq!(submitted(&fake), None);
    assert_eq!(fake.run(&["run", "--shell", "ps aux | wc -l", "--on", "all"]).await.exit, Exit::Success);
    assert_eq!(submitted(&fake).unwrap()["command"], json!({"script": "ps aux | wc -l"}));
}

#[tokio::test]
async fn what_a_type_says_itself_cannot_be_said_again() {
    let fake = good(1);
    let ran = fake.run(&["run", "restart", "--on", "all", "--run-timeout", "1s"]).await;
    assert_eq!((ran.exit, ran.err.contains("--run-timeout is for commands that are not a type")), (Exit::Usage, true));
    let ran = fake.run(&["run", "restrat", "--on", "all", "--param", "unit=nginx"]).await;
    assert_eq!(
        (ran.exit, ran.err.contains("there is no command type \"restrat\"")),
        (Exit::Usage, true),
        "{}",
        ran.err
    );
    let ran = fake.run(&["run", "restart", "--on", "all", "--serial", "0"]).await;
    assert_eq!((ran.exit, ran.err.as_str().contains("serial must be at least one host")), (Exit::Usage, true));
    assert_eq!(submitted(&fake), None);
}

#[tokio::test]
async fn several_hosts_are_asked_about_and_one_is_not() {
    let ask = async |total, answer: Option<&str>, more: &[&str]| {
        let fake = good(total);
        let ran = fake.run_answering(&[&["run", "uptime -p", "--on", "role=web"], more].concat(), answer).await;
        (ran.exit, ran.err, submitted(&fake).is_some())
    };
    let (exit, err, sent) = ask(1_200, Some("n\n"), &[]).await;
    assert_eq!((exit, sent), (Exit::Refused, false));
    insta::assert_snapshot!(err, @r#"
    1,200 hosts: web1, web2, web3, web4, web5 and 1,195 more
    Run "uptime -p" on 1,200 hosts? [y/N] error: nothing was done
    "#);
    assert_eq!((ask(3, Some("y\n"), &[]).await.0, ask(3, Some("y\n"), &[]).await.2), (Exit::Success, true));
    assert!(!ask(3, Some("n\n"), &["--yes"]).await.1.contains("[y/N]"));
    assert!(!ask(1, Some("n\n"), &[]).await.1.contains("[y/N]"));
    assert!(ask(3, None, &[]).await.2, "where nobody can be asked, the command was the yes");
}

#[tokio::test]
async fn nothing_runs_where_nobody_is_meant() {
    let fake = good(0);
    let ran = fake.run(&["run", "uptime", "--on", "role=web"]).await;
    assert_eq!((ran.exit, submitted(&fake)), (Exit::Refused, None));
    insta::assert_snapshot!(ran.err, @r#"
    "uptime" is not a command type; running it as a program
    error: "role=web" matches no host of the inventory main
    hint: `bowline hosts list` shows which hosts there are, and their labels
    "#);
}

#[tokio::test]
async fn failures_are_told_as_they_happen_and_stand_first_at_the_end() {
    let looks = vec![
        ok(command("running", &[("running", 1_000)], Value::Null)),
        ok(command("running", &[("running", 900), ("success", 98), ("failed", 2)], Value::Null)),
        ok(command("failed", &[("success", 998), ("failed", 2)], Value::Null)),
    ];
    let fake = server(1_000, looks, |status| match status {
        "failed" => 2,
        "success" => 998,
        _ => 0,
    });
    let ran = fake.run(&["run", "restart", "--on", "role=web", "--yes", "--no-output"]).await;
    assert_eq!(ran.exit, Exit::Refused);
    insta::assert_snapshot!(ran.err, @"
    1,000 hosts: web1, web2, web3, web4, web5 and 995 more
    job 0198c0de-0000-7000-8000-000000000001 (#7) running
    0 of 1,000 hosts done: 1,000 running
    f1 failed, exit 2
    f2 failed, exit 2
    all output: `bowline job logs 0198c0de-0000-7000-8000-000000000001`; once more where it did not succeed: `bowline job retry 0198c0de-0000-7000-8000-000000000001`
    ");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 1 + 50 + 2, "{}", ran.out);
    assert_eq!(lines[1], "f1    failed      2      1  1.5s");
    assert_eq!(lines[3], "s1    success     0      1  1.5s");
    assert_eq!(lines[51], "… and 950 more succeeded");
    assert_eq!(lines[52], format!("failed: 1,000 hosts: 998 ok, 2 failed, in 12.3s (job {ID})"));
}

#[tokio::test]
async fn all_hosts_are_shown_to_those_who_want_them() {
    let ran = good(230).run(&["run", "restart", "--on", "role=web", "--all", "--no-output"]).await;
    assert_eq!(ran.out.lines().count(), 1 + 230 + 1);
}

#[tokio::test]
async fn with_json_it_is_one_document_with_every_host() {
    for json in [["-o", "json"].as_slice(), &["--json"]] {
        let fake = server(
            3,
            vec![
                ok(command("running", &[("running", 3)], Value::Null)),
                ok(command("failed", &[("success", 201), ("failed", 1)], Value::Null)),
            ],
            |status| if status == "failed" { 1 } else { 201 },
        );
        let ran = fake.run(&[&["run", "restart", "--on", "role=web"], json].concat()).await;
        assert_eq!((ran.exit, ran.err.as_str()), (Exit::Refused, ""));
        let document = ran.json();
        assert_eq!(document["job"]["status"], "failed");
        assert_eq!(document["command"]["hosts"]["total"], 202);
        assert_eq!(document["hosts"].as_array().unwrap().len(), 202);
    }
}

#[tokio::test]
async fn a_server_that_goes_away_for_a_while_is_waited_for() {
    let looks = vec![
        ok(command("running", &[("running", 1)], Value::Null)),
        Reply::Hangup,
        Reply::Later(503, 0),
        Reply::Hangup,
        ok(command("success", &[("success", 1)], Value::Null)),
    ];
    let ran = server(1, looks, |_| 1).run(&["run", "restart", "--on", "all"]).await;
    assert_eq!(ran.exit, Exit::Success, "{}", ran.err);
}

#[tokio::test]
async fn approval_is_waited_for_and_a_no_ends_it() {
    let approval = |state: &str, votes: Value| {
        json!({"state": state, "hash": "ab", "quorum": 2, "four_eyes": true, "requested_by": "token:x",
               "expires_at": "2026-01-04T12:00:00Z", "votes": votes})
    };
    let vote = json!([{"by": "token:y", "approved": false, "reason": "not today", "at": "2026-01-03T11:59:10Z"}]);
    let looks = vec![
        ok(command("awaiting_approval", &[("new", 3)], approval("required", json!([])))),
        ok(command("canceled", &[("new", 3)], approval("rejected", vote))),
    ];
    let ran = server(3, looks, |_| 0).run(&["run", "restart", "--on", "all"]).await;
    assert_eq!(ran.exit, Exit::Canceled);
    assert!(
        ran.err.contains("waits for approval (required: 0 of 2 approved, the requester cannot, expires in 1d)"),
        "{}",
        ran.err
    );
    insta::assert_snapshot!(ran.out, @r"
    canceled: 3 hosts: 3 not begun, in 12.3s (job 0198c0de-0000-7000-8000-000000000001)
    approval rejected by token:y: not today
    ");
}

#[tokio::test]
async fn detached_it_says_where_to_look() {
    let fake = good(2);
    let ran = fake.run(&["run", "restart", "--on", "all", "--detach"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, &*format!("job {ID} (#7) running\n")));
    assert!(ran.err.ends_with(&format!("follow it with `bowline job watch {ID}`\n")));
    assert!(!fake.lines().contains(&format!("GET /jobs/{ID}")));
}

#[tokio::test]
async fn a_lost_answer_does_not_run_it_twice() {
    let fake = Fake::start(|asked, before| match asked.path() {
        "POST /jobs" if before == 0 => Reply::Hangup,
        "POST /jobs" => accepted(),
        "POST /inventories/main/select" => selected(1),
        _ => panic!("{}", asked.line),
    });
    let ran = fake.run(&["run", "--on", "all", "--detach", "--", "reboot"]).await;
    assert_eq!(ran.exit, Exit::Success);
    let keys: Vec<_> = fake.asked().iter().filter_map(|asked| asked.header("idempotency-key")).collect();
    assert_eq!((keys.len(), keys[0] == keys[1]), (2, true));
}

#[tokio::test]
async fn a_command_is_watched_like_one_that_was_run() {
    let ran = good(2).run(&["job", "watch", ID]).await;
    assert_eq!(ran.exit, Exit::Success);
    assert!(ran.out.ends_with(&format!("success: 2 hosts: 2 ok, in 12.3s (job {ID})\n")), "{}", ran.out);
}

#[tokio::test]
async fn get_shows_what_runs_where_and_how_far_it_is() {
    let counts = [("success", 11), ("failed", 1), ("running", 2), ("new", 23)];
    let fake = server(37, vec![ok(command("running", &counts, Value::Null))], |_| 0);
    let ran = fake.run(&["job", "get", ID]).await;
    insta::assert_snapshot!(ran.out, @r#"
    job #7 bowline.command  running
    id          0198c0de-0000-7000-8000-000000000001
    command     restart, version 3
    runs        systemctl restart '{{ params.unit }}'
    params      {"unit": "nginx"}
    timeout     1m 0s on each host
    idempotent  yes: tried again if nobody knows how it ended
    where       inventory main, role=web
    hosts       37 hosts: 11 ok, 1 failed, 2 running, 23 to come
    rollout     2 hosts first, then 10% at a time, stops when more than 1 host failed
    lock        exclusive
    deadline    10m 0s
    lane        default
    created     1m ago
    "#);
}

#[tokio::test]
async fn the_hosts_of_a_command_are_listed_worst_first_or_by_status() {
    let counts = [("success", 60), ("failed", 2)];
    let of = |status: &str| if status == "failed" { 2 } else { 60 };
    let fake = server(62, vec![ok(command("failed", &counts, Value::Null))], of);
    let ran = fake.run(&["job", "hosts", ID]).await;
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!((lines.len(), lines[1].starts_with("f1 "), lines[51]), (52, true, "… and 12 more succeeded"));
    assert_eq!(ran.err, "62 hosts: 60 ok, 2 failed\n");
    let ran = fake.run(&["job", "hosts", ID, "--status", "success"]).await;
    assert_eq!((ran.out.lines().count(), ran.err.as_str()), (51, "these are the first 50; --all shows every host\n"));
    let ran = fake.run(&["job", "hosts", ID, "--all", "-o", "json"]).await;
    assert_eq!(ran.json()["hosts"].as_array().unwrap().len(), 62);
}

#[tokio::test]
async fn a_job_that_is_no_command_has_no_hosts() {
    let fake = Fake::start(|_, _| ok(json!({"job": {"id": ID, "status": "success"}, "runs": []}).to_string()));
    let ran = fake.run(&["job", "hosts", ID]).await;
    assert_eq!((ran.exit, ran.err.contains("it runs on no hosts")), (Exit::Usage, true));
}

#[tokio::test]
async fn a_retry_says_how_many_hosts_are_tried_again() {
    let fake = Fake::start(|asked, _| match asked.path() {
        path if path.ends_with("/retry") => ok(r#"{"status":"running","changed":true}"#),
        _ => ok(command("failed", &[("success", 35), ("failed", 1), ("blocked", 1)], Value::Null)),
    });
    let ran = fake.run(&["job", "retry", ID]).await;
    assert_eq!(ran.out, format!("job {ID} is running\n2 hosts are tried again\n"));
}

#[tokio::test]
async fn one_host_writes_to_standard_output_and_standard_error_as_the_command_did() {
    let ran = good(1).run(&["run", "restart", "--on", "all"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, "hello from the first\n"));
    assert!(ran.err.contains(&format!("success: 1 host: 1 ok, in 12.3s (job {ID})\n")), "{}", ran.err);
    assert!(ran.err.ends_with(&format!("all output: `bowline job logs {ID}`\n")), "{}", ran.err);
}

#[tokio::test]
async fn a_few_hosts_stand_under_headings() {
    let ran = good(3).run(&["run", "restart", "--on", "all"]).await;
    insta::assert_snapshot!(ran.out, @r"
    ==> s1 <==
    hello from the first

    ==> s2 <==
    hello

    ==> s2 stderr <==
    a warning

    ==> s3 <==
    hello

    success: 3 hosts: 3 ok, in 12.3s (job 0198c0de-0000-7000-8000-000000000001)
    ");
}

#[tokio::test]
async fn many_hosts_are_grouped_by_what_they_wrote() {
    let of = |status: &str| if status == "failed" { 2 } else { 30 };
    let looks = vec![ok(command("failed", &[("success", 30), ("failed", 2)], Value::Null))];
    let ran = server(32, looks, of).run(&["run", "restart", "--on", "all"]).await;
    assert_eq!(ran.exit, Exit::Refused);
    insta::assert_snapshot!(ran.out, @r"
    ==> 28 hosts: s3, s4, s5, s6, s7 and 23 more <==
    hello

    ==> 2 hosts: f1, f2 <==
    (no output)

    ==> s1 <==
    hello from the first

    ==> s2 <==
    hello

    ==> s2 stderr <==
    a warning

    HOST  STATUS  EXIT  TRIES  TOOK  WHAT
    f1    failed     2      1  1.5s
    f2    failed     2      1  1.5s
    failed: 32 hosts: 30 ok, 2 failed, in 12.3s (job 0198c0de-0000-7000-8000-000000000001)
    permanent: of 1000 hosts 2 failed
    ");
}

#[tokio::test]
async fn output_can_be_left_out_and_one_that_cannot_be_read_changes_nothing() {
    let fake = good(3);
    let ran = fake.run(&["run", "restart", "--on", "all", "--no-output"]).await;
    assert!(ran.out.starts_with("HOST  STATUS"), "{}", ran.out);
    assert!(!fake.lines().iter().any(|line| line.contains("/output")), "nothing is asked for");
    assert!(ran.err.ends_with(&format!("all output: `bowline job logs {ID}`\n")), "{}", ran.err);
    let job = format!("GET /jobs/{ID}");
    let fake = Fake::start(move |asked, _| match asked.path() {
        "GET /resources/command/restart" => ok(RESTART),
        "POST /inventories/main/select" => selected(2),
        "POST /jobs" => accepted(),
        path if *path == *job => ok(command("success", &[("success", 2)], Value::Null)),
        path if path.ends_with("/hosts") => hosts(asked, |status| if status == "success" { 2 } else { 0 }),
        path if path.ends_with("/output") => refused(403, "FORBIDDEN", "the scope output.read is missing"),
        path => panic!("{path}"),
    });
    let ran = fake.run(&["run", "restart", "--on", "all"]).await;
    assert_eq!(ran.exit, Exit::Success);
    assert!(ran.err.contains("cannot show the output: the scope output.read is missing"), "{}", ran.err);
}

#[tokio::test]
async fn waiting_ends_with_its_timeout_and_the_job_continues() {
    let looks = vec![ok(command("running", &[("running", 3)], Value::Null))];
    let fake = server(3, looks, |_| 0);
    let ran = fake.run(&["run", "restart", "--on", "all", "--timeout", "300ms"]).await;
    assert_eq!(ran.exit.code(), 124);
    assert!(ran.err.contains(&format!("not ended in time; job {ID} continues")), "{}", ran.err);
    assert!(!fake.lines().iter().any(|line| line.contains("/cancel")), "nothing is canceled");
}

/// Both names of the same thing, and the last one counts.
#[tokio::test]
async fn waiting_has_one_convention() {
    for args in [&["--no-wait"][..], &["--detach"], &["--wait", "--no-wait"]] {
        let fake = good(2);
        let ran = fake.run(&[&["run", "restart", "--on", "all"], args].concat()).await;
        assert_eq!((ran.exit, ran.out.as_str()), (Exit::Success, &*format!("job {ID} (#7) running\n")), "{args:?}");
    }
    let ran = good(1).run(&["run", "restart", "--on", "all", "--no-wait", "--wait"]).await;
    assert_eq!(ran.out, "hello from the first\n");
}
