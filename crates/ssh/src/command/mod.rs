//! What to run on the other side, and how it ended there.

mod children;
mod greeting;
mod line;
mod shell;

use std::time::Duration;

use bytes::Bytes;

use crate::secret::Secret;

pub use children::{ChildSearch, ChildrenSeen, LeftChildren};
pub(crate) use children::{Swept, sweep_line};
pub(crate) use greeting::{Greeting, Hello};
pub(crate) use line::{CommandLine, kill_line};

/// A program with its arguments. No shell looks at them.
#[derive(Debug, Clone)]
pub struct RemoteCommand {
    /// The program, then its arguments. Each arrives as it is, whatever it contains; only NUL cannot be sent.
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Like `env`, but on no command line: anybody on the other side could list those.
    pub secret_env: Vec<(String, Secret)>,
    /// Where to run; in the user's home directory unless given. A relative one starts there.
    pub cwd: Option<String>,
    /// All of standard input.
    pub stdin: Bytes,
    /// Counted from the moment the command was sent.
    pub time_limit: Option<Duration>,
    /// Between asking the command to end (SIGTERM) and ending it (SIGKILL).
    pub kill_grace: Duration,
    /// Which processes that it leaves running are looked for, and what becomes of them. `None`: nothing is looked for.
    pub children: Option<ChildSearch>,
}

impl RemoteCommand {
    #[must_use]
    pub fn new<A: Into<String>>(argv: impl IntoIterator<Item = A>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            secret_env: Vec::new(),
            cwd: None,
            stdin: Bytes::new(),
            time_limit: None,
            kill_grace: Duration::from_secs(10),
            children: None,
        }
    }

    /// Whether this can be sent at all.
    pub fn check(&self) -> Result<(), BadCommand> {
        CommandLine::of(self, "0").map(drop)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCommand {
    #[error("there is no program to run")]
    Empty,
    #[error("{0} contains a NUL, which no argument and no variable can")]
    Nul(&'static str),
    #[error("{0:?} is not the name of an environment variable")]
    VariableName(String),
    #[error("the program name {0:?} begins with a dash and contains an equals sign; no shell runs that")]
    ProgramName(String),
    #[error("the command line has {bytes} bytes; more than {max} do not reach every host")]
    TooLong { bytes: usize, max: usize },
    #[error("the working directory is empty")]
    EmptyDirectory,
}

/// How a command ended. Either `code` or `signal` is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteExit {
    pub code: Option<u32>,
    /// The signal that ended it, without `SIG`.
    pub signal: Option<String>,
    /// False if something it left running still held its output open, or the connection broke after the end.
    pub output_complete: bool,
    /// What it left running.
    pub children: ChildrenSeen,
}

impl RemoteExit {
    /// Whether it ended with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }
}
