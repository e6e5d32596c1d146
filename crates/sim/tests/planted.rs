//! The simulation can fail: each known mistake is found, and the seed that found it is printed.
#![cfg(feature = "planted")]

use std::time::{Duration, Instant};

use bowline_model::planted::{Mistake, plant};
use bowline_sim::simulate;

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

const BUDGET: Duration = Duration::from_secs(120);

#[test]
fn every_planted_mistake_is_found() {
    let mut missed = Vec::new();
    for mistake in FINDABLE {
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
