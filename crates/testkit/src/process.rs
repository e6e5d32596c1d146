//! Real server processes under the hands of a test: killed, stopped, waited for, and read.
//!
//! A process is only ever signalled by the pid we recorded, and only while it was not reaped, so a reused number never
//! hits a stranger. Output goes to files, not pipes: a full pipe would stop the server and look like its fault.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::nursery;
use crate::room::Room;
use crate::signal::{self, Signal};
use crate::until::until;

/// A running (or ended) process. Dropping it kills it; if a test panics, its output is printed first.
pub struct Child {
    name: String,
    pid: u32,
    process: Mutex<std::process::Child>,
    room: Room,
}

impl Child {
    /// Starts the process with its output captured and no input. `name` is for people who read failures.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn spawn(mut command: Command, name: &str) -> Self {
        let room = Room::take("process").expect("temporary files can be made");
        let capture = |stream: &str| File::create(room.path().join(stream)).expect("temporary files can be made");
        let line = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(capture("stdout")).stderr(capture("stderr"));
        let process = nursery::spawn(command, Signal::Kill)
            .unwrap_or_else(|error| panic!("{name} could not be started: {error} ({line})"));
        Self { name: name.to_owned(), pid: process.id(), process: Mutex::new(process), room }
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// SIGKILL. When this returns the process is gone and reaped. Does nothing if it had already ended.
    pub fn kill_9(&self) {
        self.send(Signal::Kill);
        self.lock().wait().expect("we wait for our own child");
    }

    /// SIGTERM, without waiting.
    pub fn term(&self) {
        self.send(Signal::Term);
    }

    /// SIGHUP, what a closing terminal and a reload send, without waiting.
    pub fn hang_up(&self) {
        self.send(Signal::Hup);
    }

    /// SIGINT, what Ctrl-C sends, without waiting.
    pub fn interrupt(&self) {
        self.send(Signal::Int);
    }

    /// SIGSTOP: alive, but not running until [`cont`](Self::cont).
    pub fn stop(&self) {
        self.send(Signal::Stop);
    }

    /// SIGCONT.
    pub fn cont(&self) {
        self.send(Signal::Cont);
    }

    #[must_use]
    pub fn is_running(&self) -> bool {
        self.exited().is_none()
    }

    /// Waits for the process to end on its own.
    ///
    /// # Panics
    /// If it still runs after `timeout`, with its output.
    pub async fn wait_exit(&self, timeout: Duration) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        until(timeout, &what, async || self.exited().ok_or_else(|| Still(self.log()))).await
    }

    /// All output so far: first standard output, then standard error.
    #[must_use]
    pub fn log(&self) -> String {
        self.stdout() + &self.stderr()
    }

    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.room.path().join("stdout"))
    }

    #[must_use]
    pub fn stderr(&self) -> String {
        read(&self.room.path().join("stderr"))
    }

    /// Where the output lies, as files `stdout` and `stderr`, until this guard is dropped.
    #[must_use]
    pub fn output_directory(&self) -> PathBuf {
        self.room.path().to_owned()
    }

    fn exited(&self) -> Option<ExitStatus> {
        self.lock().try_wait().expect("we wait for our own child")
    }

    fn send(&self, signal: Signal) {
        let mut process = self.lock();
        if process.try_wait().expect("we wait for our own child").is_none() {
            signal::send(self.pid, signal).expect("our own child can be signalled until it is reaped");
        }
    }

    fn lock(&self) -> MutexGuard<'_, std::process::Child> {
        self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- output of {} (pid {}) ---\n{}---", self.name, self.pid, self.log());
        }
        let mut process = self.lock();
        // Kill and wait fail only for a child that was reaped, which is what we want of it.
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// Shows the log as text, with its line breaks.
struct Still(String);

impl std::fmt::Debug for Still {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "still running; its output:\n{}", self.0)
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
