//! One private broker: its process, its ports, its directory, and the name service that Erlang wants beside it.
//!
//! *Killed* means gone from one moment to the next: what the broker had not written to its disk is lost, and the next start
//! recovers the rest. *Frozen* means alive to the kernel, which goes on accepting connections for it, and dead to everybody
//! who waits for an answer.
//!
//! Nothing of the machine's own RabbitMQ is used or touched: home, cookie, configuration, node name, and all three ports
//! (AMQP, the node's own, the name service's) belong to the broker of this guard.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::binaries::Binaries;
use crate::room::{self, Room};
use crate::signal::{self, Signal};
use crate::{nursery, port, proc_table};

/// Erlang loads everything from its disk, and other tests want the processors too.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const USER: &str = "bowline";

/// Settings for a broker that is not started yet.
#[derive(Debug, Clone, Default)]
pub struct RabbitMqOptions {
    settings: Vec<(String, String)>,
}

impl RabbitMqOptions {
    /// A line of `rabbitmq.conf`. The last of two with the same name counts.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// # Panics
    /// If there is no RabbitMQ to start, or it does not start; with its log.
    #[must_use]
    pub fn start(self) -> RabbitMq {
        self.try_start().unwrap_or_else(|error| panic!("cannot start a RabbitMQ broker: {error:#}"))
    }

    /// The same for those who can say it more nicely than a panic.
    pub fn try_start(self) -> anyhow::Result<RabbitMq> {
        let binaries = Binaries::find()?;
        let room = Room::take("rabbitmq")?;
        let password = format!("{:032x}", rand::random::<u128>());
        // Our ports are reserved among tests, but a stranger may still take one between our look and the broker's.
        for _ in 0..10 {
            let ports = Ports { amqp: port::free_port(), node: port::free_port(), epmd: port::free_port() };
            let home = Home { room: room.path().to_owned(), ports, binaries: binaries.clone() };
            home.configure(&password, &self.settings)?;
            let names = home.start_names()?;
            match home.launch() {
                Ok(process) => {
                    return Ok(RabbitMq {
                        process: Mutex::new(process),
                        names: Mutex::new(names),
                        home,
                        password,
                        _room: room,
                    });
                }
                Err(NotStarted::PortTaken) => end(names),
                Err(NotStarted::Other(error)) => {
                    end(names);
                    return Err(error);
                }
            }
        }
        bail!("ten times a free port was taken before the broker could listen on it");
    }
}

/// A running broker with one user, on loopback only, gone with this guard.
///
/// All calls block for the moment they take. If the test process is killed, the kernel ends the broker; what stays on disk
/// is removed by the next start of any server.
pub struct RabbitMq {
    process: Mutex<std::process::Child>,
    names: Mutex<std::process::Child>,
    home: Home,
    password: String,
    /// Last, as it goes with what is in it.
    _room: Room,
}

impl RabbitMq {
    /// # Panics
    /// If there is no RabbitMQ to start, or it does not start; with its log.
    #[must_use]
    pub fn start() -> Self {
        Self::options().start()
    }

    #[must_use]
    pub fn options() -> RabbitMqOptions {
        RabbitMqOptions::default()
    }

