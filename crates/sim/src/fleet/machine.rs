//! A machine: a disk that survives crashes, processes that do not, and a wire that can be cut in either direction.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bowline_execute::{Ended, EndedAs, Happening, HostLock, Manifest, Memory, Record, Standing};
use bowline_model::planted::{self, Mistake};
use bowline_model::{HostName, JobId, RunId, RunStatus, TenantId, Timestamp, WorkerName};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::notes::Start;
use crate::oracle::Violation;
use crate::world::World;

/// A run directory.
#[derive(Debug)]
pub struct Directory {
    pub manifest: Arc<Manifest>,
    pub command: JobId,
    pub claimed_at: Timestamp,
    /// The start marker.
    pub started: bool,
    /// Somebody wants it to end.
    pub canceled: bool,
    pub records: Vec<Record>,
    /// Who holds the lock: the agent while it makes the directory, then the keeper while it lives.
    pub locked: bool,
}

impl Directory {
    pub fn ended(&self) -> Option<&Ended> {
        match self.records.last().map(|record| &record.happening) {
            Some(Happening::Ended(ended)) => Some(ended),
            _ => None,
        }
    }

    pub fn last_seq(&self) -> u64 {
        self.records.last().map_or(0, |record| record.seq)
    }

    pub fn standing(&self) -> Standing {
        match (self.locked, self.started, self.ended()) {
            (false, false, _) => Standing::NeverStarted { why: None },
            (false, true, Some(ended)) => Standing::Ended(ended.clone()),
            // Also one that has lost its keeper and was not looked after yet.
            _ => Standing::Running,
        }
    }
}

/// What is on disk.
#[derive(Debug)]
pub struct Disk {
    pub runs: BTreeMap<RunId, Directory>,
    pub memory: Memory,
}

/// A process, as anybody on the machine can see it.
#[derive(Debug)]
struct Process {
    lock: HostLock,
    /// One whose keeper is gone runs until here, unless somebody ends it.
    until: Timestamp,
}

pub struct Machine {
    pub host: HostName,
    pub agent_name: WorkerName,
    pub tenant: TenantId,
    pub disk: RefCell<Disk>,
    processes: RefCell<BTreeMap<RunId, Process>>,
    pub keepers: RefCell<BTreeMap<RunId, AbortHandle>>,
    pub agent: RefCell<Option<AbortHandle>>,
    /// Requests do not get out; answers do not come back.
    pub cut: Cell<(bool, bool)>,
    /// The agent does nothing until then, and does not notice.
    pub frozen_until: Cell<Option<Instant>>,
    /// Rung when there is something new on disk.
    pub bell: Notify,
}

impl Machine {
    pub fn new(host: HostName, agent_name: WorkerName, tenant: TenantId) -> Rc<Self> {
        Rc::new(Self {
            host,
            agent_name,
            tenant,
            disk: RefCell::new(Disk { runs: BTreeMap::new(), memory: Memory::new(10_000) }),
            processes: RefCell::default(),
            keepers: RefCell::default(),
            agent: RefCell::default(),
            cut: Cell::default(),
            frozen_until: Cell::default(),
            bell: Notify::new(),
        })
    }

    pub fn is_cut(&self) -> bool {
        self.cut.get() != (false, false)
    }

    /// Waits while the agent is frozen.
    pub async fn thaw(&self) {
        while let Some(until) = self.frozen_until.get().filter(|until| *until > Instant::now()) {
            tokio::time::sleep_until(until).await;
        }
    }

    /// Whether something of this command runs here now.
    pub fn runs_command(&self, command: JobId) -> bool {
        let disk = self.disk.borrow();
        self.processes.borrow().keys().any(|run| disk.runs.get(run).is_some_and(|d| d.command == command))
    }

