//! What happens to runs when their agent, their keeper or their whole machine goes away.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod room;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bowline_execute::{
    BeginError, CancelError, Confirmed, EndedAs, ForgetError, Happening, HostLock, Manifest, OpenError, Runs, Secrets,
    Standing, Stream,
};
use bowline_model::Timestamp;
use room::*;
use rustix::process::Signal;
use sha2::{Digest, Sha256};

/// Counts until told to stop, and writes down who it is: a start that nobody should be able to hide.
fn counter(room: &Room) -> Manifest {
    let at = |name: &str| room.file(name).display().to_string();
    script(&format!(
        "echo $BOWLINE_RUN_ID $$ >> {starts}; n=0; while [ ! -e {stop} ]; do n=$((n+1)); echo $n; sleep 0.05; done; echo last; exit 5",
        starts = at("starts"),
        stop = at("stop"),
    ))
}

/// The part of an agent that begins a run and lives until it is killed.
#[test]
#[ignore = "a part in other tests"]
fn an_agent_that_begins_a_run() {
    let room = PathBuf::from(std::env::var_os("ROOM").unwrap());
    let manifest: Manifest = serde_json::from_slice(&fs::read(room.join("wish.json")).unwrap()).unwrap();
    let runs = Runs::open(&room.join("agent"), settings()).unwrap();
    runs.begin(manifest, &Secrets::default()).unwrap();
    fs::write(room.join("begun"), "").unwrap();
    sleep(Duration::from_secs(600));
}

fn agent_begins(room: &Room, manifest: &Manifest) -> Child {
    fs::write(room.file("wish.json"), serde_json::to_vec(manifest).unwrap()).unwrap();
    let mut command = part("an_agent_that_begins_a_run", &[("ROOM", room.path())]);
    let agent = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the agent", || room.file("begun").exists().then_some(()));
    agent
}

fn kill_9(mut process: Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}

fn confirmed(runs: &Runs, manifest: &Manifest) -> Confirmed {
    let end = ended(runs, manifest.run);
    Confirmed { last_seq: end.last_seq, stdout_bytes: end.stdout_bytes, stderr_bytes: end.stderr_bytes }
}

#[test]
fn a_command_outlives_its_agent_and_is_found_again() {
    let room = Room::default();
    let manifest = counter(&room);
    let agent = agent_begins(&room, &manifest);
    let starts = lines(&room.file("starts"), 1);
    kill_9(agent);

    let runs = room.runs();
    let found = runs.recover(|_| 0).unwrap();
    assert_eq!(found.found.len(), 1);
    assert_eq!(found.found[0].standing, Standing::Running);
    let pid = command_pid(&runs, manifest.run);
    assert_eq!(starts, [format!("{} {pid}", manifest.run)]);
    assert!(!is_gone(pid));
    // It is heard of again: news wake whoever waits, without a pipe.
    let mut changed = runs.changed();
    let seen = records(&runs, manifest.run).last().unwrap().seq;
    until("news from a keeper that was found again", || {
        let woken = changed.has_changed().unwrap();
        changed.mark_unchanged();
        (woken && !runs.events_after(manifest.run, seen, 10).unwrap().is_empty()).then_some(())
    });
    assert!(runs.take_changed().contains(&manifest.run));
    // Nobody starts it again, by whatever name.
    assert!(matches!(
        runs.begin(manifest.clone(), &Secrets::default()),
        Err(BeginError::AlreadyStarted(run)) if run == manifest.run
    ));
    let again = Manifest { run: script("").run, ..manifest.clone() };
    assert!(matches!(
        runs.begin(again, &Secrets::default()),
        Err(BeginError::AlreadyExecuted { run, outcome: None, .. }) if run == manifest.run
    ));
    fs::write(room.file("stop"), "").unwrap();
    let end = ended(&runs, manifest.run);
    assert_eq!((end.outcome, end.exit_code), (EndedAs::Failed, Some(5)));
    let text = text(&runs, manifest.run, Stream::Stdout);
    assert!(text.ends_with("last\n"));
    // Every number is there, also those that were printed while nobody watched.
    let numbers: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u32).collect::<Vec<_>>());
    assert_eq!(
        records(&runs, manifest.run).iter().map(|r| r.seq).collect::<Vec<_>>(),
        (1..=end.last_seq).collect::<Vec<_>>()
    );
    assert_eq!(lines(&room.file("starts"), 1).len(), 1, "one start");
}

