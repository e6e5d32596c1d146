//! Whether to wait for the end of what was started: the same three options wherever something starts.

use std::time::Duration;

use bowline_model::JobId;
use clap::Args;

use crate::duration::Span;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Screen;

/// For commands that wait unless told otherwise.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct WaitByDefault {
    /// Wait until it ends; the default
    #[arg(long, overrides_with = "no_wait")]
    wait: bool,
    /// Do not wait for its end
    #[arg(long, alias = "detach", overrides_with = "wait", conflicts_with = "timeout")]
    no_wait: bool,
    /// Wait at most this long, such as 10m; the job continues, and the exit code is 124
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
}

/// For commands that return at once unless told otherwise.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct WaitIfAsked {
    /// Wait until it ends, as `job watch` does; with --json, print the job as it ended
    #[arg(long, overrides_with = "no_wait")]
    wait: bool,
    /// Do not wait for its end; the default
    #[arg(long, overrides_with = "wait", conflicts_with = "timeout")]
    no_wait: bool,
    /// Wait, but at most this long, such as 10m; the job continues, and the exit code is 124
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
}

/// What was wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    No,
    /// At most this long, where that was said.
    Yes(Option<Span>),
}

impl WaitByDefault {
    pub fn wait(self) -> Wait {
        if self.no_wait { Wait::No } else { Wait::Yes(self.timeout) }
    }
}

impl WaitIfAsked {
    pub fn wait(self) -> Wait {
        if self.wait || self.timeout.is_some() { Wait::Yes(self.timeout) } else { Wait::No }
    }
}

impl Wait {
    pub const fn is_no(self) -> bool {
        matches!(self, Self::No)
    }

    /// When waiting ends for want of patience.
    pub fn limit(self) -> Limit {
        Limit(match self {
            Self::Yes(Some(span)) => Some(span),
            _ => None,
        })
    }
}

/// How long to wait; `None` is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(Option<Span>);

impl Limit {
    pub const fn of(span: Option<Span>) -> Self {
        Self(span)
    }

    /// Ends when the time is over, and not at all without one.
    pub async fn passed(self) {
        match self.0 {
            Some(span) => tokio::time::sleep(Duration::from_millis(span.as_millis())).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for `watching`, and says where the job can be found when the time is over before.
    pub async fn watch(
        self,
        screen: &mut Screen,
        id: JobId,
        watching: impl AsyncFnOnce(&mut Screen) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        if self.0.is_none() {
            return watching(screen).await;
        }
        let notes = screen.notes();
        tokio::select! {
            ended = watching(screen) => ended,
            () = self.passed() => {
                notes.say(&format!("not ended in time; job {id} continues: `bowline job watch {id}` follows it"));
                Ok(Exit::TimedOut)
            }
        }
    }
}