    /// A process comes to be. The witness stands beside it.
    pub fn spawn(&self, world: &World, run: RunId, until: Timestamp) {
        let now = world.now();
        let disk = self.disk.borrow();
        let Some(directory) = disk.runs.get(&run) else { return };
        let manifest = &directory.manifest;
        let mut processes = self.processes.borrow_mut();
        processes.retain(|_, process| process.until > now);
        let alone = |lock: HostLock| lock == HostLock::Exclusive;
        for (other, process) in processes.iter() {
            if alone(process.lock) || alone(manifest.lock) {
                let text = format!("run {run} was started on {} beside run {other}", self.host);
                world.violated(Violation::new("C7", text));
            }
        }
        processes.insert(run, Process { lock: manifest.lock, until });
        let mut notes = world.notes.borrow_mut();
        let notes = &mut *notes;
        if notes.fleet.starts.iter().any(|start| start.run == run) {
            notes.violations.push(Violation::new("C3", format!("run {run} was started twice on {}", self.host)));
        }
        notes.fleet.counts.starts += 1;
        notes.fleet.starts.push(Start {
            run,
            command: directory.command,
            host: self.host.clone(),
            argv: manifest.argv.clone(),
            claimed_at: directory.claimed_at,
            at: now,
        });
    }

    /// A process is no more.
    pub fn reap(&self, run: RunId) {
        self.processes.borrow_mut().remove(&run);
    }

    /// Writes a record. `held` is the highest number that others are known to hold.
    pub fn write(&self, world: &World, run: RunId, held: u64, happening: impl FnOnce(u64) -> Happening) {
        let mut disk = self.disk.borrow_mut();
        let Some(directory) = disk.runs.get_mut(&run) else { return };
        let held = if planted::on(Mistake::NumberReused) { 0 } else { held };
        let seq = directory.last_seq().max(held) + 1;
        directory.records.push(Record { seq, at: world.now(), happening: happening(seq) });
        drop(disk);
        self.bell.notify_one();
    }

    /// Writes how a run ended.
    pub fn write_end(&self, world: &World, run: RunId, held: u64, outcome: EndedAs, exit_code: Option<i32>) {
        let status = match outcome {
            EndedAs::Succeeded => RunStatus::Succeeded,
            EndedAs::Canceled => RunStatus::Canceled,
            EndedAs::TimedOut => RunStatus::TimedOut,
            EndedAs::Failed | EndedAs::Interrupted | EndedAs::NotStarted | EndedAs::Unreachable => RunStatus::Failed,
        };
        world.notes.borrow_mut().fleet.ends.entry(run).or_default().push(status);
        self.write(world, run, held, |last_seq| {
            Happening::Ended(Ended {
                outcome,
                exit_code,
                signal: None,
                message: None,
                children: None,
                duration_ms: None,
                stdout_bytes: 0,
                stderr_bytes: 0,
                last_seq,
            })
        });
    }

    /// Looks after a run whose keeper is gone: what is left of it is ended, and so is its log.
    pub fn settle(&self, world: &World, run: RunId, held: u64) -> Option<Standing> {
        let standing = self.disk.borrow().runs.get(&run)?.standing();
        let orphaned = {
            let disk = self.disk.borrow();
            disk.runs.get(&run).is_some_and(|d| !d.locked && d.started && d.ended().is_none())
        };
        if !orphaned {
            return Some(standing);
        }
        self.reap(run);
        self.write_end(world, run, held, EndedAs::Interrupted, None);
        self.disk.borrow().runs.get(&run).map(Directory::standing)
    }

    /// The agent's process is gone. Keepers and processes go on; what it had locked is free.
    pub fn kill_agent(&self) {
        if let Some(agent) = self.agent.borrow_mut().take() {
            agent.abort();
        }
        let keepers = self.keepers.borrow();
        for (run, directory) in &mut self.disk.borrow_mut().runs {
            directory.locked &= keepers.contains_key(run);
        }
    }

    /// A keeper is gone. Its process goes on without it.
    pub fn lose_keeper(&self, run: RunId) {
        self.keepers.borrow_mut().remove(&run);
        if let Some(directory) = self.disk.borrow_mut().runs.get_mut(&run) {
            directory.locked = false;
        }
        self.bell.notify_one();
    }

    /// The power is gone. Only the disk is left, and it may have lied about its last words.
    pub fn crash(&self, world: &World, forgets: bool) {
        self.kill_agent();
        for (_, keeper) in std::mem::take(&mut *self.keepers.borrow_mut()) {
            keeper.abort();
        }
        self.processes.borrow_mut().clear();
        for directory in self.disk.borrow_mut().runs.values_mut() {
            directory.locked = false;
            if forgets && directory.records.pop().is_some() {
                world.notes.borrow_mut().fleet.counts.records_forgotten_by_disk += 1;
            }
        }
    }
}
