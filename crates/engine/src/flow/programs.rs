//! Programs that are kept in memory, by how much room they take.
//!
//! A definition of one kilobyte and one of a mebibyte, full of patterns, are a program each; so what is kept is bounded by bytes and
//! not by number. What is not here is compiled again when it is needed.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Values by key, each with its size. The one that came first goes first.
#[derive(Debug)]
pub(super) struct Sized<K, V> {
    max: usize,
    bytes: usize,
    values: HashMap<K, (V, usize)>,
    order: VecDeque<K>,
}

impl<K: Clone + Eq + Hash, V> Sized<K, V> {
    pub fn up_to(max: usize) -> Self {
        Self { max, bytes: 0, values: HashMap::new(), order: VecDeque::new() }
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key).map(|(value, _)| value)
    }

    /// Keeps a value until others need its room. One that is larger than half of all there is is not kept: it would leave no room
    /// for anybody else's.
    pub fn insert(&mut self, key: K, value: V, bytes: usize) {
        if let Some((_, before)) = self.values.remove(&key) {
            self.bytes -= before;
            self.order.retain(|other| *other != key);
        }
        if bytes > self.max / 2 {
            return;
        }
        while self.bytes + bytes > self.max
            && let Some(first) = self.order.pop_front()
        {
            if let Some((_, gone)) = self.values.remove(&first) {
                self.bytes -= gone;
            }
        }
        self.bytes += bytes;
        self.order.push_back(key.clone());
        self.values.insert(key, (value, bytes));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is kept, in whatever order: never more than there is room for, and what is there is what was kept last.
        #[test]
        fn no_more_is_kept_than_there_is_room_for(max in 0..2_000_usize, all in prop::collection::vec((0..20_u8, 0..1_200_usize), 0..200)) {
            let mut kept = Sized::up_to(max);
            let mut last = HashMap::new();
            for (n, (key, bytes)) in all.into_iter().enumerate() {
                kept.insert(key, n, bytes);
                last.insert(key, (n, bytes));
                let held: usize = kept.values.values().map(|(_, bytes)| bytes).sum();
                prop_assert!(held <= max, "{held} bytes of {max}");
                prop_assert_eq!(held, kept.bytes);
                prop_assert_eq!(kept.values.len(), kept.order.len());
                for (key, (value, _)) in &kept.values {
                    prop_assert_eq!(*value, last[key].0);
                }
                prop_assert!(bytes > max / 2 || kept.get(&key) == Some(&n), "the newest is there");
            }
        }
    }
}
