//! Which `jti`s were used already, so that a copied JWT works once at most.
//!
//! Enters: a `jti`, when its token expires, and the time it is now. Leaves: a [`Sighting`].
//! A `jti` is remembered for as long as its token could still be accepted, the leeway included. Memory is bounded: a
//! `jti` is kept as its hash, and a cache full of living tokens refuses new ones, because forgetting one early would
//! make it usable again.

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
    /// The latest time we were told. A clock set back must not revive what was forgotten since.
    now_max: i64,
}

impl ReplayCache {
    /// `capacity` is how many unexpired tokens fit; one takes roughly 150 bytes.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, until_by_jti: HashMap::new(), by_until: BTreeSet::new(), now_max: i64::MIN }
    }

    /// Asks about a `jti` and remembers it. Times are Unix seconds.
    pub fn seen(&mut self, jti: &str, expires_at: i64, now: i64) -> Sighting {
        self.now_max = self.now_max.max(now);
        self.forget_expired();
        let until = expires_at.saturating_add(LEEWAY_S);
        let jti = Sha256::digest(jti.as_bytes()).into();
        if self.until_by_jti.contains_key(&jti) {
            return Sighting::Again;
        }
        if until < self.now_max {
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

    fn forget_expired(&mut self) {
        while let Some((until, jti)) = self.by_until.first().copied()
            && until < self.now_max
        {
            self.by_until.pop_first();
            self.until_by_jti.remove(&jti);
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
        let mut cache = ReplayCache::new(10);
        assert_eq!(cache.seen("a", 100, 50), Sighting::First);
        assert_eq!(cache.seen("a", 100, 50), Sighting::Again);
        assert_eq!(cache.seen("a", 200, 51), Sighting::Again);
        assert_eq!(cache.seen("b", 100, 51), Sighting::First);
    }

    #[test]
    fn it_is_remembered_through_the_leeway() {
        let mut cache = ReplayCache::new(10);
        cache.seen("a", 100, 50);
        assert_eq!(cache.seen("a", 100, 100 + LEEWAY_S), Sighting::Again);
        assert_eq!(cache.seen("a", 100, 101 + LEEWAY_S), Sighting::Expired);
        assert!(cache.is_empty());
    }

    #[test]
    fn a_full_cache_refuses_until_something_expires() {
        let mut cache = ReplayCache::new(2);
        cache.seen("a", 100, 50);
        cache.seen("b", 200, 50);
        assert_eq!(cache.seen("c", 200, 60), Sighting::Full);
        assert_eq!(cache.seen("a", 100, 60), Sighting::Again);
        assert_eq!(cache.seen("c", 200, 131), Sighting::First);
        assert_eq!(cache.seen("d", 200, 131), Sighting::Full);
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn a_clock_set_back_revives_nothing() {
        let mut cache = ReplayCache::new(2);
        cache.seen("a", 100, 50);
        cache.seen("b", 500, 200);
        assert_eq!(cache.seen("a", 100, 50), Sighting::Expired);
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let mut cache = ReplayCache::new(2);
        assert_eq!(cache.seen("a", i64::MAX, 0), Sighting::First);
        assert_eq!(cache.seen("b", i64::MIN, 0), Sighting::Expired);
    }

    proptest! {
        /// Whatever happens in between, no `jti` is `First` twice, and memory stays bounded.
        #[test]
        fn nothing_passes_twice(steps in proptest::collection::vec((0_u8..12, 0_i64..200, 0_i64..300), 1..200)) {
            let mut cache = ReplayCache::new(5);
            let mut passed = std::collections::HashSet::new();
            for (jti, expires_at, now) in steps {
                // One jti belongs to one token, so its expiry never changes.
                let expires_at = i64::from(jti) * 20 + expires_at % 2;
                let jti = format!("{jti}-{expires_at}");
                if cache.seen(&jti, expires_at, now) == Sighting::First {
                    prop_assert!(passed.insert(jti));
                }
                prop_assert!(cache.len() <= 5);
            }
        }
    }
}