#[test]
fn a_run_that_ended_while_nobody_watched_is_found_ended() {
    let room = Room::default();
    let manifest = counter(&room);
    let agent = agent_begins(&room, &manifest);
    lines(&room.file("starts"), 1);
    kill_9(agent);
    fs::write(room.file("stop"), "").unwrap();
    let keeper = fs::read_to_string(room.run_dir(manifest.run).join("started")).unwrap();
    let keeper: serde_json::Value = serde_json::from_str(&keeper).unwrap();
    until_gone(u32::try_from(keeper["keeper"]["pid"].as_u64().unwrap()).unwrap());
    let runs = room.runs();
    let found = runs.recover(|_| 0).unwrap().found.remove(0);
    let Standing::Ended(end) = found.standing else { panic!("{found:?}") };
    assert_eq!((end.outcome, end.exit_code), (EndedAs::Failed, Some(5)));
}

#[test]
fn a_killed_keeper_leaves_an_interrupted_run_and_no_processes() {
    for with_agent in [true, false] {
        let room = Room::default();
        let pids = room.file("pids");
        let manifest = script(&format!(
            "echo before; echo $$ >> {0}; setsid sleep 1000 & echo $! >> {0}; (sleep 1000 & echo $! >> {0}); sleep 1000",
            pids.display()
        ));
        let runs = room.runs();
        let running = begin(&runs, &manifest);
        let pids = lines(&pids, 3);
        until("the output", || (records(&runs, manifest.run).len() >= 2).then_some(()));
        let runs = if with_agent {
            kill(running.keeper.pid, Signal::KILL);
            runs
        } else {
            drop(runs);
            kill(running.keeper.pid, Signal::KILL);
            // Its commands go on without it, until somebody looks.
            let runs = room.runs();
            assert!(pids.iter().all(|pid| !is_gone(pid.parse().unwrap())));
            runs.recover(|_| 0).unwrap();
            runs
        };
        let end = ended(&runs, manifest.run);
        assert_eq!((end.outcome, end.exit_code, end.signal, end.duration_ms), (EndedAs::Interrupted, None, None, None));
        assert!(end.message.as_deref().unwrap().contains("were ended"), "{end:?}");
        assert!(pids.iter().all(|pid| is_gone(pid.parse().unwrap())), "{pids:?}");
        assert_eq!(end.stdout_bytes, 7);
        // It stays as it is, however often it is looked at.
        drop(runs);
        let runs = room.runs();
        let found = runs.recover(|_| 0).unwrap().found.remove(0);
        assert_eq!(found.standing, Standing::Ended(end));
    }
}

