//! What can be told about a run now, read from its directory.

use bowline_execute::{Ended, Happening, ReadError, Record, Runs, Standing, Stream};
use bowline_model::RunId;
use bowline_protocol::WorkerEvent;

use super::book::{Book, Sent};
use crate::fleet::outbox::event;

/// So much output of one run is brought before its records go; the rest has the next turn.
const OUTPUT_MAX_BYTES: u64 = 16 << 20;
/// How many records are looked at in one go when only what they name is wanted.
const LOOK: usize = 10_000;

/// News of one run.
pub(super) struct Draft {
    pub run: RunId,
    pub fence: u32,
    pub events: Vec<WorkerEvent>,
    pub sent: Sent,
    /// How much of each stream must be stored before `events` may be told, and how much is.
    pub wanted: [u64; 2],
    pub stored: [u64; 2],
    /// How it ended, if `events` reach to its end.
    pub ended: Option<Ended>,
    /// There is more than this.
    pub more: bool,
}

pub(super) enum Look {
    News(Draft),
    /// The keeper came to nothing, and why.
    NeverStarted {
        fence: u32,
        why: Option<String>,
    },
    /// There is no such run any more.
    Gone,
    Unreadable(ReadError),
}

/// Reads up to `max` records of a run. Waits for the disk.
pub(super) fn look(runs: &Runs, run: RunId, book: Book, max: usize) -> Look {
    let Some(found) = runs.find(run) else { return Look::Gone };
    let fence = found.manifest.fence;
    if let Standing::NeverStarted { why } = found.standing {
        return Look::NeverStarted { fence, why };
    }
    match draft(runs, run, fence, book, max, &found.standing) {
        Ok(draft) => Look::News(draft),
        Err(ReadError::Unknown(_)) => Look::Gone,
        Err(error) => Look::Unreadable(error),
    }
}

fn draft(runs: &Runs, run: RunId, fence: u32, book: Book, max: usize, standing: &Standing) -> Result<Draft, ReadError> {
    let stored = match book.stored {
        Some(stored) => stored,
        None => named_up_to(runs, run, book.held)?,
    };
    let records = runs.events_after(run, book.held, max)?;
    let mut draft = Draft {
        run,
        fence,
        events: Vec::with_capacity(records.len()),
        sent: Sent { dense: book.held, last: book.held, end: false },
        wanted: stored,
        stored,
        ended: None,
        more: records.len() == max,
    };
    if let (Standing::Ended(ended), true) = (standing, records.is_empty()) {
        draft.ended = Some(ended.clone());
    }
    for Record { seq, at, happening } in records {
        if let Happening::Output { stream, offset, bytes, .. } = &happening {
            let wanted = &mut draft.wanted[*stream as usize];
            let to_bring = (offset + bytes).saturating_sub(stored[*stream as usize]);
            // Whoever has just brought something tells of it before it brings more, or it would never come to that.
            let enough = if book.brought { 0 } else { OUTPUT_MAX_BYTES };
            if to_bring > enough && !draft.events.is_empty() {
                draft.more = true;
                break;
            }
            *wanted = (*wanted).max(offset + bytes);
        }
        if seq == draft.sent.dense + 1 {
            draft.sent.dense = seq;
        }
        draft.sent.last = seq;
        draft.events.push(event(seq, at, &happening));
        if let Happening::Ended(ended) = happening {
            draft.ended = Some(ended);
        }
    }
    draft.sent.end = draft.ended.is_some();
    Ok(draft)
}

/// What the records up to `held` name: whoever holds a record holds its bytes.
fn named_up_to(runs: &Runs, run: RunId, held: u64) -> Result<[u64; 2], ReadError> {
    let mut named = [0; 2];
    let mut after = 0;
    while after < held {
        let records = runs.events_after(run, after, LOOK)?;
        let Some(last) = records.last().map(|record| record.seq) else { break };
        for record in records.iter().filter(|record| record.seq <= held) {
            if let Happening::Output { stream, offset, bytes, .. } = &record.happening {
                named[*stream as usize] = offset + bytes;
            }
        }
        after = last;
    }
    Ok(named)
}

impl Draft {
    /// The ranges that have to be brought first.
    pub fn uploads(&self) -> impl Iterator<Item = (Stream, u64, u64)> {
        Stream::BOTH.into_iter().filter_map(|stream| {
            let (from, to) = (self.stored[stream as usize], self.wanted[stream as usize]);
            (from < to).then_some((stream, from, to))
        })
    }
}
