//! Ending a command that runs.
//!
//! The surest way is a second session, in which a script of ours asks the command's process group to end, waits, ends it,
//! and looks whether it is gone. If the server allows no second session on this connection, it gets one of its own. If
//! that fails too, or the command has not yet said which process it is, there are the signals of the SSH protocol: servers
//! may ignore them (OpenSSH does for root), and do not say.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use russh::client::Msg;
use russh::{Channel, ChannelMsg, Sig};
use tokio::time::{Instant, timeout};

use super::conversation::Conversation;
use super::{End, Failure};
use crate::command::{Hello, kill_line};
use crate::connection::{Connection, connect};
use crate::error::{StopCause, StopEnd, Stopped};

/// A command that was just sent needs a moment to say which process it is.
const GREETING_TIMEOUT: Duration = Duration::from_secs(1);
/// For the second session to be opened.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// What the script may take beyond the grace, once it runs.
pub(super) const SCRIPT_MARGIN: Duration = Duration::from_secs(10);
/// Between the end of a command and the news of it.
pub(super) const NEWS_TIMEOUT: Duration = Duration::from_secs(2);

/// What is being done, and until when.
enum Stage {
    /// We do not know the process yet. It may still tell later.
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
        let mut tried = false;
        let end = loop {
            let grace = self.order.kill_grace;
            // Where does what we have heard take us?
            match (&stage, self.heard.hello) {
                (Stage::Greeting | Stage::Asked | Stage::Insisted, Some(Hello::Process(leader))) if !tried => {
                    tried = true;
                    work = Some(self.script(leader));
                    let to_connect = OPEN_TIMEOUT + self.shared.settings.connect_timeout;
                    (stage, until) = (Stage::Script, Instant::now() + to_connect + grace + SCRIPT_MARGIN);
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
            _ => Err(Failure::Stopped(Stopped { cause, end, exit: self.heard.remote_exit().map(Box::new) })),
        }
    }

    /// Whether the process group is gone.
    fn script(&self, leader: u32) -> Work {
        let (shared, connection) = (Arc::clone(&self.shared), Arc::clone(self.lease.connection()));
        let (endpoint, grace) = (self.order.endpoint.clone(), self.order.kill_grace);
        Box::pin(async move {
            let done = match timeout(OPEN_TIMEOUT, connection.open_session()).await {
                Ok(Ok(channel)) => run_script(channel, leader, grace).await.map_err(str::to_owned),
                _ => match connect(&shared, &endpoint).await {
                    Ok(own) => on_its_own(own, leader, grace).await,
                    Err(error) => Err(error.to_string()),
                },
            };
            Done::Script(done)
        })
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

async fn on_its_own(connection: Connection, leader: u32, grace: Duration) -> Result<bool, String> {
    let done = match connection.open_session().await {
        Ok(channel) => run_script(channel, leader, grace).await.map_err(str::to_owned),
        Err(error) => Err(error.to_string()),
    };
    connection.close().await;
    done
}

async fn run_script(mut channel: Channel<Msg>, leader: u32, grace: Duration) -> Result<bool, &'static str> {
    let tenths = u64::try_from(grace.as_millis().div_ceil(100)).unwrap_or(u64::MAX);
    channel.exec(true, kill_line(leader, tenths)).await.map_err(|_| "the connection was lost")?;
    while let Some(message) = channel.wait().await {
        match message {
            ChannelMsg::ExitStatus { exit_status: 0 } => return Ok(true),
            ChannelMsg::ExitStatus { exit_status: 1 } => return Ok(false),
            ChannelMsg::ExitStatus { .. } => return Err("the script failed"),
            ChannelMsg::Failure | ChannelMsg::Close => return Err("the server did not run the script"),
            _ => {}
        }
    }
    Err("the connection was lost")
}