#[test]
fn output_that_was_written_and_not_told_is_told_by_who_comes_later() {
    let room = Room::default();
    let runs = room.runs();
    let manifest = script("echo told; sleep 1000");
    let running = begin(&runs, &manifest);
    until("the output", || (records(&runs, manifest.run).len() >= 2).then_some(()));
    // As if the keeper had been killed between the write and the record.
    kill(running.keeper.pid, Signal::STOP);
    use std::io::Write;
    let stdout = room.run_dir(manifest.run).join("stdout");
    fs::OpenOptions::new().append(true).open(stdout).unwrap().write_all(b"untold\n").unwrap();
    kill(running.keeper.pid, Signal::KILL);
    let end = ended(&runs, manifest.run);
    assert_eq!(end.stdout_bytes, 12);
    let told: Vec<_> = records(&runs, manifest.run)
        .into_iter()
        .filter_map(|record| match record.happening {
            Happening::Output { offset, bytes, .. } => Some((offset, bytes)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(0, 5), (5, 7)]);
}

#[test]
fn a_crash_of_the_whole_machine_interrupts_and_starts_nothing_again() {
    let room = Room::default();
    let manifest = counter(&room);
    let agent = agent_begins(&room, &manifest);
    let starts = lines(&room.file("starts"), 1);
    let command: u32 = starts[0].split_once(' ').unwrap().1.parse().unwrap();
    let marker = fs::read_to_string(room.run_dir(manifest.run).join("started")).unwrap();
    let marker: serde_json::Value = serde_json::from_str(&marker).unwrap();
    let keeper = u32::try_from(marker["keeper"]["pid"].as_u64().unwrap()).unwrap();
    for pid in [agent.id(), keeper, command] {
        kill(pid, Signal::KILL);
    }
    kill_9(agent);
    until_gone(keeper);
    until_gone(command);
    let runs = room.runs();
    let found = runs.recover(|_| 0).unwrap().found.remove(0);
    let Standing::Ended(end) = found.standing else { panic!("{found:?}") };
    assert_eq!((end.outcome, end.exit_code), (EndedAs::Interrupted, None));
    assert!(matches!(runs.begin(manifest.clone(), &Secrets::default()), Err(BeginError::AlreadyStarted(_))));
    assert_eq!(lines(&room.file("starts"), 1), starts, "one start, and no more");
    // A retry is another run with a higher fence, and is welcome.
    let retry = Manifest { run: script("").run, fence: 2, host_fence: 2, ..counter(&room) };
    let retry = Manifest { job: manifest.job, host: manifest.host.clone(), ..retry };
    fs::write(room.file("stop"), "").unwrap();
    assert_eq!(execute(&runs, &retry).exit_code, Some(5));
    assert_eq!(lines(&room.file("starts"), 2).len(), 2);
}

/// After a restart of the machine pids start again from small numbers, and somebody has the one we remember.
#[test]
fn a_stranger_with_our_pid_is_left_alone() {
    for forged in ["start_time", "boot_id"] {
        let room = Room::default();
        let runs = room.runs();
        let manifest = script("sleep 1000");
        let running = begin(&runs, &manifest);
        let pid = command_pid(&runs, manifest.run);
        drop(runs);
        kill(running.keeper.pid, Signal::KILL);
        kill(pid, Signal::KILL);
        until_gone(running.keeper.pid);
        until_gone(pid);

        let mut innocent = Command::new("sleep").arg("1000").spawn().unwrap();
        let directory = room.run_dir(manifest.run);
        // The log names the innocent's pid: with the wrong start time, or with the right one of another boot.
        let stat = fs::read_to_string(format!("/proc/{}/stat", innocent.id())).unwrap();
        let start_time: u64 = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned();
        let (start_time, boot) =
            if forged == "start_time" { (start_time - 1, boot) } else { (start_time, "of last week".to_owned()) };
        let line = serde_json::json!({
            "seq": 1, "at": "2026-01-03T00:00:00Z", "kind": "started",
            "pid": innocent.id(), "boot_id": boot, "start_time": start_time,
        });
        fs::write(directory.join("events.log"), sealed(&line.to_string())).unwrap();
        let mut marker: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(directory.join("started")).unwrap()).unwrap();
        marker["keeper"] = serde_json::json!({"boot_id": boot, "pid": innocent.id(), "start_time": start_time});
        fs::write(directory.join("started"), marker.to_string()).unwrap();

        let runs = room.runs();
        let found = runs.recover(|_| 0).unwrap().found.remove(0);
        assert!(matches!(&found.standing, Standing::Ended(end) if end.outcome == EndedAs::Interrupted), "{found:?}");
        assert!(innocent.try_wait().unwrap().is_none(), "the innocent was ended ({forged})");
        kill_9(innocent);
    }
}

/// A checksum written from its definition, bit by bit: not the one under test.
fn sealed(object: &str) -> String {
    let open = object.strip_suffix('}').unwrap();
    let mut crc = u32::MAX;
    for byte in open.bytes() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    format!("{open},\"crc\":\"{:08x}\"}}\n", !crc)
}

