//! Tells what is in run directories, and removes those whose story is heard to its end.
//!
//! A reconciler: woken by the executor or by a rest that is over, given nothing but "look". What it reads at once is
//! bounded, so that a backlog of any size is told with the same memory. Output travels beside the turns ([`Uploads`]): a run
//! whose bytes take long waits for them alone.

use std::sync::Arc;

use bowline_execute::{Confirmed, Ended, ForgetError, Stream};
use bowline_model::{ErrorClass, RunId};
use bowline_protocol::RunNews;
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, debug, error, info, warn};

use super::book::{AfterRefusal, Books};
use super::draft::{Draft, Look, look};
use super::uploads::{Output, Uploads};
use super::{EVENTS_MAX, RUNS_MAX, post};
use crate::error::chain;
use crate::fleet::outbox::Story;
use crate::fleet::outcome::run_end;
use crate::fleet::shared::Fleet;

/// Ships until the end.
pub(crate) async fn disk_loop(fleet: Arc<Fleet>, books: Books) {
    let uploads = Uploads::new(Arc::clone(&fleet));
    let mut shipper = Shipper { fleet, books, uploads };
    let mut changed = shipper.fleet.runs.changed();
    let end = shipper.fleet.link.end.clone();
    loop {
        changed.borrow_and_update();
        let now = Instant::now();
        while let Some((run, output)) = shipper.uploads.finished() {
            shipper.brought(run, output, now);
        }
        for run in shipper.fleet.runs.take_changed() {
            shipper.books.look_at(run, now);
        }
        let next = shipper.books.wake(now);
        if shipper.books.waiting() > 0 {
            tokio::select! {
                () = end.cancelled() => return,
                () = shipper.turn() => {}
            }
            continue;
        }
        tokio::select! {
            () = end.cancelled() => return,
            _ = changed.changed() => {}
            (run, output) = shipper.uploads.next(), if shipper.uploads.is_busy() => {
                shipper.brought(run, output, Instant::now());
            }
            () = sleep_until(next.unwrap_or(now)), if next.is_some() => {}
        }
    }
}

struct Shipper {
    fleet: Arc<Fleet>,
    books: Books,
    uploads: Uploads,
}

impl Shipper {
    /// Tells what the next ones in line have to tell: one request.
    async fn turn(&mut self) {
        let drafts = self.read().await;
        let now = Instant::now();
        let mut news = Vec::with_capacity(drafts.len());
        let mut told = Vec::with_capacity(drafts.len());
        let mut heard_out = Vec::new();
        for draft in drafts {
            let ranges: Vec<_> = draft.uploads().collect();
            let Draft { run, fence, events, sent, ended, more, stored, .. } = draft;
            if !ranges.is_empty() {
                // It is read again when its bytes are there; until then nothing of it is kept in memory.
                self.books.leave_alone(run);
                self.uploads.bring(run, stored, ranges);
                continue;
            }
            self.books.get(run).brought = false;
            if more {
                self.books.look_at(run, now);
            }
            if ended.is_some() {
                self.fleet.roster.set_ending(run);
            }
            let book = self.books.get(run);
            if events.is_empty() && (ended.is_none() || book.ended) {
                heard_out.extend(ended.map(|ended| (run, ended)));
                continue;
            }
            let end = ended.as_ref().map(run_end);
            news.push(RunNews { run_id: run, fence, events, ended: end });
            told.push((run, sent, ended));
        }
        if news.is_empty() {
            return self.forget(heard_out).await;
        }
        let Some(heard) = post(&self.fleet.link, news).await else { return };
        let now = Instant::now();
        for (run, sent, ended) in told {
            let Some(heard) = heard.get(&run) else {
                warn!(run.id = %run, "the server said nothing about run {run}; it is told again");
                self.books.look_at(run, now);
                continue;
            };
            if let Some(code) = &heard.refused {
                self.refused(run, code, now);
                continue;
            }
            let book = self.books.get(run);
            book.heard(sent, heard.acknowledged, heard.ended, now);
            match ended {
                Some(ended) if book.ended && book.held >= ended.last_seq => heard_out.push((run, ended)),
                Some(_) => self.books.look_at(run, now),
                None if book.held < sent.last => self.books.look_at(run, now),
                None => {}
            }
        }
        self.forget(heard_out).await;
    }

