//! A keeper: owns one run, whatever becomes of the agent. It marks the start before it starts, and writes before it tells.

use std::rc::Rc;
use std::time::Duration;

use bowline_execute::{EndedAs, Happening};
use bowline_model::RunId;
use bowline_model::planted::{self, Mistake};
use serde_json::json;
use tokio::task::spawn_local;

use super::Machine;
use crate::world::World;

/// Hands a run that has a directory to a keeper of its own.
pub fn spawn_keeper(world: &Rc<World>, machine: &Rc<Machine>, run: RunId) {
    let keeper = spawn_local(keep(Rc::clone(world), Rc::clone(machine), run));
    machine.keepers.borrow_mut().insert(run, keeper.abort_handle());
}

/// How often a keeper looks whether its run should end.
const STEP_MS: u64 = 100;

async fn keep(world: Rc<World>, machine: Rc<Machine>, run: RunId) {
    let rest = |most| tokio::time::sleep(Duration::from_millis(world.between(1, most)));
    let mark = || {
        if let Some(directory) = machine.disk.borrow_mut().runs.get_mut(&run) {
            directory.started = true;
        }
    };
    let dies = || {
        let dies = world.strikes(world.plan.keeper_dies);
        if dies {
            world.notes.borrow_mut().fleet.counts.keepers_lost += 1;
            machine.lose_keeper(run);
        }
        dies
    };
    // Most take a moment; some outlast the lease of an agent that is cut off.
    let steps = match world.between(0, 10) {
        0..6 => world.between(1, 8),
        6..8 => world.between(8, 60),
        _ => world.between(60, 140),
    };
    rest(10).await;
    if dies() {
        return;
    }
    if !planted::on(Mistake::MarkAfterSpawn) {
        mark();
    }
    rest(5).await;
    if dies() {
        return;
    }
    let lasts_ms = i64::try_from(steps * STEP_MS + 20).unwrap_or(0);
    machine.spawn(&world, run, world.now().plus_millis(lasts_ms));
    rest(5).await;
    if dies() {
        return;
    }
    if planted::on(Mistake::MarkAfterSpawn) {
        mark();
    }
    machine.write(&world, run, 0, |_| Happening::Started {
        pid: 1,
        boot_id: machine.host.to_string(),
        start_time: 1,
        unenforced: Vec::new(),
        limits: Default::default(),
    });
    let mut outcome = None;
    for step in 1..=steps {
        tokio::time::sleep(Duration::from_millis(STEP_MS)).await;
        let canceled = machine.disk.borrow().runs.get(&run).is_some_and(|directory| directory.canceled);
        if canceled {
            outcome = Some(EndedAs::Canceled);
            break;
        }
        if step % 4 == 0 {
            if dies() {
                return;
            }
            let said = json!({"kind": "said", "step": step});
            machine.write(&world, run, 0, |_| Happening::Other(said.as_object().cloned().unwrap_or_default()));
        }
    }
    let fails = world.strikes(world.plan.work_fails);
    let outcome = outcome.unwrap_or(if fails { EndedAs::Failed } else { EndedAs::Succeeded });
    machine.reap(run);
    let exit_code = match outcome {
        EndedAs::Succeeded => Some(0),
        EndedAs::Failed => Some(7),
        _ => None,
    };
    machine.write_end(&world, run, 0, outcome, exit_code);
    // Its last word is on disk; it takes a moment to leave.
    rest(5).await;
    machine.lose_keeper(run);
}
