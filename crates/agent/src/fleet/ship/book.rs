//! What the server holds of each run on disk, as far as we know.
//!
//! In memory only, and so is the quarantine of what the server refuses. The next agent asks the server what it holds, and
//! offers what was refused once more: either the server wants it by now, or it is refused and quarantined again, at the
//! price of one request. Nothing depends on remembering it: the directory is what keeps the run from being begun again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use bowline_execute::Stream;
use bowline_model::RunId;
use bowline_protocol::RunHeard;
use tokio::time::Instant;

/// How often the news of a run is offered to a server that does not know the run.
const ABSENT_PAUSE: Duration = Duration::from_secs(60);
/// For how long. A server that was restored from an older copy hears of the run from other sources by then, or never.
const ABSENT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a run rests whose news was taken without anything being confirmed.
const STUCK_PAUSE: Duration = Duration::from_secs(5);
/// The longest rest of a run that cannot be read.
const UNREADABLE_PAUSE_MAX: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, Default)]
pub struct Book {
    /// The server holds every record that we have up to this one.
    pub held: u64,
    /// The server knows how the run ended.
    pub ended: bool,
    /// So much of each stream, or nothing known yet: then what the held records name.
    pub stored: Option<[u64; 2]>,
    /// Bytes were brought whose records were not told yet.
    pub brought: bool,
    /// Its news is not offered before.
    pub rests_until: Option<Instant>,
    /// Since when the server has not known the run.
    absent_since: Option<Instant>,
    /// How often it could not be read, one after the other.
    unreadable: u32,
}

/// What follows from a refusal.
#[derive(Debug, PartialEq, Eq)]
pub enum AfterRefusal {
    /// Said for the first time.
    AbsentNow,
    StillAbsent,
    /// It makes no sense to say it again.
    Quarantined,
}

/// What was sent of a run.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// The last record of those that follow `held` without a gap.
    pub dense: u64,
    /// The last record of all; what was held before, if none was sent.
    pub last: u64,
    /// How it ended was sent, too.
    pub end: bool,
}

impl Book {
    /// Of a run that an agent before us may have told of: what the server says it holds.
    pub fn learned(heard: &RunHeard) -> Self {
        Self { held: heard.acknowledged, ended: heard.ended, ..Self::default() }
    }

    pub fn stored(&self, stream: Stream) -> u64 {
        self.stored.map_or(0, |stored| stored[stream as usize])
    }

    /// Something is in the way. It is tried again after a rest.
    pub fn rest(&mut self, now: Instant) {
        self.rests_until = Some(now + STUCK_PAUSE);
    }

    /// It cannot be read now, and rests longer each time. Says whether that is new.
    pub fn cannot_be_read(&mut self, now: Instant) -> bool {
        let pause = STUCK_PAUSE.saturating_mul(2u32.saturating_pow(self.unreadable)).min(UNREADABLE_PAUSE_MAX);
        self.rests_until = Some(now + pause);
        self.unreadable = self.unreadable.saturating_add(1);
        self.unreadable == 1
    }

    /// The server took something and says what it holds. Numbers that the log lost (it was damaged) will never come, so
    /// what was taken behind such a gap counts as held, too.
    pub fn heard(&mut self, sent: Sent, acknowledged: u64, ended: bool, now: Instant) {
        let before = self.held;
        self.held = if acknowledged >= sent.dense { acknowledged.max(sent.last) } else { acknowledged };
        self.ended |= ended;
        self.absent_since = None;
        self.unreadable = 0;
        self.rests_until = None;
        let stuck = (sent.last > before && self.held == before) || (sent.end && !self.ended);
        if stuck {
            self.rest(now);
        }
        if self.held < before {
            // An older copy of the ledger: it may lack bytes as well.
            self.stored = None;
        }
    }

    pub fn refused(&mut self, code: &str, now: Instant) -> AfterRefusal {
        if code != "RUN_NOT_FOUND" {
            return AfterRefusal::Quarantined;
        }
        self.rests_until = Some(now + ABSENT_PAUSE);
        match self.absent_since {
            None => {
                self.absent_since = Some(now);
                AfterRefusal::AbsentNow
            }
            Some(since) if now - since < ABSENT_MAX => AfterRefusal::StillAbsent,
            Some(_) => AfterRefusal::Quarantined,
        }
    }
}

/// All books, and whose turn it is.
#[derive(Default)]
pub(crate) struct Books {
    books: HashMap<RunId, Book>,
    line: VecDeque<RunId>,
    in_line: HashSet<RunId>,
    quarantined: HashSet<RunId>,
    /// Their output is under way.
    left_alone: HashSet<RunId>,
}

impl Books {
    /// What the server says it holds of a run that an agent before us may have told it about.
    pub fn learn(&mut self, run: RunId, heard: &RunHeard) {
        self.books.insert(run, Book::learned(heard));
    }

    pub(super) fn get(&mut self, run: RunId) -> &mut Book {
        self.books.entry(run).or_default()
    }

    /// Puts a run in line, unless it rests, its output is under way, or nobody wants to hear of it.
    pub(super) fn look_at(&mut self, run: RunId, now: Instant) {
        let rests = self.books.get(&run).and_then(|book| book.rests_until).is_some_and(|until| until > now);
        if !rests && !self.quarantined.contains(&run) && !self.left_alone.contains(&run) && self.in_line.insert(run) {
            self.line.push_back(run);
        }
    }