#[test]
fn numbers_go_on_above_what_the_ledger_holds() {
    let room = Room::default();
    let runs = room.runs();
    let manifest = script("echo one; sleep 1000");
    let running = begin(&runs, &manifest);
    until("the output", || (records(&runs, manifest.run).len() >= 2).then_some(()));
    drop(runs);
    kill(running.keeper.pid, Signal::KILL);
    until_gone(running.keeper.pid);
    // A crash cut the log short behind its first record, but the ledger had got the second.
    let log = room.run_dir(manifest.run).join("events.log");
    let bytes = fs::read(&log).unwrap();
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(&log, &bytes[..first + 20]).unwrap();
    let runs = room.runs();
    runs.recover(|_| 2).unwrap();
    let numbers: Vec<_> = records(&runs, manifest.run).iter().map(|record| record.seq).collect();
    assert_eq!(numbers, [1, 3, 4], "the output again, and the end");
    assert_eq!(ended(&runs, manifest.run).last_seq, 4);
}

#[test]
fn a_damaged_log_is_told_and_kept() {
    let room = Room::default();
    let runs = room.runs();
    let manifest = script("echo one; sleep 0.3; echo two; exit 3");
    let end = execute(&runs, &manifest);
    drop(runs);
    let log = room.run_dir(manifest.run).join("events.log");
    let mut bytes = fs::read(&log).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 40;
    bytes[second] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let runs = room.runs();
    let found = runs.recover(|_| 0).unwrap().found.remove(0);
    let Standing::Ended(again) = found.standing else { panic!("{found:?}") };
    assert_eq!(
        (again.outcome, again.exit_code),
        (EndedAs::Failed, Some(3)),
        "the end was behind the damage, and is true"
    );
    assert!(again.last_seq > end.last_seq);
    let records = records(&runs, manifest.run);
    let Happening::SpoolDamaged { kept_seq: 1, file, .. } = &records[1].happening else { panic!("{records:?}") };
    assert_eq!(fs::read(room.run_dir(manifest.run).join(file)).unwrap(), bytes);
}

#[test]
fn a_run_without_a_marker_may_be_begun_again_or_given_back() {
    let room = Room::default();
    let starts = room.file("starts");
    let manifest = script(&format!("echo $$ >> {}", starts.display()));
    let mut broken = settings();
    broken.keeper = vec!["/bin/false".into()];
    let runs = Runs::open(&room.agent(), broken).unwrap();
    let begun = runs.begin(manifest.clone(), &Secrets::default());
    drop(runs);
    let runs = room.runs();
    if begun.is_ok() {
        runs.recover(|_| 0).unwrap();
        until("the end of a keeper that is none", || {
            matches!(runs.find(manifest.run)?.standing, Standing::NeverStarted { .. }).then_some(())
        });
    }
    // It holds no host.
    let neighbour = Manifest { host: manifest.host.clone(), ..script("true") };
    assert_eq!(execute(&runs, &neighbour).exit_code, Some(0));
    assert_eq!(execute(&runs, &manifest).exit_code, Some(0));
    assert_eq!(lines(&starts, 1).len(), 1);
    assert!(matches!(runs.give_back(manifest.run), Err(ForgetError::Started(_))));
}

