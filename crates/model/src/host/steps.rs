//! How much work matching names may take.

/// Steps that are left: about one for each byte, group or term that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps(u64);

/// More steps were needed than there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it takes more steps than it may")]
pub struct TooCostly;

impl Steps {
    pub(super) const UNBOUNDED: Self = Self(u64::MAX);

    pub const fn up_to(steps: u64) -> Self {
        Self(steps)
    }

    pub const fn left(self) -> u64 {
        self.0
    }

    /// Uses up so many.
    pub fn take(&mut self, steps: usize) -> Result<(), TooCostly> {
        match self.0.checked_sub(steps as u64) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => {
                self.0 = 0;
                Err(TooCostly)
            }
        }
    }
}
