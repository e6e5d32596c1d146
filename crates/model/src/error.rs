//! What went wrong in a run, in a form the retry policy can decide on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The sort of failure. It decides whether trying again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// May go away by itself: network errors, 408, 429, 5xx.
    Transient,
    /// Will fail again the same way: a bad request, a missing thing.
    Permanent,
    /// The run took longer than it may.
    Timeout,
    /// The handler itself broke (a panic, an unreadable task).
    Handler,
    /// A command ended, and not with success. Whether it is tried again is said by its type.
    Exit,
    /// The executor could not begin it now: somebody else is at the host. Nothing was started, and nothing is counted.
    Busy,
    /// The host could not be reached. Nothing was started.
    Unreachable,
    /// The executor went silent.
    Lost,
    /// What was approved is not what would have run. Nothing was started.
    Superseded,
    /// The whole job did not end before its deadline.
    Deadline,
}

impl ErrorClass {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Timeout => "timeout",
            Self::Handler => "handler",
            Self::Exit => "exit",
            Self::Busy => "busy",
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
            Self::Superseded => "superseded",
            Self::Deadline => "deadline",
        }
    }

    /// Whether another attempt may be made at all. A broken handler may be retried: the next worker may be a newer one.
    pub const fn is_retriable(self) -> bool {
        !matches!(self, Self::Permanent | Self::Superseded | Self::Deadline)
    }
}

/// A failure as the executor reported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunError {
    pub class: ErrorClass,
    pub message: String,
    /// Whoever refused wants to be left alone for so long. Heard once, when the failure is reported, and not kept.
    #[serde(skip)]
    pub retry_after_ms: Option<u64>,
}

impl RunError {
    /// Messages come from outside and may be of any length; the ledger keeps this much.
    pub const MESSAGE_MAX: usize = 4_096;

    /// Zero bytes are replaced: a message is for people, and many a terminal and log would end it there.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.contains('\0') {
            message = message.replace('\0', "\u{fffd}");
        }
        if message.len() > Self::MESSAGE_MAX {
            let mut end = Self::MESSAGE_MAX;
            while !message.is_char_boundary(end) {
                end -= 1;
            }
            message.truncate(end);
            message.push('…');
        }
        Self { class, message, retry_after_ms: None }
    }
}
