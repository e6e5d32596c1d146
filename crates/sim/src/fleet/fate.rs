//! What befalls a machine: its agent is killed or frozen, its power fails, its wire is cut in one direction or both.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::Machine;
use super::agent::start_agent;
use crate::world::World;

/// Strikes until all is calm, and leaves the machine in order.
pub async fn of_machine(world: Rc<World>, machine: Rc<Machine>) {
    let last = |from, to| tokio::time::sleep(Duration::from_millis(world.between(from, to)));
    while !world.is_calm() {
        last(200, 1_200).await;
        let plan = &world.plan;
        // Where nothing runs there is little to break.
        let here = if machine.disk.borrow().runs.is_empty() { 0.4 } else { 3.0 };
        if world.strikes(plan.agent_crash * here) {
            world.notes.borrow_mut().fleet.counts.agent_crashes += 1;
            machine.kill_agent();
            last(50, 6_000).await;
            start_agent(&world, &machine);
        }
        if world.strikes(plan.machine_crash * here) {
            world.notes.borrow_mut().fleet.counts.machine_crashes += 1;
            let forgets = world.chance() < 0.4;
            machine.crash(&world, forgets);
            last(500, 8_000).await;
            start_agent(&world, &machine);
        }
        if world.strikes(plan.cut * here) {
            let ways = [(true, true), (true, false), (false, true)];
            machine.cut.set(ways[usize::try_from(world.between(0, 3)).unwrap_or(0)]);
            // Around the length of a lease: what runs there is called lost, and may still run when the wire is mended.
            last(500, 7_000).await;
            machine.cut.set((false, false));
        }
        if world.strikes(plan.freeze * here) {
            let long = Duration::from_millis(world.between(100, 9_000));
            machine.frozen_until.set(Some(Instant::now() + long));
        }
    }
}
