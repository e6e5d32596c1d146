//! Which `jti`s were used already, so that a copied JWT works once at most.
//!
//! Enters: a `jti`, when its token was issued and expires, and the time it is now. Leaves: a [`Sighting`].
//! A `jti` is remembered for as long as its token could still be accepted, the leeway included. Memory is bounded: a
//! `jti` is kept as its hash, and a cache full of living tokens refuses new ones, because forgetting one early would
//! make it usable again.
//! *Forgotten*: of an expiry: a `jti` with it was remembered and is not any more. A clock that is set back must not make such
//! a token usable again, and a clock that was ahead for a while must not leave tokens refused that nothing was forgotten of.

use std::collections::{BTreeSet, HashMap};

use sha2::{Digest, Sha256};

use crate::jwt::LEEWAY_S;

type JtiHash = [u8; 32];

/// What the cache says about a `jti`. Only [`Sighting::First`] may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sighting {
    /// Never seen; from now on it is.
    First,
    /// Seen before: a replay.
    Again,
    /// The token cannot be accepted any more, so whether it was seen may already be forgotten.
    Expired,
    /// The token is from before the memory begins, so it may have been used then.
    BeforeStart,
    /// The cache is full of tokens that still live. The caller may come back with the same token.
    Full,
}

/// A bounded memory of used `jti`s.
#[derive(Debug)]
pub struct ReplayCache {
    capacity: usize,
    /// Until when each token could be accepted, in Unix seconds.
    until_by_jti: HashMap<JtiHash, i64>,
    by_until: BTreeSet<(i64, JtiHash)>,
    /// Expiries of what was forgotten, as spans without gaps: first and last. Few, unless the clock jumps often.
    forgotten: Vec<(i64, i64)>,
    /// When the memory began, in Unix seconds.
    started_at: i64,
}

/// So many spans are kept apart.
const SPANS_MAX: usize = 16;
/// Expiries that are no further apart than this belong to one span.
const SPAN_GAP_S: i64 = 600;

impl ReplayCache {
    /// `capacity` is how many unexpired tokens fit; one takes roughly 150 bytes. What was seen before `started_at` is not
    /// remembered.
    pub fn new(capacity: usize, started_at: i64) -> Self {
        Self { capacity, until_by_jti: HashMap::new(), by_until: BTreeSet::new(), forgotten: Vec::new(), started_at }
    }

    /// Asks about a `jti` and remembers it. Times are Unix seconds.
    pub fn seen(&mut self, jti: &str, issued_at: i64, expires_at: i64, now: i64) -> Sighting {
        // No token from further ahead is accepted, so a start that is further ahead was by a clock that has been put right.
        self.started_at = self.started_at.min(now.saturating_add(LEEWAY_S + 1));
        self.forget_expired(now);
        if issued_at < self.started_at {
            return Sighting::BeforeStart;
        }
        let until = expires_at.saturating_add(LEEWAY_S);
        let jti = Sha256::digest(jti.as_bytes()).into();
        if self.until_by_jti.contains_key(&jti) {
            return Sighting::Again;
        }
        if until < now || self.forgotten.iter().any(|(first, last)| (*first..=*last).contains(&until)) {
            return Sighting::Expired;
        }
        if self.until_by_jti.len() >= self.capacity {
            return Sighting::Full;
        }
        self.until_by_jti.insert(jti, until);
        self.by_until.insert((until, jti));
        Sighting::First
    }

    pub fn len(&self) -> usize {
        self.until_by_jti.len()
    }

    pub fn is_empty(&self) -> bool {
        self.until_by_jti.is_empty()
    }

    fn forget_expired(&mut self, now: i64) {
        while let Some((until, jti)) = self.by_until.first().copied()
            && until < now
        {
            self.by_until.pop_first();
            self.until_by_jti.remove(&jti);
            self.note_forgotten(until);
        }
    }

