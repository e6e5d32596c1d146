//! Dead letters: jobs that are hopeless until a person says otherwise.
//!
//! An entry is closed once. Two people who replay it at the same moment make one job: the first closes it, the second
//! is told by whom.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterStatus {
    /// Waiting for a decision.
    Open,
    /// A new job was made of it.
    Replayed,
    /// The same job was tried again.
    Retried,
    /// Somebody decided that it is not worth keeping.
    Purged,
    /// Late evidence showed that the job had succeeded after all.
    Corrected,
}

impl DeadLetterStatus {
    pub const ALL: [Self; 5] = [Self::Open, Self::Replayed, Self::Retried, Self::Purged, Self::Corrected];

    pub const fn code(self) -> i64 {
        match self {
            Self::Open => 1,
            Self::Replayed => 2,
            Self::Retried => 3,
            Self::Purged => 4,
            Self::Corrected => 5,
        }
    }

    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// Closing is for open entries only; whoever comes second learns what the first did.
    pub fn close(self, to: Self) -> Result<Self, Self> {
        if self == Self::Open && to != Self::Open { Ok(to) } else { Err(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_closed_once() {
        assert_eq!(DeadLetterStatus::Open.close(DeadLetterStatus::Open), Err(DeadLetterStatus::Open));
        for to in DeadLetterStatus::ALL.into_iter().filter(|s| *s != DeadLetterStatus::Open) {
            assert_eq!(DeadLetterStatus::Open.close(to), Ok(to));
            for then in DeadLetterStatus::ALL {
                assert_eq!(to.close(then), Err(to));
            }
        }
    }
}
