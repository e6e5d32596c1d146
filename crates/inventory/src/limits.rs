//! How large an inventory may become. Every limit here is far above what people have, and far below what hurts.

use crate::error::ImportError;
use crate::place::At;

/// Hosts, after all ranges are spelt out.
pub const HOSTS_MAX: usize = 100_000;

/// Groups.
pub const GROUPS_MAX: usize = bowline_model::host::GROUPS_MAX;

/// Times a host is said to be in a group, after all ranges are spelt out.
pub const MENTIONS_MAX: usize = 1_000_000;

/// Ways up from all groups to the groups they are in. A tree has one for each group above each group; only groups that
/// are woven into each other have more.
pub const WAYS_UP_MAX: u64 = 1_000_000;

/// Bytes that come into being by copying: through ranges that share variables, through labels of groups, through YAML
/// aliases.
pub const COPIED_BYTES_MAX: usize = 64 << 20;

/// Lists and maps in each other.
pub const DEPTH_MAX: usize = 100;

/// Values in a YAML document: two bytes can be one, and each takes room.
pub const VALUES_MAX: usize = 4_000_000;

/// Counts what copies cost.
#[derive(Debug, Default)]
pub(crate) struct Copies(usize);

impl Copies {
    pub(crate) fn charge(&mut self, bytes: usize, at: At<'_>) -> Result<(), ImportError> {
        self.0 = self.0.saturating_add(bytes);
        if self.0 <= COPIED_BYTES_MAX { Ok(()) } else { Err(ImportError::Swollen { at: at.place() }) }
    }
}
