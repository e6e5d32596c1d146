//! F17, F18: wall clocks that are wrong, and wall clocks that are turned while commands run.
//!
//! The evidence that a clock really was wrong is a time that the process itself wrote: in its log, in the ledger, or in
//! the records of its runs.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bowline_model::Timestamp;
use bowline_testkit::{Child, WrongClock, fresh_database, until};
use serde_json::{Value, json};

use super::judge::{
    TRANSACTION_MS, executed, is_ahead, moment, nobody_lost, printed, time_went_on, timed_out_in_time, told_times,
};
use super::scene::{AgentSetup, Fleet, ask, calm_ticks, history, output, runs_on};
use crate::support::{SHORT_LEASES, Setup, TestServer};

const TWO_HOURS: i64 = 2 * 60 * 60;
const ONE_DAY: i64 = 24 * 60 * 60;

#[expect(clippy::disallowed_methods, reason = "the real time, which what is tested does not have")]
fn really_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    Timestamp::from_micros(i64::try_from(since.as_micros()).expect("a time"))
}

/// What a process wrote last in its log about the time.
fn logged_at(process: &Child) -> Result<Timestamp, String> {
    let log = process.stderr();
    let line = log.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    moment(&line.ok_or("it has logged nothing")?["timestamp"])
}

/// Waits until a process shows that its clock is wrong by so much.
async fn until_wrong(process: &Child, seconds: i64) {
    until(Duration::from_secs(20), "the clock is wrong", async || is_ahead(logged_at(process)?, really_now(), seconds))
        .await;
}

/// The same for a server, which is given something to say: somebody who hangs up in the middle of a word.
async fn until_server_wrong(server: &TestServer, seconds: i64) {
    until(Duration::from_secs(20), "the clock is wrong", async || {
        let mut caller = TcpStream::connect(("127.0.0.1", server.port)).map_err(|error| error.to_string())?;
        caller.write_all(b"GET /hea").map_err(|error| error.to_string())?;
        drop(caller);
        is_ahead(logged_at(server.child())?, really_now(), seconds)
    })
    .await;
}

/// A server with this clock, which says much.
async fn server(clock: &WrongClock, database_url: Option<String>) -> TestServer {
    let mut env = clock.env();
    env.push(("LOG_LEVEL".to_owned(), "debug".to_owned()));
    TestServer::with(Setup { database_url, config: SHORT_LEASES.to_owned(), env, ..Setup::default() }).await
}

/// A command that only its time limit ends. It shares its host.
fn endless(limit_ms: i64) -> Value {
    json!({"command": {"script": "exec sleep 1000", "timeout_ms": limit_ms, "lock": "shared"}, "hosts": ["web1"]})
}

/// F17: the clock of the server is turned by two hours, forwards and then backwards, while commands run.
#[tokio::test]
async fn a_server_whose_clock_is_turned_expires_nothing_and_fires_nothing() {
    let clock = WrongClock::start(0);
    let mut server = server(&clock, None).await;
    let began = Instant::now();
    let fleet = Fleet::join(&server, &server.url("")).await;
    let simulated = json!({"connection": {"via": "simulate"}});
    server.send("PUT", "/hosts/blocked", &server.admin(), Some(simulated)).await.expect(201);
    let hour_from_now = really_now().plus_millis(60 * 60 * 1_000).to_string();
    // What would be over if two hours had passed:
    let later = server.submit(json!({"type": "noop", "run_at": hour_from_now})).await;
    let block = json!({"host": "blocked", "reason": "being repaired", "expires_at": hour_from_now});
    server.post("/blocks", block).await.expect(201);
    let approved = json!({"argv": ["true"], "approval": {"expires_ms": 60 * 60 * 1_000}});
    let held = ask(&server, json!({"command": approved, "hosts": ["web1"]})).await;
    server.until_status(&held, "awaiting_approval").await;
    // What must end when its time has come, and not before:
    let mut wish = fleet.calm_command(12, 0);
    wish.as_object_mut().expect("an object").remove("selector");
    wish["hosts"] = json!(["web1"]);
    let command = ask(&server, wish).await;
    let limited = ask(&server, endless(7_000)).await;
    fleet.begun(1).await;
    let due_at = really_now().plus_millis(6_000);
    let soon = server.submit(json!({"type": "noop", "run_at": due_at.to_string()})).await;

    clock.turn(TWO_HOURS);
    until_server_wrong(&server, TWO_HOURS).await;
    let status = async |job: &str| server.get(&format!("/jobs/{job}")).await.expect(200)["job"]["status"].clone();
    assert_eq!((status(&later).await, status(&held).await), (json!("pending"), json!("awaiting_approval")));
    assert_eq!((status(&command).await, status(&limited).await), (json!("running"), json!("running")));
    let forbidden = ask(&server, json!({"command": {"argv": ["true"]}, "hosts": ["blocked"]})).await;
    let player = server.agent("player", json!({"bowline/reach": "simulate"})).await;
    assert!(player.nothing_comes().await, "the block is in force");
    let shown = server.until_status(&forbidden, "failed").await;
    assert_eq!(shown["command"]["hosts"]["by_status"], json!({"blocked": 1}));
    drop(player);

    clock.turn(-TWO_HOURS);
    until_server_wrong(&server, -TWO_HOURS).await;
    server.until_status(&soon, "success").await;
    is_due(&server.get(&format!("/jobs/{soon}")).await.expect(200)["runs"][0], due_at).expect("it ran when it was due");
    server.until_status(&command, "success").await;
    server.until_status(&limited, "failed").await;
    timed_out_in_time(&runs_on(&server, &limited, "web1").await[0], 7_000).expect("the time limit was kept");
    executed(&fleet.account(), 1, 1).expect("the command ran once");
    printed(&output(&server, &command).await, &calm_ticks(12)).expect("and whole");
    assert_eq!((status(&later).await, status(&held).await), (json!("pending"), json!("awaiting_approval")));
    let told = history(&server).await;
    nobody_lost(&told).expect("nobody was called lost");
    time_went_on(&told, millis(began.elapsed()) + 30_000, 0).expect("the ledger's time went on");
    assert!(server.stop().await.success());
    server.assert_verified();
}

