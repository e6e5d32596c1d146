//! Reading a log that may have been cut or damaged.

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::Path;

use super::happening::{Ended, Happening, Record, Stream};
use super::line;

/// No record is longer. It keeps a file of garbage from being read into memory as one line.
const LINE_MAX_BYTES: u64 = 256 * 1024;

/// The record in a line without its line break, or nothing if the line is not whole.
pub(crate) fn parse(line: &[u8]) -> Option<Record> {
    serde_json::from_slice(&line::open(line)?).ok()
}

/// Lines of a file, one buffer for all of them.
pub(crate) struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: Vec::new() }
    }

    /// The next line, or nothing at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let bytes = (&mut self.source).take(LINE_MAX_BYTES).read_until(b'\n', &mut self.buffer)? as u64;
        Ok((bytes > 0).then(|| Line { text: self.buffer.strip_suffix(b"\n"), bytes }))
    }
}

pub(crate) struct Line<'a> {
    /// Without its break; nothing if it does not end.
    pub text: Option<&'a [u8]>,
    /// Its length with its break.
    pub bytes: u64,
}

/// What a log says, without its output records.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Summary {
    /// Where the good part ends.
    pub good_bytes: u64,
    /// The last number in the good part.
    pub last_seq: u64,
    /// The highest number in any whole record, also behind damage.
    pub highest_seq: u64,
    /// Bytes behind the good part.
    pub bad_bytes: u64,
    /// Whole records behind the good part: this is damage, not a torn tail.
    pub records_behind: u64,
    pub started: Option<(u32, String, u64)>,
    pub ended: Option<Ended>,
    /// An end that was written behind the damage. It is as true as any.
    pub ended_behind: Option<Ended>,
    streams: [Kept; 2],
}

/// What the log says about a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Kept {
    /// How much was recorded as being on disk.
    pub bytes: u64,
    /// The rest was thrown away.
    pub cut: bool,
}

impl Summary {
    pub(crate) fn kept(&self, stream: Stream) -> Kept {
        self.streams[stream as usize]
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.records_behind > 0
    }

    fn add(&mut self, record: Record) {
        self.last_seq = record.seq;
        match record.happening {
            Happening::Started { pid, boot_id, start_time, .. } => self.started = Some((pid, boot_id, start_time)),
            Happening::Output { stream, offset, bytes, .. } => self.streams[stream as usize].bytes = offset + bytes,
            Happening::OutputTruncated { stream, .. } => self.streams[stream as usize].cut = true,
            Happening::Ended(ended) => self.ended = Some(ended),
            Happening::SpoolDamaged { .. } | Happening::Children(_) | Happening::Other(_) => {}
        }
    }
}

pub(crate) fn scan(source: impl BufRead) -> io::Result<Summary> {
    let mut lines = Lines::new(source);
    let mut summary = Summary::default();
    while let Some(Line { text, bytes: length }) = lines.next()? {
        let record = text.and_then(parse);
        if let Some(record) = &record {
            summary.highest_seq = summary.highest_seq.max(record.seq);
        }
        match record {
            Some(record) if summary.bad_bytes == 0 && record.seq > summary.last_seq => {
                summary.good_bytes += length;
                summary.add(record);
            }
            Some(record) => {
                summary.bad_bytes += length;
                summary.records_behind += 1;
                if let Happening::Ended(ended) = record.happening {
                    summary.ended_behind = Some(ended);
                }
            }
            None => summary.bad_bytes += length,
        }
    }
    Ok(summary)
}

/// The end of the run, if it is the last thing its log says. Reads the end of the file only.
pub(crate) fn last_ended(path: &Path) -> io::Result<Option<Ended>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LINE_MAX_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LINE_MAX_BYTES).read_to_end(&mut bytes)?;
    let last = bytes.strip_suffix(b"\n").and_then(|whole| whole.rsplit(|byte| *byte == b'\n').next());
    match last.and_then(parse).map(|record| record.happening) {
        Some(Happening::Ended(ended)) => Ok(Some(ended)),
        _ => Ok(None),
    }
}
