//! Ending a command that runs.
//!
//! The surest way is a second session on the same connection, in which a script of ours asks the command's process group to
//! end, waits, ends it, and looks whether it is gone. If the server allows no second session, or the command has not yet
//! said which process it is, there are the signals of the SSH protocol: servers may ignore them, and do not say.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use russh::{ChannelMsg, Sig};
use tokio::time::{Instant, timeout};

use super::conversation::Conversation;
use super::{End, Failure};
use crate::command::{Hello, kill_line};
use crate::connection::Connection;
use crate::error::{StopCause, StopEnd, Stopped};

/// A command that was just sent needs a moment to say which process it is.
const GREETING_TIMEOUT: Duration = Duration::from_secs(1);
/// For the second session to be opened.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// What the script may take beyond the grace.
const SCRIPT_MARGIN: Duration = Duration::from_secs(10);
/// Between the end of a command and the news of it.
const NEWS_TIMEOUT: Duration = Duration::from_secs(2);

/// What is being done, and until when.
enum Stage {
    /// We do not know the process yet.
    Greeting,
    /// The script runs.
    Script,
    /// A signal was sent: SIGTERM first, then SIGKILL.
    Asked,
    Insisted,
    /// It is over, one way or the other. The server may still say how the command ended.
    News(StopEnd),
}

enum Done {
    Script(Result<bool, String>),
    Signal,
}

type Work = Pin<Box<dyn Future<Output = Done> + Send>>;

impl Conversation {
    pub(super) async fn stop(&mut self, cause: StopCause) -> End {
        let mut stage = Stage::Greeting;
        let mut until = Instant::now() + GREETING_TIMEOUT;
        let mut work: Option<Work> = None;
        let end = loop {
            let grace = self.order.kill_grace;
            // Where does what we have heard take us?
            match (&stage, self.heard.hello) {
                (Stage::Greeting, Some(Hello::Process(leader))) => {
                    work = Some(Box::pin(script(Arc::clone(self.lease.connection()), leader, grace)));
                    (stage, until) = (Stage::Script, Instant::now() + grace + OPEN_TIMEOUT + SCRIPT_MARGIN);
                }
                (Stage::News(end), _) if self.heard.closed => break end.clone(),
                (Stage::Greeting | Stage::Asked | Stage::Insisted, _) if self.heard.closed => {
                    break match self.heard.remote_exit() {
                        Some(_) => StopEnd::MainProcessOnly,
                        None => unconfirmed(&format!("the connection was lost: {}", self.lease.reason())),
                    };
                }
                _ => {}
            }
            tokio::select! {
                () = self.step_on() => {}
                done = worked(&mut work) => {
                    work = None;
                    (stage, until) = match done {
                        Done::Signal => continue,
                        Done::Script(Ok(true)) => (Stage::News(StopEnd::Confirmed), Instant::now() + NEWS_TIMEOUT),
                        Done::Script(Ok(false)) => {
                            let end = unconfirmed("its processes were still there after SIGKILL");
                            (Stage::News(end), Instant::now() + NEWS_TIMEOUT)
                        }
                        Done::Script(Err(reason)) => {
                            tracing::debug!("cannot end a command by a second session: {reason}");
                            work = Some(self.signal(Sig::TERM));
                            (Stage::Asked, Instant::now() + grace)
                        }
                    };
                }
                () = tokio::time::sleep_until(until) => match stage {
                    Stage::Greeting => {
                        work = Some(self.signal(Sig::TERM));
                        (stage, until) = (Stage::Asked, Instant::now() + grace);
                    }
                    Stage::Asked => {
                        work = Some(self.signal(Sig::KILL));
                        (stage, until) = (Stage::Insisted, Instant::now() + NEWS_TIMEOUT);
                    }
                    Stage::Script => break unconfirmed("the server did not answer"),
                    Stage::Insisted => break unconfirmed("it was signalled, and the server did not say that it ended"),
                    Stage::News(end) => break end,
                },
            }
        };
        match self.end() {
            // It was never there.
            Err(not_started @ Failure::NotStarted(_)) => Err(not_started),
            _ => Err(Failure::Stopped(Stopped { cause, end, exit: self.heard.remote_exit() })),
        }
    }

    fn signal(&self, signal: Sig) -> Work {
        let write = Arc::clone(&self.write);
        Box::pin(async move {
            // If it does not go out, nothing will come back either.
            let _ = write.signal(signal).await;
            Done::Signal
        })
    }
}

async fn worked(work: &mut Option<Work>) -> Done {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

fn unconfirmed(reason: &str) -> StopEnd {
    StopEnd::Unconfirmed { reason: reason.to_owned() }
}

/// Whether the process group is gone.
async fn script(connection: Arc<Connection>, leader: u32, grace: Duration) -> Done {
    Done::Script(run_script(&connection, leader, grace).await)
}

async fn run_script(connection: &Connection, leader: u32, grace: Duration) -> Result<bool, String> {
    let opened = timeout(OPEN_TIMEOUT, connection.open_session()).await.map_err(|_| "no answer".to_owned())?;
    let mut channel = opened.map_err(|error| error.to_string())?;
    let tenths = u64::try_from(grace.as_millis().div_ceil(100)).unwrap_or(u64::MAX);
    channel.exec(true, kill_line(leader, tenths)).await.map_err(|error| error.to_string())?;
    while let Some(message) = channel.wait().await {
        match message {
            ChannelMsg::ExitStatus { exit_status: 0 } => return Ok(true),
            ChannelMsg::ExitStatus { exit_status: 1 } => return Ok(false),
            ChannelMsg::ExitStatus { exit_status } => return Err(format!("the script ended with {exit_status}")),
            ChannelMsg::Failure | ChannelMsg::Close => return Err("the server did not run the script".to_owned()),
            _ => {}
        }
    }
    Err(connection.reason())
}