/// A run that began when its job was due: not before, and not much later.
fn is_due(run: &Value, due_at: Timestamp) -> Result<(), String> {
    let began = moment(&run["claimed_at"])?;
    // The server's clock may be slewed by a thousandth of the seconds that passed.
    let early = due_at.plus_millis(-100) > began;
    if early || began > due_at.plus_millis(5_000) { Err(format!("due at {due_at}: {run}")) } else { Ok(()) }
}

/// F17: a server that is started with a wrong clock has wrong times, and is right in everything else.
#[tokio::test]
async fn a_server_with_a_wrong_clock_is_wrong_about_nothing_else() {
    for wrong in [TWO_HOURS, -TWO_HOURS] {
        let clock = WrongClock::start(wrong);
        let mut server = server(&clock, None).await;
        let began = Instant::now();
        let fleet = Fleet::join(&server, &server.url("")).await;
        let command = ask(&server, fleet.calm_command(4, 0)).await;
        let limited = ask(&server, endless(2_000)).await;
        server.until_status(&command, "success").await;
        server.until_status(&limited, "failed").await;
        timed_out_in_time(&runs_on(&server, &limited, "web1").await[0], 2_000).expect("the time limit was kept");
        executed(&fleet.account(), 1, 1).expect("the command ran once");
        printed(&output(&server, &command).await, &calm_ticks(4)).expect("and whole");
        let told = history(&server).await;
        nobody_lost(&told).expect("nobody was called lost");
        time_went_on(&told, millis(began.elapsed()) + 30_000, 0).expect("the ledger's time went on");
        // Both times are kept: the ledger's, which is wrong, and that of the host, which is right.
        let times = told_times(&told);
        assert!(!times.is_empty());
        for (host, ledger) in times {
            is_ahead(host, really_now(), 0).expect("the host's time");
            is_ahead(ledger, really_now(), wrong).expect("the ledger's time");
        }
        assert!(server.stop().await.success());
        server.assert_verified();
    }
}

/// F17, on PostgreSQL: there the clock of the database counts, and not that of a server. Two transactions may write at once
/// there, so what is behind another event in the stream may have happened a moment before it.
#[tokio::test]
async fn the_clock_of_a_server_does_not_count_where_the_database_has_one() {
    let (database, clock) = (fresh_database(), WrongClock::start(TWO_HOURS));
    let server = server(&clock, Some(database.url().to_owned())).await;
    let began = Instant::now();
    let fleet = Fleet::join(&server, &server.url("")).await;
    let command = ask(&server, fleet.calm_command(8, 0)).await;
    let limited = ask(&server, endless(6_000)).await;
    fleet.begun(1).await;
    until_server_wrong(&server, TWO_HOURS).await;
    clock.turn(-TWO_HOURS);
    until_server_wrong(&server, -TWO_HOURS).await;
    server.until_status(&command, "success").await;
    server.until_status(&limited, "failed").await;
    timed_out_in_time(&runs_on(&server, &limited, "web1").await[0], 6_000).expect("the time limit was kept");
    executed(&fleet.account(), 1, 1).expect("the command ran once");
    printed(&output(&server, &command).await, &calm_ticks(8)).expect("and whole");
    let told = history(&server).await;
    nobody_lost(&told).expect("nobody was called lost");
    time_went_on(&told, millis(began.elapsed()) + 30_000, TRANSACTION_MS).expect("the ledger's time went on");
    for event in &told {
        is_ahead(moment(&event["ts"]).expect("a time"), really_now(), 0).expect("the ledger's time is right");
    }
}

