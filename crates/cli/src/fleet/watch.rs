//! A command on hosts until it ends.
//!
//! The server is asked now and then how it stands, and is the only one who knows: a watch that loses it waits for it and
//! goes on, and a watch that leaves changes nothing. Of a command that is watched by those who ran it, the first Ctrl-C
//! asks the server to cancel and goes on watching, because what runs takes its time to stop; the second leaves. Those who
//! only look leave with the first.

use std::collections::HashSet;
use std::time::Duration;

use bowline_model::JobId;
use tokio::time::Instant;

use super::counts::hosts;
use super::{ApprovalView, CommandView, Report, UnitView, as_json};
use crate::client::{Again, Answer, Client, Request};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::job::{JobDetail, Shown, Waiting, show_output};
use crate::output::screen::LiveBar;
use crate::output::time::{between, thousands};
use crate::output::{Paint, Screen, Text};

/// How long a server may be away before somebody else should look into it.
const AWAY_MAX: Duration = Duration::from_secs(15 * 60);
/// Between two lines of progress where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(3);
/// The same, when there is nothing new to say.
const SAME_LINE_EVERY: Duration = Duration::from_secs(60);
/// Failures that are told as they happen. The table at the end has them too.
const TOLD_MAX: usize = 50;
/// More than this many are never unknown on one page.
const FAILURE_PAGE: &str = "100";
/// Ways in which a host needs somebody.
const BAD: [&str; 6] = ["failed", "timed_out", "unreachable", "dead", "error", "blocked"];

/// What is shown when it is over.
#[derive(Debug, Clone, Copy)]
pub struct Ending {
    /// Every host instead of the first fifty.
    pub all: bool,
    /// What the hosts wrote.
    pub output: bool,
}

/// What the first Ctrl-C means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInterrupt {
    /// Leave, and nothing else.
    Leave,
    /// Ask the server to cancel.
    Cancel,
}

enum Seen {
    Job(Answer, Box<JobDetail>),
    Left,
}

/// Watches a command and says how it ended.
pub async fn watch(
    client: &Client,
    screen: &mut Screen,
    id: JobId,
    ending: Ending,
    on_interrupt: OnInterrupt,
) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::listen();
    let mut watch = Watch::new(client, id, on_interrupt);
    let (answer, detail) = match watch.until_end(screen, &mut interrupts).await {
        Ok(Seen::Job(answer, detail)) => (answer, detail),
        Ok(Seen::Left) => {
            let goes_on = match watch.cancel {
                Cancel::No => "continues",
                Cancel::Wanted => "is perhaps being canceled: the server has not answered yet",
                Cancel::Asked => "is being canceled",
            };
            screen.note(&format!("left; job {id} {goes_on}; `bowline job watch {id}` shows how it ends"));
            return Ok(Exit::Interrupted);
        }
        Err(failure) => {
            screen.note(&format!("job {id} continues; `bowline job watch {id}` watches it again"));
            return Err(failure);
        }
    };
    tokio::select! {
        told = tell_end(client, screen, id, ending, &answer, &detail) => told,
        // It is over; whoever does not want to read how need not.
        () = interrupts.next() => Ok(Exit::Interrupted),
    }
}

/// Says how it ended, host by host.
async fn tell_end(
    client: &Client,
    screen: &mut Screen,
    id: JobId,
    ending: Ending,
    answer: &Answer,
    detail: &JobDetail,
) -> Result<Exit, Failure> {
    let exit = detail.job.end().unwrap_or(Exit::Refused);
    if screen.json() {
        let json = as_json(client, id, answer).await?;
        screen.json_line(&json)?;
        return Ok(exit);
    }
    if let Some(command) = &detail.command {
        let shown = match ending.output && command.hosts.begun > 0 {
            true => show_output(client, screen, id, command.hosts.total).await,
            false => Ok(Shown::Nothing),
        };
        let shown = match shown {
            Ok(shown) => shown,
            Err(failure @ Failure::Output(_)) => return Err(failure),
            // How it ended does not depend on what can be seen of it.
            Err(failure) => {
                screen.note(&format!("cannot show the output: {}", Text::new(&failure.to_string())));
                Shown::Nothing
            }
        };
        // One host needs no table: how it failed has been said, and what it wrote is all that programs want to read.
        if shown != Shown::Plain || ending.all {
            let report = Report { all: ending.all, good: shown == Shown::Nothing };
            report.show(client, screen, id, &command.hosts).await?;
        }
        let summary = summary(screen, detail, command);
        match shown {
            Shown::Plain => screen.note(&summary),
            Shown::Several | Shown::Nothing => screen.line(&summary)?,
        }
        if command.hosts.begun > 0 {
            let blocked = if command.hosts.of(&["blocked"]) > 0 { "what blocks: `bowline blocks list`; " } else { "" };
            let again = match exit {
                Exit::Success => String::new(),
                _ => format!("; once more where it did not succeed: `bowline job retry {id}`"),
            };
            screen.note(&format!("{blocked}all output: `bowline job logs {id}`{again}"));
        }
    }
    Ok(exit)
}

