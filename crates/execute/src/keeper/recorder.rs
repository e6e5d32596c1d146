//! The one who brings things to disk and then says so: first the output, then its records, then a byte for the agent.

use std::io;
use std::sync::Arc;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use super::bell::Bell;
use super::spool::Spool;
use crate::log::{CommitError, Ended, EventLog, Happening, Truncation};
use crate::place::Place;

/// How long to wait for room on a full disk before the next attempt.
const TRY_AGAIN: Duration = Duration::from_millis(200);

pub(super) struct Recorder {
    place: Place,
    log: EventLog,
    spools: [Arc<Spool>; 2],
    bell: Arc<Bell>,
    /// There are records that did not fit on the disk.
    stuck: bool,
}

/// A recorder at work on its own thread.
pub(super) struct Recording {
    thread: JoinHandle<Recorder>,
    bell: Arc<Bell>,
}

impl Recorder {
    pub(super) fn new(place: Place, log: EventLog, spools: [Arc<Spool>; 2]) -> Self {
        Self { place, log, spools, bell: Arc::default(), stuck: false }
    }

    pub(super) fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }

    /// Tells one thing at once.
    pub(super) fn tell(&mut self, happening: Happening) {
        self.log.append(happening);
        self.commit();
    }

    /// Tells of output as it comes, until [`Recording::finish`].
    pub(super) fn go(mut self) -> Recording {
        let bell = self.bell.clone();
        let work = move || {
            // As if the last sync were long ago: what comes first is told first.
            let mut synced = Instant::now() - TRY_AGAIN;
            while self.bell.wait(synced, self.again()) {
                synced = Instant::now();
                self.flush();
            }
            // Nobody writes any more, so this comes to an end.
            while self.spools.iter().any(|spool| spool.has_news()) {
                self.flush();
            }
            self
        };
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(work);
        Recording { thread: thread.unwrap_or_else(|error| give_up("no thread can be made", &error)), bell }
    }

    /// Tells the end, however long the disk takes to have room for it: nobody else knows it.
    pub(super) fn end(mut self, ended: Ended) {
        self.log.append_end(ended);
        self.commit();
        while self.stuck {
            sleep(TRY_AGAIN);
            self.commit();
        }
    }

    /// When to look again without being called.
    fn again(&self) -> Option<Instant> {
        let unfinished = self.stuck || self.spools.iter().any(|spool| spool.has_news());
        unfinished.then(|| Instant::now() + TRY_AGAIN)
    }

    fn flush(&mut self) {
        for spool in &self.spools {
            for happening in spool.take() {
                if matches!(happening, Happening::OutputTruncated { why: Truncation::NoSpace, .. }) {
                    let _ = self.place.give_up_reserve();
                }
                self.log.append(happening);
            }
        }
        self.commit();
    }

    fn commit(&mut self) {
        let mut done = self.log.commit();
        if matches!(done, Err(CommitError::Full)) {
            // From now on the disk is for events, which get the room of the reserve.
            self.spools.iter().for_each(|spool| spool.cut(Truncation::NoSpace));
            let _ = self.place.give_up_reserve();
            done = self.log.commit();
        }
        match done {
            Ok(()) => {
                self.stuck = false;
                // Nobody may be there to hear it.
                let _ = rustix::io::write(io::stdout(), b"\n");
            }
            Err(CommitError::Full) => self.stuck = true,
            Err(CommitError::Disk(error)) => give_up("the event log cannot be written", &error),
        }
    }
}

impl Recording {
    /// Waits until everything is on disk that was written so far.
    pub(super) fn finish(self) -> Recorder {
        self.bell.close();
        self.thread.join().unwrap_or_else(|_| give_up("the recorder fell", &io::ErrorKind::Other.into()))
    }
}

/// A keeper that cannot write down what happens is of no use, and must not look as if it were. The agent finds the run
/// interrupted, and ends the command.
fn give_up(what: &str, error: &io::Error) -> ! {
    eprintln!("{what}: {error}");
    std::process::abort()
}
