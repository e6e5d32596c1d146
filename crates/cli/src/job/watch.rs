//! `job watch ID`: a job until it ends.
//!
//! The stream of events says "look"; the job itself says how it stands. So the job is read when an event came, and now
//! and then anyway, and the watch ends with the job even if no event ever arrives. Events are printed as they come. What
//! happened before a connection stood is fetched when it does, and what is still missing at the end is fetched then, so
//! the record on the screen is whole.

use std::collections::HashSet;
use std::time::Duration;

use bowline_model::JobId;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::get;
use super::view::{JobDetail, RunView};
use super::waiting::Waiting;
use crate::client::{Again, Answer, Client, Follower, News, Request};
use crate::events::EventView;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fleet;
use crate::interrupt::Interrupts;
use crate::output::screen::LiveBar;
use crate::output::{Screen, Table, Text};

/// How often the job is read when nothing is heard.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often it is read at most.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// Events that may wait to be printed; when there are more, the stream waits.
const WAITING_MAX: usize = 256;
/// Events remembered as printed. A job has far fewer; beyond this nothing is fetched afterwards.
const SEEN_MAX: usize = 20_000;
/// Runs in the live status.
const LIVE_RUNS_MAX: usize = 8;
/// Events asked for at once.
const PAGE_MAX: &str = "100";

/// What programs get to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    Everything,
    OnlyTheEnd,
}

/// Follows a job. With `--json` every event is a line and the job as it ended is the last one, or the only one.
pub async fn watch(client: &Client, screen: &mut Screen, id: JobId, show: Show) -> Result<Exit, Failure> {
    let answer = read_job(client, id).await?;
    let detail: JobDetail = answer.read()?;
    // Of a command, people want to see its hosts; programs get the events of the job in any case.
    if detail.command.is_some() && !screen.json() {
        let ending = fleet::Ending { all: false, output: false };
        return Box::pin(fleet::watch(client, screen, id, ending, fleet::OnInterrupt::Leave)).await;
    }
    let mut watch = Watch { client, id, show, seen: HashSet::new(), status: String::new(), waiting: Waiting::new() };
    if let Some(exit) = detail.job.end() {
        watch.fetch_missed(screen).await?;
        return finish(screen, &answer, &detail, exit);
    }
    let request = Request::get(["events", "stream"]).query("job_id", id.to_string());
    let follower = Follower::new(client, request, None).with_gaps();
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let bar = screen.status();
    // Two halves of one task: the stream fills the channel, the watch empties it. The watch ends first and closes it.
    let mut interrupts = Interrupts::listen();
    let following = async { tokio::join!(pump(follower, sender), watch.until_end(screen, &bar, receiver, detail)).1 };
    let ended = tokio::select! {
        ended = following => Some(ended),
        () = interrupts.next() => None,
    };
    drop(bar);
    let Some(ended) = ended else {
        screen.note(&format!(
            "left; job {id} continues: come back with `bowline job watch {id}`, stop it with `bowline job cancel {id}`"
        ));
        return Ok(Exit::Interrupted);
    };
    let (answer, detail, exit) = ended?;
    watch.fetch_missed(screen).await?;
    finish(screen, &answer, &detail, exit)
}

/// Carries events from the stream to the watch until nobody wants them, or until the server refuses for good.
async fn pump(mut follower: Follower<'_>, sender: mpsc::Sender<Result<News, Failure>>) {
    loop {
        let news = tokio::select! {
            () = sender.closed() => return,
            news = follower.next() => news,
        };
        let last = news.is_err();
        if sender.send(news).await.is_err() || last {
            return;
        }
    }
}

async fn read_job(client: &Client, id: JobId) -> Result<Answer, Failure> {
    // A server that restarts is worth some patience.
    client.call(&Request::get(["jobs", &id.to_string()]).again(Again::Patient)).await
}

struct Watch<'c> {
    client: &'c Client,
    id: JobId,
    show: Show,
    seen: HashSet<String>,
    /// The status that was last told.
    status: String,
    waiting: Waiting,
}