/// `failed: 36 of 37 hosts ok, 1 failed, in 12.3s (job …)`
fn summary(screen: &Screen, detail: &JobDetail, command: &CommandView) -> String {
    let (job, color) = (&detail.job, screen.color());
    let status = Paint::of_status(job.status.as_str()).on(job.status.as_str(), color);
    let took = between(&job.created_at, &job.finished_at);
    let took = if took.is_empty() { String::new() } else { format!(", in {took}") };
    let mut line = format!("{status}: {}{took} (job {})", command.progress(true, color), job.id);
    let why = if command.stopped.is_empty() { job.fault() } else { command.stopped.to_string() };
    // How many hosts failed has just been said.
    if !why.is_empty() && !why.contains(&format!("of {} hosts ", command.hosts.total)) {
        line.push_str(&format!("\n{}", Paint::Bad.on(&why, color)));
    }
    if let Some(approval) = command.approval.as_ref().filter(|approval| approval.state.as_str() != "approved") {
        line.push_str(&format!("\napproval {}", approval.words(screen)));
        if let Some(no) = approval.votes.iter().find(|vote| !vote.approved) {
            line.push_str(&format!(" by {}: {}", no.actor.or(&no.by), no.reason));
        }
    }
    line
}

struct Watch<'c> {
    client: &'c Client,
    id: JobId,
    begun_at: Instant,
    /// Hosts whose failure was told.
    told: HashSet<String>,
    /// How many stood badly when their failures were last read.
    bad: u64,
    /// The last line of progress, and when it was said.
    line: String,
    said_at: Option<Instant>,
    waiting: Waiting,
    on_interrupt: OnInterrupt,
    cancel: Cancel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cancel {
    No,
    /// Somebody wants it; the server does not know yet.
    Wanted,
    Asked,
}

impl<'c> Watch<'c> {
    fn new(client: &'c Client, id: JobId, on_interrupt: OnInterrupt) -> Self {
        Self {
            client,
            id,
            begun_at: Instant::now(),
            told: HashSet::new(),
            bad: 0,
            line: String::new(),
            said_at: None,
            waiting: Waiting::new(),
            on_interrupt,
            cancel: Cancel::No,
        }
    }

    async fn until_end(&mut self, screen: &mut Screen, interrupts: &mut Interrupts) -> Result<Seen, Failure> {
        let mut bar: Option<LiveBar> = None;
        loop {
            // Whatever is asked of the server only says how it stands, so it may be dropped half-way and asked again.
            let looked = tokio::select! {
                looked = self.look(screen) => looked?,
                () = interrupts.next() => {
                    if self.interrupted(screen) {
                        return Ok(Seen::Left);
                    }
                    continue;
                }
            };
            let (answer, detail) = looked;
            let over = detail.job.end().is_some();
            if let Some(command) = &detail.command {
                let bar = bar.get_or_insert_with(|| screen.hosts_bar(command.hosts.total));
                self.tell(screen, bar, &detail, command, over);
            }
            if over {
                return Ok(Seen::Job(answer, Box::new(detail)));
            }
            let pause = tokio::time::sleep(self.pause());
            tokio::select! {
                () = pause => {}
                () = interrupts.next() => {
                    if self.interrupted(screen) {
                        return Ok(Seen::Left);
                    }
                }
            }
        }
    }

    /// What to do about a Ctrl-C. Answers whether it is time to leave.
    fn interrupted(&mut self, screen: &Screen) -> bool {
        if self.cancel != Cancel::No || self.on_interrupt == OnInterrupt::Leave {
            return true;
        }
        self.cancel = Cancel::Wanted;
        screen.note("asking the server to cancel, and watching until it is done; Ctrl-C again leaves");
        false
    }

    /// Short commands are watched closely, long ones are not asked about all the time.
    fn pause(&self) -> Duration {
        Duration::from_millis(match self.begun_at.elapsed().as_secs() {
            0..3 => 150,
            3..60 => 500,
            60..600 => 1_000,
            _ => 2_000,
        })
    }

