//! What is said on a session once its command was sent: standard input goes, output comes, and in the end how it ended.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Sig};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::open::Session;
use super::{End, Failure, Order, until};
use crate::command::{ChildrenSeen, Greeting, Hello, RemoteExit};
use crate::connection::Lease;
use crate::error::{Lost, NotStarted, StopCause, StopEnd, Stopped};
use crate::output::{Output, Stream};
use crate::pool::Shared;

/// How long the goodbye to a session may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The number of standard error among SSH's kinds of data.
const STDERR: u32 = 1;

type Feed = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Conversation {
    pub order: Order,
    pub lease: Lease,
    pub write: Arc<ChannelWriteHalf<Msg>>,
    pub heard: Heard,
    read: ChannelReadHalf,
    outputs: mpsc::Sender<Output>,
    pub shared: Arc<Shared>,
    _turn: tokio::sync::OwnedSemaphorePermit,
}

/// All we know from the server.
pub(super) struct Heard {
    greeting: Greeting,
    pub hello: Option<Hello>,
    /// A piece of output that is not yet passed on. The next one is not asked for before.
    waiting: Option<Output>,
    exit: Option<(Option<u32>, Option<String>)>,
    refused: bool,
    /// The server has closed the session, or the connection is gone.
    pub closed: bool,
    /// The server has said the last word.
    complete: bool,
    last_word_at: Instant,
}

impl Conversation {
    pub fn new(shared: &Arc<Shared>, session: Session, order: Order, outputs: mpsc::Sender<Output>) -> Self {
        let Session { channel, lease, _turn } = session;
        let (read, write) = channel.split();
        let heard = Heard {
            greeting: Greeting::new(order.nonce.clone()),
            hello: None,
            waiting: None,
            exit: None,
            refused: false,
            closed: false,
            complete: false,
            last_word_at: Instant::now(),
        };
        let shared = Arc::clone(shared);
        Self { order, lease, write: Arc::new(write), heard, read, outputs, shared, _turn }
    }

    /// Speaks until the command has ended, or is to be ended and is.
    pub async fn run(mut self, stop: &CancellationToken) -> End {
        let limit = self.order.time_limit.map(|limit| (limit, Instant::now() + limit));
        let mut feed = Some(self.feed());
        let end = loop {
            if self.heard.is_over() {
                break self.end();
            }
            let cause = tokio::select! {
                step = self.step() => match step {
                    Step::Went => continue,
                    Step::Silence => break self.end(),
                    Step::NobodyListens => StopCause::Canceled,
                },
                () = fed(&mut feed) => {
                    feed = None;
                    continue;
                }
                () = stop.cancelled() => StopCause::Canceled,
                () = until(limit.map(|(_, at)| at)) => {
                    StopCause::TimeLimit(limit.map(|(limit, _)| limit).unwrap_or_default())
                }
            };
            // What has ended cannot be stopped.
            if self.heard.exit.is_some() {
                break self.end();
            }
            drop(feed.take());
            break self.stop(cause).await;
        };
        let end = self.with_children(end).await;
        self.put_away().await;
        end
    }

    /// The end, once nothing that the command started is left, as far as that can be found out.
    async fn with_children(&mut self, end: End) -> End {
        match end {
            Ok(_) => {
                let children = self.sweep().await;
                // More may have been heard meanwhile: whether the output is complete, for instance.
                self.end().map(|exit| RemoteExit { children, ..exit })
            }
            Err(Failure::Stopped(stopped)) if stopped.end == StopEnd::Confirmed => {
                let end = match self.sweep().await {
                    ChildrenSeen::Found(children) if children.remain > 0 && self.order.ends_children() => {
                        StopEnd::Unconfirmed { reason: format!("{} of its processes did not end", children.remain) }
                    }
                    _ => StopEnd::Confirmed,
                };
                Err(Failure::Stopped(Stopped { end, ..stopped }))
            }
            end => end,
        }
    }

    /// Standard input, as far as the server takes it. If it does not, hearing it will tell why.
    fn feed(&self) -> Feed {
        let (write, secrets, stdin) = (Arc::clone(&self.write), self.order.secrets.clone(), self.order.stdin.clone());
        Box::pin(async move {
            for part in [secrets, stdin] {
                if write.data_bytes(part).await.is_err() {
                    return;
                }
            }
            let _ = write.eof().await;
        })
    }