impl Watch<'_> {
    async fn until_end(
        &mut self,
        screen: &mut Screen,
        bar: &LiveBar,
        mut stream: mpsc::Receiver<Result<News, Failure>>,
        mut detail: JobDetail,
    ) -> Result<(Answer, JobDetail, Exit), Failure> {
        let mut streaming = true;
        loop {
            self.tell(screen, bar, &detail)?;
            // An attempt that is under way waits for nothing.
            if detail.job.status.as_str() != "running" || detail.workflow.is_some() {
                let standing = format!("{} {}", detail.job.status_word(), detail.job.updated_at);
                self.waiting.tell(self.client, screen, self.id, standing).await?;
            }
            let look_at = Instant::now() + LOOK_EVERY;
            if streaming {
                if let Ok(news) = timeout_at(look_at, stream.recv()).await {
                    streaming = self.take(screen, news).await?;
                }
                // Events come in flocks; one look serves them all.
                let pause = Instant::now() + LOOK_PAUSE;
                while streaming && let Ok(news) = timeout_at(pause, stream.recv()).await {
                    streaming = self.take(screen, news).await?;
                }
            } else {
                tokio::time::sleep_until(look_at).await;
            }
            let answer = read_job(self.client, self.id).await?;
            let updated_at = std::mem::take(&mut detail.job.updated_at);
            detail = answer.read()?;
            if let Some(exit) = detail.job.end() {
                return Ok((answer, detail, exit));
            }
            if !streaming && detail.job.updated_at != updated_at {
                self.fetch_missed(screen).await?;
            }
        }
    }

    /// Prints what the stream brought. Answers whether the stream goes on.
    async fn take(&mut self, screen: &mut Screen, news: Option<Result<News, Failure>>) -> Result<bool, Failure> {
        match news {
            Some(Ok(News::Event(json))) => self.print(screen, &json).map(|()| true),
            Some(Ok(News::Connected | News::Reset)) => self.fetch_missed(screen).await.map(|()| true),
            Some(Err(failure)) => {
                let why = Text::new(&failure.to_string());
                screen.note(&format!("no live events ({why}); looking every {}s instead", LOOK_EVERY.as_secs()));
                Ok(false)
            }
            None => Ok(false),
        }
    }

    /// Prints an event that was not printed before.
    fn print(&mut self, screen: &mut Screen, json: &str) -> Result<(), Failure> {
        let event: EventView = serde_json::from_str(json).map_err(|error| self.client.strange(error.to_string()))?;
        if self.seen.len() < SEEN_MAX && !self.seen.insert(event.event_id.to_string()) {
            return Ok(());
        }
        if screen.json() {
            return if self.show == Show::Everything { screen.json_line(json) } else { Ok(()) };
        }
        let line = event.line(screen, false);
        screen.line(&line)
    }

    /// Fetches the events that were not printed yet.
    async fn fetch_missed(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Page {
            events: Vec<Box<RawValue>>,
            next_cursor: Option<String>,
        }
        if screen.json() && self.show == Show::OnlyTheEnd {
            return Ok(());
        }
        let id = self.id.to_string();
        let mut cursor = None;
        while self.seen.len() < SEEN_MAX {
            let request = Request::get(["jobs", &id, "events"])
                .query("limit", PAGE_MAX)
                .query_if("cursor", cursor.clone())
                .again(Again::Patient);
            let page: Page = match self.client.call(&request).await {
                Ok(answer) => answer.read()?,
                // Whoever may not see events can still see the job end.
                Err(Failure::Refused(refusal)) if refusal.status == 403 => return Ok(()),
                Err(failure) => return Err(failure),
            };
            for event in &page.events {
                self.print(screen, &event.get().replace(['\n', '\r'], " "))?;
            }
            if page.next_cursor.is_none() || page.next_cursor == cursor {
                break;
            }
            cursor = page.next_cursor;
        }
        Ok(())
    }

    /// Keeps the status up to date: below everything on a terminal, as a line for each change elsewhere.
    fn tell(&mut self, screen: &mut Screen, bar: &LiveBar, detail: &JobDetail) -> Result<(), Failure> {
        if screen.live() {
            bar.say(live_status(screen, detail));
            return Ok(());
        }
        let status = status_line(screen, detail);
        if !screen.json() && status != self.status {
            screen.line(&status)?;
            self.status = status;
        }
        Ok(())
    }
}

fn status_line(screen: &Screen, detail: &JobDetail) -> String {
    let job = &detail.job;
    let mut line = job.headline(screen.color());
    if job.status.as_str() == "pending" && !job.run_at.is_empty() {
        line.push_str(&format!(", due {}", screen.ago(&job.run_at)));
    }
    if let Some(run) = detail.runs.last() {
        line.push_str(&format!(", run {} on {}", run.attempt, run.worker_id.or("no worker")));
    }
    line
}

fn live_status(screen: &Screen, detail: &JobDetail) -> String {
    // The spinner and a space stand before the first line.
    let room = screen.width().map(|width| width.saturating_sub(2));
    let mut text = status_line(screen, detail);
    let runs = &detail.runs[detail.runs.len().saturating_sub(LIVE_RUNS_MAX)..];
    if !runs.is_empty() {
        let rows: Vec<_> = runs.iter().map(|run| run.row(screen)).collect();
        text.push('\n');
        text.push_str(Table::new(&RunView::COLUMNS).render(&rows, room, screen.color()).trim_end());
    }
    text
}

/// The job as it ended.
fn finish(screen: &mut Screen, answer: &Answer, detail: &JobDetail, exit: Exit) -> Result<Exit, Failure> {
    if screen.json() {
        screen.json_line(&answer.text().replace(['\n', '\r'], " "))?;
    } else {
        get::show(screen, detail)?;
    }
    Ok(exit)
}
