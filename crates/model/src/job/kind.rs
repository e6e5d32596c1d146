//! What sort of thing a job's row is about.

use crate::fleet::HostLock;

/// A job as it was asked for, or the part of one that runs on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JobKind {
    /// One piece of work for one worker.
    #[default]
    Task,
    /// A command on many hosts. It runs through its units and never has a lease itself.
    Command,
    /// One host of a command, and who else may be there meanwhile.
    Unit(HostLock),
    /// A run of a workflow. It begins jobs of its own, and waits for them, for people and for times.
    Workflow,
}

impl JobKind {
    /// The number the ledger keeps. Never reuse one.
    pub const fn code(self) -> i64 {
        match self {
            Self::Task => 1,
            Self::Command => 2,
            Self::Unit(HostLock::Exclusive) => 3,
            Self::Unit(HostLock::Shared) => 4,
            Self::Workflow => 5,
        }
    }

    pub const fn from_code(code: i64) -> Option<Self> {
        match code {
            1 => Some(Self::Task),
            2 => Some(Self::Command),
            3 => Some(Self::Unit(HostLock::Exclusive)),
            4 => Some(Self::Unit(HostLock::Shared)),
            5 => Some(Self::Workflow),
            _ => None,
        }
    }

    pub const fn is_unit(self) -> bool {
        matches!(self, Self::Unit(_))
    }
}
