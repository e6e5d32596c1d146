//! Reading what a run has written, while it writes and afterwards.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use bowline_model::RunId;

use super::standing::Standing;
use super::state::Runs;
use crate::log::{Line, Lines, Record, Stream, parse};

/// The most that is read at once.
const READ_MAX_BYTES: usize = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("there is no run {0} here")]
    Unknown(RunId),
    #[error("the event log of run {run} is damaged behind record {after}")]
    Damaged { run: RunId, after: u64 },
    #[error("the run directory cannot be read")]
    Disk(#[from] io::Error),
}

impl Runs {
    /// Up to `max` records with numbers above `seq`, in order. Empty if there are none yet.
    ///
    /// Numbers grow but need not be dense: see [`Record::seq`]. A log that turns out to be damaged is mended first if its
    /// keeper is gone; while the keeper lives, this is an error.
    pub fn events_after(&self, run: RunId, seq: u64, max: usize) -> Result<Vec<Record>, ReadError> {
        match self.read_events(run, seq, max) {
            Err(ReadError::Damaged { .. }) if matches!(self.shared.settle(run, seq), Ok(Standing::Ended(_))) => {
                self.read_events(run, seq, max)
            }
            answer => answer,
        }
    }

    fn read_events(&self, run: RunId, seq: u64, max: usize) -> Result<Vec<Record>, ReadError> {
        let cursor = self.shared.lock().runs.get(&run).ok_or(ReadError::Unknown(run))?.cursor;
        let mut file = match File::open(self.shared.place(run).events()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let (mut last, mut offset) = if cursor.0 <= seq { cursor } else { (0, 0) };
        file.seek(SeekFrom::Start(offset))?;
        let mut lines = Lines::new(BufReader::with_capacity(64 << 10, file));
        let mut records = Vec::new();
        while records.len() < max {
            // A line that does not end yet is being written.
            let Some(Line { text: Some(line), bytes: length }) = lines.next()? else { break };
            match parse(line) {
                Some(record) if record.seq > last => {
                    last = record.seq;
                    offset += length;
                    if record.seq > seq {
                        records.push(record);
                    }
                }
                _ if records.is_empty() => return Err(ReadError::Damaged { run, after: last }),
                _ => break,
            }
        }
        if let Some(entry) = self.shared.lock().runs.get_mut(&run) {
            entry.cursor = (last, offset);
            entry.shown_seq = entry.shown_seq.max(last);
        }
        Ok(records)
    }

    /// Up to `len` bytes of a stream's file from `offset`. What is not told by an `output` record yet is not promised.
    pub fn read_output(&self, run: RunId, stream: Stream, offset: u64, len: usize) -> Result<Vec<u8>, ReadError> {
        if self.find(run).is_none() {
            return Err(ReadError::Unknown(run));
        }
        let file = match File::open(self.shared.place(run).stream(stream)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut bytes = vec![0; len.min(READ_MAX_BYTES)];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}
