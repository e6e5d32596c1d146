//! How a command ends, for whoever started it.

use std::process::ExitCode;

/// The exit codes. Scripts rely on them; they do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done. For `job watch` and `job submit --wait`: the job succeeded.
    Success,
    /// The server refused, or the job failed.
    Refused,
    /// `diff` found something that would change.
    Different,
    /// The command line makes no sense.
    Usage,
    /// The job that was watched was canceled.
    Canceled,
    /// The server cannot be reached.
    Unreachable,
    /// What was waited for did not end within `--timeout`; it continues.
    TimedOut,
    /// Somebody left with Ctrl-C; what was asked for goes on.
    Interrupted,
}

impl Exit {
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Refused | Self::Different => 1,
            Self::Usage => 2,
            Self::Canceled => 3,
            Self::Unreachable => 4,
            // What timeout(1) says.
            Self::TimedOut => 124,
            // What shells say of a program that Ctrl-C ended.
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
