//! A place for one test: an agent's directory, runs to begin in it, and the promise that nothing of it outlives the test.
//!
//! What is judged here is judged from outside: by `/proc`, by files that the commands themselves write, by hashes.
#![allow(dead_code, reason = "each test binary uses what it needs")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bowline_execute::{
    Ended, Happening, HostLock, Limits, Manifest, Record, Running, Runs, Sandbox, Secrets, Settings, Standing, Stream,
};
use bowline_model::{HostName, JobId, RunId, Timestamp};
use rustix::process::{Pid, Signal, kill_process};

pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Room {
    directory: tempfile::TempDir,
}

impl Default for Room {
    fn default() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }
}

impl Room {
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn agent(&self) -> PathBuf {
        self.path().join("agent")
    }

    pub fn runs(&self) -> Runs {
        Runs::open(&self.agent(), settings()).unwrap()
    }

    pub fn run_dir(&self, run: RunId) -> PathBuf {
        self.agent().join("runs").join(run.to_string())
    }
}

/// Ends whatever is left, however the test ended: keepers by their run directory, commands by the run in their environment.
impl Drop for Room {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let ours = self.path().to_string_lossy().into_owned();
        let runs = names(&self.agent().join("runs"));
        let mut seen = Vec::new();
        while Instant::now() < deadline {
            let left = processes(|pid| {
                let of = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                let command = String::from_utf8_lossy(&of("cmdline")).into_owned();
                let environment = String::from_utf8_lossy(&of("environ")).into_owned();
                command.contains(&ours) || runs.iter().any(|run| environment.contains(&format!("BOWLINE_RUN_ID={run}")))
            });
            let left: Vec<_> = left.into_iter().filter(|pid| *pid != std::process::id()).collect();
            if left.is_empty() {
                break;
            }
            for pid in &left {
                kill(*pid, Signal::KILL);
            }
            seen.extend(left);
            sleep(Duration::from_millis(5));
        }
        for tree in ["unified", "pids", "memory", "freezer", ""] {
            for run in &runs {
                let _ = fs::remove_dir(Path::new("/sys/fs/cgroup").join(tree).join(format!("bowline-{run}")));
            }
        }
    }
}

pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

pub fn settings() -> Settings {
    Settings::new([env!("CARGO_BIN_EXE_bowline-keeper")], Arc::new(|| Timestamp::from_millis(1_767_398_400_000)))
}

pub fn entropy() -> [u8; 10] {
    let mut bytes = [0; 10];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes
}

/// A manifest for a shell script, on a host and for a job of its own.
pub fn script(text: &str) -> Manifest {
    command(&["/bin/sh", "-c", text])
}

pub fn command(argv: &[&str]) -> Manifest {
    let at = Timestamp::from_millis(1_767_398_400_000);
    let run = RunId::mint(at, entropy());
    Manifest {
        version: Manifest::VERSION,
        run,
        job: JobId::mint(at, entropy()),
        host: HostName::new(&format!("host-{run}")).unwrap(),
        fence: 1,
        attempt: 0,
        command: None,
        host_fence: 1,
        lock: HostLock::Exclusive,
        argv: argv.iter().map(|item| (*item).to_owned()).collect(),
        env: BTreeMap::new(),
        secrets: BTreeMap::new(),
        cwd: None,
        stdin: None,
        timeout_ms: 60_000,
        kill_grace_ms: 10_000,
        output_max_bytes: 1 << 30,
        allow_new_privileges: false,
        limits: Limits::default(),
        user: None,
        sandbox: Sandbox::None,
        leave_children: false,
        closed: Vec::new(),
    }
}

pub fn begin(runs: &Runs, manifest: &Manifest) -> Running {
    runs.begin(manifest.clone(), &Secrets::default()).unwrap()
}

/// Begins a run and waits for its end.
pub fn execute(runs: &Runs, manifest: &Manifest) -> Ended {
    begin(runs, manifest);
    ended(runs, manifest.run)
}

#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        sleep(Duration::from_millis(5));
    }
}

#[track_caller]
pub fn ended(runs: &Runs, run: RunId) -> Ended {
    until("the end of the run", || match runs.find(run)?.standing {
        Standing::Ended(ended) => Some(ended),
        Standing::NeverStarted { why } => panic!("it was never started: {why:?}"),
        Standing::Running => None,
    })
}

pub fn records(runs: &Runs, run: RunId) -> Vec<Record> {
    runs.events_after(run, 0, usize::MAX).unwrap()
}

/// The pid of the command itself, as its log tells.
#[track_caller]
pub fn command_pid(runs: &Runs, run: RunId) -> u32 {
    until("the start of the command", || {
        records(runs, run).iter().find_map(|record| match record.happening {
            Happening::Started { pid, .. } => Some(pid),
            _ => None,
        })
    })
}

pub fn output(runs: &Runs, run: RunId, stream: Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let part = runs.read_output(run, stream, bytes.len() as u64, 1 << 20).unwrap();
        if part.is_empty() {
            return bytes;
        }
        bytes.extend(part);
    }
}

pub fn text(runs: &Runs, run: RunId, stream: Stream) -> String {
    String::from_utf8(output(runs, run, stream)).unwrap()
}

/// Waits until a file that a command writes has so many lines, and returns them.
#[track_caller]
pub fn lines(path: &Path, count: usize) -> Vec<String> {
    until(&format!("{count} lines in {}", path.display()), || {
        let text = fs::read_to_string(path).ok()?;
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        (lines.len() >= count && text.ends_with('\n')).then_some(lines)
    })
}

/// Not there, or ended and not yet taken note of: as one whose first thread has ended, and that has no others.
pub fn is_gone(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    matches!(fields[0], "Z" | "X") && fields[17].parse::<u32>().unwrap() <= 1
}

#[track_caller]
pub fn until_gone(pid: u32) {
    until(&format!("the end of process {pid}"), || is_gone(pid).then_some(()));
}

pub fn processes(wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    names(Path::new("/proc")).iter().filter_map(|name| name.parse().ok()).filter(|pid| wanted(*pid)).collect()
}

/// Processes that were started with this run in their environment.
pub fn processes_of(run: RunId) -> Vec<u32> {
    let mark = format!("BOWLINE_RUN_ID={run}");
    processes(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        !is_gone(pid) && environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    })
}

pub fn kill(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal);
}

/// Waits for the end of a process and for what it printed. One that does not end is killed, and the test fails.
#[track_caller]
pub fn finish(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(2 * PATIENCE) else {
        kill(pid, Signal::KILL);
        panic!("waited in vain for the end of {command:?}");
    };
    output.unwrap()
}

/// A figure of `/proc/<pid>/status`, in KiB.
pub fn status_kib(pid: u32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.trim_start_matches(':').split_whitespace().next()?.parse().ok())
}

/// This test binary again, as a process that plays a part: the ignored test of this name, with these variables.
pub fn part(name: &str, variables: &[(&str, &Path)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).envs(variables.iter().copied());
    command
}

/// The same as the command of a manifest.
pub fn part_as_command(name: &str) -> Manifest {
    let me = std::env::current_exe().unwrap();
    command(&[me.to_str().unwrap(), "--exact", name, "--ignored", "--nocapture"])
}