    /// Its address, without user and password. The virtual host is the broker's first one, `/`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("amqp://127.0.0.1:{}", self.home.ports.amqp)
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.home.ports.amqp
    }

    /// Its one user, who may do everything.
    #[must_use]
    pub fn user(&self) -> &str {
        USER
    }

    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }

    /// The broker's pid, or what it was while it ran. A new one after [`start_again`](Self::start_again).
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.lock().id()
    }

    #[must_use]
    pub fn is_running(&self) -> bool {
        !exited(&mut self.lock())
    }

    /// SIGKILL: connections break, nothing more is written. When this returns the broker is gone. Does nothing to a dead one.
    pub fn kill(&self) {
        let mut process = self.lock();
        let _ = process.kill();
        let _ = process.wait();
    }

    /// Asks the broker to stop and waits until it has.
    ///
    /// # Panics
    /// If it has not stopped after half a minute.
    pub fn stop(&self) {
        let mut process = self.lock();
        if exited(&mut process) {
            return;
        }
        let _ = signal::send(process.id(), Signal::Cont);
        let _ = signal::send(process.id(), Signal::Term);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while !exited(&mut process) {
            assert!(Instant::now() < deadline, "the broker did not stop in {STOP_TIMEOUT:?}\n{}", self.log());
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Starts a dead broker again, on the same ports with the same data, and waits until it takes connections.
    ///
    /// # Panics
    /// If it still runs, or does not start.
    pub fn start_again(&self) {
        let mut process = self.lock();
        assert!(exited(&mut process), "the broker still runs; kill or stop it before starting it again");
        *process = match self.home.launch() {
            Ok(started) => started,
            Err(NotStarted::PortTaken) => panic!("a stranger took a port of the broker while it was gone"),
            Err(NotStarted::Other(error)) => panic!("the broker did not start again: {error:#}"),
        };
    }

    /// Stops the broker in its tracks until [`thaw`](Self::thaw).
    ///
    /// # Panics
    /// If the broker is gone.
    pub fn freeze(&self) {
        let mut process = self.lock();
        assert!(!exited(&mut process), "a dead broker cannot be frozen");
        proc_table::halt(process.id()).expect("our own child can be stopped until it is reaped");
    }

    /// Lets a frozen broker go on as if nothing had happened.
    pub fn thaw(&self) {
        let mut process = self.lock();
        if !exited(&mut process) {
            let _ = signal::send(process.id(), Signal::Cont);
        }
    }

    /// What `rabbitmqctl` says to these words: the broker's own account of itself. Takes seconds, as it starts Erlang anew.
    ///
    /// # Panics
    /// If it fails; with what it said.
    #[must_use]
    pub fn ctl(&self, words: &[&str]) -> String {
        let answer = self.home.try_ctl(words);
        answer.unwrap_or_else(|error| panic!("rabbitmqctl {}: {error:#}\n{}", words.join(" "), self.log()))
    }

    /// Makes it write down what was declared. It answers a declaration before that, so a broker that is killed in the seconds
    /// between them has forgotten even a durable queue.
    ///
    /// # Panics
    /// If it does not.
    pub fn write_down(&self) {
        let said = self.ctl(&["eval", "{mnesia:dump_log(), mnesia:sync_log()}."]);
        assert!(said.contains("{dumped,ok}"), "its tables are not on disk: {said}");
    }

    /// What the broker has written to its log, over all starts.
    #[must_use]
    pub fn log(&self) -> String {
        self.home.log(0)
    }

    fn lock(&self) -> MutexGuard<'_, std::process::Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            eprintln!("--- end of the log of RabbitMQ on port {} ---\n{}\n---", self.port(), tail.join("\n"));
        }
        self.kill();
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = names.kill();
        let _ = names.wait();
    }
}

enum NotStarted {
    PortTaken,
    Other(anyhow::Error),
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    amqp: u16,
    /// Where the node itself listens, for `rabbitmqctl`.
    node: u16,
    epmd: u16,
}

/// All of a broker but its process.
struct Home {
    room: std::path::PathBuf,
    ports: Ports,
    binaries: Binaries,
}

impl Home {
    fn configure(&self, password: &str, settings: &[(String, String)]) -> anyhow::Result<()> {
        let ours = [
            ("listeners.tcp.1", format!("127.0.0.1:{}", self.ports.amqp)),
            ("default_user", USER.to_owned()),
            ("default_pass", password.to_owned()),
            ("log.console", "true".to_owned()),
            ("log.console.level", "info".to_owned()),
            ("log.file", "false".to_owned()),
        ];
        let given = |name: &str| settings.iter().any(|(known, _)| known == name);
        let ours = ours.into_iter().filter(|(name, _)| !given(name)).map(|(name, value)| (name.to_owned(), value));
        let lines: String =
            ours.chain(settings.iter().cloned()).map(|(name, value)| format!("{name} = {value}\n")).collect();
        fs::write(self.room.join("rabbitmq.conf"), lines).context("cannot write rabbitmq.conf")?;
        // Without this file the machine's own one would be read.
        fs::write(self.room.join("env.conf"), "").context("cannot write env.conf")?;
        fs::write(self.room.join("enabled_plugins"), "[].\n").context("cannot write enabled_plugins")?;
        Ok(())
    }

