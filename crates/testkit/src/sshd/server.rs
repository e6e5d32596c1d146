//! One private sshd: its process, its port, its keys, and everything that was started through it.
//!
//! *Killed* means that sshd is gone from one moment to the next, with the processes that serve its connections. What
//! was started through it goes on, as it would on a host whose sshd crashed; only the end of the guard ends that too.
//! *Frozen* means alive to the kernel, which goes on accepting connections for it, and dead to everybody else.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::binaries::Binaries;
use super::keys;
use crate::room::{self, Room};
use crate::signal::{self, Signal};
use crate::{nursery, port, proc_table};

const START_TIMEOUT: Duration = Duration::from_secs(20);
const END_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Settings for a server that is not started yet.
#[derive(Debug, Clone, Default)]
pub struct SshdOptions {
    settings: Vec<(String, String)>,
    every_address: bool,
}

impl SshdOptions {
    /// A line of `sshd_config`, in place of our own if there is one. A `HostKey` comes beside ours.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// `MaxStartups`: how many may be in the middle of logging in, for example `10:30:100`. No limit unless given.
    #[must_use]
    pub fn max_startups(self, value: &str) -> Self {
        self.setting("MaxStartups", value)
    }

    /// `MaxSessions`: how many commands may run at once on one connection.
    #[must_use]
    pub fn max_sessions(self, value: u32) -> Self {
        self.setting("MaxSessions", &value.to_string())
    }

    /// Listens on all of 127.0.0.0/8 (which sshd can do only by listening everywhere), so that one server plays many
    /// hosts. Keys are still accepted from this machine alone.
    #[must_use]
    pub fn every_loopback_address(mut self) -> Self {
        self.every_address = true;
        self
    }

    /// # Panics
    /// If there is no sshd to start, or it does not start; with its log.
    #[must_use]
    pub fn start(self) -> Sshd {
        self.try_start().unwrap_or_else(|error| panic!("cannot start an sshd: {error:#}"))
    }

    /// The same for those who can say it more nicely than a panic.
    pub fn try_start(self) -> anyhow::Result<Sshd> {
        let binaries = Binaries::find()?;
        let room = Room::take("sshd")?;
        keys::make(&room.path().join(HOST_KEY), "ed25519", "")?;
        let files = Files { room, binaries, options: self };
        files.authorize("client", "ed25519", "")?;
        // Our ports are reserved among tests, but a stranger may still take one between our look and the server's.
        for _ in 0..10 {
            let port = port::free_port();
            match files.launch(port) {
                Ok(process) => return Ok(Sshd { process: Mutex::new(process), port, files }),
                Err(NotStarted::PortTaken) => {}
                Err(NotStarted::Other(error)) => return Err(error),
            }
        }
        bail!("ten free ports were taken before the server could listen on them");
    }
}

/// A running sshd that lets in the user we are, with keys made for it. Gone with this guard, and so is everything that
/// was started through it.
pub struct Sshd {
    process: Mutex<std::process::Child>,
    port: u16,
    files: Files,
}

impl Sshd {
    /// # Panics
    /// If there is no sshd to start, or it does not start; with its log.
    #[must_use]
    pub fn start() -> Self {
        Self::options().start()
    }

    #[must_use]
    pub fn options() -> SshdOptions {
        SshdOptions::default()
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The one user it lets in.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.files.binaries.user
    }

    /// A private key (ed25519, without a passphrase) it lets in.
    #[must_use]
    pub fn client_key(&self) -> PathBuf {
        self.files.room.path().join("client")
    }

    /// Makes one more key it lets in. `kind` is what `ssh-keygen -t` takes; `name` is the name of the file.
    ///
    /// # Panics
    /// If ssh-keygen does not make it.
    #[must_use]
    pub fn add_client_key(&self, name: &str, kind: &str, passphrase: &str) -> PathBuf {
        self.files.authorize(name, kind, passphrase).unwrap_or_else(|error| panic!("cannot make a key: {error:#}"))
    }

    /// Makes a key it does not let in.
    ///
    /// # Panics
    /// If ssh-keygen does not make it.
    #[must_use]
    pub fn make_stranger_key(&self, name: &str) -> PathBuf {
        let path = self.files.room.path().join(name);
        keys::make(&path, "ed25519", "").unwrap_or_else(|error| panic!("cannot make a key: {error:#}"));
        path
    }

