//! What went wrong, told by what is known about the effect.
//!
//! Whoever asked for a command wants to know one thing first: did it run? So that is what errors are sorted by, and the
//! reason comes second.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::command::{BadCommand, RemoteExit};
use crate::host_key::HostKeyProblem;
use crate::target::BadTarget;

#[derive(Debug, Clone, thiserror::Error)]
pub enum SshError {
    /// The command certainly did not run, not even in part.
    #[error("the command was not started on {target}")]
    NotStarted {
        target: String,
        #[source]
        cause: NotStarted,
    },
    /// The command was sent. Whether it ran, and to which end, nobody here knows.
    #[error("the command was sent to {target}, and it is not known what became of it")]
    OutcomeUnknown {
        target: String,
        #[source]
        cause: Lost,
    },
    /// We ended it, or tried to.
    #[error("the command on {target} was stopped: {stopped}")]
    Stopped { target: String, stopped: Stopped },
}

/// What a failed command may have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// Anything between nothing and everything, and it may still be doing it.
    Unknown,
    /// Some of it; it runs no more.
    Partial,
}

impl SshError {
    #[must_use]
    pub fn effect(&self) -> Effect {
        match self {
            Self::NotStarted { .. } => Effect::None,
            Self::OutcomeUnknown { .. } => Effect::Unknown,
            Self::Stopped { stopped, .. } => match stopped.end {
                StopEnd::Confirmed => Effect::Partial,
                StopEnd::MainProcessOnly | StopEnd::Unconfirmed { .. } => Effect::Unknown,
            },
        }
    }

    /// Whether the same call can go better later without anybody changing anything: what was wrong is of the kind that
    /// passes. Whether it *should* be tried again depends on the [`effect`](Self::effect) too, and on the command.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NotStarted { cause, .. } => cause.may_pass(),
            Self::OutcomeUnknown { .. } => true,
            Self::Stopped { stopped, .. } => matches!(stopped.cause, StopCause::TimeLimit(_)),
        }
    }
}

/// Why a command did not run.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotStarted {
    #[error(transparent)]
    Target(#[from] BadTarget),
    #[error(transparent)]
    Command(#[from] BadCommand),
    /// Shared by all who waited for the same connection.
    #[error(transparent)]
    Connect(#[from] Arc<ConnectError>),
    #[error("the connection was lost before the command was sent ({reason})")]
    ConnectionLost { reason: String },
    #[error("the server did not open a session within {0:?}")]
    NoSession(Duration),
    #[error("the server refused to open a session: {0}")]
    SessionRefused(String),
    #[error("the server refused to run a command")]
    ExecRefused,
    #[error("the working directory {0:?} could not be entered")]
    Directory(String),
    #[error("it was canceled before it was sent")]
    Canceled,
    #[error("the connection pool is closed")]
    Closed,
}

impl NotStarted {
    /// Whether the host itself could not be reached: there was no login, and not because one was refused.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Connect(error) => error.is_unreachable(),
            Self::ConnectionLost { .. } | Self::NoSession(_) => true,
            _ => false,
        }
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::Connect(error) => error.may_pass(),
            Self::ConnectionLost { .. } | Self::NoSession(_) | Self::SessionRefused(_) => true,
            Self::Target(_) | Self::Command(_) | Self::ExecRefused | Self::Directory(_) => false,
            Self::Canceled | Self::Closed => false,
        }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("the name {name} cannot be resolved")]
    Unresolved {
        name: String,
        #[source]
        source: std::io::Error,
    },
    #[error("the name {0} has no address")]
    NoAddress(String),
    /// Every address was tried, and this is what each said.
    #[error("no address can be connected to: {}", each(.0))]
    Unreachable(Vec<(SocketAddr, std::io::Error)>),
    #[error("no login within {after:?}: {phase}")]
    Timeout { after: Duration, phase: String },
    /// Again and again, until the time was up.
    #[error("the server breaks connections off before the login, {times} times within {within:?}: {reason}")]
    BrokenOff { times: u32, within: Duration, reason: String },
    #[error("there is no agreement with the server on how to speak")]
    Protocol(#[source] russh::Error),
    #[error(transparent)]
    HostKey(Box<HostKeyProblem>),
    #[error("the server lets nobody in as {user} with these keys: {}; it takes {methods}", list(.tried))]
    Refused { user: String, tried: Vec<String>, methods: String },
    #[error("the connection was lost during the login of {user}: {reason}")]
    LostDuringLogin { user: String, reason: String },
    #[error("the server broke the connection off right after the login, {times} times")]
    LostAfterLogin { times: u32 },
    #[error("the ssh-agent at {} does not help", socket.display())]
    Agent {
        socket: PathBuf,
        #[source]
        source: russh::keys::Error,
    },
    #[error("the connection pool is closed")]
    Closed,
    #[error("the task that was to connect has failed")]
    Failed,
}

impl ConnectError {
    fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::Unresolved { .. }
                | Self::NoAddress(_)
                | Self::Unreachable(_)
                | Self::Timeout { .. }
                | Self::BrokenOff { .. }
                | Self::LostDuringLogin { .. }
                | Self::LostAfterLogin { .. }
        )
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::Unresolved { .. }
            | Self::NoAddress(_)
            | Self::Unreachable(_)
            | Self::Timeout { .. }
            | Self::BrokenOff { .. }
            | Self::LostDuringLogin { .. }
            | Self::LostAfterLogin { .. }
            | Self::Agent { .. }
            | Self::Failed => true,
            Self::Protocol(_) | Self::HostKey(_) | Self::Refused { .. } | Self::Closed => false,
        }
    }
}

/// Why the outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    #[error("the connection was lost: {reason}")]
    Connection { reason: String },
    #[error("the server closed the session without saying how the command ended")]
    NoExit,
    #[error("the task that was to run it has failed")]
    Failed,
}

/// A command that was sent and then stopped.
#[derive(Debug, Clone)]
pub struct Stopped {
    pub cause: StopCause,
    pub end: StopEnd,
    /// How it ended, if the server said so.
    pub exit: Option<Box<RemoteExit>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopCause {
    Canceled,
    TimeLimit(Duration),
    /// The sink took no more.
    Output(String),
}

/// What is known about the end of a stopped command. What has left its process group (a daemon) is looked for only if the
/// command has a [`ChildSearch`](crate::ChildSearch).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopEnd {
    /// The command is gone, with everything in its process group.
    Confirmed,
    /// The command is gone. Nobody could look for what it has started.
    MainProcessOnly,
    /// It may still run.
    Unconfirmed { reason: String },
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.cause {
            StopCause::Canceled => f.write_str("canceled")?,
            StopCause::TimeLimit(limit) => write!(f, "its time limit of {limit:?} was over")?,
            StopCause::Output(reason) => write!(f, "its output could not be kept: {reason}")?,
        }
        match &self.end {
            StopEnd::Confirmed => f.write_str("; it has ended with all it started"),
            StopEnd::MainProcessOnly => f.write_str("; it has ended, but what it started may still run"),
            StopEnd::Unconfirmed { reason } => write!(f, "; it may still run: {reason}"),
        }
    }
}

fn each(tried: &[(SocketAddr, std::io::Error)]) -> String {
    tried.iter().map(|(address, error)| format!("{address}: {error}")).collect::<Vec<_>>().join(", ")
}

fn list(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
