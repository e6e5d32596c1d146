//! Commands that try to get out of what keeps them, each tried twice: with what should stop it, and without, so that the
//! attempt is known to be one.
//!
//! Most of it needs root and a kernel with Landlock. Where something is missing the test says so on standard error; and
//! where `CI` is set it fails, so that nobody believes in a test that did not run.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod room;

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use bowline_execute::{
    BeginError, EndedAs, Happening, HeldBy, Limits, Machine, Manifest, NoSandbox, RunUser, Runs, Sandbox, Secrets,
    Stream,
};
use room::*;

/// A place for control groups in which none can be made: below a file.
const NO_GROUPS: &str = "cgroup.procs/none";

/// Says that something was not tested. Never where everything must be.
fn not_tested(why: &str) {
    eprintln!("NOT TESTED HERE: {why}");
    assert!(std::env::var_os("CI").is_none(), "this machine must be able to test everything: {why}");
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        not_tested("only root can become another user");
    }
    root
}

fn has_sandbox() -> bool {
    match Machine::look(Some(Path::new(NO_GROUPS))).sandbox() {
        Ok(()) => true,
        Err(why) => {
            not_tested(&why.to_string());
            false
        }
    }
}

/// Somebody who has nothing here, and whom nobody else is.
fn stranger() -> RunUser {
    RunUser { name: "stranger".into(), uid: 64_321, gid: 64_322, groups: vec![64_322, 64_323], home: "/nowhere".into() }
}

/// A room that others may pass through, with the agent's secrets in it.
fn house(change: impl FnOnce(&mut bowline_execute::Settings)) -> (Room, Runs) {
    let room = Room::default();
    fs::set_permissions(room.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let mut settings = settings();
    settings.other_users = true;
    change(&mut settings);
    let runs = Runs::open(&room.agent(), settings).unwrap();
    for name in ["agent.key", "credential.json"] {
        fs::write(room.agent().join(name), "agent-secret").unwrap();
        fs::set_permissions(room.agent().join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    (room, runs)
}

/// Tries each of these, and says which came through.
fn attempts(tried: &[(&str, String)]) -> String {
    let tries = tried.iter().map(|(name, script)| {
        format!("if ( {script} ) >/dev/null 2>&1; then echo {name}=yes; else echo {name}=no; fi")
    });
    tries.collect::<Vec<_>>().join("\n")
}

fn answers(runs: &Runs, manifest: &Manifest) -> BTreeMap<String, String> {
    begin(runs, manifest);
    answered(runs, manifest)
}

fn answered(runs: &Runs, manifest: &Manifest) -> BTreeMap<String, String> {
    let end = ended(runs, manifest.run);
    let (out, err) = (text(runs, manifest.run, Stream::Stdout), text(runs, manifest.run, Stream::Stderr));
    assert_eq!(end.outcome, EndedAs::Succeeded, "{end:?}\n{out}\n{err}");
    out.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
}

/// All of them come through without protection, and none with it. What even without it is impossible proves nothing.
#[track_caller]
fn only_without(free: &BTreeMap<String, String>, kept: &BTreeMap<String, String>, may_fail: &[&str]) {
    assert!(!free.is_empty());
    assert_eq!(free.len(), kept.len());
    for (name, came_through) in free {
        match came_through.as_str() {
            "yes" => assert_eq!(kept[name], "no", "{name} came through"),
            _ if may_fail.contains(&name.as_str()) => not_tested(&format!("{name} is impossible here anyway")),
            _ => panic!("{name} is no attempt: it fails without protection as well"),
        }
    }
}

#[track_caller]
fn held(runs: &Runs, manifest: &Manifest) -> BTreeMap<String, HeldBy> {
    command_pid(runs, manifest.run);
    let Happening::Started { limits, .. } = records(runs, manifest.run).remove(0).happening else { panic!("no start") };
    limits
}

#[test]
fn arguments_are_literal() {
    let (_room, runs) = house(|_| {});
    let sly = ["; touch x", "$(id)", "`id`", "a\nb", "--help", "*"];
    let manifest = command(&[&["/usr/bin/printf", "<%s>"][..], &sly[..]].concat());
    assert_eq!(execute(&runs, &manifest).outcome, EndedAs::Succeeded);
    assert_eq!(text(&runs, manifest.run, Stream::Stdout), sly.map(|item| format!("<{item}>")).concat());
}

#[test]
fn another_user_has_its_own_directory_and_nothing_of_ours() {
    if !is_root() {
        return;
    }
    let (room, runs) = house(|_| {});
    let agent = room.agent();
    let other = script("echo of another run > secret");
    execute(&runs, &other);
    let mine = std::process::id();
    let tried = attempts(&[
        ("key", format!("grep agent-secret {}/agent.key", agent.display())),
        ("credential", format!("grep agent-secret {}/credential.json", agent.display())),
        ("list-agent", format!("ls {}", agent.display())),
        ("list-runs", format!("ls {}/runs", agent.display())),
        ("list-run", "ls ..".into()),
        ("manifest", "cat ../manifest.json".into()),
        ("log", ": >> ../events.log".into()),
        ("marker", ": >> ../started".into()),
        ("output", ": >> ../stdout".into()),
        ("new-file", "touch ../new".into()),
        ("other-run", format!("cat {}/work/secret", room.run_dir(other.run).display())),
        ("keeper-environment", "cat /proc/$PPID/environ".into()),
        ("keeper-memory", "head -c 0 /proc/$PPID/mem".into()),
        ("agent-environment", format!("cat /proc/{mine}/environ")),
        ("agent-signal", format!("kill -0 {mine}")),
        (
            "group",
            "echo 0 >> $(ls -d /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/cgroup.procs 2>/dev/null | head -1)".into(),
        ),
        ("shadow", "cat /etc/shadow".into()),
    ]);
    let free = script(&tried);
    let mut kept = script(&tried);
    kept.user = Some(stranger());
    only_without(&answers(&runs, &free), &answers(&runs, &kept), &["group"]);

    let mut at_home = script(
        "id -u; id -g; id -G; umask; echo $HOME $USER $LOGNAME; echo mine > file; cat file; pwd; ls /proc/self/fd | wc -l",
    );
    at_home.user = Some(stranger());
    execute(&runs, &at_home);
    let work = room.run_dir(at_home.run).canonicalize().unwrap().join("work");
    assert_eq!(
        text(&runs, at_home.run, Stream::Stdout),
        format!("64321\n64322\n64322 64323\n0077\n/nowhere stranger stranger\nmine\n{}\n4\n", work.display())
    );
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&room.run_dir(at_home.run)), mode(&work)), (0o710, 0o700));
}

