//! The standing claim: what the dispatcher would take, left with the ledger until there is something to take.
//!
//! A job that is accepted while somebody waits for it is handed out in the same transaction: one commit instead of two
//! between a request and the start of its work.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_store::{ClaimRules, Claimant, ClaimedRun, StoreResult};
use tokio::sync::oneshot;

/// A claim that waits.
#[derive(Debug)]
pub struct StandingClaim {
    pub claimants: Vec<Claimant>,
    pub rules: ClaimRules,
    number: u64,
    line: oneshot::Sender<StoreResult<Vec<ClaimedRun>>>,
}

impl StandingClaim {
    pub fn answer(self, claimed: StoreResult<Vec<ClaimedRun>>) {
        drop(self.line.send(claimed));
    }
}

#[derive(Debug, Default)]
struct State {
    claim: Option<StandingClaim>,
    /// Claims with smaller numbers are over, also those that a committer has in hand just now.
    valid_from: u64,
    next: u64,
}

/// Where it waits. There is one at a time; a newer one ends the older one.
#[derive(Debug, Default)]
pub struct Standing(Mutex<State>);

impl Standing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn put(&self, claimants: Vec<Claimant>, rules: ClaimRules) -> oneshot::Receiver<StoreResult<Vec<ClaimedRun>>> {
        self.withdraw();
        let (line, answer) = oneshot::channel();
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.claim = Some(StandingClaim { claimants, rules, number, line });
        answer
    }

    /// Ends the claim; it is answered with nothing, or, if a committer is at it, with what that one takes.
    pub fn withdraw(&self) {
        let mut state = self.state();
        state.valid_from = state.next;
        if let Some(claim) = state.claim.take() {
            claim.answer(Ok(Vec::new()));
        }
    }

    pub fn take(&self) -> Option<StandingClaim> {
        self.state().claim.take()
    }

    /// Nothing was found for it: it waits on, unless it has been ended meanwhile.
    pub fn put_back(&self, claim: StandingClaim) {
        let mut state = self.state();
        if claim.number < state.valid_from {
            claim.answer(Ok(Vec::new()));
        } else {
            state.claim = Some(claim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> ClaimRules {
        ClaimRules { weights: Default::default(), strategy: Default::default() }
    }

    #[tokio::test]
    async fn a_claim_that_was_ended_while_a_committer_had_it_is_answered_with_nothing() {
        let standing = Standing::default();
        let first = standing.put(Vec::new(), rules());
        let in_hand = standing.take().expect("it waits");
        standing.withdraw();
        standing.put_back(in_hand);
        assert!(first.await.expect("an answer").expect("nothing went wrong").is_empty());
        assert!(standing.take().is_none());
    }

    #[tokio::test]
    async fn a_newer_claim_ends_the_one_that_a_committer_has() {
        let standing = Standing::default();
        let first = standing.put(Vec::new(), rules());
        let in_hand = standing.take().expect("it waits");
        let mut second = standing.put(Vec::new(), rules());
        standing.put_back(in_hand);
        assert!(first.await.expect("an answer").expect("nothing went wrong").is_empty());
        assert!(second.try_recv().is_err(), "the newer one waits on");
        assert!(standing.take().is_some());
    }

    #[tokio::test]
    async fn a_claim_for_which_nothing_was_found_waits_on() {
        let standing = Standing::default();
        for _ in 0..2 {
            let mut claim = standing.put(Vec::new(), rules());
            let in_hand = standing.take().expect("it waits");
            standing.put_back(in_hand);
            assert!(claim.try_recv().is_err(), "it is not answered");
            assert!(standing.take().is_some());
        }
    }
}