/// F18: the clock of a host, for its agent and its keepers, is a day ahead, and is turned to a day behind while commands run.
#[tokio::test]
async fn a_host_whose_clock_is_wrong_by_a_day_is_wrong_about_nothing_else() {
    let clock = WrongClock::start(ONE_DAY);
    let server = TestServer::with(Setup { config: SHORT_LEASES.to_owned(), ..Setup::default() }).await;
    server.send("PUT", "/hosts/web1", &server.admin(), Some(json!({}))).await.expect(201);
    let room = tempfile::tempdir().expect("a directory");
    let program = room.path().join("bowline");
    let built = Path::new(env!("CARGO_BIN_EXE_bowline"));
    // A name of its own for the program is enough where both are on one disk.
    std::fs::hard_link(built, &program).or_else(|_| std::fs::copy(built, &program).map(drop)).expect("a program");
    let mut env = clock.env();
    env.push(("LOG_LEVEL".to_owned(), "debug".to_owned()));
    let setup = AgentSetup { env, program: Some(program.clone()), ..AgentSetup::default() };
    let fleet = Fleet::join_as(&server, &server.url(""), setup).await;
    give_to_keepers(&clock, &program);
    let command = ask(&server, fleet.calm_command(10, 0)).await;
    let limited = ask(&server, endless(6_000)).await;
    fleet.begun(1).await;
    until_wrong(fleet.agent(), ONE_DAY).await;
    until_told(&server, ONE_DAY).await;
    clock.turn(-ONE_DAY);
    until_wrong(fleet.agent(), -ONE_DAY).await;
    until_told(&server, -ONE_DAY).await;
    server.until_status(&command, "success").await;
    server.until_status(&limited, "failed").await;
    timed_out_in_time(&runs_on(&server, &limited, "web1").await[0], 6_000).expect("the time limit was kept");
    executed(&fleet.account(), 1, 1).expect("the command ran once");
    printed(&output(&server, &command).await, &calm_ticks(10)).expect("and whole");
    let told = history(&server).await;
    nobody_lost(&told).expect("nobody was called lost");
    for event in &told {
        is_ahead(moment(&event["ts"]).expect("a time"), really_now(), 0).expect("the ledger's time is right");
    }
    // What happened first is first, though its time is two days later.
    let run = &runs_on(&server, &command, "web1").await[0]["id"];
    let of_run = told.iter().filter(|event| event["data"]["run_id"] == *run && event["data"]["seq"].is_u64());
    let order: Vec<u64> = of_run.filter_map(|event| event["data"]["seq"].as_u64()).collect();
    assert!(order.len() > 5 && order.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{order:?}");
}

/// Waits until the ledger holds a record of an executor whose clock is wrong by so much, beside its own time.
async fn until_told(server: &TestServer, seconds: i64) {
    until(Duration::from_secs(20), "a wrong time is told", async || {
        let times = told_times(&history(server).await);
        let last = times.last().copied().ok_or("nothing was told")?;
        is_ahead(last.0, last.1, seconds)
    })
    .await;
}

/// Keepers get no environment from their agent. So that they have the clock of their host, the program that the agent
/// starts as one becomes a script that starts the real one with this clock.
fn give_to_keepers(clock: &WrongClock, program: &Path) {
    let real: PathBuf = program.with_extension("real");
    std::fs::rename(program, &real).expect("a program");
    let env: Vec<String> = clock.env().iter().map(|(name, value)| format!("{name}='{value}'")).collect();
    let script = format!("#!/bin/sh\nexec env {} '{}' \"$@\"\n", env.join(" "), real.display());
    std::fs::write(program, script).expect("a script");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).expect("a program");
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("not that long")
}

const FOUR_HUNDRED_DAYS: i64 = 400 * ONE_DAY;

/// What a start with a wrong clock could end: an approval, a command that runs, a job that is over, a schedule.
struct AtStake {
    undecided: String,
    running: String,
    finished: String,
}

