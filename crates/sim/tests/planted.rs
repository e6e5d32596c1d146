//! The simulation can fail: each known mistake is found, and the seed that found it is printed.
#![cfg(feature = "planted")]

use std::time::{Duration, Instant};

use bowline_model::planted::{Mistake, plant};
use bowline_sim::{Report, simulate, simulate_flows};

/// Mistakes this simulation is there to find. The others are found by the conformance suite.
const FINDABLE: [Mistake; 16] = [
    Mistake::AnswerBeforeCommit,
    Mistake::NoFenceOnFinish,
    Mistake::CountDuplicates,
    Mistake::IgnoreWatermark,
    Mistake::UnknownIsFailure,
    Mistake::ForgetTenant,
    Mistake::ReplayTwice,
    Mistake::QueueTwice,
    Mistake::ApprovalUnbound,
    Mistake::HostForEverybody,
    Mistake::MarkAfterSpawn,
    Mistake::FreedUnconfirmed,
    Mistake::CanaryIgnored,
    Mistake::BlocksForgotten,
    Mistake::GateOpen,
    Mistake::NumberReused,
];

/// Mistakes that are made with workflows. A turn taken twice is not among them: it breeds, and a world of it has no end. It is
/// found by a promise of the ledger, and by two engines that race.
const FINDABLE_IN_FLOWS: [Mistake; 3] = [Mistake::WakeForgotten, Mistake::ChildForgotten, Mistake::UndoneForwards];

const BUDGET: Duration = Duration::from_secs(120);

type Simulate = fn(u64) -> anyhow::Result<Report>;

#[test]
fn every_planted_mistake_is_found() {
    let mut missed = Vec::new();
    let jobs = FINDABLE.map(|mistake| (mistake, simulate as Simulate));
    let flows = FINDABLE_IN_FLOWS.map(|mistake| (mistake, simulate_flows as Simulate));
    for (mistake, simulate) in jobs.into_iter().chain(flows) {
        let started = Instant::now();
        let mut found = None;
        for seed in 1..2_000 {
            plant(Some(mistake));
            let report = simulate(seed);
            plant(None);
            match report {
                Ok(report) if report.violations.is_empty() => {}
                Ok(report) => found = Some((seed, report.violations[0].to_string())),
                Err(error) => found = Some((seed, error.to_string())),
            }
            if found.is_some() || started.elapsed() > BUDGET {
                break;
            }
        }
        match found {
            Some((seed, first)) => println!("{mistake:?}: seed {seed} after {:?}: {first}", started.elapsed()),
            None => missed.push(mistake),
        }
    }
    assert!(missed.is_empty(), "never found: {missed:?}");
}