    /// Reads the runs that are next, on a thread that may wait for the disk.
    async fn read(&mut self) -> Vec<Draft> {
        let share = (EVENTS_MAX / self.books.waiting().clamp(1, 10)).max(1);
        let mut line = Vec::new();
        while line.len() < RUNS_MAX
            && let Some(run) = self.books.next()
        {
            line.push((run, *self.books.get(run)));
        }
        let runs = Arc::clone(&self.fleet.runs);
        let read = move || {
            let mut room = EVENTS_MAX;
            let mut looks = Vec::with_capacity(line.len());
            let mut left = Vec::new();
            for (run, book) in line {
                if room == 0 {
                    left.push(run);
                    continue;
                }
                let seen = look(&runs, run, book, share.min(room));
                if let Look::News(draft) = &seen {
                    room -= draft.events.len();
                }
                looks.push((run, seen));
            }
            (looks, left)
        };
        let (looks, left) = match tokio::task::spawn_blocking(read).await {
            Ok(read) => read,
            Err(broken) => {
                error!("the agent broke while it read its runs: {broken}");
                return Vec::new();
            }
        };
        let now = Instant::now();
        left.into_iter().for_each(|run| self.books.look_at(run, now));
        let mut drafts = Vec::with_capacity(looks.len());
        for (run, seen) in looks {
            match seen {
                Look::News(draft) => {
                    self.books.get(run).stored = Some(draft.stored);
                    drafts.push(draft);
                }
                Look::Gone => {
                    self.books.forget(run);
                    if self.fleet.runs.take_abandoned(run) {
                        // What the journal says of it now is all that there is to tell.
                        self.fleet.roster.done(run);
                        self.fleet.link.reunited.notify_one();
                    }
                }
                Look::NeverStarted { fence, why } => {
                    let span = self.fleet.span_of(run);
                    self.never_started(run, fence, why).instrument(span).await;
                }
                Look::Unreadable(error) => {
                    self.unreadable(run, &chain(&error), now);
                }
            }
        }
        drafts
    }

    /// The bytes of a run have come through, or not.
    fn brought(&mut self, run: RunId, output: Output, now: Instant) {
        self.books.take_up(run);
        match output {
            Output::Stored(stored) => {
                let book = self.books.get(run);
                (book.stored, book.brought) = (Some(stored), true);
                self.books.look_at(run, now);
            }
            Output::Refused(code) => self.refused(run, &code, now),
            Output::Unreadable(why) => self.unreadable(run, &why, now),
            Output::Later => self.books.get(run).rest(now),
        }
    }

    fn unreadable(&mut self, run: RunId, why: &str, now: Instant) {
        let _in_run = self.fleet.span_of(run).entered();
        if self.books.get(run).cannot_be_read(now) {
            error!(run.id = %run, "run {run} cannot be read: {why}; trying again, less and less often");
        } else {
            debug!(run.id = %run, "run {run} still cannot be read: {why}");
        }
    }

    fn refused(&mut self, run: RunId, code: &str, now: Instant) {
        let _in_run = self.fleet.span_of(run).entered();
        match self.books.get(run).refused(code, now) {
            AfterRefusal::AbsentNow => {
                warn!(
                    run.id = %run,
                    "the server does not know run {run}, perhaps because it was restored from an older copy; what \
                     happened in it is kept and offered again every minute, for a day"
                );
                self.fleet.roster.done(run);
                self.fleet.link.reunited.notify_one();
            }
            AfterRefusal::StillAbsent => debug!(run.id = %run, "the server still does not know run {run}"),
            AfterRefusal::Quarantined => {
                error!(
                    run.id = %run,
                    "the server refused what happened in run {run} ({code}); it is quarantined: its directory stays \
                     until somebody has looked at it"
                );
                self.books.quarantine(run);
                self.fleet.roster.done(run);
            }
        }
    }

    /// Everything of these runs is held by the server.
    async fn forget(&mut self, heard_out: Vec<(RunId, Ended)>) {
        if heard_out.is_empty() {
            return;
        }
        let mut held = Vec::with_capacity(heard_out.len());
        for (run, ended) in &heard_out {
            info!(run.id = %run, "run {run} has ended ({:?}), and the server has all of it", ended.outcome);
            let (last_seq, book) = (ended.last_seq, self.books.get(*run));
            let (stdout_bytes, stderr_bytes) = (book.stored(Stream::Stdout), book.stored(Stream::Stderr));
            held.push((*run, Confirmed { last_seq, stdout_bytes, stderr_bytes }));
        }
        let runs = Arc::clone(&self.fleet.runs);
        let answers = match tokio::task::spawn_blocking(move || runs.forget_all(held)).await {
            Ok(answers) => answers,
            Err(broken) => return error!("the agent broke at the end of runs: {broken}"),
        };
        for (run, answer) in answers {
            self.fleet.roster.done(run);
            match answer {
                Ok(()) | Err(ForgetError::Unknown(_)) => self.books.forget(run),
                // Its keeper takes long to leave. When it has left, we are called again.
                Err(ForgetError::NotEnded(_)) => {}
                Err(error) => error!(run.id = %run, "the directory of run {run} stays: {}", chain(&error)),
            }
        }
    }

    /// A keeper that could not start anything. Nothing happened; whoever asked for it may ask again.
    async fn never_started(&mut self, run: RunId, fence: u32, why: Option<String>) {
        let runs = Arc::clone(&self.fleet.runs);
        match tokio::task::spawn_blocking(move || runs.give_back(run)).await {
            Ok(Ok(())) => {
                let message = format!("its keeper could not start it: {}", why.as_deref().unwrap_or("it said nothing"));
                warn!(run.id = %run, "run {run} was not started: {message}");
                let now = (self.fleet.clock)();
                self.books.forget(run);
                self.fleet.tell(run, Story::not_begun(fence, now, "NO_KEEPER", ErrorClass::Transient, &message));
            }
            Ok(Err(error)) => warn!(run.id = %run, "run {run} cannot be given back: {}", chain(&error)),
            Err(broken) => error!(run.id = %run, "the agent broke at run {run}: {broken}"),
        }
    }
}
