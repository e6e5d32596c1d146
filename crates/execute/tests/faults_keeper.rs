//! What a keeper does for its command, and against it.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod room;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use bowline_execute::{BeginError, ChildrenBecame, EndedAs, Happening, Limits, Secrets, Standing, Stream};
use room::*;
use rustix::process::Signal;

#[test]
fn a_command_runs_and_its_end_is_told() {
    let room = Room::default();
    let runs = room.runs();
    let mut manifest = script("cat; echo out; echo err >&2; pwd; exit 3");
    manifest.stdin = Some("from stdin\n".into());
    let end = execute(&runs, &manifest);
    assert_eq!((end.outcome, end.exit_code, end.signal), (EndedAs::Failed, Some(3), None));
    let work = room.run_dir(manifest.run).canonicalize().unwrap().join("work");
    assert_eq!(text(&runs, manifest.run, Stream::Stdout), format!("from stdin\nout\n{}\n", work.display()));
    assert_eq!(text(&runs, manifest.run, Stream::Stderr), "err\n");
    let records = records(&runs, manifest.run);
    let kinds: Vec<_> = records.iter().map(|record| serde_json::to_value(record).unwrap()["kind"].clone()).collect();
    assert_eq!(kinds.first().unwrap(), "started");
    assert_eq!(kinds.last().unwrap(), "ended");
    assert_eq!(records.iter().map(|record| record.seq).collect::<Vec<_>>(), (1..=end.last_seq).collect::<Vec<_>>());
    let told: u64 = records
        .iter()
        .map(|record| match record.happening {
            Happening::Output { stream: Stream::Stdout, bytes, .. } => bytes,
            _ => 0,
        })
        .sum();
    assert_eq!(told, end.stdout_bytes);
    assert_eq!(fs::metadata(room.run_dir(manifest.run)).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_command_that_cannot_be_started_has_no_exit_code() {
    let room = Room::default();
    let runs = room.runs();
    let manifest = command(&["/does/not/exist"]);
    let end = execute(&runs, &manifest);
    assert_eq!((end.outcome, end.exit_code, end.signal), (EndedAs::Failed, None, None));
    let said = end.message.unwrap();
    assert!(said.starts_with("the command could not be started: /does/not/exist: "), "{said}");
}

#[test]
fn the_environment_is_clean_and_nothing_is_inherited() {
    let room = Room::default();
    let runs = room.runs();
    let mut manifest = script(
        "umask; env | sort; ls /proc/self/fd | wc -l; grep -E 'NoNewPrivs|SigBlk|SigIgn' /proc/self/status; ulimit -c",
    );
    manifest.env.insert("GREETING".into(), "hello".into());
    // A descriptor that a careless agent hands down.
    let open = fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    execute(&runs, &manifest);
    let text = text(&runs, manifest.run, Stream::Stdout);
    let variables: Vec<_> = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert_eq!(variables, ["BOWLINE_RUN_ID", "GREETING", "HOME", "LANG", "PATH", "PWD"], "{text}");
    let lines: Vec<_> = text.lines().filter(|line| !line.contains('=')).collect();
    assert_eq!(lines[0], "0077");
    assert_eq!(lines[1], "4", "0, 1, 2 and the directory that `ls` reads");
    for line in ["SigBlk:\t0000000000000000", "NoNewPrivs:\t1", "0"] {
        assert!(lines.contains(&line), "{line} is missing in {text}");
    }
    let ignored = lines.iter().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    // The first of the signals above 31 belong to the C library.
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & 0x7fff_ffff, 0, "{text}");
}

#[test]
fn privileges_are_kept_where_the_manifest_says_so() {
    let room = Room::default();
    let runs = room.runs();
    let mut manifest = script("grep NoNewPrivs /proc/self/status");
    manifest.allow_new_privileges = true;
    execute(&runs, &manifest);
    assert_eq!(text(&runs, manifest.run, Stream::Stdout), "NoNewPrivs:\t0\n");
}

/// The part of a command that prints its secret in every way it can think of.
#[test]
#[ignore = "a part in other tests"]
fn a_command_that_prints_its_secret() {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    let secret = std::env::var("DB_PASSWORD").unwrap();
    let print = |text: &str| {
        let mut stdout = std::io::stdout();
        stdout.write_all(text.as_bytes()).unwrap();
        stdout.flush().unwrap();
    };
    print(&format!("\nplain {secret}\nsplit {}", &secret[..7]));
    std::thread::sleep(Duration::from_millis(300));
    print(&format!("{}\n", &secret[7..]));
    for before in 0..3 {
        let text = format!("{}{secret}yz", &"xxx"[..before]);
        print(&format!("base64 {}\nurlsafe {}\n", STANDARD.encode(&text), URL_SAFE.encode(&text)));
    }
    print(&format!("alone {}\n", STANDARD.encode(&secret)));
    let percent = |upper| {
        let encode = |byte: u8| match byte {
            byte if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => char::from(byte).to_string(),
            byte if upper => format!("%{byte:02X}"),
            byte => format!("%{byte:02x}"),
        };
        secret.bytes().map(encode).collect::<String>()
    };
    print(&format!("upper {}\nlower {}\n", percent(true), percent(false)));
    print(&format!("json {}\n", serde_json::to_string(&secret).unwrap()));
    print(&format!("length {}\n", secret.len()));
    eprintln!("error {secret}");
}

#[test]
fn a_secret_reaches_the_command_and_nothing_else() {
    let room = Room::default();
    let runs = room.runs();
    let value = "hunter22/\"&ö-swordfish";
    let mut manifest = part_as_command("a_command_that_prints_its_secret");
    manifest.secrets.insert("DB_PASSWORD".into(), "db".into());
    assert!(matches!(runs.begin(manifest.clone(), &Secrets::default()), Err(BeginError::Secret(name)) if name == "db"));
    let secrets: Secrets = [("db", value)].into_iter().collect();
    let running = runs.begin(manifest.clone(), &secrets).unwrap();
    let pid = command_pid(&runs, manifest.run);
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    for file in ["environ", "cmdline"] {
        let seen = fs::read(format!("/proc/{}/{file}", running.keeper.pid)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&seen).contains(value), "{file} of the keeper");
    }
    let end = ended(&runs, manifest.run);
    assert_eq!(end.outcome, EndedAs::Succeeded, "{}", text(&runs, manifest.run, Stream::Stderr));
    assert!(environment.is_empty() || String::from_utf8_lossy(&environment).contains(value));
    let out = text(&runs, manifest.run, Stream::Stdout);
    for line in ["plain ***", "split ***", "alone ***", "upper ***", "lower ***", "json \"***\""] {
        assert!(out.lines().any(|found| found == line), "{line} is missing in {out}");
    }
    for line in out.lines().filter(|line| line.starts_with("base64") || line.starts_with("urlsafe")) {
        let left = line.split_once(' ').unwrap().1.replace("***", "");
        assert!(line.contains("***") && left.len() <= 9, "{line}");
    }
    assert!(out.contains(&format!("length {}\n", value.len())), "{out}");
    assert!(text(&runs, manifest.run, Stream::Stderr).contains("error ***\n"));
    // Nothing on disk has it in any form.
    let forms = bowline_execute::redact::forms(value);
    let mut files = vec![];
    for name in names(&room.run_dir(manifest.run)) {
        let path = room.run_dir(manifest.run).join(&name);
        if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            assert!(!forms.iter().any(|form| bytes.windows(form.len()).any(|part| part == form)), "{name}");
            files.push(name);
        }
    }
    assert!(files.len() >= 6, "{files:?}");
}