    /// How it stands. Waits for a server that is away.
    async fn look(&mut self, screen: &Screen) -> Result<(Answer, JobDetail), Failure> {
        let id = self.id.to_string();
        let away_at = Instant::now();
        loop {
            match self.try_look(screen, &id).await {
                Err(failure) if is_away(&failure) && away_at.elapsed() < AWAY_MAX => {
                    screen.note(&format!("{}; still trying", Text::new(&failure.to_string())));
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
                looked => return looked,
            }
        }
    }

    async fn try_look(&mut self, screen: &Screen, id: &str) -> Result<(Answer, JobDetail), Failure> {
        if self.cancel == Cancel::Wanted {
            let request = Request::post(["jobs", id, "cancel"]).body("{}").again(Again::Patient);
            match self.client.call(&request).await {
                // It ended before the wish arrived: that is an answer too.
                Err(Failure::Refused(refusal)) if refusal.status == 409 => {}
                Err(Failure::Refused(refusal)) if !matches!(refusal.status, 429 | 502..=504) => {
                    screen.note(&format!("the server does not cancel it: {}; it goes on", refusal.message));
                }
                Err(failure) => return Err(failure),
                Ok(_) => {}
            }
            self.cancel = Cancel::Asked;
        }
        let answer = self.client.call(&Request::get(["jobs", id]).again(Again::Patient)).await?;
        let detail: JobDetail = answer.read()?;
        if let Some(command) = &detail.command {
            self.tell_failures(screen, id, command).await?;
            if command.hosts.of(&["queued", "pending"]) > 0
                || command.approval.as_ref().is_some_and(ApprovalView::is_open)
            {
                let standing = command.hosts.words(false, false);
                self.waiting.tell(self.client, screen, self.id, standing).await?;
            }
        }
        Ok((answer, detail))
    }

    /// Tells of hosts that went wrong since the last look.
    async fn tell_failures(&mut self, screen: &Screen, id: &str, command: &CommandView) -> Result<(), Failure> {
        #[derive(serde::Deserialize)]
        struct Page {
            hosts: Vec<UnitView>,
        }
        let bad = command.hosts.of(&BAD);
        if bad == self.bad || screen.json() {
            return Ok(());
        }
        for status in BAD {
            if command.hosts.of(&[status]) == 0 || self.told.len() >= TOLD_MAX {
                continue;
            }
            let request = Request::get(["jobs", id, "hosts"]).query("status", status).query("limit", FAILURE_PAGE);
            let page: Page = self.client.call(&request.again(Again::Patient)).await?.read()?;
            for unit in page.hosts {
                if self.told.len() < TOLD_MAX && self.told.insert(unit.host.to_string()) {
                    screen.notes().say_as(Paint::Bad, &unit.complaint());
                    if self.told.len() == TOLD_MAX {
                        screen.note("more failures are counted, and listed at the end");
                    }
                }
            }
        }
        self.bad = bad;
        Ok(())
    }

    /// Keeps the progress up to date: as a bar on a terminal, as a line every few seconds elsewhere.
    fn tell(&mut self, screen: &Screen, bar: &LiveBar, detail: &JobDetail, command: &CommandView, over: bool) {
        let waits = command.approval.as_ref().filter(|approval| approval.is_open() && !over);
        let progress = match waits {
            Some(approval) => {
                format!("waits for approval ({}); `bowline approvals show {}`", approval.words(screen), self.id)
            }
            None => {
                let words = command.hosts.words(over, screen.live() && screen.color());
                let stopped = if command.stopped.is_empty() { "" } else { "; stopped: " };
                let canceling = if detail.job.status.as_str() == "canceling" { "; canceling" } else { "" };
                format!("{words}{stopped}{}{canceling}", command.stopped)
            }
        };
        if screen.live() {
            bar.at(command.hosts.ended(), progress);
            return;
        }
        if screen.json() || over {
            return;
        }
        let line = match waits {
            Some(_) => progress,
            None => format!("{} of {} done: {progress}", thousands(command.hosts.ended()), hosts(command.hosts.total)),
        };
        let quiet = self.said_at.map(|at| at.elapsed());
        let due = quiet.is_none_or(|quiet| quiet >= if line == self.line { SAME_LINE_EVERY } else { LINE_EVERY });
        if due {
            screen.note(&line);
            self.line = line;
            self.said_at = Some(Instant::now());
        }
    }
}

/// Whether the server may be back soon.
fn is_away(failure: &Failure) -> bool {
    match failure {
        Failure::Unreachable { .. } => true,
        Failure::Refused(refusal) => matches!(refusal.status, 429 | 502..=504),
        _ => false,
    }
}