    fn node_name(&self) -> String {
        format!("bowline-{}@localhost", self.ports.amqp)
    }

    /// A command that knows this node and nothing of the machine's own.
    fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new(program);
        let room = &self.room;
        let (mark, marked) =
            room::mark(room).split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap_or_default();
        command
            .current_dir(room)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env(mark, marked)
            .env("HOME", room)
            .env("LANG", "C.UTF-8")
            .env("ERL_EPMD_PORT", self.ports.epmd.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODENAME", self.node_name())
            .env("RABBITMQ_CONF_ENV_FILE", room.join("env.conf"))
            .stdin(Stdio::null());
        command
    }

    /// Started by us and before the node, as the node would start one that outlives everybody.
    fn start_names(&self) -> anyhow::Result<std::process::Child> {
        let mut command = self.command(&self.binaries.epmd);
        command.args(["-port", &self.ports.epmd.to_string(), "-address", "127.0.0.1"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        nursery::spawn(command, Signal::Kill).context("cannot run epmd")
    }

    /// Starts the broker and waits until it takes connections.
    fn launch(&self) -> Result<std::process::Child, NotStarted> {
        let other = |error: anyhow::Error| NotStarted::Other(error);
        let log = File::options().create(true).append(true).open(self.room.join("log"));
        let log = log.context("cannot open the broker's log").map_err(other)?;
        let already_logged = log.metadata().map_or(0, |log| log.len());
        let errors = log.try_clone().context("cannot open the broker's log").map_err(other)?;
        let room = &self.room;
        let mut command = self.command(&self.binaries.server);
        command
            // The script becomes the broker, in place of watching over it: so the pid we know is the broker's.
            .env("detached", "true")
            .env("RABBITMQ_CONFIG_FILE", room.join("rabbitmq.conf"))
            .env("RABBITMQ_ADVANCED_CONFIG_FILE", room.join("none.config"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", room.join("enabled_plugins"))
            .env("RABBITMQ_MNESIA_BASE", room.join("data"))
            .env("RABBITMQ_LOG_BASE", room.join("logs"))
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_GENERATED_CONFIG_DIR", room.join("generated"))
            .env("RABBITMQ_PID_FILE", room.join("pid"))
            .env("RABBITMQ_DIST_PORT", self.ports.node.to_string())
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+S 2:2 -kernel inet_dist_use_interface {127,0,0,1}")
            .stdout(log)
            .stderr(errors);
        let process = nursery::spawn(command, Signal::Kill).context("cannot run rabbitmq-server").map_err(other)?;
        let mut process = process;
        let Err(problem) = self.wait_until_ready(&mut process, already_logged) else { return Ok(process) };
        end(process);
        let said = self.log(already_logged);
        if said.contains("eaddrinuse") {
            return Err(NotStarted::PortTaken);
        }
        Err(other(problem.context(format!("the broker's log:\n{said}"))))
    }

    fn wait_until_ready(&self, process: &mut std::process::Child, skip: u64) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            if self.log(skip).contains("Server startup complete") {
                return Ok(());
            }
            ensure!(!exited(process), "the broker ended before it was ready");
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("the broker was not ready after {START_TIMEOUT:?}")
    }

    fn try_ctl(&self, words: &[&str]) -> anyhow::Result<String> {
        let answer = self.command(&self.binaries.ctl).args(words).output().context("cannot run it")?;
        ensure!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
    }

    fn log(&self, skip_bytes: u64) -> String {
        let log = fs::read(self.room.join("log")).unwrap_or_default();
        String::from_utf8_lossy(usize::try_from(skip_bytes).ok().and_then(|skip| log.get(skip..)).unwrap_or_default())
            .into_owned()
    }
}

fn exited(process: &mut std::process::Child) -> bool {
    process.try_wait().expect("we wait for our own child").is_some()
}

fn end(mut process: std::process::Child) {
    let _ = process.kill();
    let _ = process.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_does_not_start_is_explained_by_its_log() {
        let error = RabbitMq::options().setting("no_such_setting", "1").try_start().err().unwrap();
        assert!(format!("{error:#}").contains("no_such_setting"), "{error:#}");
    }
}