    /// A directory for files of the test, gone with this guard.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.files.room.path()
    }

    /// The line of a `known_hosts` file that names this server's key for `host`, with its line break.
    ///
    /// # Panics
    /// If the key cannot be read.
    #[must_use]
    pub fn known_hosts_line(&self, host: &str) -> String {
        let key = keys::public_text(&self.files.host_key()).unwrap_or_else(|error| panic!("{error:#}"));
        format!("[{host}]:{} {key}\n", self.port)
    }

    /// A fresh `known_hosts` file with this server's key for all these hosts.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn known_hosts<'a>(&self, hosts: impl IntoIterator<Item = &'a str>) -> PathBuf {
        let text: String = hosts.into_iter().map(|host| self.known_hosts_line(host)).collect();
        let path = (0..).map(|n| self.directory().join(format!("known_hosts.{n}"))).find(|path| !path.exists());
        let path = path.expect("there are numbers enough");
        fs::write(&path, text).expect("our own directory can be written to");
        path
    }

    /// `SHA256:…` of its present host key.
    ///
    /// # Panics
    /// If ssh-keygen does not say.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        keys::fingerprint(&self.files.host_key()).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// How many logins it has accepted, over all starts.
    #[must_use]
    pub fn logins(&self) -> usize {
        self.log().lines().filter(|line| line.starts_with("Accepted publickey")).count()
    }

    /// Crashes it: connections break, nobody says goodbye, commands go on. Does nothing to a killed server.
    pub fn kill(&self) {
        let mut process = self.lock();
        if exited(&mut process) {
            return;
        }
        for pid in own_processes(process.id()) {
            let _ = signal::send(pid, Signal::Kill);
        }
        let _ = process.wait();
    }

    /// Breaks all connections and goes on listening.
    pub fn drop_connections(&self) {
        let mut process = self.lock();
        let listener = process.id();
        if exited(&mut process) {
            return;
        }
        for pid in own_processes(listener).into_iter().filter(|pid| *pid != listener) {
            let _ = signal::send(pid, Signal::Kill);
        }
        let _ = signal::send(listener, Signal::Cont);
    }

    /// Starts a killed server again, on the same port with the same keys.
    ///
    /// # Panics
    /// If it still runs, or does not start.
    pub fn start_again(&self) {
        let mut process = self.lock();
        assert!(exited(&mut process), "the server still runs; kill it before starting it again");
        *process = match self.files.launch(self.port) {
            Ok(started) => started,
            Err(NotStarted::PortTaken) => panic!("a stranger took port {} while the server was gone", self.port),
            Err(NotStarted::Other(error)) => panic!("the server did not start again: {error:#}"),
        };
    }

    /// The same with a new host key, as an impostor or a host that was set up anew would have it.
    ///
    /// # Panics
    /// If it still runs, or does not start.
    pub fn start_again_with_another_host_key(&self) {
        keys::make(&self.files.host_key(), "ed25519", "")
            .unwrap_or_else(|error| panic!("cannot make a key: {error:#}"));
        self.start_again();
    }

    /// Stops sshd and the processes that serve its connections. When this returns, none of them runs.
    ///
    /// # Panics
    /// If the server is gone.
    pub fn freeze(&self) {
        let mut process = self.lock();
        assert!(!exited(&mut process), "a killed server cannot be frozen");
        for pid in own_processes(process.id()) {
            let _ = proc_table::halt(pid);
        }
    }

    /// Lets a frozen server go on as if nothing had happened.
    pub fn thaw(&self) {
        let mut process = self.lock();
        if !exited(&mut process) {
            for pid in own_processes(process.id()).into_iter().rev() {
                let _ = signal::send(pid, Signal::Cont);
            }
        }
    }

    /// What the server has written to its log, over all starts.
    #[must_use]
    pub fn log(&self) -> String {
        self.files.log(0)
    }

    fn lock(&self) -> MutexGuard<'_, std::process::Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.kill();
        // What was started through it may start more while we look. Whoever is beyond even SIGKILL is left to the next sweep.
        let deadline = Instant::now() + END_TIMEOUT;
        while let started @ [_, ..] = proc_table::marked(&self.files.mark()).as_slice()
            && Instant::now() < deadline
        {
            for pid in started {
                let _ = signal::send(*pid, Signal::Kill);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        if std::thread::panicking() {
            eprintln!("--- log of sshd on port {} ---\n{}---", self.port, self.log());
        }
    }
}

const HOST_KEY: &str = "host_key";

enum NotStarted {
    PortTaken,
    Other(anyhow::Error),
}

/// All of a server but its process.
struct Files {
    room: Room,
    binaries: Binaries,
    options: SshdOptions,
}

impl Files {
    fn host_key(&self) -> PathBuf {
        self.room.path().join(HOST_KEY)
    }

    /// In the environment of everything that is started through this server.
    fn mark(&self) -> String {
        room::mark(self.room.path())
    }

