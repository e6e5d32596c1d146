//! Whose turn it is at a host.
//!
//! *Turn*: a unit's place at a host, from the moment it wants the host until it leaves it. A turn is *held* while the unit
//! may run there, and waits otherwise. Turns are taken in the order they came; nobody passes an exclusive one that waits,
//! so it cannot be kept waiting for ever by others that share. A host that is kept because a run went missing there
//! (see [`super::MarginRules`]) is held by that run, as if it were still at it.

use super::HostLock;
use crate::planted::{self, Mistake};

/// One unit at a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The number of the unit.
    pub unit: i64,
    pub lock: HostLock,
    pub held: bool,
}

/// The units that may have the host now and did not have it yet, given all turns at it in the order they came.
pub fn grant(turns: &[Turn]) -> Vec<i64> {
    if planted::on(Mistake::HostForEverybody) {
        return turns.iter().filter(|turn| !turn.held).map(|turn| turn.unit).collect();
    }
    let held = |lock: HostLock| turns.iter().any(|turn| turn.held && turn.lock == lock);
    if held(HostLock::Exclusive) {
        return Vec::new();
    }
    let mut shared = held(HostLock::Shared);
    let mut granted = Vec::new();
    for turn in turns.iter().filter(|turn| !turn.held) {
        match turn.lock {
            HostLock::Shared => {
                shared = true;
                granted.push(turn.unit);
            }
            HostLock::Exclusive if shared => break,
            HostLock::Exclusive => {
                granted.push(turn.unit);
                break;
            }
        }
    }
    granted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turns(text: &str) -> Vec<Turn> {
        // Capitals hold; x is exclusive, s shares.
        let turn = |(n, letter): (usize, char)| Turn {
            unit: i64::try_from(n).unwrap(),
            lock: if letter.eq_ignore_ascii_case(&'x') { HostLock::Exclusive } else { HostLock::Shared },
            held: letter.is_ascii_uppercase(),
        };
        text.chars().enumerate().map(turn).collect()
    }

    #[test]
    fn turns_are_given_in_order() {
        for (line, granted) in [
            ("", vec![]),
            ("x", vec![0]),
            ("xx", vec![0]),
            ("X", vec![]),
            ("Xxs", vec![]),
            ("ss", vec![0, 1]),
            ("ssxs", vec![0, 1]),
            ("Ssxs", vec![1]),
            ("Sxs", vec![]),
            ("xss", vec![0]),
        ] {
            assert_eq!(grant(&turns(line)), granted, "{line}");
        }
    }

    proptest! {
        /// C7, and nobody waits at a host that nobody holds.
        #[test]
        fn at_most_one_exclusive_and_never_beside_others(line in "[xs]{0,12}", leaves in prop::collection::vec(0usize..12, 0..40)) {
            let mut line = turns(&line);
            for leave in leaves {
                for unit in grant(&line) {
                    line.iter_mut().filter(|turn| turn.unit == unit).for_each(|turn| turn.held = true);
                }
                let holders: Vec<Turn> = line.iter().copied().filter(|turn| turn.held).collect();
                let exclusive = holders.iter().any(|turn| turn.lock == HostLock::Exclusive);
                prop_assert!(!exclusive || holders.len() == 1);
                prop_assert_eq!(holders.is_empty(), line.is_empty());
                if !line.is_empty() {
                    line.remove(leave % line.len());
                }
            }
        }
    }
}
