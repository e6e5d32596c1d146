//! One private server: its process, its port, its directory.
//!
//! *Stopped* here means a crash: `stop_immediate` gives the server no time to write anything. *Frozen* means alive to
//! the kernel, which goes on accepting connections for it, and dead to everybody who waits for an answer.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::binaries::Binaries;
use super::{client, template};
use crate::room::Room;
use crate::signal::{self, Signal};
use crate::{nursery, port, proc_table};

/// Recovery after a crash belongs to a start, and a busy machine makes it long.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// After five seconds the server itself kills those of its children that did not quit.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Settings for a server that is not started yet.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    settings: Vec<(String, String)>,
    files: Vec<(String, String)>,
}

impl PostgresOptions {
    /// A line of `postgresql.conf`. The last of two with the same name counts.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A file in the data directory, readable by the server alone; settings name it without a path.
    #[must_use]
    pub fn file(mut self, name: &str, content: &str) -> Self {
        self.files.push((name.to_owned(), content.to_owned()));
        self
    }

    /// # Panics
    /// If there is no PostgreSQL to start, or it does not start; with its log.
    #[must_use]
    pub fn start(self) -> Postgres {
        self.try_start().unwrap_or_else(|error| panic!("cannot start a PostgreSQL server: {error:#}"))
    }

    /// The same for those who can say it more nicely than a panic.
    pub fn try_start(self) -> anyhow::Result<Postgres> {
        let binaries = Binaries::find()?;
        let room = Room::take("postgres")?;
        binaries.hand_over(room.path())?;
        template::copy_to(&room.path().join("data"), &binaries)?;
        for (name, content) in &self.files {
            let path = room.path().join("data").join(name);
            fs::write(&path, content).with_context(|| format!("cannot write {name}"))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).context("cannot close a file")?;
            binaries.hand_over(&path)?;
        }
        // Our ports are reserved among tests, but a stranger may still take one between our look and the server's.
        for _ in 0..10 {
            let port = port::free_port();
            match launch(&binaries, &room, port, &self.settings) {
                Ok(process) => {
                    let process = Mutex::new(process);
                    return Ok(Postgres { process, port, settings: self.settings, binaries, room });
                }
                Err(NotStarted::PortTaken) => {}
                Err(NotStarted::Other(error)) => return Err(error),
            }
        }
        bail!("ten free ports were taken before the server could listen on them");
    }
}

/// A running server with default durability and no passwords, on loopback only, gone with this guard.
///
/// All calls block for the moment they take, which is fine in async tests: nothing waits for the test meanwhile.
/// If the test process is killed, the server quits with it; what stays on disk is removed by the next start of any
/// server, and so are the processes of a server that was frozen and could not hear.
pub struct Postgres {
    process: Mutex<std::process::Child>,
    port: u16,
    settings: Vec<(String, String)>,
    binaries: Binaries,
    room: Room,
}

impl Postgres {
    /// # Panics
    /// If there is no PostgreSQL to start, or it does not start; with its log.
    #[must_use]
    pub fn start() -> Self {
        Self::options().start()
    }

    #[must_use]
    pub fn options() -> PostgresOptions {
        PostgresOptions::default()
    }

    /// The database `postgres`, as its superuser.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_for("postgres")
    }

    #[must_use]
    pub fn url_for(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The postmaster's pid, or what it was while it ran. A new one after [`start_again`](Self::start_again).
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.lock().id()
    }

    /// Creates an empty database with a name of its own and returns its URL.
    ///
    /// # Panics
    /// If the server does not answer.
    #[must_use]
    pub fn create_database(&self) -> String {
        let name = client::unique_name();
        client::execute(&self.url(), &format!("create database {name}"))
            .unwrap_or_else(|error| panic!("cannot create a database: {error:#}\n{}", self.log()));
        self.url_for(&name)
    }

    /// Crashes the server: connections break, nothing is flushed, the next start recovers from the log. When this
    /// returns the postmaster is gone. Works on a frozen server too, and does nothing to a stopped one.
    pub fn stop_immediate(&self) {
        self.quit();
    }

    /// Starts a stopped server again, on the same port with the same data, and waits until it answers.
    ///
    /// # Panics
    /// If it still runs, or does not start.
    pub fn start_again(&self) {
        let mut process = self.lock();
        assert!(exited(&mut process), "the server still runs; stop it before starting it again");
        *process = match launch(&self.binaries, &self.room, self.port, &self.settings) {
            Ok(started) => started,
            Err(NotStarted::PortTaken) => panic!("a stranger took port {} while the server was stopped", self.port),
            Err(NotStarted::Other(error)) => panic!("the server did not start again: {error:#}"),
        };
    }

    /// Stops the postmaster and all its children in their tracks. When this returns, none of them runs.
    ///
    /// # Panics
    /// If the server is stopped.
    pub fn freeze(&self) {
        let mut process = self.lock();
        assert!(!exited(&mut process), "a stopped server cannot be frozen");
        let pid = process.id();
        proc_table::halt(pid).expect("our own child can be stopped until it is reaped");
        // Stopped first, it forks no more, so this list is complete. A child that ends meanwhile is no error.
        for child in proc_table::children_of(pid) {
            let _ = proc_table::halt(child);
        }
    }

    /// Lets a frozen server go on as if nothing had happened. It will not know that time has passed.
    pub fn thaw(&self) {
        let mut process = self.lock();
        if !exited(&mut process) {
            thaw(process.id());
        }
    }

    /// What the server has written to its log, over all starts.
    #[must_use]
    pub fn log(&self) -> String {
        read_log(&self.room, 0)
    }

    /// Returns when the postmaster is gone.
    fn quit(&self) {
        let mut process = self.lock();
        if exited(&mut process) {
            return;
        }
        let _ = signal::send(process.id(), Signal::Quit);
        thaw(process.id());
        if !wait(&mut process, STOP_TIMEOUT) {
            // Its children notice, and follow.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    fn lock(&self) -> MutexGuard<'_, std::process::Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.quit();
    }
}