    fn note_forgotten(&mut self, until: i64) {
        let is_near = |(first, last): &&mut (i64, i64)| {
            (first.saturating_sub(SPAN_GAP_S)..=last.saturating_add(SPAN_GAP_S)).contains(&until)
        };
        match self.forgotten.iter_mut().find(is_near) {
            Some((first, last)) => (*first, *last) = ((*first).min(until), (*last).max(until)),
            None => self.forgotten.push((until, until)),
        }
        if self.forgotten.len() > SPANS_MAX {
            // The two that are nearest to each other become one: what lies between is refused, and nothing is let in again.
            self.forgotten.sort_unstable();
            let gap = |n: &usize| self.forgotten[n + 1].0.saturating_sub(self.forgotten[*n].1);
            if let Some(n) = (0..self.forgotten.len() - 1).min_by_key(gap) {
                let (first, last) = self.forgotten.remove(n + 1);
                self.forgotten[n] = (self.forgotten[n].0.min(first), self.forgotten[n].1.max(last));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// B010: the same `jti` twice.
    #[test]
    fn a_jti_passes_once() {
        let mut cache = ReplayCache::new(10, 0);
        assert_eq!(cache.seen("a", 10, 100, 50), Sighting::First);
        assert_eq!(cache.seen("a", 10, 100, 50), Sighting::Again);
        assert_eq!(cache.seen("a", 10, 200, 51), Sighting::Again);
        assert_eq!(cache.seen("b", 10, 100, 51), Sighting::First);
    }

    #[test]
    fn it_is_remembered_through_the_leeway() {
        let mut cache = ReplayCache::new(10, 0);
        cache.seen("a", 10, 100, 50);
        assert_eq!(cache.seen("a", 10, 100, 100 + LEEWAY_S), Sighting::Again);
        assert_eq!(cache.seen("a", 10, 100, 101 + LEEWAY_S), Sighting::Expired);
        assert!(cache.is_empty());
    }

    #[test]
    fn a_full_cache_refuses_until_something_expires() {
        let mut cache = ReplayCache::new(2, 0);
        cache.seen("a", 10, 100, 50);
        cache.seen("b", 10, 200, 50);
        assert_eq!(cache.seen("c", 10, 200, 60), Sighting::Full);
        assert_eq!(cache.seen("a", 10, 100, 60), Sighting::Again);
        assert_eq!(cache.seen("c", 10, 200, 131), Sighting::First);
        assert_eq!(cache.seen("d", 10, 200, 131), Sighting::Full);
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn a_clock_set_back_revives_nothing() {
        let mut cache = ReplayCache::new(2, 0);
        cache.seen("a", 10, 100, 50);
        cache.seen("b", 10, 500, 200);
        assert_eq!(cache.seen("a", 10, 100, 50), Sighting::Expired);
    }

    #[test]
    fn a_clock_that_was_ahead_for_a_while_leaves_new_tokens_alone() {
        const AHEAD: i64 = 400 * 86_400;
        let mut cache = ReplayCache::new(10, 0);
        assert_eq!(cache.seen("a", 1_000, 1_300, 1_000), Sighting::First);
        // Ahead, with tokens that are ahead as well, some of which are forgotten there.
        assert_eq!(cache.seen("b", AHEAD, AHEAD + 300, AHEAD), Sighting::First);
        assert_eq!(cache.seen("c", AHEAD + 400, AHEAD + 700, AHEAD + 400), Sighting::First);
        // Put right.
        assert_eq!(cache.seen("a", 1_000, 1_300, 1_010), Sighting::Expired, "it was used");
        assert_eq!(cache.seen("d", 1_010, 1_310, 1_010), Sighting::First);
        assert_eq!(cache.seen("d", 1_010, 1_310, 1_010), Sighting::Again);
        // When the time really comes, what was used ahead of it is still used.
        assert_eq!(cache.seen("b", AHEAD, AHEAD + 300, AHEAD), Sighting::Expired);
        assert_eq!(cache.seen("c", AHEAD + 400, AHEAD + 700, AHEAD + 400), Sighting::Again);
    }

    #[test]
    fn a_memory_that_began_in_a_wrong_future_takes_tokens_when_the_clock_is_right() {
        let mut cache = ReplayCache::new(10, 1_000_000);
        assert_eq!(cache.seen("a", 999_999, 1_000_200, 1_000_000), Sighting::BeforeStart);
        assert_eq!(cache.seen("b", 1_000_000, 1_000_200, 1_000_000), Sighting::First);
        // Put right. What is from before that may have been used before the start.
        assert_eq!(cache.seen("c", 5_000, 5_300, 5_000), Sighting::BeforeStart);
        assert_eq!(cache.seen("c", 5_000, 5_300, 5_100), Sighting::BeforeStart);
        assert_eq!(cache.seen("d", 5_031, 5_331, 5_100), Sighting::First);
        assert_eq!(cache.seen("d", 5_031, 5_331, 5_100), Sighting::Again);
    }

    #[test]
    fn many_jumps_of_the_clock_take_little_memory_and_revive_nothing() {
        let mut cache = ReplayCache::new(1_000, 0);
        let at = |jump: i64| (jump * 7 % 50) * 100_000 + 1_000;
        for jump in 0..50 {
            assert_eq!(cache.seen(&format!("{jump}"), 10, at(jump), 50), Sighting::First);
        }
        for jump in 0..50 {
            cache.seen("late", 10, 0, at(jump) + LEEWAY_S + 1);
        }
        assert!(cache.forgotten.len() <= SPANS_MAX);
        assert!((0..50).all(|jump| cache.seen(&format!("{jump}"), 10, at(jump), 50) != Sighting::First));
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let mut cache = ReplayCache::new(2, 0);
        assert_eq!(cache.seen("a", 10, i64::MAX, 0), Sighting::First);
        assert_eq!(cache.seen("b", 10, i64::MIN, 0), Sighting::Expired);
    }

    proptest! {
        /// Whatever happens in between, no `jti` is `First` twice, and memory stays bounded.
        #[test]
        fn nothing_passes_twice(steps in proptest::collection::vec((0_u8..12, 0_i64..200, 0_i64..300), 1..200)) {
            let mut cache = ReplayCache::new(5, 0);
            let mut passed = std::collections::HashSet::new();
            for (jti, expires_at, now) in steps {
                // One jti belongs to one token, so its expiry never changes.
                let expires_at = i64::from(jti) * 20 + expires_at % 2;
                let jti = format!("{jti}-{expires_at}");
                if cache.seen(&jti, 10, expires_at, now) == Sighting::First {
                    prop_assert!(passed.insert(jti));
                }
                prop_assert!(cache.len() <= 5);
            }
        }
    }
}
