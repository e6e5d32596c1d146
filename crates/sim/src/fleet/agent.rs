//! An agent: polls, accepts, begins, keeps leases, ships. Its decisions are those of the real one; its memory dies with it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bowline_agent::fleet::decisions::{Book, Executor, Roster, Story};
use bowline_execute::Standing;
use bowline_model::host::Connection;
use bowline_model::worker::Abilities;
use bowline_model::{RunId, TaskType};
use bowline_protocol::RunNews;
use bowline_store::{Claimant, ClaimedRun};
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::Machine;
use super::begin::begin;
use super::door::{ask, beat, bring};
use super::ship::{ship_disk, ship_stories};
use super::stage::label;
use crate::network::pause;
use crate::oracle::Violation;
use crate::server::TIMES;
use crate::world::World;

const SLOTS: usize = 4;

/// One life of an agent.
pub struct Agent {
    pub world: Rc<World>,
    pub machine: Rc<Machine>,
    pub roster: Roster,
    pub books: RefCell<BTreeMap<RunId, Book>>,
    /// The highest number of each run that left this process.
    pub shown: RefCell<BTreeMap<RunId, u64>>,
    /// What is to be told about runs that have no directory.
    pub stories: RefCell<Vec<(RunId, Story)>>,
    pub called: Notify,
}

/// Starts the machine's agent.
pub fn start_agent(world: &Rc<World>, machine: &Rc<Machine>) {
    let agent = spawn_local(live(Rc::clone(world), Rc::clone(machine)));
    *machine.agent.borrow_mut() = Some(agent.abort_handle());
}

async fn live(world: Rc<World>, machine: Rc<Machine>) {
    let agent = Agent {
        world,
        machine,
        roster: Roster::new(SLOTS),
        books: RefCell::default(),
        shown: RefCell::default(),
        stories: RefCell::default(),
        called: Notify::new(),
    };
    recover(&agent).await;
    tokio::join!(poll(&agent), keep_leases(&agent), ship_disk(&agent), ship_stories(&agent));
}

/// Finds again what the agent before us left. The server is asked first how much it holds.
async fn recover(agent: &Agent) {
    let Agent { world, machine, .. } = agent;
    let found: Vec<(RunId, u32, u64)> =
        machine.disk.borrow().runs.iter().map(|(run, d)| (*run, d.manifest.fence, d.last_seq())).collect();
    if found.is_empty() {
        return;
    }
    let heard = loop {
        let nothing = |(run_id, fence, _): &(RunId, u32, u64)| RunNews {
            run_id: *run_id,
            fence: *fence,
            events: Vec::new(),
            ended: None,
        };
        match bring(world, machine, found.iter().map(nothing).collect()).await {
            Ok(heard) => break heard,
            Err(_) => pause(world).await,
        }
    };
    for ((run, _, last_seq), heard) in found.into_iter().zip(heard) {
        let known = heard.refused.is_none();
        if let Some(code) = &heard.refused {
            world.violated(Violation::new("E", format!("run {run}: the server refuses to hear of it: {code}")));
        }
        match machine.settle(world, run, heard.acknowledged) {
            None => continue,
            Some(Standing::NeverStarted { .. }) => {
                give_back(machine, run);
                continue;
            }
            Some(Standing::Running) => agent.roster.adopt(run, Executor::Local),
            Some(Standing::Ended(_)) if known => agent.roster.adopt(run, Executor::Local),
            Some(Standing::Ended(_)) => {}
        }
        if last_seq > heard.acknowledged {
            world.notes.borrow_mut().fleet.counts.spools_replayed += 1;
        }
        agent.books.borrow_mut().insert(run, Book::learned(&heard));
    }
    machine.bell.notify_one();
}

/// Removes a run that never was started.
pub fn give_back(machine: &Machine, run: RunId) {
    let mut disk = machine.disk.borrow_mut();
    if let Some(directory) = disk.runs.remove(&run) {
        disk.memory.see_host(&directory.manifest.host, directory.manifest.host_fence);
    }
}

