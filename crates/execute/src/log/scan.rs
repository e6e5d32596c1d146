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

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use bowline_model::Timestamp;

    use super::*;
    use crate::log::{ChildrenBecame, EndedAs, HeldBy, Truncation};

    fn sealed(seq: u64, happening: Happening) -> Vec<u8> {
        let record = Record { seq, at: Timestamp::from_millis(1_767_398_400_000), happening };
        line::seal(&serde_json::to_string(&record).unwrap()).into_bytes()
    }

    fn output(stream: Stream, offset: u64, bytes: u64) -> Happening {
        Happening::Output { stream, offset, bytes, sha256: "ab".repeat(32) }
    }

    fn started() -> Happening {
        let limits = [("pids_max".to_owned(), HeldBy::Group)].into();
        Happening::Started { pid: 7, boot_id: "b".to_owned(), start_time: 9, unenforced: Vec::new(), limits }
    }

    fn ended(exit_code: i32) -> Ended {
        Ended {
            outcome: EndedAs::Failed,
            exit_code: Some(exit_code),
            signal: None,
            message: None,
            children: Some((ChildrenBecame::Ended, 1)),
            duration_ms: None,
            stdout_bytes: 0,
            stderr_bytes: 0,
            last_seq: 0,
        }
    }

    fn scanned(parts: &[Vec<u8>]) -> Summary {
        scan(Cursor::new(parts.concat())).unwrap()
    }

    #[test]
    fn a_whole_log_is_summed_up() {
        let truncated = Happening::OutputTruncated { stream: Stream::Stderr, offset: 5, why: Truncation::Limit };
        let parts = [
            sealed(1, started()),
            sealed(2, output(Stream::Stdout, 0, 10)),
            sealed(4, output(Stream::Stdout, 10, 3)),
            sealed(5, output(Stream::Stderr, 0, 5)),
            sealed(6, truncated),
            sealed(7, Happening::Ended(ended(3))),
        ];
        let summary = scanned(&parts);
        assert_eq!(summary.good_bytes, parts.concat().len() as u64);
        assert_eq!((summary.last_seq, summary.highest_seq, summary.bad_bytes), (7, 7, 0));
        assert!(!summary.is_damaged());
        assert_eq!(summary.started, Some((7, "b".to_owned(), 9)));
        assert_eq!((summary.ended.clone(), summary.ended_behind.clone()), (Some(ended(3)), None));
        assert_eq!(summary.kept(Stream::Stdout), Kept { bytes: 13, cut: false });
        assert_eq!(summary.kept(Stream::Stderr), Kept { bytes: 5, cut: true });
    }

    #[test]
    fn a_torn_tail_is_not_damage_and_a_record_behind_it_is() {
        let (first, second) = (sealed(1, started()), sealed(2, output(Stream::Stdout, 0, 10)));
        let torn = second[..second.len() - 3].to_vec();
        let summary = scanned(&[first.clone(), torn.clone()]);
        assert_eq!((summary.good_bytes, summary.bad_bytes), (first.len() as u64, torn.len() as u64));
        assert_eq!((summary.last_seq, summary.highest_seq, summary.is_damaged()), (1, 1, false));
        let garbage = b"no record\n".to_vec();
        let (third, end) = (sealed(3, output(Stream::Stdout, 10, 1)), sealed(9, Happening::Ended(ended(4))));
        let summary = scanned(&[first.clone(), garbage.clone(), third.clone(), garbage.clone(), end.clone()]);
        assert_eq!(summary.good_bytes, first.len() as u64);
        assert_eq!(summary.bad_bytes, (2 * garbage.len() + third.len() + end.len()) as u64);
        assert_eq!((summary.records_behind, summary.is_damaged()), (2, true));
        assert_eq!((summary.last_seq, summary.highest_seq), (1, 9), "no number is used twice");
        assert_eq!((summary.ended, summary.ended_behind), (None, Some(ended(4))));
        assert_eq!(summary.streams, [Kept::default(); 2], "what is behind the damage is not believed");
    }

    #[test]
    fn a_number_that_does_not_grow_is_damage() {
        for again in [2, 1] {
            let (first, second) = (sealed(2, started()), sealed(again, output(Stream::Stdout, 0, 10)));
            let summary = scanned(&[first.clone(), second.clone()]);
            assert_eq!((summary.good_bytes, summary.bad_bytes), (first.len() as u64, second.len() as u64), "{again}");
            assert_eq!((summary.records_behind, summary.last_seq, summary.highest_seq), (1, 2, 2), "{again}");
        }
    }

    #[test]
    fn an_empty_log_says_nothing() {
        assert_eq!(scanned(&[]), Summary::default());
    }

    #[test]
    fn a_line_without_an_end_is_read_in_pieces() {
        let endless = vec![b'x'; usize::try_from(LINE_MAX_BYTES).unwrap() + 10];
        let mut lines = Lines::new(Cursor::new(endless));
        let first = lines.next().unwrap().unwrap();
        assert_eq!((first.text, first.bytes), (None, LINE_MAX_BYTES));
        let rest = lines.next().unwrap().unwrap();
        assert_eq!((rest.text, rest.bytes), (None, 10));
        assert!(lines.next().unwrap().is_none());
    }

    #[test]
    fn the_end_of_a_run_is_the_last_whole_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.log");
        assert_eq!(last_ended(&path).unwrap(), None, "there is no log");
        std::fs::write(directory.path().join("file"), "").unwrap();
        assert!(last_ended(&directory.path().join("file/events.log")).is_err(), "it cannot be known");
        let (start, end) = (sealed(1, started()), sealed(2, Happening::Ended(ended(3))));
        let wrote = |parts: &[&[u8]]| {
            std::fs::write(&path, parts.concat()).unwrap();
            last_ended(&path).unwrap()
        };
        assert_eq!(wrote(&[]), None);
        assert_eq!(wrote(&[&start, &end]), Some(ended(3)));
        assert_eq!(wrote(&[&start]), None);
        assert_eq!(wrote(&[&end, &start]), None, "something came after it");
        assert_eq!(wrote(&[&start, &end[..end.len() - 1]]), None, "its line does not end");
        assert_eq!(wrote(&[&end, b"x"]), None);
        // Only the end of a long log is read, and it begins in the middle of a line.
        let long = sealed(1, output(Stream::Stdout, 0, 10)).repeat(5_000);
        assert!(long.len() as u64 > LINE_MAX_BYTES);
        assert_eq!(wrote(&[&long, &end]), Some(ended(3)));
    }
}
