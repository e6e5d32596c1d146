//! Identities that parse and print themselves.
//!
//! All are UUIDv7: they sort by the moment they were made, which keeps indexes appending. Time and entropy are
//! arguments; nothing here rolls dice.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::time::Timestamp;

/// Why a text is not an id. The text itself is not repeated: it may be anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a {0} id (a UUID is expected)")]
pub struct NotAnId(&'static str);

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $noun:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }

            /// An id made at `now` from ten bytes of entropy.
            pub fn mint(now: Timestamp, entropy: [u8; 10]) -> Self {
                Self(uuid_v7(now, entropy))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                // Only the hyphenated form: one thing has one spelling.
                if text.len() != 36 {
                    return Err(NotAnId($noun));
                }
                Uuid::try_parse(text).map(Self).map_err(|_| NotAnId($noun))
            }
        }
    };
}

id_type!(
    /// What somebody asked for, once.
    JobId,
    "job"
);
id_type!(
    /// One attempt at one unit of a job. A worker starts a given run at most once, ever.
    RunId,
    "run"
);
id_type!(
    /// A fact that happened.
    EventId,
    "event"
);
id_type!(
    /// The wall around everything.
    TenantId,
    "tenant"
);

fn uuid_v7(now: Timestamp, entropy: [u8; 10]) -> Uuid {
    let millis = u64::try_from(now.as_millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &entropy).into_uuid()
}

impl EventId {
    /// The id of the event at a ledger position. It is derived, not stored: the same event has the same id
    /// whoever reads it, and `salt` (one per ledger) keeps two ledgers apart.
    pub fn at_position(at: Timestamp, salt: u64, number: u64) -> Self {
        let mut entropy = [0u8; 10];
        entropy[..2].copy_from_slice(&salt.to_be_bytes()[..2]);
        // Both bit fields the UUID version overwrites (the top of bytes 0 and 2) hold salt, never the number.
        entropy[2] = salt.to_be_bytes()[2];
        // Scattered, one to one: how many events others have is nobody's business.
        let scattered = number.wrapping_mul(salt | 1).rotate_left(8).to_be_bytes();
        entropy[3..].copy_from_slice(&scattered[..7]);
        Self(uuid_v7(at, entropy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_the_moment_they_were_made() {
        let early = JobId::mint(Timestamp::from_millis(1_000), [0xff; 10]);
        let late = JobId::mint(Timestamp::from_millis(1_001), [0; 10]);
        assert!(early < late);
    }

    #[test]
    fn only_the_hyphenated_form_parses() {
        let id = JobId::mint(Timestamp::from_millis(1_767_398_400_000), [7; 10]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(id.as_uuid().simple().to_string().parse::<JobId>().is_err());
        assert!("".parse::<JobId>().is_err());
        assert!("../../etc/passwd".parse::<JobId>().is_err());
    }

    #[test]
    fn events_at_different_positions_have_different_ids() {
        let at = Timestamp::from_millis(5);
        for salt in [0, 1, 2, 99, u64::MAX] {
            let ids: std::collections::BTreeSet<_> = (0..10_000).map(|n| EventId::at_position(at, salt, n)).collect();
            assert_eq!(ids.len(), 10_000, "salt {salt}");
        }
        assert_eq!(EventId::at_position(at, 99, 3), EventId::at_position(at, 99, 3));
        assert_ne!(EventId::at_position(at, 99, 3), EventId::at_position(at, u64::MAX, 3));
    }
}