async fn poll(agent: &Agent) {
    let Agent { world, machine, roster, .. } = agent;
    let labels = label(Connection::AGENT_LABEL, machine.agent_name.as_str());
    let abilities = Arc::new(Abilities { task_types: BTreeSet::from([TaskType::command()]), labels });
    loop {
        let free = u32::try_from(roster.free()).unwrap_or(0);
        if free == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        let slots = u32::try_from(SLOTS).unwrap_or(0);
        let claimant = Claimant {
            worker: machine.agent_name.clone(),
            tenant: Some(machine.tenant),
            passes_over: Arc::default(),
            abilities: Arc::clone(&abilities),
            wants: free,
            busy: slots - free,
            slots,
            accepts_at_once: false,
        };
        let poll = |engine: Arc<bowline_engine::Engine>| async move {
            Ok(engine.dispatcher.take(claimant, Duration::from_millis(800)).await)
        };
        match ask(world, machine, poll).await {
            Ok(mut runs) => {
                if world.strikes(world.plan.repeated) {
                    runs.extend(runs.clone());
                }
                accept(agent, runs).await;
            }
            Err(_) => pause(world).await,
        }
    }
}

/// Takes what arrived in hand, has it confirmed, and begins what is ours.
async fn accept(agent: &Agent, runs: Vec<ClaimedRun>) {
    let Agent { world, machine, roster, .. } = agent;
    let arrived_at = Instant::now();
    let mut offers = Vec::new();
    for run in runs {
        let right = run.tenant == machine.tenant && run.unit.as_ref().is_some_and(|unit| unit.host == machine.host);
        if !right {
            let text = format!("run {} was handed to agent {} of {}", run.run, machine.agent_name, machine.tenant);
            world.violated(Violation::new("T1", text));
        } else if roster.offer(run.run) {
            offers.push(run);
        }
    }
    let deadline = arrived_at + Duration::from_millis(u64::try_from(TIMES.accept_ms).unwrap_or(0));
    let named: Vec<RunId> = offers.iter().map(|offer| offer.run).collect();
    if named.is_empty() {
        return;
    }
    let (answer, sent_at) = loop {
        let sent_at = Instant::now();
        match beat(world, machine, named.clone()).await {
            Ok(answer) => break (Some(answer), sent_at),
            Err(_) if Instant::now() >= deadline => break (None, sent_at),
            Err(_) => pause(world).await,
        }
    };
    for offer in offers {
        let said = |list: &[RunId]| list.contains(&offer.run);
        let canceled = answer.as_ref().is_some_and(|answer| said(&answer.cancel));
        if canceled || answer.as_ref().is_some_and(|answer| said(&answer.renewed)) {
            roster.accept(offer.run, sent_at, canceled);
            begin(agent, &offer).await;
        } else {
            roster.done(offer.run);
        }
    }
}

async fn keep_leases(agent: &Agent) {
    let Agent { world, machine, roster, .. } = agent;
    let heartbeat = Duration::from_millis(u64::try_from(TIMES.heartbeat_ms).unwrap_or(500));
    let mut next_at = Instant::now();
    loop {
        tokio::time::sleep_until(next_at).await;
        let mut named = roster.named();
        named.sort();
        if named.is_empty() {
            next_at = Instant::now() + heartbeat;
            continue;
        }
        let sent_at = Instant::now();
        let Ok(answer) = beat(world, machine, named).await else {
            next_at = Instant::now() + Duration::from_millis(world.between(20, 400));
            continue;
        };
        next_at = sent_at + heartbeat;
        for (run, _) in roster.hear(&answer, sent_at).cancel {
            match machine.disk.borrow_mut().runs.get_mut(&run) {
                Some(directory) => directory.canceled = true,
                // It is about to be begun: the next heartbeat says it again.
                None => roster.cancel_again(run),
            }
        }
    }
}
