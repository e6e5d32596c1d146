//! How far a command is kept from its host: what it may see and do there, and what it may use.
//!
//! These are wishes of whoever wrote the command type. Whether a host can grant them is for the agent there to say; it
//! refuses a sandbox that it cannot build, and tells which limits it could not enforce.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a command may see and do on its host. Commands on hosts are often there to change them, so that there is none
/// unless the type asks for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// Whatever its user may.
    #[default]
    None,
    /// It reads the system's programs and what everybody may read of its configuration, and writes to its own working
    /// directory. It has no privileges, reaches no local service, and sees nothing of the agent and of other runs.
    Standard,
    /// The same, without a network.
    Strict,
}

impl Sandbox {
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Standard => "standard",
            Self::Strict => "strict",
        }
    }

    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// What a command and everything it starts may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// How many processes and threads there may be at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_194_304))]
    pub pids_max: Option<u64>,
    /// How much memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1_048_576))]
    pub memory_max_bytes: Option<u64>,
    /// How much of the processors, in percent of one: 150 is one and a half.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub cpu_max_percent: Option<u64>,
    /// How large a file may become that it writes, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub file_max_bytes: Option<u64>,
}

impl Limits {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The tighter of the two, limit by limit.
    #[must_use]
    pub fn within(&self, most: &Self) -> Self {
        let tighter = |wanted: Option<u64>, most: Option<u64>| wanted.into_iter().chain(most).min();
        Self {
            pids_max: tighter(self.pids_max, most.pids_max),
            memory_max_bytes: tighter(self.memory_max_bytes, most.memory_max_bytes),
            cpu_max_percent: tighter(self.cpu_max_percent, most.cpu_max_percent),
            file_max_bytes: tighter(self.file_max_bytes, most.file_max_bytes),
        }
    }

    /// Which limit no command can live with, and why.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let outside = |value: Option<u64>, least: u64, most: u64| value.is_some_and(|v| !(least..=most).contains(&v));
        if outside(self.pids_max, 1, 4_194_304) {
            return Err(("pids_max", "between 1 and 4194304"));
        }
        if outside(self.memory_max_bytes, 1 << 20, u64::MAX) {
            return Err(("memory_max_bytes", "at least 1048576 (1 MiB)"));
        }
        if outside(self.cpu_max_percent, 1, 100_000) {
            return Err(("cpu_max_percent", "between 1 and 100000; 100 is one processor"));
        }
        if outside(self.file_max_bytes, 1, u64::MAX) {
            return Err(("file_max_bytes", "at least 1"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tighter_limit_holds() {
        let wanted = Limits { pids_max: Some(10), memory_max_bytes: Some(1 << 30), ..Limits::default() };
        let most = Limits { pids_max: Some(20), memory_max_bytes: Some(1 << 20), file_max_bytes: Some(5), ..wanted };
        let held = wanted.within(&most);
        let expected =
            Limits { pids_max: Some(10), memory_max_bytes: Some(1 << 20), file_max_bytes: Some(5), ..wanted };
        assert_eq!(held, expected);
        assert_eq!(wanted.within(&Limits::default()), wanted);
        assert!(Limits::default().is_empty() && !wanted.is_empty());
    }
}