enum NotStarted {
    PortTaken,
    Other(anyhow::Error),
}

/// Starts the server and waits until it takes connections.
fn launch(
    binaries: &Binaries,
    room: &Room,
    port: u16,
    settings: &[(String, String)],
) -> Result<std::process::Child, NotStarted> {
    let other = |error: anyhow::Error| NotStarted::Other(error);
    let data = room.path().join("data");
    let log = File::options().create(true).append(true).open(room.path().join("log"));
    let log = log.context("cannot open the server's log").map_err(other)?;
    let already_logged = log.metadata().map_or(0, |log| log.len());
    let mut command = binaries.command("postgres", &data);
    command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
    for (name, value) in [("listen_addresses", "127.0.0.1"), ("unix_socket_directories", "")]
        .into_iter()
        .chain(settings.iter().map(|(name, value)| (name.as_str(), value.as_str())))
    {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    // Quit, not kill: the server takes its shared memory with it.
    let mut process = nursery::spawn(command, Signal::Quit).context("cannot run postgres").map_err(other)?;
    let Err(problem) = wait_until_ready(&mut process, &data) else { return Ok(process) };
    let _ = process.kill();
    let _ = process.wait();
    let said = read_log(room, already_logged);
    if said.contains("Address already in use") {
        return Err(NotStarted::PortTaken);
    }
    Err(other(problem.context(format!("the server's log:\n{said}"))))
}

/// The server keeps its pid in the first line of `postmaster.pid` and its state in the eighth.
fn wait_until_ready(process: &mut std::process::Child, data: &Path) -> anyhow::Result<()> {
    let deadline = Instant::now() + START_TIMEOUT;
    let pid = process.id().to_string();
    while Instant::now() < deadline {
        let state = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
        let mut lines = state.lines().map(str::trim);
        if lines.next() == Some(pid.as_str()) && lines.nth(6) == Some("ready") {
            return Ok(());
        }
        if exited(process) {
            bail!("the server ended before it was ready");
        }
        std::thread::sleep(LOOK_EVERY);
    }
    bail!("the server was not ready after {START_TIMEOUT:?}")
}

fn exited(process: &mut std::process::Child) -> bool {
    process.try_wait().expect("we wait for our own child").is_some()
}

fn wait(process: &mut std::process::Child, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    while Instant::now() < deadline {
        if exited(process) {
            return true;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    false
}

/// Children first: a postmaster that runs among frozen children would wait for them.
fn thaw(postmaster: u32) {
    for pid in proc_table::children_of(postmaster).into_iter().chain([postmaster]) {
        let _ = signal::send(pid, Signal::Cont);
    }
}

fn read_log(room: &Room, skip_bytes: u64) -> String {
    let log = fs::read(room.path().join("log")).unwrap_or_default();
    String::from_utf8_lossy(usize::try_from(skip_bytes).ok().and_then(|skip| log.get(skip..)).unwrap_or_default())
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_known_as_such_so_that_another_one_is_tried() {
        let server = Postgres::start();
        server.stop_immediate();
        let _stranger = std::net::TcpListener::bind(("127.0.0.1", server.port)).unwrap();
        let again = launch(&server.binaries, &server.room, server.port, &[]);
        assert!(matches!(again, Err(NotStarted::PortTaken)), "{}", server.log());
    }

    #[test]
    fn a_server_that_does_not_start_is_explained_by_its_log() {
        let error = Postgres::options().setting("no_such_setting", "1").try_start().err().unwrap();
        assert!(format!("{error:#}").contains("no_such_setting"), "{error:#}");
    }
}
