//! What can happen in a run, as the executor tells it.

use std::collections::BTreeMap;
use std::fmt;

use bowline_model::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One line of `events.log`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// From 1, and never used twice with other content.
    pub seq: u64,
    /// By the executor's own clock, which may be wrong.
    pub at: Timestamp,
    #[serde(flatten)]
    pub happening: Happening,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Happening {
    /// The command's process exists. Boot id, pid and start time together name it; a pid alone may be a stranger's.
    Started {
        pid: u32,
        boot_id: String,
        start_time: u64,
        /// Limits of the manifest that this system could not enforce.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unenforced: Vec<String>,
        /// By what each limit of the manifest is held.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        limits: BTreeMap<String, HeldBy>,
    },
    /// These bytes of the stream's file are on disk.
    Output {
        stream: Stream,
        offset: u64,
        bytes: u64,
        sha256: String,
    },
    /// From `offset` on, the stream was read and thrown away.
    OutputTruncated {
        stream: Stream,
        offset: u64,
        why: Truncation,
    },
    /// The log or a stream's file was damaged. What was still good up to `kept_seq` was kept; the rest is in `file`.
    SpoolDamaged {
        file: String,
        kept_seq: u64,
        message: String,
    },
    /// The command ended and left processes running, which were ended with it, or stay if its type wants them to.
    Children(Children),
    Ended(Ended),
    /// Written by a newer version. Passed on as it is.
    #[serde(untagged)]
    Other(Map<String, Value>),
}

/// What a command left running when it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Children {
    pub became: ChildrenBecame,
    /// How many there were.
    pub count: usize,
    /// How many had to be killed, because they did not end when they were asked to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub killed: usize,
    /// How many could not be ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub remain: usize,
    /// The first of them.
    pub processes: Vec<ChildProcess>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildrenBecame {
    /// They were ended with the command.
    Ended,
    /// They stay, because the command's type says so.
    Left,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildProcess {
    pub pid: u32,
    pub name: String,
}

impl Children {
    /// So many are named.
    pub const NAMED_MAX: usize = 20;
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// How a run ended. The last thing that happens in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub outcome: EndedAs,
    /// Absent when there was none: the command was ended by a signal, never ran, or nobody saw its end.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// For people. Never contains output.
    pub message: Option<String>,
    /// What became of processes that it left running, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<(ChildrenBecame, usize)>,
    /// By the monotonic clock. Absent when nobody saw the end.
    pub duration_ms: Option<u64>,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    /// The number of this very record: whoever holds 1 to `last_seq` holds everything.
    pub last_seq: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedAs {
    Succeeded,
    Failed,
    TimedOut,
    Canceled,
    /// It was started, and nobody saw how it ended.
    Interrupted,
    /// It was begun, and then it turned out that it cannot be started. Nothing of it was executed.
    NotStarted,
    /// The host could not be reached, so nothing of it was executed.
    Unreachable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub const BOTH: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Its name, which is also that of its file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// By what a limit is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    /// By a control group: for all processes of the run together.
    Group,
    /// By a limit that all processes of the run's user share, those of other runs included.
    User,
    /// By a limit that each process of the run has for itself.
    Process,
    /// By nothing.
    Nothing,
}

/// Why output was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncation {
    /// The manifest's `output_max_bytes` was reached.
    Limit,
    NoSpace,
    /// The disk refused to write or to sync.
    DiskError,
}
