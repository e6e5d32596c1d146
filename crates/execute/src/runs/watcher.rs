//! The thread that hears the keepers, and notices when one is gone.
//!
//! A keeper that this process started has a pipe to it: a byte means news, the end of the pipe means it is gone. A keeper
//! that was found again has none; its log and its lock are looked at, ten times a second.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bowline_model::RunId;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::event::{EventfdFlags, Timespec, eventfd};

use super::abandon::Abandoned;
use super::settle::SettleError;
use super::standing::Standing;
use super::state::Shared;

const LOOK: Duration = Duration::from_millis(100);
/// How long a run rests whose log could not be brought to an end: twice as long each time, up to the most.
const REST: Duration = Duration::from_secs(5);
const REST_MAX: Duration = Duration::from_secs(300);
/// The token of the descriptor that calls the watcher itself.
const CALL: u64 = 0;

pub(super) struct Watcher {
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
}

struct Orders {
    call: OwnedFd,
    list: Mutex<Vec<Order>>,
}

enum Order {
    Attach(RunId, Child),
    Watch(RunId),
    Stop,
}

impl Orders {
    fn give(&self, order: Order) {
        self.lock().push(order);
        // Fails only when the counter is full, and then the watcher has been called.
        let _ = rustix::io::write(&self.call, &1u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Order>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher {
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let call = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let orders = Arc::new(Orders { call, list: Mutex::default() });
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&poll, &orders.call, epoll::EventData::new_u64(CALL), epoll::EventFlags::IN)?;
        let watch = Watch {
            shared,
            orders: orders.clone(),
            poll,
            keepers: HashMap::new(),
            next: CALL + 1,
            found_again: HashMap::new(),
        };
        let thread = std::thread::Builder::new().name("runs".to_owned()).spawn(move || watch.run())?;
        Ok(Self { orders, thread: Some(thread) })
    }

    /// Hears a keeper that this process started.
    pub(super) fn attach(&self, run: RunId, keeper: Child) {
        self.orders.give(Order::Attach(run, keeper));
    }

    /// Looks at a run whose keeper another process started.
    pub(super) fn watch(&self, run: RunId) {
        self.orders.give(Order::Watch(run));
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.orders.give(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Keeper {
    run: RunId,
    pipe: ChildStdout,
    process: Child,
}

struct Watch {
    shared: Arc<Shared>,
    orders: Arc<Orders>,
    poll: OwnedFd,
    keepers: HashMap<u64, Keeper>,
    next: u64,
    found_again: HashMap<RunId, Glance>,
}

/// What was seen of a run when it was looked at last.
#[derive(Default)]
struct Glance {
    log_bytes: u64,
    /// Its log cannot be brought to an end before.
    rests_until: Option<Instant>,
    /// How often that failed.
    failures: u32,
}

impl Watch {
    fn run(mut self) {
        let mut events = Vec::with_capacity(64);
        let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
        loop {
            events.clear();
            let timeout = (!self.found_again.is_empty()).then_some(&look);
            // Interrupted is the only way to fail, and means to look again.
            let _ = epoll::wait(&self.poll, spare_capacity(&mut events), timeout);
            for event in &events {
                match event.data.u64() {
                    CALL => {
                        let _ = rustix::io::read(&self.orders.call, &mut [0u8; 8]);
                    }
                    token => self.hear(token),
                }
            }
            let orders = std::mem::take(&mut *self.orders.lock());
            for order in orders {
                match order {
                    Order::Stop => return,
                    Order::Attach(run, keeper) => self.attach(run, keeper),
                    Order::Watch(run) => {
                        // One that is heard need not be looked at.
                        if !self.keepers.values().any(|keeper| keeper.run == run) {
                            self.found_again.insert(run, Glance::default());
                        }
                    }
                }
            }
            self.look();
        }
    }

    fn attach(&mut self, run: RunId, mut process: Child) {
        let Some(pipe) = process.stdout.take() else { return };
        let token = self.next;
        self.next += 1;
        if epoll::add(&self.poll, &pipe, epoll::EventData::new_u64(token), epoll::EventFlags::IN).is_ok() {
            self.keepers.insert(token, Keeper { run, pipe, process });
        } else {
            self.found_again.insert(run, Glance::default());
        }
    }

    fn hear(&mut self, token: u64) {
        let Some(keeper) = self.keepers.get(&token) else { return };
        let run = keeper.run;
        match rustix::io::read(&keeper.pipe, &mut [0u8; 4096]) {
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Ok(count) if count > 0 => self.shared.tell(run),
            // The end of the pipe is the end of the keeper, but for the moment of its exit.
            _ => {
                if let Some(mut keeper) = self.keepers.remove(&token) {
                    let _ = epoll::delete(&self.poll, &keeper.pipe);
                    let _ = keeper.process.wait();
                }
                self.settle(run, 0);
            }
        }
    }

    fn look(&mut self) {
        let mut gone = Vec::new();
        for (run, glance) in &mut self.found_again {
            let place = self.shared.place(*run);
            let bytes = fs::metadata(place.events()).map_or(0, |file| file.len());
            if std::mem::replace(&mut glance.log_bytes, bytes) != bytes {
                self.shared.tell(*run);
            }
            let rests = glance.rests_until.is_some_and(|until| Instant::now() < until);
            if !rests && !matches!(place.try_lock(), Ok(None)) {
                gone.push((*run, glance.failures));
            }
        }
        for (run, failures) in gone {
            self.found_again.remove(&run);
            self.settle(run, failures);
        }
    }

    fn settle(&mut self, run: RunId, failures: u32) {
        match self.shared.settle(run, 0) {
            // The lock was taken by somebody who only looked.
            Ok(Standing::Running) => drop(self.found_again.insert(run, Glance::default())),
            // Its end was read, told and heard before its keeper was seen to be gone.
            Err(SettleError::Forgotten) => return,
            Ok(_) => {}
            Err(error) => self.not_settled(run, failures, &error),
        }
        self.shared.tell(run);
    }

    fn not_settled(&mut self, run: RunId, failures: u32, error: &SettleError) {
        let directory = self.shared.runs_directory();
        match self.shared.abandon(run) {
            Ok(Abandoned::Given { found, left }) => {
                tracing::error!(
                    run.id = %run,
                    processes = found,
                    remain = left,
                    "the directory of run {run} was removed from {}; how it ended is lost, and what was left of it was ended",
                    directory.display()
                );
                return;
            }
            Ok(Abandoned::Everything) => {
                // The agent leaves, and says so.
                tracing::error!(run.id = %run, "{} was removed, so run {run} is not looked at any more", directory.display());
                return;
            }
            Ok(Abandoned::Not) | Err(_) if failures == 0 => {
                tracing::error!(
                    run.id = %run,
                    error = error as &dyn std::error::Error,
                    "run {run} cannot be settled and counts as running; trying again, without another word until it works"
                );
            }
            Ok(Abandoned::Not) | Err(_) => {
                tracing::debug!(run.id = %run, error = error as &dyn std::error::Error, "run {run} cannot be settled yet");
            }
        }
        let rest = REST.saturating_mul(2u32.saturating_pow(failures)).min(REST_MAX);
        let rests_until = Some(Instant::now() + rest);
        self.found_again.insert(run, Glance { rests_until, failures: failures + 1, ..Glance::default() });
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::super::settings::Settings;
    use super::super::state::{Entry, Runs};
    use super::*;
    use crate::log::EndedAs;
    use crate::manifest::Manifest;
    use crate::manifest::tests::sample;

    struct Stage {
        _directory: tempfile::TempDir,
        runs: Runs,
        watch: Watch,
    }

    fn stage() -> Stage {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(|| Timestamp::from_millis(1));
        let runs = Runs::open(directory.path(), Settings::new(["true"], clock)).unwrap();
        let call = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let watch = Watch {
            shared: Arc::clone(&runs.shared),
            orders: Arc::new(Orders { call, list: Mutex::default() }),
            poll: epoll::create(epoll::CreateFlags::CLOEXEC).unwrap(),
            keepers: HashMap::new(),
            next: 1,
            found_again: HashMap::new(),
        };
        Stage { _directory: directory, runs, watch }
    }

    /// A run that is known here, with this in the place of its directory.
    fn known(stage: &Stage, furnish: impl FnOnce(&std::path::Path)) -> RunId {
        let run = RunId::mint(Timestamp::from_millis(1), [7; 10]);
        let manifest = Manifest { run, ..sample() };
        stage.runs.shared.lock().runs.insert(run, Entry::new(manifest, Standing::Running));
        furnish(stage.runs.shared.place(run).path());
        run
    }

    /// The end of a run may be told, heard and forgotten between the last word of its keeper and the end of the pipe.
    #[test]
    fn a_run_that_was_forgotten_is_not_looked_at_again() {
        let Stage { runs, mut watch, .. } = stage();
        let forgotten = RunId::mint(Timestamp::from_millis(1), [7; 10]);
        watch.settle(forgotten, 0);
        assert!(watch.found_again.is_empty(), "nothing is left to be settled");
        assert!(runs.take_changed().is_empty(), "nor to be told");
    }

    #[test]
    fn a_run_that_cannot_be_settled_is_looked_at_less_and_less() {
        let mut stage = stage();
        // Something is there, and it is no directory.
        let run = known(&stage, |path| fs::write(path, b"x").unwrap());
        let mut rests = Vec::new();
        for failures in 0..9 {
            let now = Instant::now();
            stage.watch.settle(run, failures);
            let glance = stage.watch.found_again.remove(&run).unwrap();
            assert_eq!(glance.failures, failures + 1);
            rests.push(glance.rests_until.unwrap().duration_since(now).as_secs());
        }
        assert_eq!(rests, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert!(stage.runs.find(run).is_some(), "it counts as running");
    }

    #[test]
    fn a_run_whose_directory_was_removed_is_given_up_and_remembered() {
        let mut stage = stage();
        let run = known(&stage, |_| ());
        stage.watch.settle(run, 0);
        assert!(stage.watch.found_again.is_empty(), "it is not looked at again");
        assert!(stage.runs.find(run).is_none());
        let executed = stage.runs.executed(0, 10);
        assert_eq!((executed.len(), executed[0].run, executed[0].outcome), (1, run, EndedAs::Interrupted));
        assert!(stage.runs.take_changed().contains(&run), "there is something to tell");
        assert!(stage.runs.take_abandoned(run) && !stage.runs.take_abandoned(run));
        assert!(!*stage.runs.removed().borrow());
    }

    #[test]
    fn nothing_is_looked_at_when_everything_was_removed() {
        let mut stage = stage();
        let run = known(&stage, |path| fs::remove_dir_all(path.parent().unwrap()).unwrap());
        stage.watch.settle(run, 0);
        assert!(stage.watch.found_again.is_empty());
        assert!(*stage.runs.removed().borrow(), "whoever works here is told");
        assert!(stage.runs.executed(0, 10).is_empty());
    }
}