/// A tree of processes that leave their parents, their groups and their sessions, and do not listen to SIGTERM.
fn stubborn_tree(pids: &std::path::Path) -> String {
    let pids = pids.display();
    format!(
        r#"
trap '' TERM
note() {{ echo $1 >> {pids}; }}
note $$
setsid sh -c 'trap "" TERM; echo $$ >> {pids}; setsid sh -c "trap \"\" TERM; echo \$\$ >> {pids}; exec sleep 1000" & wait' &
(setsid sh -c 'echo $$ >> {pids}; exec sleep 1000' </dev/null >/dev/null 2>&1 &)
(sleep 1000 & note $!; sleep 1000 & note $!)
env -i /bin/sh -c 'trap "" TERM; echo $$ >> {pids}; sleep 1000; :' &
while :; do sleep 1; done
"#
    )
}

#[test]
fn a_timeout_ends_the_whole_tree() {
    let room = Room::default();
    let runs = room.runs();
    let pids = room.file("pids");
    let mut manifest = script(&stubborn_tree(&pids));
    manifest.timeout_ms = 1_500;
    manifest.kill_grace_ms = 300;
    let began = Instant::now();
    let end = execute(&runs, &manifest);
    assert_eq!((end.outcome, end.exit_code, end.signal), (EndedAs::TimedOut, None, Some(9)));
    assert!(began.elapsed() < Duration::from_secs(10));
    let pids = lines(&pids, 7);
    for pid in &pids {
        assert!(is_gone(pid.parse().unwrap()), "{pid} of {pids:?} is alive");
    }
    assert_eq!(processes_of(manifest.run), [0u32; 0]);
}

