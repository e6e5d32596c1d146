//! Questions that runs of workflows put to people: who must agree.

use serde::{Deserialize, Serialize};

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