    /// Hears one message, or passes on what was heard.
    async fn step(&mut self) -> Step {
        if self.heard.waiting.is_some() {
            return match self.outputs.reserve().await {
                Ok(place) => {
                    if let Some(output) = self.heard.waiting.take() {
                        place.send(output);
                    }
                    self.heard.last_word_at = Instant::now();
                    Step::Went
                }
                Err(_) => Step::NobodyListens,
            };
        }
        let silence = self.heard.exit.is_some().then(|| self.heard.last_word_at + self.shared.settings.linger);
        tokio::select! {
            message = self.read.wait() => {
                self.heard.hear(message);
                Step::Went
            }
            () = self.outputs.closed() => Step::NobodyListens,
            () = until(silence) => Step::Silence,
        }
    }

    /// The same while the command is being stopped: output that nobody takes is dropped, as the connection must move.
    pub async fn step_on(&mut self) {
        if self.heard.closed {
            return std::future::pending().await;
        }
        let gone = self.outputs.is_closed();
        tokio::select! {
            biased;
            place = self.outputs.reserve(), if self.heard.waiting.is_some() && !gone => {
                if let (Ok(place), Some(output)) = (place, self.heard.waiting.take()) {
                    place.send(output);
                }
            }
            message = self.read.wait() => self.heard.hear(message),
        }
    }

    /// How it ended, as far as anybody said.
    pub fn end(&self) -> End {
        match (self.heard.remote_exit(), self.heard.hello) {
            _ if self.heard.refused => Err(NotStarted::ExecRefused.into()),
            (_, Some(Hello::NoDirectory)) => {
                Err(NotStarted::Directory(self.order.cwd.clone().unwrap_or_default()).into())
            }
            (Some(exit), _) => Ok(exit),
            (None, _) if self.heard.complete => Err(Failure::Unknown(Lost::NoExit)),
            (None, _) => Err(Failure::Unknown(Lost::Connection { reason: self.lease.reason() })),
        }
    }

    /// A session that is not closed would count against the server's limit.
    async fn put_away(self) {
        let Self { heard, read, write, lease, .. } = self;
        // Nobody reads any more, so nobody waits for us to.
        drop(read);
        if !heard.closed {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, write.close()).await;
        }
        drop(lease);
    }
}

enum Step {
    Went,
    /// It has ended, and there was no output for a while.
    Silence,
    NobodyListens,
}

async fn fed(feed: &mut Option<Feed>) {
    match feed {
        Some(feed) => feed.await,
        None => std::future::pending().await,
    }
}

impl Heard {
    fn is_over(&self) -> bool {
        self.closed && self.waiting.is_none()
    }

    pub fn remote_exit(&self) -> Option<RemoteExit> {
        let (code, signal) = self.exit.clone()?;
        Some(RemoteExit { code, signal, output_complete: self.complete, children: ChildrenSeen::NotLooked })
    }

    fn hear(&mut self, message: Option<ChannelMsg>) {
        self.last_word_at = Instant::now();
        match message {
            Some(ChannelMsg::Data { data }) => self.keep(Stream::Stdout, data),
            Some(ChannelMsg::ExtendedData { data, ext: STDERR }) => {
                let (data, hello) = self.greeting.sift(data);
                self.hello = self.hello.or(hello);
                self.keep(Stream::Stderr, data);
            }
            Some(ChannelMsg::ExitStatus { exit_status }) => self.exit = Some((Some(exit_status), None)),
            Some(ChannelMsg::ExitSignal { signal_name, .. }) => self.exit = Some((None, Some(name(signal_name)))),
            Some(ChannelMsg::Failure) => self.refused = true,
            Some(ChannelMsg::Close) => {
                (self.closed, self.complete) = (true, true);
                self.stop_sifting();
            }
            None => {
                self.closed = true;
                self.stop_sifting();
            }
            // Nothing else is for us: end of output comes before the close, windows are the library's business.
            Some(_) => {}
        }
    }

    fn stop_sifting(&mut self) {
        let held_back = self.greeting.give_up();
        self.keep(Stream::Stderr, held_back);
    }

    fn keep(&mut self, stream: Stream, data: Bytes) {
        if !data.is_empty() {
            self.waiting = Some(Output { stream, data });
        }
    }
}

fn name(signal: Sig) -> String {
    match signal {
        Sig::ABRT => "ABRT".to_owned(),
        Sig::ALRM => "ALRM".to_owned(),
        Sig::FPE => "FPE".to_owned(),
        Sig::HUP => "HUP".to_owned(),
        Sig::ILL => "ILL".to_owned(),
        Sig::INT => "INT".to_owned(),
        Sig::KILL => "KILL".to_owned(),
        Sig::PIPE => "PIPE".to_owned(),
        Sig::QUIT => "QUIT".to_owned(),
        Sig::SEGV => "SEGV".to_owned(),
        Sig::TERM => "TERM".to_owned(),
        Sig::USR1 => "USR1".to_owned(),
        Sig::Custom(name) => name,
    }
}