#[test]
fn a_cancel_ends_the_whole_tree_and_a_listening_command_says_its_last_words() {
    let room = Room::default();
    let runs = room.runs();
    let pids = room.file("pids");
    let manifest = script(&format!(
        "trap 'echo goodbye; exit 7' TERM; echo $$ >> {0}; setsid sleep 1000 & echo $! >> {0}; echo ready; wait; wait",
        pids.display()
    ));
    begin(&runs, &manifest);
    let pids = lines(&pids, 2);
    let asked = Instant::now();
    runs.cancel(manifest.run).unwrap();
    let end = ended(&runs, manifest.run);
    assert_eq!((end.outcome, end.exit_code), (EndedAs::Canceled, Some(7)));
    assert!(asked.elapsed() < Duration::from_secs(5), "it did not wait for the grace to pass");
    assert_eq!(text(&runs, manifest.run, Stream::Stdout), "ready\ngoodbye\n");
    assert!(pids.iter().all(|pid| is_gone(pid.parse().unwrap())));
}

#[test]
fn a_stubborn_tree_is_canceled_too() {
    let room = Room::default();
    let runs = room.runs();
    let pids = room.file("pids");
    let mut manifest = script(&stubborn_tree(&pids));
    manifest.kill_grace_ms = 200;
    begin(&runs, &manifest);
    let pids = lines(&pids, 7);
    runs.cancel(manifest.run).unwrap();
    assert_eq!(ended(&runs, manifest.run).outcome, EndedAs::Canceled);
    assert!(pids.iter().all(|pid| is_gone(pid.parse().unwrap())));
}

/// The part of a command that makes as many processes as it can, up to a number that hurts nobody.
#[test]
#[ignore = "a part in other tests"]
fn a_command_that_makes_many_processes() {
    let spawn = || std::process::Command::new("setsid").args(["sleep", "1000"]).spawn();
    let made = (0..150).map_while(|_| spawn().ok()).count();
    println!("\nmade {made}");
    std::thread::sleep(Duration::from_secs(1_000));
}

#[test]
fn many_processes_are_held_within_their_limit_and_ended() {
    let room = Room::default();
    let runs = room.runs();
    let mut manifest = part_as_command("a_command_that_makes_many_processes");
    manifest.limits = Limits { pids_max: Some(60), ..Limits::default() };
    manifest.kill_grace_ms = 100;
    let running = begin(&runs, &manifest);
    let made: usize = until("many processes", || {
        text(&runs, manifest.run, Stream::Stdout).lines().find_map(|line| line.strip_prefix("made ")?.parse().ok())
    });
    let first = records(&runs, manifest.run).remove(0);
    let Happening::Started { unenforced, .. } = first.happening else { panic!("{first:?}") };
    assert!(made >= 50 && processes_of(manifest.run).len() >= 50);
    if unenforced.is_empty() {
        assert!(made < 60, "{made} processes");
    } else {
        println!("no pids controller here: the limit itself is not tested");
        assert_eq!(unenforced, ["pids_max"]);
    }
    runs.cancel(manifest.run).unwrap();
    assert_eq!(ended(&runs, manifest.run).outcome, EndedAs::Canceled);
    until("the end of all of them", || processes_of(manifest.run).is_empty().then_some(()));
    until_gone(running.keeper.pid);
    let left = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    for tree in left {
        let group = tree.path().join(format!("bowline-{}", manifest.run));
        assert!(!group.exists(), "{} is left", group.display());
    }
}