#[test]
fn one_exclusive_run_or_many_shared_ones_have_a_host() {
    let room = Room::default();
    let runs = room.runs();
    let with = |lock, host_fence| {
        let host = bowline_model::HostName::new("web-1").unwrap();
        Manifest { lock, host_fence, host, ..script("sleep 1000") }
    };
    let try_begin = |manifest: &Manifest| runs.begin(manifest.clone(), &Secrets::default());
    let shared = [with(HostLock::Shared, 5), with(HostLock::Shared, 5)];
    shared.iter().for_each(|manifest| drop(try_begin(manifest).unwrap()));
    let exclusive = with(HostLock::Exclusive, 6);
    let busy = try_begin(&exclusive).unwrap_err();
    assert!(matches!(busy, BeginError::HostBusy { run } if shared.iter().any(|manifest| manifest.run == run)));
    // Refused, but seen: whoever comes with the old lease is late.
    let late = try_begin(&with(HostLock::Shared, 5)).unwrap_err();
    assert!(matches!(late, BeginError::Superseded { given: 5, seen: 6, .. }), "{late:?}");
    for manifest in &shared {
        runs.cancel(manifest.run).unwrap();
        assert_eq!(ended(&runs, manifest.run).outcome, EndedAs::Canceled);
    }
    try_begin(&exclusive).unwrap();
    assert!(matches!(try_begin(&with(HostLock::Shared, 6)), Err(BeginError::HostBusy { run }) if run == exclusive.run));
    let elsewhere = script("true");
    assert_eq!(execute(&runs, &elsewhere).outcome, EndedAs::Succeeded);
    // An agent that comes back knows who has the host, and under which lease.
    drop(runs);
    let runs = room.runs();
    let answer = runs.begin(with(HostLock::Shared, 6), &Secrets::default());
    assert!(matches!(answer, Err(BeginError::HostBusy { run }) if run == exclusive.run));
    runs.recover(|_| 0).unwrap();
    runs.cancel(exclusive.run).unwrap();
    ended(&runs, exclusive.run);
    for manifest in [&shared[0], &shared[1], &exclusive, &elsewhere] {
        let held = confirmed(&runs, manifest);
        runs.forget(manifest.run, held).unwrap();
    }
    drop(runs);
    let late = room.runs().begin(with(HostLock::Shared, 5), &Secrets::default()).unwrap_err();
    assert!(matches!(late, BeginError::Superseded { given: 5, seen: 6, .. }), "{late:?}");
}

#[test]
fn what_was_executed_is_not_executed_again_for_a_server_that_forgot_it() {
    let room = Room::default();
    let starts = room.file("starts");
    let manifest = Manifest { fence: 3, ..script(&format!("echo $BOWLINE_RUN_ID >> {}; exit 9", starts.display())) };
    let runs = room.runs();
    assert!(matches!(runs.cancel(manifest.run), Err(CancelError::Unknown(_))));
    begin(&runs, &manifest);
    let held = confirmed(&runs, &manifest);
    for less in [Confirmed { last_seq: held.last_seq - 1, ..held }, Confirmed { stdout_bytes: 0, last_seq: 0, ..held }]
    {
        assert!(matches!(runs.forget(manifest.run, less), Err(ForgetError::NotConfirmed { .. })));
    }
    assert!(room.run_dir(manifest.run).exists());
    runs.forget(manifest.run, held).unwrap();
    assert!(names(&room.agent().join("runs")).is_empty());
    assert!(matches!(runs.forget(manifest.run, held), Err(ForgetError::Unknown(_))));
    let mut runs = Some(runs);
    for _ in 0..2 {
        let now = runs.take().unwrap_or_else(|| room.runs());
        for (run, fence) in [(manifest.run, 3), (script("").run, 3), (script("").run, 2)] {
            let answer = now.begin(Manifest { run, fence, ..manifest.clone() }, &Secrets::default()).unwrap_err();
            let BeginError::AlreadyExecuted { run, outcome, exit_code } = answer else { panic!("{answer:?}") };
            assert_eq!((run, outcome, exit_code), (manifest.run, Some(EndedAs::Failed), Some(9)));
        }
    }
    assert_eq!(lines(&starts, 1).len(), 1);
}

#[test]
fn two_agents_never_share_a_directory() {
    let room = Room::default();
    let _runs = room.runs();
    assert!(matches!(Runs::open(&room.agent(), settings()), Err(OpenError::InUse)));
}