impl AtStake {
    async fn prepare(server: &TestServer) -> Self {
        let approved = json!({"argv": ["true"], "approval": {"expires_ms": 60 * 60 * 1_000}});
        let undecided = ask(server, json!({"command": approved, "hosts": ["web1"]})).await;
        let running = ask(server, endless(60 * 60 * 1_000)).await;
        server.until_status(&undecided, "awaiting_approval").await;
        server.until_status(&running, "running").await;
        let finished = server.submit(json!({"type": "noop"})).await;
        server.until_status(&finished, "success").await;
        let schedule = json!({"spec": {"every_ms": 30 * 60 * 1_000, "start": {"type": "noop"}}});
        server.send("PUT", "/resources/schedule/ticks", &server.admin(), Some(schedule)).await.expect(201);
        Self { undecided, running, finished }
    }

    async fn statuses(&self, server: &TestServer) -> [Value; 3] {
        let status = async |job: &str| server.get(&format!("/jobs/{job}")).await.body["job"]["status"].clone();
        [status(&self.undecided).await, status(&self.running).await, status(&self.finished).await]
    }
}

/// A start with a clock that is 400 days ahead ends nothing, says so everywhere, and leaves nothing waiting for that future.
/// The control is the same start by a server that is told to tolerate it.
#[tokio::test]
async fn a_start_with_a_wrong_clock_does_nothing_that_cannot_be_undone() {
    for tolerated in [false, true] {
        let clock = WrongClock::start(0);
        let mut env = clock.env();
        env.push(("LOG_LEVEL".to_owned(), "debug".to_owned()));
        let tolerance = if tolerated { "[clock]\ngap_max = \"1000d\"\n" } else { "" };
        let config = format!("{SHORT_LEASES}{tolerance}");
        let mut server = TestServer::with(Setup { config, env, ..Setup::default() }).await;
        let fleet = Fleet::join(&server, &server.url("")).await;
        let stake = AtStake::prepare(&server).await;
        let untouched = [json!("awaiting_approval"), json!("running"), json!("success")];
        server.stop().await;

        clock.turn(FOUR_HUNDRED_DAYS);
        server.start_again().await;
        until_server_wrong(&server, FOUR_HUNDRED_DAYS).await;
        if tolerated {
            server.until_status(&stake.undecided, "canceled").await;
            assert_ne!(stake.statuses(&server).await, untouched, "the control: nothing holds the clock");
            continue;
        }
        let health = server.get("/health").await.expect(200);
        assert_eq!((&health["status"], &health["clock"]), (&json!("degraded"), &json!("held")), "{health}");
        assert!(health["reason"].as_str().is_some_and(|why| why.contains("bowline clock accept")), "{health}");
        until(Duration::from_secs(20), "the alarm is raised", async || {
            let metrics = server.get("/metrics").await.body;
            let events = server.get("/events?type=clock_held").await.body;
            let raised = metrics.as_str().is_some_and(|text| text.contains("orchestrator_clock_held 1"));
            let told = events["events"].as_array().is_some_and(|events| events.len() == 1);
            let logged = server.child().stderr().contains("the clock is far from the ledger's last known time");
            if raised && told && logged { Ok(()) } else { Err(format!("{raised} {events} {logged}")) }
        })
        .await;
        // Work is taken and done, by agents whose credentials would have ended long ago.
        let command = ask(&server, fleet.calm_command(2, 0)).await;
        server.until_status(&command, "success").await;
        let retry = json!({"type": "fail", "policy": {"retry": {"max_attempts": 5, "base_ms": 86_400_000,
            "max_backoff_ms": 86_400_000, "jitter": "none"}}});
        let failing = server.submit(retry).await;
        let failing = server.until_status(&failing, "pending").await;
        is_ahead(moment(&failing["job"]["run_at"]).expect("a time"), really_now(), ONE_DAY).expect("a day from now");
        assert_eq!(stake.statuses(&server).await, untouched);

        server.stop().await;
        clock.turn(0);
        server.start_again().await;
        until_server_wrong(&server, 0).await;
        let health = server.get("/health").await.expect(200);
        assert_eq!(health["status"], "ok", "{health}");
        assert_eq!(stake.statuses(&server).await, untouched);
        let schedule = server.get("/schedules/ticks").await.expect(200);
        let next = moment(&schedule["next_at"]).expect("a time");
        assert!(next < really_now().plus_millis(31 * 60 * 1_000), "nothing waits for the wrong future: {schedule}");
        let again = ask(&server, fleet.calm_command(2, 0)).await;
        server.until_status(&again, "success").await;
        server.post(&format!("/jobs/{}/cancel", stake.running), json!({})).await.expect(200);
        server.until_status(&stake.running, "canceled").await;
        assert!(server.stop().await.success());
        server.assert_verified();
    }
}

