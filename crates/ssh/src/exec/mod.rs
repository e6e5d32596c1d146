//! One command on one target, from the wish to the end.
//!
//! The command is carried out by a task of the pool, not by the caller: a caller may be dropped at any moment, and what
//! was begun on the other side must be ended then as well. Between the two there is a short line of output; the
//! caller's end of it is also how the task learns that the caller is gone.

mod conversation;
mod open;
mod stop;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::command::{ChildSearch, CommandLine, RemoteCommand, RemoteExit};
use crate::error::{Lost, NotStarted, SshError, StopCause, Stopped};
use crate::output::{Output, OutputSink};
use crate::pool::Shared;
use crate::target::{Endpoint, Target};
use conversation::Conversation;

/// Pieces of output between the task and the caller.
const PIECES: usize = 4;
/// How long a sink may take for what came before a command was stopped.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// An order as the task takes it with it.
struct Order {
    endpoint: Endpoint,
    line: String,
    nonce: String,
    secrets: Bytes,
    stdin: Bytes,
    cwd: Option<String>,
    time_limit: Option<Duration>,
    kill_grace: Duration,
    children: Option<ChildSearch>,
}

impl Order {
    fn ends_children(&self) -> bool {
        self.children.as_ref().is_some_and(|search| search.end_after.is_some())
    }
}

enum Failure {
    NotStarted(NotStarted),
    Unknown(Lost),
    Stopped(Stopped),
}

impl From<NotStarted> for Failure {
    fn from(cause: NotStarted) -> Self {
        Self::NotStarted(cause)
    }
}

type End = Result<RemoteExit, Failure>;

pub(crate) async fn exec(
    shared: &Arc<Shared>,
    target: &Target,
    command: &RemoteCommand,
    sink: &mut dyn OutputSink,
    cancel: CancellationToken,
) -> Result<RemoteExit, SshError> {
    let carried_out = carry_out(shared, target, command, sink, cancel).await;
    carried_out.map_err(|failure| {
        let target = target.to_string();
        match failure {
            Failure::NotStarted(cause) => SshError::NotStarted { target, cause },
            Failure::Unknown(cause) => SshError::OutcomeUnknown { target, cause },
            Failure::Stopped(stopped) => SshError::Stopped { target, stopped },
        }
    })
}

async fn carry_out(
    shared: &Arc<Shared>,
    target: &Target,
    command: &RemoteCommand,
    sink: &mut dyn OutputSink,
    cancel: CancellationToken,
) -> End {
    let endpoint = Endpoint::of(target, &shared.settings.user).map_err(NotStarted::from)?;
    let nonce = format!("bowline-{:032x}", rand::random::<u128>());
    let CommandLine { line, secrets } = CommandLine::of(command, &nonce).map_err(NotStarted::from)?;
    let order = Order {
        endpoint,
        line,
        nonce,
        secrets: Bytes::from_owner(secrets),
        stdin: command.stdin.clone(),
        cwd: command.cwd.clone(),
        time_limit: command.time_limit,
        kill_grace: command.kill_grace,
        children: command.children.clone(),
    };
    let stop = cancel.child_token();
    // A caller that is dropped wants the end.
    let _dropped = stop.clone().drop_guard();
    let (outputs, pieces) = mpsc::channel(PIECES);
    let (told, end) = oneshot::channel();
    let task = {
        let (shared, stop) = (Arc::clone(shared), stop.clone());
        // On the heap, and not as large as its largest moment on the way there.
        Box::pin(async move {
            // Nobody hears it if the caller is gone.
            let _ = told.send(Box::pin(run(&shared, order, outputs, &stop)).await);
        })
    };
    if !shared.start(task) {
        return Err(NotStarted::Closed.into());
    }
    listen(pieces, end, sink, &stop).await
}

/// The task's part.
async fn run(shared: &Arc<Shared>, order: Order, outputs: mpsc::Sender<Output>, stop: &CancellationToken) -> End {
    let session = open::session(shared, &order, stop).await?;
    Conversation::new(shared, session, order, outputs).run(stop).await
}

/// The caller's part: brings output to the sink until there is no more, and hears the end.
async fn listen(
    mut pieces: mpsc::Receiver<Output>,
    end: oneshot::Receiver<End>,
    sink: &mut dyn OutputSink,
    stop: &CancellationToken,
) -> End {
    let mut ending = Ending { end, told: None, patience: None };
    let mut sink_failed = None;
    while let Some(Some(piece)) = ending.or(pieces.recv()).await {
        if sink_failed.is_some() {
            // Nobody wants the rest; it is only taken out of the way.
            continue;
        }
        match ending.or(sink.write(piece)).await {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                sink_failed = Some(error.to_string());
                stop.cancel();
            }
            None => break,
        }
    }
    match (ending.hear().await, sink_failed) {
        (Err(Failure::Stopped(stopped)), Some(reason)) => {
            Err(Failure::Stopped(Stopped { cause: StopCause::Output(reason), ..stopped }))
        }
        (end, _) => end,
    }
}

/// The end of a command, which may be told while its output is still being put away.
struct Ending {
    end: oneshot::Receiver<End>,
    told: Option<End>,
    patience: Option<Instant>,
}

impl Ending {
    /// Waits for `work`, unless the command was stopped: whoever wanted its end does not wait for a sink that stands still.
    async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                told = &mut self.end, if self.told.is_none() => {
                    let told = told.unwrap_or(Err(Failure::Unknown(Lost::Failed)));
                    if matches!(told, Err(Failure::Stopped(_))) {
                        self.patience = Some(Instant::now() + LAST_WORDS);
                    }
                    self.told = Some(told);
                }
                () = until(self.patience) => return None,
            }
        }
    }

    async fn hear(self) -> End {
        match self.told {
            Some(end) => end,
            None => self.end.await.unwrap_or(Err(Failure::Unknown(Lost::Failed))),
        }
    }
}

/// Never, if there is no such moment.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
