//! The runs that were begun lately, so that none of them is begun again.

use std::collections::{HashSet, VecDeque};

use bowline_model::RunId;

/// How many are remembered. A second hand-out of the same run comes soon or never (the server makes a new run for each),
/// and for older ones the server itself answers that they are stale.
const MAX: usize = 100_000;

#[derive(Default)]
pub(crate) struct RecentRuns {
    known: HashSet<RunId>,
    order: VecDeque<RunId>,
}

impl RecentRuns {
    pub fn contains(&self, run: RunId) -> bool {
        self.known.contains(&run)
    }

    pub fn remember(&mut self, run: RunId) {
        if self.known.insert(run) {
            self.order.push_back(run);
        }
        if self.order.len() > MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}