/// The part of a command that wants much memory.
#[test]
#[ignore = "a part in other tests"]
fn a_command_that_takes_much_memory() {
    let much = vec![1u8; 200 << 20];
    println!("{}", much.iter().map(|byte| u64::from(*byte)).sum::<u64>());
}

#[test]
fn a_memory_limit_ends_what_takes_more() {
    let room = Room::default();
    let mut settings = settings();
    // Not below this process: its own group belongs to somebody else.
    settings.cgroup_parent = Some("/bowline-test".into());
    let runs = bowline_execute::Runs::open(&room.agent(), settings).unwrap();
    let mut manifest = part_as_command("a_command_that_takes_much_memory");
    manifest.limits.memory_max_bytes = Some(64 << 20);
    let end = execute(&runs, &manifest);
    let first = records(&runs, manifest.run).remove(0);
    let Happening::Started { unenforced, .. } = first.happening else { panic!("{first:?}") };
    for tree in ["unified", "memory", ""] {
        let _ = fs::remove_dir(format!("/sys/fs/cgroup/{tree}/bowline-test"));
    }
    if unenforced.is_empty() {
        assert_eq!((end.outcome, end.signal), (EndedAs::Failed, Some(9)), "{end:?}");
        assert!(end.message.unwrap().contains("memory limit"));
    } else {
        panic!("a limit on memory is held by something on every system: {unenforced:?}");
    }
}

#[test]
fn what_a_command_leaves_running_is_ended_with_it_and_named() {
    let room = Room::default();
    let runs = room.runs();
    let pids = room.file("pids");
    // One that goes when it is asked to, and one that does not hear.
    let manifest = script(&format!(
        "setsid sleep 1000 & echo $! >> {0}; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & echo $! >> {0}; echo done",
        pids.display()
    ));
    let end = execute(&runs, &manifest);
    assert_eq!((end.outcome, end.exit_code), (EndedAs::Succeeded, Some(0)), "how the command ended is what counts");
    for pid in lines(&pids, 2) {
        assert!(is_gone(pid.parse().unwrap()), "they are gone when the run is over");
    }
    let told = records(&runs, manifest.run).into_iter().find_map(|record| match record.happening {
        Happening::Children(children) => Some(children),
        _ => None,
    });
    let told = told.unwrap();
    assert_eq!((told.became, told.remain), (ChildrenBecame::Ended, 0), "{told:?}");
    assert!(told.count >= 2 && told.killed >= 1, "{told:?}");
    assert!(told.processes.iter().any(|process| process.name == "sleep"), "{told:?}");
    assert_eq!(end.children, Some((ChildrenBecame::Ended, told.count)));
    assert!(end.message.unwrap().starts_with("processes that it left running and that were ended: "));
}

#[test]
fn a_service_that_was_left_behind_on_purpose_stays() {
    let room = Room::default();
    let runs = room.runs();
    let pid = room.file("pid");
    // It holds the output streams, too.
    let mut manifest = script(&format!("setsid sleep 1000 & echo $! > {}; echo done", pid.display()));
    manifest.leave_children = true;
    let end = execute(&runs, &manifest);
    assert_eq!(end.children, Some((ChildrenBecame::Left, 1)));
    assert_eq!((end.outcome, end.exit_code), (EndedAs::Succeeded, Some(0)));
    let message = end.message.unwrap();
    assert_eq!(message, "processes that it left running: 1; what those write is not recorded any more");
    assert_eq!(text(&runs, manifest.run, Stream::Stdout), "done\n");
    let pid = lines(&pid, 1)[0].parse().unwrap();
    assert!(!is_gone(pid));
    kill(pid, Signal::KILL);
    until_gone(pid);
}

#[test]
fn polite_signals_do_not_end_a_keeper() {
    let room = Room::default();
    let runs = room.runs();
    let manifest = script("echo ready; sleep 1; exit 4");
    let running = begin(&runs, &manifest);
    command_pid(&runs, manifest.run);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        kill(running.keeper.pid, signal);
    }
    assert_eq!(ended(&runs, manifest.run).exit_code, Some(4));
}

