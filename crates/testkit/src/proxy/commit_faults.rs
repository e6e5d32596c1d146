//! How many COMMITs are still to fail, in which way, and how many have.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(super) struct CommitFaults {
    pending: Mutex<Pending>,
    answers_dropped: AtomicU64,
    commits_failed: AtomicU64,
}

#[derive(Debug, Default)]
struct Pending {
    fail: u64,
    drop_answer: u64,
    /// Grows with every new order, so that a fault taken under an older one is not given back to this one.
    round: u64,
}

/// What is to become of one COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    Fail,
    DropAnswer { round: u64 },
}

impl CommitFaults {
    pub fn fail_next(&self, n: u64) {
        self.pending().fail = n;
    }

    pub fn drop_next(&self, n: u64) {
        let mut pending = self.pending();
        pending.drop_answer = n;
        pending.round += 1;
    }

    pub fn forget(&self) {
        self.fail_next(0);
        self.drop_next(0);
    }

    pub fn commits_failed(&self) -> u64 {
        self.commits_failed.load(Relaxed)
    }

    pub fn answers_dropped(&self) -> u64 {
        self.answers_dropped.load(Relaxed)
    }

    /// Decides about a COMMIT on its way to the server. A failure counts at once, a dropped answer when it is dropped.
    pub fn decide(&self) -> Fate {
        let mut pending = self.pending();
        if pending.fail > 0 {
            pending.fail -= 1;
            self.commits_failed.fetch_add(1, Relaxed);
            return Fate::Fail;
        }
        if pending.drop_answer > 0 {
            pending.drop_answer -= 1;
            return Fate::DropAnswer { round: pending.round };
        }
        Fate::Pass
    }

    pub fn answer_was_dropped(&self) {
        self.answers_dropped.fetch_add(1, Relaxed);
    }

    /// The COMMIT did not commit, so there was no answer worth dropping: another one will have to do.
    pub fn give_back(&self, fate: Fate) {
        let mut pending = self.pending();
        if fate == (Fate::DropAnswer { round: pending.round }) {
            pending.drop_answer += 1;
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
