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

use super::settle::SettleError;
use super::standing::Standing;
use super::state::Shared;

const LOOK: Duration = Duration::from_millis(100);
/// How long a run rests whose log could not be brought to an end.
const REST: Duration = Duration::from_secs(5);
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
                self.settle(run);
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
                gone.push(*run);
            }
        }
        for run in gone {
            self.found_again.remove(&run);
            self.settle(run);
        }
    }

    fn settle(&mut self, run: RunId) {
        match self.shared.settle(run, 0) {
            // The lock was taken by somebody who only looked.
            Ok(Standing::Running) => drop(self.found_again.insert(run, Glance::default())),
            // Its end was read, told and heard before its keeper was seen to be gone.
            Err(SettleError::Forgotten) => return,
            Ok(_) => {}
            Err(error) => {
                // It counts as running until the disk takes its end.
                tracing::error!(run.id = %run, error = &error as &dyn std::error::Error, "run {run} cannot be settled");
                let rests_until = Some(Instant::now() + REST);
                self.found_again.insert(run, Glance { rests_until, ..Glance::default() });
            }
        }
        self.shared.tell(run);
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::super::settings::Settings;
    use super::super::state::Runs;
    use super::*;

    /// The end of a run may be told, heard and forgotten between the last word of its keeper and the end of the pipe.
    #[test]
    fn a_run_that_was_forgotten_is_not_looked_at_again() {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(|| Timestamp::from_millis(1));
        let runs = Runs::open(directory.path(), Settings::new(["true"], clock)).unwrap();
        let call = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let mut watch = Watch {
            shared: Arc::clone(&runs.shared),
            orders: Arc::new(Orders { call, list: Mutex::default() }),
            poll: epoll::create(epoll::CreateFlags::CLOEXEC).unwrap(),
            keepers: HashMap::new(),
            next: 1,
            found_again: HashMap::new(),
        };
        let forgotten = RunId::mint(Timestamp::from_millis(1), [7; 10]);
        watch.settle(forgotten);
        assert!(watch.found_again.is_empty(), "nothing is left to be settled");
        assert!(runs.take_changed().is_empty(), "nor to be told");
    }
}