/// The part of a command whose first thread ends long before the others.
#[test]
#[ignore = "a part in other tests"]
fn a_command_with_many_threads() {
    let threads: Vec<_> =
        (0..40).map(|_| std::thread::spawn(|| std::thread::sleep(Duration::from_secs(1_000)))).collect();
    println!("\nready");
    drop(threads);
    std::process::exit(11);
}

#[test]
fn the_exit_code_of_a_process_with_many_threads_is_seen() {
    let room = Room::default();
    let runs = room.runs();
    for _ in 0..20 {
        let end = execute(&runs, &part_as_command("a_command_with_many_threads"));
        assert_eq!((end.outcome, end.exit_code, end.signal), (EndedAs::Failed, Some(11), None), "{end:?}");
    }
}

#[test]
fn a_run_that_was_canceled_before_it_was_started_is_not_started() {
    let room = Room::default();
    let runs = room.runs();
    let starts = room.file("starts");
    let manifest = script(&format!("echo started >> {}", starts.display()));
    // As if the wish came between the directory and the keeper.
    let slow = room.file("slow-keeper");
    fs::write(&slow, format!("#!/bin/sh\ntouch \"$1/cancel\"\nexec {} \"$1\"\n", env!("CARGO_BIN_EXE_bowline-keeper")))
        .unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o700)).unwrap();
    drop(runs);
    let mut settings = settings();
    settings.keeper = vec![slow.into()];
    let runs = bowline_execute::Runs::open(&room.agent(), settings).unwrap();
    let end = execute(&runs, &manifest);
    assert_eq!((end.outcome, end.exit_code), (EndedAs::Canceled, None));
    assert!(!starts.exists());
}

#[test]
fn a_keeper_that_finds_a_marker_never_spawns() {
    let room = Room::default();
    let runs = room.runs();
    let starts = room.file("starts");
    let manifest = script(&format!("echo $BOWLINE_RUN_ID $$ >> {}", starts.display()));
    execute(&runs, &manifest);
    drop(runs);
    let directory = room.run_dir(manifest.run);
    // With its log and with an empty marker; and after the log was lost.
    for harm in ["none", "marker", "log"] {
        match harm {
            "marker" => fs::write(directory.join("started"), "").unwrap(),
            "log" => fs::remove_file(directory.join("events.log")).unwrap(),
            _ => {}
        }
        let keeper = finish(std::process::Command::new(env!("CARGO_BIN_EXE_bowline-keeper")).arg(&directory));
        assert!(!keeper.status.success());
        assert!(String::from_utf8_lossy(&keeper.stderr).contains("started before"), "{keeper:?}");
    }
    assert_eq!(lines(&starts, 1).len(), 1);
}

#[test]
fn a_keeper_that_gets_no_secrets_starts_nothing() {
    let room = Room::default();
    let starts = room.file("starts");
    let manifest = script(&format!("echo $$ >> {}", starts.display()));
    let mut settings = settings();
    let deaf = room.file("deaf-keeper");
    fs::write(&deaf, format!("#!/bin/sh\nexec {} \"$1\" </dev/null\n", env!("CARGO_BIN_EXE_bowline-keeper"))).unwrap();
    fs::set_permissions(&deaf, fs::Permissions::from_mode(0o700)).unwrap();
    settings.keeper = vec![deaf.into()];
    let runs = bowline_execute::Runs::open(&room.agent(), settings).unwrap();
    // Whether the agent notices at once depends on who is faster.
    match runs.begin(manifest.clone(), &Secrets::default()) {
        Ok(_) => {
            let why = until("the keeper's last words", || match runs.find(manifest.run)?.standing {
                Standing::NeverStarted { why } => why,
                _ => None,
            });
            assert!(why.contains("standard input"), "{why}");
            runs.give_back(manifest.run).unwrap();
        }
        Err(error) => assert!(matches!(error, BeginError::Keeper(_)), "{error:?}"),
    }
    assert!(!starts.exists());
    assert!(runs.list().is_empty());
    assert!(!room.run_dir(manifest.run).exists());
}
