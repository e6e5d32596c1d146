//! Lanes: the four queues, and how much of the road each gets.
//!
//! A lane's weight is its share while others wait too. Nobody starves: every lane that has work gets at least one
//! place in each round.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A queue. Each has its own dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    Critical,
    Webhook,
    #[default]
    Default,
    Low,
}

/// Why a text is not a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown lane; the lanes are webhook, critical, default, low")]
pub struct NotALane;

impl Lane {
    pub const ALL: [Self; 4] = [Self::Critical, Self::Webhook, Self::Default, Self::Low];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Webhook => "webhook",
            Self::Default => "default",
            Self::Low => "low",
        }
    }

    /// The number the ledger keeps. Never reuse one.
    pub const fn code(self) -> i64 {
        match self {
            Self::Critical => 1,
            Self::Webhook => 2,
            Self::Default => 3,
            Self::Low => 4,
        }
    }

    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|lane| lane.code() == code)
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Lane {
    type Err = NotALane;

    fn from_str(text: &str) -> Result<Self, NotALane> {
        Self::ALL.into_iter().find(|lane| lane.as_str() == text).ok_or(NotALane)
    }
}

/// How many places of a full round each lane gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LaneWeights {
    pub critical: u32,
    pub webhook: u32,
    pub default: u32,
    pub low: u32,
}

impl Default for LaneWeights {
    fn default() -> Self {
        Self { critical: 8, webhook: 4, default: 3, low: 1 }
    }
}

/// Why weights cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the weight of a lane must be between 1 and 100")]
pub struct BadWeights;

impl LaneWeights {
    pub fn check(&self) -> Result<(), BadWeights> {
        let fine = Lane::ALL.into_iter().all(|lane| (1..=100).contains(&self.of(lane)));
        if fine { Ok(()) } else { Err(BadWeights) }
    }

    pub const fn of(&self, lane: Lane) -> u32 {
        match lane {
            Lane::Critical => self.critical,
            Lane::Webhook => self.webhook,
            Lane::Default => self.default,
            Lane::Low => self.low,
        }
    }
}