#[test]
fn a_directory_that_its_user_cannot_enter_is_not_entered_for_it() {
    if !is_root() {
        return;
    }
    let (room, runs) = house(|_| {});
    let closed = room.file("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let mut free = script("pwd");
    free.cwd = Some(closed);
    let mut kept = Manifest { user: Some(stranger()), ..free.clone() };
    (kept.run, kept.job, kept.host) = (script("").run, script("").job, script("").host);
    assert_eq!(execute(&runs, &free).outcome, EndedAs::Succeeded);
    let end = execute(&runs, &kept);
    assert_eq!((end.outcome, end.exit_code), (EndedAs::Failed, None));
    assert!(end.message.as_deref().unwrap().contains("its user cannot enter its directory"), "{end:?}");
}

#[test]
fn a_program_with_another_owner_gives_nobody_its_rights() {
    if !is_root() {
        return;
    }
    let (room, runs) = house(|_| {});
    let id = room.file("id");
    fs::copy("/usr/bin/id", &id).unwrap();
    fs::set_permissions(&id, fs::Permissions::from_mode(0o4755)).unwrap();
    let who = |allow_new_privileges| {
        let mut manifest = command(&[id.to_str().unwrap(), "-u"]);
        manifest.user = Some(stranger());
        manifest.allow_new_privileges = allow_new_privileges;
        execute(&runs, &manifest);
        text(&runs, manifest.run, Stream::Stdout)
    };
    if who(true) == "0\n" {
        assert_eq!(who(false), "64321\n");
    } else {
        not_tested("programs here do not run as their owners (nosuid)");
    }
}

/// What a sandbox is to stop, whoever the command runs as.
fn escapes(room: &Room, outside: &Path, other: &Manifest) -> Vec<(&'static str, String)> {
    let mine = std::process::id();
    vec![
        ("write-outside", format!("echo > {}/$BOWLINE_RUN_ID", outside.display())),
        ("write-tmp", "touch /tmp/bowline-escape && rm /tmp/bowline-escape".into()),
        ("truncate-outside", format!(": > {}/there", outside.display())),
        ("remove-outside", format!("touch {0}/gone; rm {0}/gone", outside.display())),
        ("read-outside", format!("cat {}/there", outside.display())),
        ("execute-outside", format!("{}/program", outside.display())),
        ("other-run", format!("cat {}/work/secret", room.run_dir(other.run).display())),
        ("signal-agent", format!("kill -0 {mine}")),
        ("agent-environment", format!("cat /proc/{mine}/environ")),
    ]
}

/// What only root gets at without one.
fn escapes_of_root(room: &Room) -> Vec<(&'static str, String)> {
    let agent = room.agent();
    vec![
        ("key", format!("grep agent-secret {}/agent.key", agent.display())),
        ("list-agent", format!("ls {}", agent.display())),
        ("log", ": >> ../events.log".into()),
        ("marker", ": >> ../started".into()),
        ("manifest", "cat ../manifest.json".into()),
        ("keeper-environment", "cat /proc/$PPID/environ".into()),
        ("keeper-files", "readlink /proc/$PPID/fd/2".into()),
        ("shadow", "cat /etc/shadow".into()),
        ("change-configuration", ": >> /etc/hosts".into()),
        (
            "leave-group",
            "echo 0 >> $(ls -d /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/cgroup.procs 2>/dev/null | head -1)".into(),
        ),
        ("mount", "mkdir -p m && mount -t tmpfs none m && umount m".into()),
        ("device", "mknod dev c 1 5 && head -c 1 dev".into()),
        ("new-namespace", "unshare -U true".into()),
        ("privileges", "grep -v 0000000000000000 /proc/self/status | grep -q CapEff".into()),
        ("privileges-to-get", "grep -v 0000000000000000 /proc/self/status | grep -q CapBnd".into()),
        ("owner", "touch owned && chown 1 owned".into()),
        ("mode", format!("chmod 640 {}/agent.key", agent.display())),
    ]
}

fn outside(room: &Room) -> PathBuf {
    let outside = room.file("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("there"), "there").unwrap();
    fs::copy("/bin/true", outside.join("program")).unwrap();
    for (name, mode) in [("", 0o777), ("there", 0o666), ("program", 0o755)] {
        fs::set_permissions(outside.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    outside
}

#[test]
fn a_sandbox_holds_root() {
    if !is_root() || !has_sandbox() {
        return;
    }
    let (room, runs) = house(|_| {});
    let outside = outside(&room);
    let other = script("echo of another run > secret");
    execute(&runs, &other);
    let tried = attempts(&[escapes(&room, &outside, &other), escapes_of_root(&room)].concat());
    let free = answers(&runs, &script(&tried));
    for sandbox in [Sandbox::Standard, Sandbox::Strict] {
        let mut kept = script(&tried);
        kept.sandbox = sandbox;
        // A permission for privileges is none within walls.
        kept.allow_new_privileges = true;
        only_without(&free, &answers(&runs, &kept), &["leave-group", "mount", "device", "new-namespace"]);
    }
    assert!(fs::read_to_string(outside.join("there")).unwrap().is_empty(), "the free one emptied it");
}

#[test]
fn a_sandbox_holds_another_user() {
    if !is_root() || !has_sandbox() {
        return;
    }
    let (room, runs) = house(|_| {});
    let outside = outside(&room);
    let mut other = script("echo of another run > secret");
    other.user = Some(stranger());
    execute(&runs, &other);
    let mut tried = escapes(&room, &outside, &other);
    // The agent is somebody else: that alone is enough.
    tried.retain(|(name, _)| !name.contains("agent"));
    let [mut free, mut kept] = [script(&attempts(&tried)), script(&attempts(&tried))];
    (free.user, kept.user, kept.sandbox) = (Some(stranger()), Some(stranger()), Sandbox::Standard);
    only_without(&answers(&runs, &free), &answers(&runs, &kept), &[]);
}

#[test]
fn there_is_enough_room_in_a_sandbox_to_work() {
    if !has_sandbox() {
        return;
    }
    let users = if is_root() { vec![None, Some(stranger())] } else { vec![None] };
    for (sandbox, user) in
        [Sandbox::Standard, Sandbox::Strict].into_iter().flat_map(|s| users.iter().map(move |u| (s, u.clone())))
    {
        let (room, runs) = house(|_| {});
        let mut manifest = script(
            "set -e; echo one > file; mkdir -p deep/er; mv file deep/er; cat deep/er/file
             mktemp > name; echo two > $(cat name); cat $(cat name)
             cp /bin/true own; echo '#!/bin/sh' > own; echo 'echo three' >> own; ./own
             ln deep/er/file link; touch link; echo gone > /dev/null; grep -c . /etc/passwd > /dev/null
             ls /usr /proc/self > /dev/null; (echo four | cat); cd /; echo $HOME $TMPDIR
             ls /proc/self/fd | wc -l; umask; grep NoNewPrivs /proc/self/status",
        );
        (manifest.sandbox, manifest.user) = (sandbox, user);
        let end = execute(&runs, &manifest);
        let directory = room.run_dir(manifest.run).canonicalize().unwrap();
        let out = text(&runs, manifest.run, Stream::Stdout);
        let expected =
            format!("one\ntwo\nthree\nfour\n{0}/work {0}/tmp\n4\n0077\nNoNewPrivs:\t1\n", directory.display());
        assert_eq!(out, expected, "{end:?} {}", text(&runs, manifest.run, Stream::Stderr));
    }
}

/// The part of a command that calls others.
#[test]
#[ignore = "a part in other tests"]
fn a_command_that_calls_others() {
    let says = |what: &str, done: std::io::Result<()>| match done {
        Ok(()) => println!("\n{what}=yes"),
        Err(error) => println!("\n{what}=no\nbecause {what}: {error}"),
    };
    says("tcp", std::net::TcpStream::connect(std::env::var("TCP").unwrap()).map(drop));
    says("udp", std::net::UdpSocket::bind("127.0.0.1:0").map(drop));
    says("unix", std::os::unix::net::UnixStream::connect(std::env::var("UNIX").unwrap()).map(drop));
    says("datagram", std::os::unix::net::UnixDatagram::unbound().map(drop));
    says("pair", std::os::unix::net::UnixStream::pair().map(drop));
    says("datagram-pair", std::os::unix::net::UnixDatagram::pair().map(drop));
    says("process", std::process::Command::new("/bin/true").status().map(drop));
    says("thread", std::thread::Builder::new().spawn(|| {}).map(drop));
}

#[test]
fn a_sandbox_decides_who_can_be_called() {
    if !has_sandbox() {
        return;
    }
    let (room, runs) = house(|_| {});
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let unix = room.file("socket");
    let _unix = UnixListener::bind(&unix).unwrap();
    fs::set_permissions(&unix, fs::Permissions::from_mode(0o777)).unwrap();
    // Programs outside cannot be executed in a sandbox, so this one is brought in.
    let me = std::env::current_exe().unwrap();
    let called = |sandbox| {
        let wait = "while [ ! -e me ]; do sleep 0.01; done";
        let mut manifest = script(&format!("{wait}; ./me --exact a_command_that_calls_others --ignored --nocapture"));
        manifest.sandbox = sandbox;
        manifest.env.insert("TCP".into(), tcp.local_addr().unwrap().to_string());
        manifest.env.insert("UNIX".into(), unix.to_str().unwrap().into());
        begin(&runs, &manifest);
        let work = room.run_dir(manifest.run).join("work");
        fs::copy(&me, work.join("coming")).unwrap();
        fs::rename(work.join("coming"), work.join("me")).unwrap();
        let mut answers = answered(&runs, &manifest);
        answers.retain(|_, answer| answer == "yes");
        answers.into_keys().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(called(Sandbox::None), "datagram datagram-pair pair process tcp thread udp unix");
    assert_eq!(called(Sandbox::Standard), "pair process tcp thread udp");
    assert_eq!(called(Sandbox::Strict), "pair process thread");
}

/// The part of an agent whose kernel has no Landlock.
#[test]
#[ignore = "a part in other tests"]
fn an_agent_without_landlock() {
    use seccompiler::{SeccompAction, SeccompFilter, apply_filter};
    let call = [(libc::SYS_landlock_create_ruleset, Vec::new())].into_iter().collect();
    let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let filter = SeccompFilter::new(call, SeccompAction::Allow, unknown, std::env::consts::ARCH.try_into().unwrap());
    let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
    apply_filter(&program).unwrap();
    let started = PathBuf::from(std::env::var_os("ROOM").unwrap()).join("started");
    let runs = Runs::open(&PathBuf::from(std::env::var_os("ROOM").unwrap()).join("agent"), settings()).unwrap();
    assert!(Machine::look(Some(Path::new(NO_GROUPS))).describe().contains("sandbox no: this kernel has no Landlock"));
    let mut manifest = script(&format!("touch {}", started.display()));
    manifest.sandbox = Sandbox::Standard;
    let refused = runs.begin(manifest.clone(), &Secrets::default()).unwrap_err();
    assert!(matches!(refused, BeginError::Sandbox { source: NoSandbox::NoLandlock, .. }), "{refused:?}");
    assert!(runs.list().is_empty() && !started.exists());
    // The same without a sandbox can be executed.
    manifest.sandbox = Sandbox::None;
    execute(&runs, &manifest);
    assert!(started.exists());
}

#[test]
fn without_landlock_a_sandboxed_command_is_refused_and_not_executed() {
    let room = Room::default();
    let agent = finish(part("an_agent_without_landlock", &[("ROOM", room.path())]).stdin(Stdio::null()));
    assert!(
        agent.status.success(),
        "{}{}",
        String::from_utf8_lossy(&agent.stdout),
        String::from_utf8_lossy(&agent.stderr)
    );
    assert!(room.file("started").exists());
}

#[test]
fn secrets_that_a_sandbox_would_show_keep_it_from_being_used() {
    if !has_sandbox() {
        return;
    }
    let (_room, runs) = house(|settings| settings.private = vec!["/usr/share".into()]);
    let mut manifest = script("true");
    manifest.sandbox = Sandbox::Standard;
    let refused = runs.begin(manifest, &Secrets::default()).unwrap_err();
    assert!(
        matches!(&refused, BeginError::Sandbox { source: NoSandbox::InSight(path), .. } if path == Path::new("/usr/share"))
    );
}

/// Runs that get no control group, because there is none to make it in.
fn without_groups() -> (Room, Runs) {
    house(|settings| settings.cgroup_parent = Some(NO_GROUPS.into()))
}

#[test]
fn a_fork_bomb_is_held_without_a_group_and_neighbours_finish() {
    if !is_root() {
        return;
    }
    let (_room, runs) = without_groups();
    let bomb = |limits| {
        let mut manifest = script("for n in $(seq 100); do sleep 1000 & done; wait");
        manifest.user = Some(RunUser { uid: 64_400, ..stranger() });
        manifest.limits = limits;
        manifest.kill_grace_ms = 100;
        // What it has made is counted after its end.
        manifest.leave_children = true;
        begin(&runs, &manifest);
        manifest
    };
    let kept = bomb(Limits { pids_max: Some(20), ..Limits::default() });
    assert_eq!(held(&runs, &kept), BTreeMap::from([("pids_max".into(), HeldBy::User)]));
    let end = ended(&runs, kept.run);
    assert_eq!((end.outcome, end.exit_code), (EndedAs::Failed, Some(2)), "the shell could not fork: {end:?}");
    assert!((10..20).contains(&processes_of(kept.run).len()), "{}", processes_of(kept.run).len());
    // The same user with no limit is as many as it likes.
    let free = bomb(Limits::default());
    until("the whole bomb", || (processes_of(free.run).len() > 100).then_some(()));
    assert_eq!(execute(&runs, &script("true")).outcome, EndedAs::Succeeded);
    runs.cancel(free.run).unwrap();
    assert_eq!(ended(&runs, free.run).outcome, EndedAs::Canceled);
    until("the end of all of them", || processes_of(free.run).is_empty().then_some(()));
}

#[test]
fn root_is_not_counted_and_nobody_says_it_were() {
    if !is_root() {
        return;
    }
    let (_room, runs) = without_groups();
    let mut manifest = script("true");
    manifest.limits = Limits { pids_max: Some(20), cpu_max_percent: Some(50), ..Limits::default() };
    execute(&runs, &manifest);
    let nothing = |name: &str| (name.to_owned(), HeldBy::Nothing);
    assert_eq!(held(&runs, &manifest), BTreeMap::from([nothing("cpu_max_percent"), nothing("pids_max")]));
    let Happening::Started { unenforced, .. } = records(&runs, manifest.run).remove(0).happening else { panic!() };
    assert_eq!(unenforced, ["cpu_max_percent", "pids_max"]);
}

#[test]
fn memory_and_files_are_held_for_each_process_without_a_group() {
    let (room, runs) = without_groups();
    let run = |text: &str, limits| {
        let mut manifest = script(text);
        manifest.limits = limits;
        (execute(&runs, &manifest).outcome, manifest)
    };
    let memory = "dd if=/dev/zero of=/dev/null bs=300M count=1";
    assert_eq!(run(memory, Limits::default()).0, EndedAs::Succeeded);
    let (outcome, manifest) = run(memory, Limits { memory_max_bytes: Some(100 << 20), ..Limits::default() });
    assert_eq!(outcome, EndedAs::Failed);
    assert!(text(&runs, manifest.run, Stream::Stderr).contains("memory"));
    assert_eq!(held(&runs, &manifest), BTreeMap::from([("memory_max_bytes".into(), HeldBy::Process)]));

    let file = "head -c 2000000 /dev/zero > file";
    let size = |manifest: &Manifest| fs::metadata(room.run_dir(manifest.run).join("work/file")).unwrap().len();
    let (outcome, manifest) = run(file, Limits::default());
    assert_eq!((outcome, size(&manifest)), (EndedAs::Succeeded, 2_000_000));
    let (outcome, manifest) = run(file, Limits { file_max_bytes: Some(1_000_000), ..Limits::default() });
    assert_eq!((outcome, size(&manifest)), (EndedAs::Failed, 1_000_000));
    assert_eq!(held(&runs, &manifest), BTreeMap::from([("file_max_bytes".into(), HeldBy::Process)]));
    // The keeper has no such limit: it goes on recording.
    let (outcome, manifest) = run("head -c 2000000 /dev/zero", Limits { file_max_bytes: Some(1), ..Limits::default() });
    assert_eq!((outcome, output(&runs, manifest.run, Stream::Stdout).len()), (EndedAs::Succeeded, 2_000_000));
}

#[test]
fn a_share_of_the_processors_is_held_by_a_group() {
    let (_room, runs) = house(|_| {});
    let mut manifest = script("while :; do :; done");
    manifest.limits.cpu_max_percent = Some(10);
    manifest.kill_grace_ms = 100;
    begin(&runs, &manifest);
    if held(&runs, &manifest)["cpu_max_percent"] == HeldBy::Group {
        let stat = |tree: &str| {
            let path =
                Path::new("/sys/fs/cgroup").join(tree).join(format!("bowline-{}", manifest.run)).join("cpu.stat");
            let text = fs::read_to_string(path).ok()?;
            text.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.parse::<u64>().ok())
        };
        until("the processor to be withheld", || {
            ["cpu", "cpu,cpuacct", ""].into_iter().find_map(stat).filter(|times| *times > 3)
        });
    } else {
        not_tested("there is no control group for processors");
    }
    runs.cancel(manifest.run).unwrap();
    assert_eq!(ended(&runs, manifest.run).outcome, EndedAs::Canceled);
}

/// A process of ours, as the agent is, and what a command of the same user may try on it.
fn attempts_on(victim: u32) -> String {
    attempts(&[
        ("limits", format!("prlimit --pid {victim} --nofile=64:64")),
        ("affinity", format!("taskset -p 1 {victim}")),
        ("priority", format!("renice -n 5 -p {victim}")),
        ("disk-priority", format!("ionice -c 3 -p {victim}")),
        ("scheduler", format!("chrt --batch -p 0 {victim}")),
    ])
}

#[test]
fn a_command_with_the_agents_user_limits_nobody_else() {
    let (_room, runs) = house(|_| {});
    let mut victim = std::process::Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    let tried = attempts_on(victim.id());
    let mut free = script(&tried);
    // With privileges to gain there is no filter.
    free.allow_new_privileges = true;
    let free = answers(&runs, &free);
    let kept = answers(&runs, &script(&tried));
    only_without(&free, &kept, &["affinity", "priority", "disk-priority", "scheduler"]);
    if has_sandbox() {
        let mut strict = script(&tried);
        strict.sandbox = Sandbox::Strict;
        only_without(&free, &answers(&runs, &strict), &["affinity", "priority", "disk-priority", "scheduler"]);
    }
    let own = script(&attempts(&[("own-limits", "ulimit -n 100".into()), ("own-priority", "nice -n 5 true".into())]));
    assert!(answers(&runs, &own).values().all(|came_through| came_through == "yes"), "its own it may change");
    victim.kill().unwrap();
    victim.wait().unwrap();
}

/// The part of a command that asks the kernel for other processes. There is nobody under the number it gives, so a kernel that
/// looks at the request says something else than that it is forbidden.
#[test]
#[expect(unsafe_code, reason = "the calls themselves are what is tried; they are given nothing to write to")]
fn a_command_that_reaches_into_other_processes() {
    if std::env::var_os("REACHING").is_none() {
        return;
    }
    let nobody = libc::pid_t::MAX;
    let nothing = std::ptr::null::<libc::c_void>();
    let says = |what: &str, returned: libc::c_long| {
        let error = std::io::Error::last_os_error();
        let forbidden = returned == -1 && error.raw_os_error() == Some(libc::EPERM);
        println!("\n{what}={}", if forbidden { "no" } else { "yes" });
    };
    // SAFETY: no call is given memory of ours, and none finds a process.
    unsafe {
        says("ptrace", libc::syscall(libc::SYS_ptrace, libc::PTRACE_SEIZE, nobody, nothing, nothing));
        says("read", libc::syscall(libc::SYS_process_vm_readv, nobody, nothing, 0, nothing, 0, 0));
        says("write", libc::syscall(libc::SYS_process_vm_writev, nobody, nothing, 0, nothing, 0, 0));
        says("descriptor", libc::syscall(libc::SYS_pidfd_getfd, -1, 0, 0));
    }
}

#[test]
fn a_command_with_the_agents_user_looks_into_no_other_process() {
    let (room, runs) = house(|_| {});
    let me = std::env::current_exe().unwrap();
    let tried = |change: &dyn Fn(&mut Manifest)| {
        let wait = "while [ ! -e me ]; do sleep 0.01; done";
        let part = "a_command_that_reaches_into_other_processes";
        let mut manifest = script(&format!("{wait}; REACHING=1 ./me --exact {part} --nocapture"));
        change(&mut manifest);
        begin(&runs, &manifest);
        let work = room.run_dir(manifest.run).join("work");
        fs::copy(&me, work.join("coming")).unwrap();
        fs::rename(work.join("coming"), work.join("me")).unwrap();
        let mut answers = answered(&runs, &manifest);
        answers.retain(|_, answer| answer == "yes" || answer == "no");
        assert_eq!(answers.len(), 4, "{answers:?}");
        answers
    };
    // With privileges to gain there is no filter.
    let free = tried(&|manifest| manifest.allow_new_privileges = true);
    only_without(&free, &tried(&|_| {}), &[]);
    if has_sandbox() {
        for sandbox in [Sandbox::Standard, Sandbox::Strict] {
            only_without(&free, &tried(&|manifest| manifest.sandbox = sandbox), &[]);
        }
    }
}

#[test]
fn the_agents_directory_is_closed_to_a_command_with_the_agents_user() {
    if !has_sandbox() {
        return;
    }
    let (room, runs) = house(|_| {});
    let (agent, outside) = (room.agent(), outside(&room));
    let other = script("echo of another run > secret");
    execute(&runs, &other);
    let tried = attempts(&[
        ("key", format!("grep agent-secret {}/agent.key", agent.display())),
        ("credential", format!("grep agent-secret {}/credential.json", agent.display())),
        ("change-key", format!("echo agent-secret >> {}/agent.key", agent.display())),
        ("other-run", format!("cat {}/work/secret", room.run_dir(other.run).display())),
        ("log", ": >> ../events.log".into()),
        ("manifest", "cat ../manifest.json".into()),
        ("plant", format!("echo x > {}/known_hosts-$$", agent.display())),
        ("link", format!("ln {}/agent.key stolen && cat stolen", agent.display())),
    ]);
    let free = answers(&runs, &script(&tried));
    let mut kept = script(&tried);
    kept.closed = vec![agent.clone()];
    only_without(&free, &answers(&runs, &kept), &[]);
    let mut everyday = script(&attempts(&[
        ("own-directory", "echo x > file && mkdir d && mv file d/ && cat d/file".into()),
        ("outside", format!("cat {0}/there; echo x > {0}/new && rm {0}/new", outside.display())),
        ("programs", "ls / /usr | sort | head -1".into()),
        ("devices", "head -c 1 /dev/zero > /dev/null".into()),
        ("processes", "cat /proc/self/status".into()),
    ]));
    everyday.closed = vec![agent];
    let everyday = answers(&runs, &everyday);
    assert!(everyday.values().all(|came_through| came_through == "yes"), "{everyday:?}");
}
