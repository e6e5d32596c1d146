//! Output under way: so many runs side by side, the others wait their turn.
//!
//! What waits is a few numbers, what is under way is one part of it, so neither a run with much output nor a slow blob store
//! makes this grow. A run has one place; when it has brought its share, whoever waits comes first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bowline_execute::Stream;
use bowline_model::RunId;
use tokio::task::{Id, JoinError, JoinSet};
use tracing::error;

use super::upload::{Brought, PART_MAX_BYTES, bring, part};
use crate::error::chain;
use crate::fleet::shared::Fleet;

/// How many runs bring output side by side.
const UPLOADS_MAX: usize = 8;

/// What became of a run's output.
pub(super) enum Output {
    /// So much of each stream is held by the server.
    Stored([u64; 2]),
    Refused(String),
    /// The disk does not give it, and why.
    Unreadable(String),
    /// Not now.
    Later,
}

/// What a run has to bring, and how much of it the server had before.
struct Load {
    run: RunId,
    stored: [u64; 2],
    ranges: Vec<(Stream, u64, u64)>,
}

pub(super) struct Uploads {
    fleet: Arc<Fleet>,
    under_way: JoinSet<Output>,
    /// Whose task is whose.
    runs: HashMap<Id, RunId>,
    waiting: VecDeque<Load>,
}

impl Uploads {
    pub fn new(fleet: Arc<Fleet>) -> Self {
        Self { fleet, under_way: JoinSet::new(), runs: HashMap::new(), waiting: VecDeque::new() }
    }

    /// Has ranges of a run brought as soon as there is a place. The run must not have any under way.
    pub fn bring(&mut self, run: RunId, stored: [u64; 2], ranges: Vec<(Stream, u64, u64)>) {
        self.waiting.push_back(Load { run, stored, ranges });
        self.fill();
    }

    pub fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// The next one that comes to its end. Waits for ever if there is none.
    pub async fn next(&mut self) -> (RunId, Output) {
        loop {
            match self.under_way.join_next_with_id().await {
                Some(ended) => {
                    if let Some(ended) = self.ended(ended) {
                        return ended;
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    /// One that has come to its end already.
    pub fn finished(&mut self) -> Option<(RunId, Output)> {
        while let Some(ended) = self.under_way.try_join_next_with_id() {
            if let Some(ended) = self.ended(ended) {
                return Some(ended);
            }
        }
        None
    }

    fn ended(&mut self, ended: Result<(Id, Output), JoinError>) -> Option<(RunId, Output)> {
        let (id, output) = match ended {
            Ok(ended) => ended,
            Err(broken) => {
                error!("the agent broke while it brought output: {broken}");
                (broken.id(), Output::Later)
            }
        };
        let run = self.runs.remove(&id)?;
        self.fill();
        Some((run, output))
    }

    fn fill(&mut self) {
        while self.under_way.len() < UPLOADS_MAX
            && let Some(Load { run, stored, ranges }) = self.waiting.pop_front()
        {
            let fleet = Arc::clone(&self.fleet);
            let task = self.under_way.spawn(async move { bring_ranges(&fleet, run, stored, ranges).await });
            self.runs.insert(task.id(), run);
        }
    }
}

/// How often the server may answer that it has nothing more than before.
const STALLS_MAX: u32 = 3;

/// Brings ranges of one run, one part after the other.
async fn bring_ranges(fleet: &Arc<Fleet>, run: RunId, mut stored: [u64; 2], ranges: Vec<(Stream, u64, u64)>) -> Output {
    for (stream, mut from, to) in ranges {
        let mut stalls = 0;
        while from < to {
            let runs = Arc::clone(&fleet.runs);
            let length = usize::try_from((to - from).min(PART_MAX_BYTES)).unwrap_or(usize::MAX);
            let prepare = move || {
                let raw = runs.read_output(run, stream, from, length)?;
                Ok::<_, bowline_execute::ReadError>(part(run, stream.name(), from, raw))
            };
            let part = match tokio::task::spawn_blocking(prepare).await {
                Ok(Ok(part)) if part.raw_bytes > 0 => part,
                Ok(Ok(_)) => {
                    // It was recorded, and the disk lost it. The record is true all the same.
                    error!(run.id = %run, "{stream} of run {run} lacks the bytes from {from} to {to}");
                    stored[stream as usize] = to;
                    break;
                }
                Ok(Err(error)) => {
                    return Output::Unreadable(format!("{stream}: {}", chain(&error)));
                }
                Err(broken) => {
                    error!(run.id = %run, "the agent broke at the output of run {run}: {broken}");
                    return Output::Later;
                }
            };
            match bring(&fleet.link, &part).await {
                Brought::Stored(held) => {
                    stalls = if held > from { 0 } else { stalls + 1 };
                    if stalls > STALLS_MAX {
                        return Output::Refused("OUTPUT_STALLED".to_owned());
                    }
                    // Less than we thought: an older copy of the ledger. It gets what it lacks.
                    from = held;
                    stored[stream as usize] = held;
                }
                Brought::Refused(refusal) if refusal.code.is_empty() => return Output::Refused(refusal.to_string()),
                Brought::Refused(refusal) => return Output::Refused(refusal.code),
                Brought::Leaving => return Output::Later,
            }
        }
    }
    Output::Stored(stored)
}