#[test]
fn two_who_begin_the_same_run_at_once_start_it_once() {
    let room = Room::default();
    let starts = room.file("starts");
    let manifest = script(&format!("echo $$ >> {}", starts.display()));
    let runs = room.runs();
    let begun: usize = std::thread::scope(|scope| {
        let attempts: Vec<_> =
            (0..8).map(|_| scope.spawn(|| runs.begin(manifest.clone(), &Secrets::default()).is_ok())).collect();
        attempts.into_iter().map(|attempt| usize::from(attempt.join().unwrap())).sum()
    });
    assert_eq!(begun, 1);
    ended(&runs, manifest.run);
    assert_eq!(lines(&starts, 1).len(), 1);
}

/// The part of a keeper whose clock is a day behind and runs backwards.
#[test]
#[ignore = "a part in other tests"]
fn a_keeper_with_a_wrong_clock() {
    let began = Instant::now();
    let directory = PathBuf::from(std::env::args_os().next_back().unwrap());
    let clock = move || {
        let passed = i64::try_from(began.elapsed().as_millis()).unwrap();
        Timestamp::from_millis(1_767_398_400_000 - 86_400_000 - 1_000 * passed)
    };
    bowline_execute::keeper::keep(&directory, Arc::new(clock));
}

#[test]
fn a_wrong_clock_changes_nothing_but_the_times_that_are_shown() {
    let room = Room::default();
    let mut settings = settings();
    let me = std::env::current_exe().unwrap();
    let arguments = ["--exact", "a_keeper_with_a_wrong_clock", "--ignored", "--nocapture"].map(Into::into);
    settings.keeper = [vec![me.into()], arguments.to_vec()].concat();
    settings.clock = Arc::new(|| Timestamp::from_millis(0));
    let runs = Runs::open(&room.agent(), settings).unwrap();
    let mut manifest = script("echo one; sleep 0.3; echo two");
    let end = execute(&runs, &manifest);
    assert_eq!(end.outcome, EndedAs::Succeeded);
    assert!((300..3_000).contains(&end.duration_ms.unwrap()), "{end:?}");
    let records = records(&runs, manifest.run);
    assert!(records.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq));
    assert!(records.first().unwrap().at > records.last().unwrap().at, "the clock did run backwards");
    manifest = script("sleep 1000");
    manifest.timeout_ms = 400;
    let end = execute(&runs, &manifest);
    assert_eq!(end.outcome, EndedAs::TimedOut);
    assert!((400..3_000).contains(&end.duration_ms.unwrap()), "{end:?}");
    runs.forget(manifest.run, confirmed(&runs, &manifest)).unwrap();
}

#[test]
fn a_keeper_killed_at_any_moment_leaves_what_it_told() {
    for round in 0..12u64 {
        let room = Room::default();
        let runs = room.runs();
        let manifest = script("yes line; exit 1");
        let running = begin(&runs, &manifest);
        // From before the start to the midst of much output.
        sleep(Duration::from_millis(round * round * 2));
        kill(running.keeper.pid, Signal::KILL);
        let standing = until("the end", || {
            let standing = runs.find(manifest.run)?.standing;
            (standing != Standing::Running).then_some(standing)
        });
        let Standing::Ended(end) = standing else {
            println!("round {round}: killed before the start");
            assert!(processes_of(manifest.run).is_empty());
            runs.give_back(manifest.run).unwrap();
            continue;
        };
        println!("round {round}: {} bytes", end.stdout_bytes);
        assert_eq!(end.outcome, EndedAs::Interrupted);
        assert!(processes_of(manifest.run).is_empty());
        let mut told = 0;
        for (number, record) in records(&runs, manifest.run).iter().enumerate() {
            assert_eq!(record.seq, number as u64 + 1);
            if let Happening::Output { offset, bytes, sha256, .. } = &record.happening {
                assert_eq!(*offset, told);
                let read =
                    runs.read_output(manifest.run, Stream::Stdout, told, usize::try_from(*bytes).unwrap()).unwrap();
                assert_eq!(read.len() as u64, *bytes);
                assert_eq!(Sha256::digest(&read).iter().map(|b| format!("{b:02x}")).collect::<String>(), *sha256);
                told += bytes;
            }
        }
        assert_eq!((told, end.stdout_bytes), (end.stdout_bytes, told));
    }
}
