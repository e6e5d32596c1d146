//! Who gets which run when several workers ask at once.

use crate::worker::Strategy;

/// A worker that asks for work, as far as the choice depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// How many runs it wants now.
    pub wants: u32,
    /// Runs it already has.
    pub busy: u32,
    /// Runs it could have at once.
    pub slots: u32,
    /// How many labels and task types it has: the more, the more of a generalist.
    pub breadth: u32,
}

/// Chooses a demand for each of `runs` runs; every answer is an index into `demands`. All demands must be able to take
/// all of these runs; the caller groups by ability. Fewer answers than runs mean that nobody wants more.
/// `chance` is a number in `0.0..1.0` for each run.
pub fn assign(
    strategy: Strategy,
    demands: &[Demand],
    runs: usize,
    turn: u64,
    mut chance: impl FnMut() -> f64,
) -> Vec<usize> {
    let mut left: Vec<u32> = demands.iter().map(|d| d.wants).collect();
    let mut given: Vec<u32> = vec![0; demands.len()];
    let mut answers = Vec::with_capacity(runs);
    let mut next = if demands.is_empty() { 0 } else { usize::try_from(turn % demands.len() as u64).unwrap_or(0) };
    for _ in 0..runs {
        let open: Vec<usize> = (0..demands.len()).filter(|i| left[*i] > 0).collect();
        let Some(&first) = open.first() else { break };
        let chosen = match strategy {
            Strategy::RoundRobin => {
                let chosen = open.iter().copied().find(|i| *i >= next).unwrap_or(first);
                next = chosen + 1;
                chosen
            }
            Strategy::LeastLoaded => least(&open, |i| {
                let load = u64::from(demands[i].busy + given[i]) * 1_000_000 / u64::from(demands[i].slots.max(1));
                (load, i as u64)
            }),
            Strategy::BestMatch => least(&open, |i| (u64::from(demands[i].breadth), u64::from(given[i]))),
            Strategy::Random => {
                let pick = (chance() * open.len() as f64) as usize;
                open[pick.min(open.len() - 1)]
            }
        };
        left[chosen] -= 1;
        given[chosen] += 1;
        answers.push(chosen);
    }
    answers
}

fn least(open: &[usize], cost: impl Fn(usize) -> (u64, u64)) -> usize {
    open.iter().copied().min_by_key(|i| cost(*i)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::worker::Strategy;

    fn demand(wants: u32, busy: u32, slots: u32, breadth: u32) -> Demand {
        Demand { wants, busy, slots, breadth }
    }

    proptest! {
        #[test]
        fn nobody_gets_more_than_wanted_and_nothing_is_left_lying(
            wants in prop::collection::vec(0u32..5, 0..6), runs in 0usize..30, turn: u64,
            which in 0usize..4, seed in 0.0f64..1.0,
        ) {
            let strategy =
                [Strategy::RoundRobin, Strategy::LeastLoaded, Strategy::BestMatch, Strategy::Random][which];
            let demands: Vec<_> = wants.iter().map(|w| demand(*w, 0, 8, 1)).collect();
            let answers = assign(strategy, &demands, runs, turn, || seed);
            let total: u32 = wants.iter().sum();
            prop_assert_eq!(answers.len(), runs.min(total as usize));
            for (i, want) in wants.iter().enumerate() {
                prop_assert!(answers.iter().filter(|a| **a == i).count() <= *want as usize);
            }
        }
    }

    #[test]
    fn round_robin_takes_turns() {
        let demands = [demand(9, 0, 9, 1), demand(9, 0, 9, 1), demand(9, 0, 9, 1)];
        assert_eq!(assign(Strategy::RoundRobin, &demands, 5, 1, || 0.0), [1, 2, 0, 1, 2]);
        assert_eq!(assign(Strategy::RoundRobin, &demands, 2, 5, || 0.0), [2, 0]);
        let full = [demand(1, 0, 9, 1), demand(0, 0, 9, 1), demand(9, 0, 9, 1)];
        assert_eq!(assign(Strategy::RoundRobin, &full, 4, 0, || 0.0), [0, 2, 2, 2]);
    }

    #[test]
    fn chance_chooses_among_those_who_want_more() {
        let demands = [demand(9, 0, 9, 1), demand(0, 0, 9, 1), demand(9, 0, 9, 1), demand(9, 0, 9, 1)];
        for (chance, chosen) in [(0.0, 0), (0.34, 2), (0.67, 3), (1.0, 3)] {
            assert_eq!(assign(Strategy::Random, &demands, 1, 0, || chance), [chosen], "{chance}");
        }
    }

    #[test]
    fn the_least_loaded_comes_first() {
        let demands = [demand(9, 5, 10, 1), demand(9, 0, 10, 1)];
        assert_eq!(assign(Strategy::LeastLoaded, &demands, 4, 0, || 0.0), [1, 1, 1, 1]);
        let shares = [demand(9, 3, 10, 1), demand(9, 1, 4, 1), demand(9, 0, 0, 1)];
        assert_eq!(assign(Strategy::LeastLoaded, &shares, 4, 0, || 0.0), [2, 1, 0, 0], "3 of 10, 1 of 4, 0 of none");
        let even = [demand(9, 0, 10, 1), demand(9, 0, 10, 1)];
        assert_eq!(assign(Strategy::LeastLoaded, &even, 4, 0, || 0.0), [0, 1, 0, 1]);
    }

    #[test]
    fn the_best_match_is_the_specialist() {
        let demands = [demand(9, 0, 10, 7), demand(2, 0, 10, 1)];
        assert_eq!(assign(Strategy::BestMatch, &demands, 3, 0, || 0.0), [1, 1, 0]);
    }
}