    fn authorize(&self, name: &str, kind: &str, passphrase: &str) -> anyhow::Result<PathBuf> {
        let path = self.room.path().join(name);
        keys::make(&path, kind, passphrase)?;
        let line = format!("from=\"127.0.0.0/8,::1\" {}\n", keys::public_text(&path)?);
        let mut list = File::options().create(true).append(true).open(self.room.path().join("authorized_keys"))?;
        list.write_all(line.as_bytes())?;
        Ok(path)
    }

    fn configure(&self, port: u16) -> anyhow::Result<PathBuf> {
        let room = self.room.path();
        let listen: &[&str] = if self.options.every_address { &["0.0.0.0"] } else { &["127.0.0.1", "::1"] };
        let mut ours: Vec<(&str, String)> =
            listen.iter().map(|address| ("ListenAddress", (*address).to_owned())).collect();
        ours.extend([
            ("Port", port.to_string()),
            ("HostKey", self.host_key().display().to_string()),
            ("AuthorizedKeysFile", room.join("authorized_keys").display().to_string()),
            // SHLVL keeps bash from reading the user's own .bashrc, which would decide about the test.
            ("SetEnv", format!("{} SHLVL=2", self.mark())),
        ]);
        let fixed = [
            ("PidFile", "none"),
            ("StrictModes", "no"),
            ("UsePAM", "no"),
            ("PermitRootLogin", "prohibit-password"),
            ("PasswordAuthentication", "no"),
            ("KbdInteractiveAuthentication", "no"),
            ("AllowAgentForwarding", "no"),
            ("AllowTcpForwarding", "no"),
            ("MaxStartups", "10000"),
            ("UseDNS", "no"),
            ("PrintMotd", "no"),
            ("LogLevel", "VERBOSE"),
        ];
        // Of two lines with the same name sshd takes sometimes the first, sometimes the last, sometimes both.
        let given = |name: &str| self.options.settings.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        ours.extend(fixed.into_iter().filter(|(name, _)| !given(name)).map(|(name, value)| (name, value.to_owned())));
        let mut text = String::new();
        let settings = self.options.settings.iter().map(|(name, value)| (name.as_str(), value));
        for (name, value) in settings.chain(ours.iter().map(|(name, value)| (*name, value))) {
            writeln!(text, "{name} {value}")?;
        }
        let path = room.join("sshd_config");
        fs::write(&path, text).context("cannot write sshd_config")?;
        Ok(path)
    }

    /// Starts the server and waits until it takes connections.
    fn launch(&self, port: u16) -> Result<std::process::Child, NotStarted> {
        let other = |error: anyhow::Error| NotStarted::Other(error);
        let config = self.configure(port).map_err(other)?;
        let log = self.room.path().join("log");
        let already_logged = fs::metadata(&log).map_or(0, |log| log.len());
        let mut command = Command::new(&self.binaries.sshd);
        command.arg("-D").arg("-f").arg(config).arg("-E").arg(log).current_dir(self.room.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = nursery::spawn(command, Signal::Kill).context("cannot run sshd").map_err(other)?;
        let Err(problem) = self.wait_until_ready(&mut process, port, already_logged) else { return Ok(process) };
        let _ = process.kill();
        let _ = process.wait();
        let said = self.log(already_logged);
        if said.contains("Address already in use") {
            return Err(NotStarted::PortTaken);
        }
        Err(other(problem.context(format!("the server's log:\n{said}"))))
    }

    fn wait_until_ready(&self, process: &mut std::process::Child, port: u16, skip: u64) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        let first = if self.options.every_address { "0.0.0.0" } else { "127.0.0.1" };
        let ready = format!("Server listening on {first} port {port}");
        while Instant::now() < deadline {
            if self.log(skip).contains(&ready) {
                return Ok(());
            }
            if exited(process) {
                bail!("sshd ended before it was ready");
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("sshd was not ready after {START_TIMEOUT:?}")
    }

    fn log(&self, skip_bytes: u64) -> String {
        let log = fs::read(self.room.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(usize::try_from(skip_bytes).ok().and_then(|skip| log.get(skip..)).unwrap_or_default())
            .into_owned()
    }
}

/// The listener and the processes that serve its connections, parents first, without what they run for others. Each is
/// stopped before its children are listed, so that the list is complete; whoever asks kills or wakes them.
fn own_processes(listener: u32) -> Vec<u32> {
    let mut found = vec![listener];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        let _ = proc_table::halt(pid);
        found.extend(proc_table::children_of(pid).into_iter().filter(|child| proc_table::is_called(*child, "sshd")));
        next += 1;
    }
    found
}

fn exited(process: &mut std::process::Child) -> bool {
    process.try_wait().expect("we wait for our own child").is_some()
}
