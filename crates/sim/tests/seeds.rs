//! The simulation holds, repeats itself, and reaches what it is there for.

use bowline_sim::{FleetCounts, FlowCounts, simulate, simulate_flows};

/// So many that every rare case is reached often enough; histories change with every change of the engine.
const SEEDS: u64 = 80;
const FLOW_SEEDS: u64 = 100;
/// What was reached less often than this was reached by luck.
const FEW: u64 = 5;

#[test]
fn no_seed_breaks_a_promise_and_together_they_reach_every_rare_case() {
    let (mut crashes, mut outages, mut stale, mut duplicates, mut corrected, mut faults) = (0, 0, 0, 0, 0, [0; 4]);
    let mut fleet = FleetCounts::default();
    for seed in 1..=SEEDS {
        let report = simulate(seed).expect("the simulation runs");
        assert!(
            report.violations.is_empty(),
            "seed {seed} fails (replay: cargo run -p bowline-sim -- --seed {seed}): {:#?}",
            report.violations
        );
        assert!(report.jobs > 1, "seed {seed} simulated next to nothing");
        crashes += report.crashes;
        outages += report.outages;
        stale += report.stale_refused;
        duplicates += report.duplicates_ignored;
        corrected += report.corrected;
        fleet = fleet.plus(report.fleet);
        for (sum, count) in faults.iter_mut().zip(report.store_faults) {
            *sum += count;
        }
    }
    let reached = [
        ("crashes", crashes),
        ("outages", outages),
        ("stale writes refused", stale),
        ("duplicates ignored", duplicates),
        ("lost runs corrected", corrected),
        ("store away", faults[0]),
        ("conflicts", faults[1]),
        ("unknown and not stored", faults[2]),
        ("unknown and stored", faults[3]),
    ];
    let few: Vec<(&str, u64)> = reached.into_iter().chain(fleet.named()).filter(|(_, count)| *count < FEW).collect();
    assert!(few.is_empty(), "less than {FEW} in {SEEDS} seeds: {few:?}");
}

#[test]
fn no_seed_of_workflows_breaks_a_promise_and_together_they_reach_every_rare_case() {
    let (mut crashes, mut faults) = (0, [0; 4]);
    let mut flow = FlowCounts::default();
    for seed in 1..=FLOW_SEEDS {
        let report = simulate_flows(seed).expect("the simulation runs");
        assert!(
            report.violations.is_empty(),
            "seed {seed} fails (replay: cargo run -p bowline-sim -- --scene flows --seed {seed}): {:#?}",
            report.violations
        );
        crashes += report.crashes;
        flow = flow.plus(report.flow);
        for (sum, count) in faults.iter_mut().zip(report.store_faults) {
            *sum += count;
        }
    }
    let reached = [
        ("crashes", crashes),
        ("store away", faults[0]),
        ("conflicts", faults[1]),
        ("unknown and not stored", faults[2]),
        ("unknown and stored", faults[3]),
    ];
    let few: Vec<(&str, u64)> = reached.into_iter().chain(flow.named()).filter(|(_, count)| *count < FEW).collect();
    assert!(few.is_empty(), "less than {FEW} in {FLOW_SEEDS} seeds: {few:?}");
}

#[test]
fn the_same_seed_is_the_same_history() {
    for seed in [3, 17, 42, 99] {
        let (one, two) = (simulate(seed).expect("it runs"), simulate(seed).expect("it runs"));
        assert_eq!((one.trace, one.events, one.jobs), (two.trace, two.events, two.jobs), "seed {seed}");
        assert_eq!(one.fleet, two.fleet, "seed {seed}");
    }
    for seed in [5, 23] {
        let (one, two) = (simulate_flows(seed).expect("it runs"), simulate_flows(seed).expect("it runs"));
        assert_eq!((one.trace, one.events, one.jobs), (two.trace, two.events, two.jobs), "seed {seed} of workflows");
        assert_eq!(one.flow, two.flow, "seed {seed} of workflows");
    }
}