    /// Puts in line whose rest is over, and says when the next one is.
    pub(super) fn wake(&mut self, now: Instant) -> Option<Instant> {
        let due: Vec<RunId> = self
            .books
            .iter()
            .filter(|(_, book)| book.rests_until.is_some_and(|until| until <= now))
            .map(|(run, _)| *run)
            .collect();
        for run in due {
            self.get(run).rests_until = None;
            self.look_at(run, now);
        }
        self.books.values().filter_map(|book| book.rests_until).min()
    }

    pub(super) fn next(&mut self) -> Option<RunId> {
        let run = self.line.pop_front()?;
        self.in_line.remove(&run);
        Some(run)
    }

    /// Its output is under way; before that has come to an end there is nothing to look at.
    pub(super) fn leave_alone(&mut self, run: RunId) {
        self.left_alone.insert(run);
    }

    pub(super) fn take_up(&mut self, run: RunId) {
        self.left_alone.remove(&run);
    }

    pub(super) fn waiting(&self) -> usize {
        self.line.len()
    }

    pub(super) fn forget(&mut self, run: RunId) {
        self.books.remove(&run);
        self.quarantined.remove(&run);
    }

    pub(super) fn quarantine(&mut self, run: RunId) {
        self.books.remove(&run);
        self.quarantined.insert(run);
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::*;

    fn sent(dense: u64, last: u64) -> Sent {
        Sent { dense, last, end: false }
    }

    #[test]
    fn a_run_that_cannot_be_read_is_named_once_and_rests_longer_each_time() {
        let (now, mut book) = (Instant::now(), Book::default());
        let mut next = || (book.cannot_be_read(now), (book.rests_until.unwrap() - now).as_secs());
        let seen: Vec<_> = (0..8).map(|_| next()).collect();
        let rests = [5, 10, 20, 40, 80, 160, 300, 300];
        assert_eq!(seen, rests.map(|rest| (rest == 5, rest)));
        book.heard(sent(1, 1), 1, false, now);
        assert!(book.cannot_be_read(now), "that it cannot be read again is new");
    }

    #[test]
    fn what_is_held_follows_the_server_but_for_gaps_that_are_our_own() {
        let now = Instant::now();
        let mut book = Book::default();
        book.heard(sent(5, 5), 5, false, now);
        assert_eq!((book.held, book.rests_until), (5, None));
        // Less than was sent: the rest is sent again.
        book.heard(sent(9, 9), 7, false, now);
        assert_eq!(book.held, 7);
        // One less than was sent is not all of it.
        book.heard(sent(9, 9), 8, false, now);
        assert_eq!(book.held, 8);
        // 8 and 9 are followed by 12: 10 and 11 are lost for ever.
        book.heard(sent(9, 14), 9, false, now);
        assert_eq!(book.held, 14);
        book.stored = Some([100, 0]);
        // An older copy of the ledger: everything from there again.
        book.heard(sent(20, 20), 3, false, now);
        assert_eq!((book.held, book.stored, book.rests_until), (3, None, None));
        // A server that takes and takes and confirms nothing is given a rest.
        book.heard(sent(20, 20), 3, false, now);
        assert_eq!((book.held, book.rests_until), (3, Some(now + STUCK_PAUSE)));
        // An end that is not heard is not said again at once.
        book.heard(Sent { end: true, ..sent(9, 9) }, 9, false, now);
        assert_eq!((book.held, book.rests_until), (9, Some(now + STUCK_PAUSE)));
        book.heard(Sent { end: true, ..sent(9, 9) }, 9, true, now);
        assert_eq!((book.ended, book.rests_until), (true, None));
    }

    #[test]
    fn a_server_that_does_not_know_a_run_is_asked_for_a_day() {
        let now = Instant::now();
        let mut book = Book::default();
        assert_eq!(book.refused("RUN_NOT_FOUND", now), AfterRefusal::AbsentNow);
        assert_eq!(book.rests_until, Some(now + ABSENT_PAUSE));
        assert_eq!(book.refused("RUN_NOT_FOUND", now + ABSENT_PAUSE), AfterRefusal::StillAbsent);
        assert_eq!(book.refused("RUN_NOT_FOUND", now + ABSENT_MAX), AfterRefusal::Quarantined);
        assert_eq!(Book::default().refused("SEQ_CONFLICT", now), AfterRefusal::Quarantined);
        // One that is known again begins anew.
        book.heard(sent(0, 0), 0, false, now);
        assert_eq!(book.refused("RUN_NOT_FOUND", now + ABSENT_MAX), AfterRefusal::AbsentNow);
    }

    #[test]
    fn a_run_that_rests_is_not_in_line_before_its_time() {
        let now = Instant::now();
        let run = RunId::mint(Timestamp::from_millis(1), [1; 10]);
        let mut books = Books::default();
        books.get(run).refused("RUN_NOT_FOUND", now);
        books.look_at(run, now);
        assert_eq!((books.next(), books.wake(now)), (None, Some(now + ABSENT_PAUSE)));
        assert_eq!(books.wake(now + ABSENT_PAUSE), None);
        assert_eq!(books.next(), Some(run));
        books.quarantine(run);
        books.look_at(run, now);
        assert_eq!(books.next(), None);
    }
}
