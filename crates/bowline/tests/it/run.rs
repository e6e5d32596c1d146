//! Commands on hosts with the real program against a real server, up to the executor, which only pretends.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use bowline_testkit::{Child, until};
use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::simulation::Simulation;

const PATIENCE: Duration = Duration::from_secs(60);

fn command(server: &TestServer, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(["--server", &server.url("")]).args(args).env("BOWLINE_TOKEN", server.admin()).stdin(Stdio::null());
    command
}

/// Runs the program to its end, while the executor goes on.
async fn bowline(server: &TestServer, args: &[&str]) -> Output {
    let mut command = command(server, args);
    tokio::task::spawn_blocking(move || command.output().expect("the program runs")).await.expect("it ends")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn told(output: &Output) -> String {
    format!("{}{}", text(output), String::from_utf8_lossy(&output.stderr))
}

async fn fleet(server: &TestServer, count: usize) {
    let hosts: Vec<Value> = (1..=count)
        .map(|n| json!({"name": format!("web{n}"), "labels": {"role": "web"}, "connection": {"via": "simulate"}}))
        .collect();
    let body = json!({ "hosts": hosts });
    server.send("PUT", "/inventories/main", &server.admin(), Some(body)).await.expect(200);
}

async fn said(child: &Child, words: &str) {
    until(PATIENCE, words, async || if child.log().contains(words) { Ok(()) } else { Err(child.log()) }).await;
}

async fn newest_job(server: &TestServer) -> String {
    let jobs = server.get("/jobs?limit=1").await.expect(200);
    jobs["jobs"][0]["id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn a_command_runs_on_every_host_and_failed_ones_are_tried_again() {
    let server = TestServer::start().await;
    fleet(&server, 60).await;
    let _executor = Simulation::start(&server).await;
    let ran = bowline(&server, &["run", "flaky", "--on", "role=web", "--serial", "50%", "--no-output"]).await;
    assert_eq!(ran.status.code(), Some(1), "{}", told(&ran));
    let lines: Vec<String> = text(&ran).lines().map(str::to_owned).collect();
    assert!(lines[1].contains("failed") && lines[1].ends_with("permanent: it is flaky"), "{}", told(&ran));
    assert_eq!(lines[51], "… and 10 more succeeded", "{}", told(&ran));
    assert!(lines[52].starts_with("failed: 60 hosts: 40 ok, 20 failed, in "), "{}", lines[52]);
    let job = newest_job(&server).await;
    let failed = bowline(&server, &["job", "hosts", &job, "--status", "failed", "-o", "json"]).await;
    let failed: Value = serde_json::from_slice(&failed.stdout).expect("JSON");
    assert_eq!(failed["hosts"].as_array().map(Vec::len), Some(20));
    let again = bowline(&server, &["job", "retry", &job]).await;
    assert!(text(&again).ends_with("20 hosts are tried again\n"), "{}", told(&again));
    let watched = bowline(&server, &["job", "watch", &job]).await;
    assert_eq!(watched.status.code(), Some(0), "{}", told(&watched));
    let shown = text(&bowline(&server, &["job", "get", &job]).await);
    assert!(shown.contains("60 hosts: 60 ok") && shown.contains("50% at a time"), "{shown}");
}

#[tokio::test]
async fn with_json_a_run_is_one_document() {
    let server = TestServer::start().await;
    fleet(&server, 3).await;
    let _executor = Simulation::start(&server).await;
    let ran = bowline(&server, &["run", "--hosts", "web1,web3", "-o", "json", "--", "echo", "{{ \"}}"]).await;
    assert_eq!(ran.status.code(), Some(0), "{}", told(&ran));
    let document: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!((&document["job"]["status"], &document["command"]["hosts"]["total"]), (&json!("success"), &json!(2)));
    let hosts: Vec<_> = document["hosts"].as_array().expect("hosts").iter().map(|host| &host["host"]).collect();
    assert_eq!(hosts, ["web1", "web3"]);
}

#[tokio::test]
async fn what_cannot_run_is_refused_with_its_reason() {
    let server = TestServer::start().await;
    fleet(&server, 1).await;
    for (args, code, words) in [
        (["run", "uptime", "--on", "role=db"].as_slice(), 1, "matches no host"),
        (&["run", "uptime", "--on", "role=="], 1, "VALIDATION_ERROR"),
        (&["run", "uptime", "--hosts", "web9"], 1, "HOST_NOT_FOUND"),
        (&["run", "uptime", "--on", "all", "--inventory", "lab"], 1, "INVENTORY_NOT_FOUND"),
        (&["run", "ls | wc", "--on", "all"], 2, "--shell"),
        (&["run", "uptime", "--on", "all", "--canary", "0"], 2, "at least one host"),
        (&["run", "--on", "all"], 2, "COMMAND"),
        (&["run", "uptime"], 2, "--on"),
    ] {
        let ran = bowline(&server, args).await;
        assert_eq!((ran.status.code(), told(&ran).contains(words)), (Some(code), true), "{args:?}: {}", told(&ran));
    }
    assert_eq!(server.jobs().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_watch_outlasts_a_restart_of_the_server() {
    let mut server = TestServer::start().await;
    fleet(&server, 5).await;
    let executor = Simulation::start(&server).await;
    executor.hold(true);
    let watch = Child::spawn(command(&server, &["run", "uptime", "--on", "all"]), "bowline run");
    said(&watch, "5 running").await;
    server.kill_9();
    said(&watch, "trying again").await;
    server.start_again().await;
    executor.hold(false);
    let status = watch.wait_exit(PATIENCE).await;
    assert_eq!(status.code(), Some(0), "{}", watch.log());
    assert!(watch.stdout().contains("success: 5 hosts: 5 ok"), "{}", watch.log());
}

#[tokio::test]
async fn the_first_interrupt_cancels_and_the_watch_goes_on() {
    let server = TestServer::start().await;
    fleet(&server, 5).await;
    let executor = Simulation::start(&server).await;
    executor.hold(true);
    let watch = Child::spawn(command(&server, &["run", "uptime", "--on", "all"]), "bowline run");
    said(&watch, "5 running").await;
    watch.interrupt();
    let status = watch.wait_exit(PATIENCE).await;
    assert_eq!(status.code(), Some(3), "{}", watch.log());
    assert!(watch.stderr().contains("asking the server to cancel"), "{}", watch.log());
    assert!(watch.stdout().contains("canceled: 5 hosts: 5 canceled"), "{}", watch.log());
}

#[tokio::test]
async fn the_second_interrupt_leaves_and_says_how_to_come_back() {
    let server = TestServer::start().await;
    fleet(&server, 2).await;
    let executor = Simulation::start(&server).await;
    executor.hold(true);
    let watch = Child::spawn(command(&server, &["run", "stubborn", "--on", "all"]), "bowline run");
    said(&watch, "2 running").await;
    watch.interrupt();
    let job = newest_job(&server).await;
    server.until_status(&job, "canceling").await;
    watch.interrupt();
    let status = watch.wait_exit(PATIENCE).await;
    assert_eq!(status.code(), Some(130), "{}", watch.log());
    // The server has heard it; whether its answer was back before the second Ctrl-C is up to chance.
    let said = watch.stderr();
    assert!(said.contains(&format!("left; job {job} is ")) && said.contains("being canceled"), "{}", watch.log());
    assert!(said.contains(&format!("`bowline job watch {job}` shows how it ends")), "{}", watch.log());
    executor.hold(false);
    let watched = bowline(&server, &["job", "watch", &job]).await;
    assert_eq!(watched.status.code(), Some(0), "what finished all the same has succeeded: {}", told(&watched));
}

/// Looking at a command, a plain job or a workflow never stops it.
#[tokio::test]
async fn an_interrupt_in_a_watch_only_leaves() {
    let server = TestServer::start().await;
    fleet(&server, 2).await;
    let executor = Simulation::start(&server).await;
    executor.hold(true);
    assert_eq!(bowline(&server, &["run", "uptime", "--on", "all", "--no-wait"]).await.status.code(), Some(0));
    let rollout = newest_job(&server).await;
    server.until_status(&rollout, "running").await;
    let watch = Child::spawn(command(&server, &["job", "watch", &rollout]), "bowline job watch");
    said(&watch, "2 running").await;
    watch.interrupt();
    assert_eq!(watch.wait_exit(PATIENCE).await.code(), Some(130), "{}", watch.log());
    assert!(watch.stderr().contains(&format!("left; job {rollout} continues")), "{}", watch.log());
    server.until_status(&rollout, "running").await;
    let watch = Child::spawn(command(&server, &["job", "submit", "nobody.takes.this", "--wait"]), "bowline submit");
    said(&watch, "queued").await;
    let job = newest_job(&server).await;
    until(PATIENCE, "it is watched", async || match watch.stdout().matches("queued").count() {
        0 | 1 => Err(watch.log()),
        _ => Ok(()),
    })
    .await;
    watch.interrupt();
    assert_eq!(watch.wait_exit(PATIENCE).await.code(), Some(130), "{}", watch.log());
    assert!(watch.stderr().contains(&format!("come back with `bowline job watch {job}`")), "{}", watch.log());
    server.until_status(&job, "queued").await;
    // An execution of a workflow goes on, too.
    let workflow = json!({"nodes": [{"id": "start", "type": "start"}, {"id": "paid", "type": "wait_event",
        "config": {"event": "paid"}}, {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "paid"}, {"source": "paid", "target": "end"}]});
    let execution = server.submit(json!({"workflow": workflow})).await;
    server.until_status(&execution, "paused").await;
    let watch = Child::spawn(command(&server, &["job", "watch", &execution]), "bowline job watch");
    said(&watch, "paid").await;
    watch.interrupt();
    assert_eq!(watch.wait_exit(PATIENCE).await.code(), Some(130), "{}", watch.log());
    server.until_status(&execution, "paused").await;
    executor.hold(false);
}

/// What the hosts wrote is what one gets to see first.
#[tokio::test]
async fn what_a_command_wrote_is_shown_when_it_has_ended() {
    let server = TestServer::start().await;
    fleet(&server, 12).await;
    let _executor = Simulation::start(&server).await;
    let one = bowline(&server, &["run", "talk", "--hosts", "web1"]).await;
    assert_eq!(text(&one), "hello \u{1b}[2Jthere\n");
    let err = String::from_utf8_lossy(&one.stderr).into_owned();
    assert!(err.contains("goodbye\n") && err.contains("success: 1 host: 1 ok"), "{err}");
    assert!(err.contains("all output: `bowline job logs "), "{err}");
    let all = text(&bowline(&server, &["run", "talk", "--on", "all"]).await);
    assert!(all.starts_with("==> 12 hosts: web1, web10, web11, web12, web2 and 7 more <==\nhello "), "{all}");
}

#[tokio::test]
async fn an_approval_is_for_what_was_shown() {
    let server = TestServer::start().await;
    fleet(&server, 3).await;
    let _executor = Simulation::start(&server).await;
    let spec = json!({"spec": {"argv": ["reboot"], "approval": {"four_eyes": false}}});
    server.send("PUT", "/resources/command/reboot", &server.admin(), Some(spec)).await.expect(201);
    let run = Child::spawn(command(&server, &["run", "reboot", "--on", "all"]), "bowline run");
    said(&run, "waits for approval").await;
    let job = newest_job(&server).await;
    assert!(text(&bowline(&server, &["approvals", "list"]).await).contains(&job));
    let other = bowline(&server, &["approvals", "approve", &job, "--hash", &"0".repeat(64)]).await;
    assert_eq!(
        (other.status.code(), told(&other).contains("APPROVAL_SUPERSEDED")),
        (Some(1), true),
        "{}",
        told(&other)
    );
    let approved = bowline(&server, &["approvals", "approve", &job, "--reason", "change 7"]).await;
    assert_eq!(approved.status.code(), Some(0), "{}", told(&approved));
    assert!(
        text(&approved).contains("web1, web2, web3") && text(&approved).contains("approved"),
        "{}",
        text(&approved)
    );
    assert_eq!(run.wait_exit(PATIENCE).await.code(), Some(0), "{}", run.log());

    let run = Child::spawn(command(&server, &["run", "reboot", "--on", "all"]), "bowline run");
    said(&run, "waits for approval").await;
    let job = newest_job(&server).await;
    let rejected = bowline(&server, &["approvals", "reject", &job, "--reason", "not today"]).await;
    assert_eq!(rejected.status.code(), Some(0), "{}", told(&rejected));
    assert_eq!(run.wait_exit(PATIENCE).await.code(), Some(3), "{}", run.log());
    assert!(run.stdout().contains("not today"), "{}", run.log());
}

#[tokio::test]
async fn a_blocked_host_is_left_alone_until_the_block_is_lifted() {
    let server = TestServer::start().await;
    fleet(&server, 3).await;
    let executor = Simulation::start(&server).await;
    let args = ["blocks", "add", "--host", "web2", "--reason", "disk is being replaced", "--for", "2h"];
    let made = bowline(&server, &args).await;
    assert!(text(&made).starts_with("block 1: no command runs on web2 until "), "{}", told(&made));
    let ran = bowline(&server, &["run", "uptime", "--on", "all"]).await;
    assert_eq!(ran.status.code(), Some(1), "{}", told(&ran));
    assert!(text(&ran).contains("failed: 3 hosts: 2 ok, 1 blocked"), "{}", told(&ran));
    let job = newest_job(&server).await;
    assert!(text(&bowline(&server, &["blocks", "list"]).await).contains("disk is being replaced"));
    assert_eq!(text(&bowline(&server, &["blocks", "lift", "1"]).await), "block 1 is lifted\n");
    executor.hold(true);
    assert!(text(&bowline(&server, &["job", "retry", &job]).await).ends_with("1 host is tried again\n"));
    until(PATIENCE, "the host is taken", async || {
        let queue = text(&bowline(&server, &["hosts", "queue", "web2"]).await);
        if queue.contains("at the host") && queue.contains(&job) { Ok(()) } else { Err(queue) }
    })
    .await;
    executor.hold(false);
    assert_eq!(bowline(&server, &["job", "watch", &job]).await.status.code(), Some(0));
}

#[tokio::test]
async fn what_was_written_is_printed_host_by_host_and_while_it_comes() {
    let server = TestServer::start().await;
    fleet(&server, 2).await;
    let executor = Simulation::start(&server).await;
    executor.hold(true);
    assert_eq!(bowline(&server, &["run", "talk", "--on", "all", "--no-wait"]).await.status.code(), Some(0));
    let job = newest_job(&server).await;
    let following = Child::spawn(command(&server, &["job", "logs", &job, "-f", "--stream", "stdout"]), "bowline logs");
    executor.hold(false);
    assert_eq!(following.wait_exit(PATIENCE).await.code(), Some(0), "{}", following.log());
    let mut lines: Vec<String> = following.stdout().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["web1 | hello \u{1b}[2Jthere", "web2 | hello \u{1b}[2Jthere"]);
    let all = text(&bowline(&server, &["job", "logs", &job]).await);
    let of = |host: &str| format!("==> {host} <==\nhello \u{1b}[2Jthere\n\n==> {host} stderr <==\ngoodbye\n");
    assert_eq!(all, format!("{}\n{}", of("web1"), of("web2")));
    let one = bowline(&server, &["job", "logs", &job, "--host", "web2", "--stream", "stderr"]).await;
    assert_eq!(text(&one), "goodbye\n");
    // Somebody looks at this one, so what was written must not move the cursor; a serial line does not know its size.
    let seen =
        on_a_terminal_without_a_size(&command(&server, &["--no-color", "job", "logs", &job, "--host", "web2"])).await;
    assert!(text(&seen).contains("hello") && text(&seen).contains("goodbye"), "{}", told(&seen));
    assert!(!text(&seen).contains('\u{1b}'), "{:?}", text(&seen));
    let raw = command(&server, &["--no-color", "job", "logs", &job, "--host", "web2", "--raw"]);
    assert!(
        text(&on_a_terminal_without_a_size(&raw).await).contains("\u{1b}[2J"),
        "the control: it does reach a terminal"
    );
}

/// Runs it on a pseudo-terminal of 0 rows and 0 columns, and says what came out there.
async fn on_a_terminal_without_a_size(command: &Command) -> Output {
    const TERMINAL: &str = "
import fcntl, os, pty, struct, subprocess, sys, termios
ours, theirs = pty.openpty()
fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 0, 0, 0, 0))
child = subprocess.Popen(sys.argv[1:], stdin=theirs, stdout=theirs, stderr=theirs)
os.close(theirs)
try:
    while True:
        data = os.read(ours, 65536)
        if not data:
            break
        sys.stdout.buffer.write(data)
except OSError:
    pass
sys.exit(child.wait())
";
    let mut python = Command::new("python3");
    python.args(["-c", TERMINAL]).arg(command.get_program()).args(command.get_args());
    python.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    tokio::task::spawn_blocking(move || python.output().expect("python runs")).await.expect("it ends")
}

/// What a command wrote, and how it ended, can be asked for by the expressions of a workflow.
#[tokio::test]
async fn a_workflow_knows_what_its_command_wrote_on_each_host() {
    let server = TestServer::start().await;
    fleet(&server, 3).await;
    let _executor = Simulation::start(&server).await;
    let run = async |hosts: Value, output: Value| {
        let workflow = json!({
            "nodes": [
                {"id": "start", "type": "start"},
                {"id": "say", "type": "command", "config": {"command": {"argv": ["talk"]}, "hosts": hosts}},
                {"id": "end", "type": "end", "config": {"output": output}},
            ],
            "edges": [{"source": "start", "target": "say"}, {"source": "say", "target": "end"}],
        });
        let job = server.submit(json!({ "workflow": workflow })).await;
        server.until_status(&job, "success").await["job"]["result"].clone()
    };
    let one = run(
        json!(["web1"]),
        json!({"out": "{{ steps.say.output.stdout }}", "code": "{{ steps.say.output.exit_code }}"}),
    );
    assert_eq!(one.await, json!({"out": "hello \u{1b}[2Jthere\n", "code": null}), "who pretends has no process");
    let all = run(json!(["web1", "web3"]), json!("{{ steps.say.output }}")).await;
    assert_eq!((&all["total"], &all["begun"], &all["ended"]), (&json!(2), &json!(2), &json!({"succeeded": 2})));
    let host =
        json!({"status": "success", "exit_code": null, "stdout": "hello \u{1b}[2Jthere\n", "stderr": "goodbye\n"});
    assert_eq!(all["hosts"], json!({"web1": host, "web3": host}));
    assert!(all.get("stdout").is_none(), "there is no one host whose it would be");
}