/// A subcommand of the program as the administrator: whether it succeeded, and what it printed.
async fn bowline(server: &TestServer, mut command: Command) -> (bool, String) {
    command.env("BOWLINE_URL", server.url("")).env("BOWLINE_TOKEN", server.admin()).stdin(Stdio::null());
    let run = move || command.output().expect("the program runs");
    let output = tokio::task::spawn_blocking(run).await.expect("the program ends");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

async fn clock_command(server: &TestServer, args: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.arg("clock").args(args);
    bowline(server, command).await
}

/// What `bowline doctor` finds about the clock.
async fn doctor_on_clock(server: &TestServer) -> (bool, String) {
    let (healthy, text) = bowline(server, server.command("doctor")).await;
    let line = text.lines().find(|line| line.split_whitespace().nth(1) == Some("clock"));
    (healthy, line.unwrap_or_else(|| panic!("no finding about the clock: {text}")).to_owned())
}

/// A held ledger has one way out while the clock stays where it is: a person accepts the clock, and what waited is decided.
#[tokio::test]
async fn an_accepted_clock_decides_what_waited_for_it() {
    let clock = WrongClock::start(0);
    let mut server = server(&clock, None).await;
    let _fleet = Fleet::join(&server, &server.url("")).await;
    let stake = AtStake::prepare(&server).await;
    server.stop().await;
    clock.turn(FOUR_HUNDRED_DAYS);
    server.start_again().await;
    until_server_wrong(&server, FOUR_HUNDRED_DAYS).await;

    let (healthy, finding) = doctor_on_clock(&server).await;
    assert!(!healthy && finding.starts_with("BAD ") && finding.contains("bowline clock accept"), "{finding}");
    let shown = server.get("/clock").await.expect(200);
    assert_eq!(shown["held"], true, "{shown}");
    assert!(shown["held_since"].is_string(), "{shown}");
    is_ahead(moment(&shown["now"]).expect("a time"), really_now(), 0).expect("the ledger's time");
    is_ahead(moment(&shown["clock"]).expect("a time"), really_now(), FOUR_HUNDRED_DAYS).expect("the clock");
    let (shows, text) = clock_command(&server, &["show"]).await;
    assert!(shows && text.contains("held") && text.contains("bowline clock accept"), "{text}");
    let viewer = server.token(json!({"kind": "api", "name": "viewer", "scopes": ["control.read"]})).await;
    let refused = server.send("POST", "/clock/accept", &viewer, Some(json!({"reason": "x"}))).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert_eq!(stake.statuses(&server).await[0], "awaiting_approval");

    let (accepts, text) = clock_command(&server, &["accept", "--reason", "the server was off for a year"]).await;
    assert!(accepts && text.contains("accepted"), "{text}");
    server.until_status(&stake.undecided, "canceled").await;
    let approval = server.get(&format!("/jobs/{}", stake.undecided)).await.expect(200)["command"]["approval"].clone();
    assert_eq!(approval["state"], "expired", "{approval}");
    assert_eq!(stake.statuses(&server).await[2], "success", "what has ended stays as it ended");
    until(Duration::from_secs(20), "the clock is believed", async || {
        let health = server.get("/health").await.expect(200);
        if health["status"] == "ok" { Ok(()) } else { Err(health) }
    })
    .await;
    let shown = server.get("/clock").await.expect(200);
    assert_eq!((&shown["held"], &shown["held_since"]), (&json!(false), &json!(null)), "{shown}");
    is_ahead(moment(&shown["now"]).expect("a time"), really_now(), FOUR_HUNDRED_DAYS).expect("the ledger's time");
    let (healthy, finding) = doctor_on_clock(&server).await;
    assert!(healthy && finding.starts_with("ok "), "{finding}");
    // Accepting what is believed changes nothing, and is recorded as well.
    let again = server.post("/clock/accept", json!({})).await.expect(200);
    assert_eq!(again["changed"], false, "{again}");
    let records =
        server.get("/audit?chain=system&action=clock.accept&order=oldest").await.expect(200)["records"].clone();
    let recorded: Vec<_> = records.as_array().expect("records").iter().map(|r| (&r["result"], &r["reason"])).collect();
    let reason = json!("the server was off for a year");
    assert_eq!(recorded, [(&json!("done"), &reason), (&json!("unchanged"), &json!(null))], "{records}");
    assert!(server.stop().await.success());
    server.assert_verified();
}
