//! Questions that runs of workflows put to people: who must agree, and to what.

use serde::{Deserialize, Serialize};

use crate::idempotency::RequestHash;

/// How much of the hash of a question says what is asked. The rest says what the names behind it mean.
const ASKED_BYTES: usize = 16;

/// What somebody says yes to: what is asked, and what the names behind the question mean at this moment. The second can be
/// worked out again and compared without the first.
pub fn question_hash(asked: RequestHash, named: RequestHash) -> RequestHash {
    let mut hash = *asked.as_bytes();
    hash[ASKED_BYTES..].copy_from_slice(&named.as_bytes()[ASKED_BYTES..]);
    RequestHash::from_bytes(hash)
}

/// Whether two hashes are of one question, whatever the names behind it mean.
pub fn asks_the_same(one: RequestHash, other: RequestHash) -> bool {
    one.as_bytes()[..ASKED_BYTES] == other.as_bytes()[..ASKED_BYTES]
}

/// Who must say yes to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AskRule {
    /// How many different people.
    pub quorum: u32,
    /// Whoever started the run is not one of them.
    pub four_eyes: bool,
}

impl AskRule {
    pub const QUORUM_MAX: u32 = 100;

    /// As a definition says it; what it leaves out is one person, and not the one who asked.
    pub fn of(quorum: Option<u32>, four_eyes: Option<bool>) -> Self {
        let usual = Self::default();
        Self { quorum: quorum.unwrap_or(usual.quorum), four_eyes: four_eyes.unwrap_or(usual.four_eyes) }
    }

    /// Whether so many people can be asked.
    pub fn check_quorum(quorum: Option<u32>) -> Result<(), String> {
        match quorum {
            Some(number) if !(1..=Self::QUORUM_MAX).contains(&number) => {
                Err(format!("must be between 1 and {}", Self::QUORUM_MAX))
            }
            _ => Ok(()),
        }
    }
}

impl Default for AskRule {
    fn default() -> Self {
        Self { quorum: 1, four_eyes: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_bound_to_what_is_asked_and_to_what_is_named() {
        let hash = |text: &str| RequestHash::of_parts(&[text.as_bytes()]);
        let first = question_hash(hash("pay?"), hash("version 1"));
        assert_eq!(first, question_hash(first, hash("version 1")), "the same, worked out again");
        let renamed = question_hash(first, hash("version 2"));
        assert_ne!(first, renamed);
        assert!(asks_the_same(first, renamed));
        assert!(!asks_the_same(first, question_hash(hash("pay more?"), hash("version 1"))));
    }

    #[test]
    fn a_question_is_for_one_other_person_unless_it_says_otherwise() {
        let rule = |quorum, four_eyes| AskRule { quorum, four_eyes };
        assert_eq!(AskRule::of(None, None), rule(1, true));
        assert_eq!(AskRule::of(Some(3), None), rule(3, true));
        assert_eq!(AskRule::of(None, Some(false)), rule(1, false));
        for quorum in [None, Some(1), Some(100)] {
            assert_eq!(AskRule::check_quorum(quorum), Ok(()), "{quorum:?}");
        }
        for quorum in [0, 101] {
            assert_eq!(AskRule::check_quorum(Some(quorum)), Err("must be between 1 and 100".to_owned()), "{quorum}");
        }
    }
}
