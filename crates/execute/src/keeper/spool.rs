//! The file of one output stream, and which ranges of it are new.
//!
//! Bytes are written at once and hashed on the way; a range is told only after a sync that began when it was complete.
//! What does not fit is thrown away, once and for all, and that is told too.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard};

use sha2::{Digest, Sha256};

use crate::disk;
use crate::log::{Happening, Stream, Truncation};
use crate::place::Place;

/// The longest range. Whoever ships one holds it in memory.
const RANGE_MAX_BYTES: u64 = 1 << 20;

pub(crate) struct Spool {
    stream: Stream,
    file: File,
    max: u64,
    state: Mutex<State>,
}

struct State {
    /// How much of the stream is in the file.
    end: u64,
    ready: Vec<Range>,
    open: Sha256,
    open_bytes: u64,
    cut: Option<Cut>,
}

struct Cut {
    why: Truncation,
    told: bool,
}

pub(crate) struct Range {
    pub offset: u64,
    pub bytes: u64,
    sha256: String,
}

impl Spool {
    pub(crate) fn create(place: &Place, stream: Stream, max: u64) -> io::Result<Self> {
        // Nothing was started yet, so whatever is there was left by a keeper that came to nothing.
        let file = disk::private().write(true).create(true).truncate(true).open(place.stream(stream))?;
        let state = State { end: 0, ready: Vec::new(), open: Sha256::new(), open_bytes: 0, cut: None };
        Ok(Self { stream, file, max, state: Mutex::new(state) })
    }

    /// How much was kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().end
    }

    /// Keeps what fits. Only one thread writes to a spool.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let (end, cut) = {
            let state = self.lock();
            (state.end, state.cut.is_some())
        };
        if cut {
            return;
        }
        let room = usize::try_from(self.max.saturating_sub(end)).unwrap_or(usize::MAX).min(bytes.len());
        let (written, error) = write_all(&self.file, &bytes[..room]);
        let mut state = self.lock();
        if state.cut.is_some() {
            return;
        }
        state.add(&bytes[..written]);
        let why = match error {
            Some(error) if disk::is_full(&error) => Some(Truncation::NoSpace),
            Some(_) => Some(Truncation::DiskError),
            None => (room < bytes.len()).then_some(Truncation::Limit),
        };
        state.cut = why.map(|why| Cut { why, told: false });
    }

    /// Throws away everything from now on.
    pub(crate) fn cut(&self, why: Truncation) {
        self.lock().cut.get_or_insert(Cut { why, told: false });
    }

    /// What is new since the last time, on disk when this returns, and what is to be told about it.
    pub(crate) fn take(&self) -> Vec<Happening> {
        let mut ranges = {
            let mut state = self.lock();
            state.close_range();
            std::mem::take(&mut state.ready)
        };
        if let Some(first) = ranges.first().map(|range| range.offset)
            && (disk::SYNC)(&self.file).is_err()
        {
            // Nobody knows what is on disk now, and asking again would be answered with a lie.
            ranges.clear();
            let mut state = self.lock();
            state.end = first;
            state.ready.clear();
            state.open_bytes = 0;
            state.cut = Some(Cut { why: Truncation::DiskError, told: false });
        }
        let stream = self.stream;
        let tell =
            |range: Range| Happening::Output { stream, offset: range.offset, bytes: range.bytes, sha256: range.sha256 };
        let mut news: Vec<_> = ranges.into_iter().map(tell).collect();
        let mut state = self.lock();
        let offset = state.end;
        // Bytes that came meanwhile are told first, the next time.
        let all_told = state.ready.is_empty() && state.open_bytes == 0;
        if let Some(cut) = state.cut.as_mut().filter(|cut| all_told && !cut.told) {
            cut.told = true;
            news.push(Happening::OutputTruncated { stream, offset, why: cut.why });
        }
        news
    }

    /// Whether there is still something to tell.
    pub(crate) fn has_news(&self) -> bool {
        let state = self.lock();
        !state.ready.is_empty() || state.open_bytes > 0 || state.cut.as_ref().is_some_and(|cut| !cut.told)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = usize::try_from(RANGE_MAX_BYTES - self.open_bytes).unwrap_or(usize::MAX);
            let (part, rest) = bytes.split_at(room.min(bytes.len()));
            self.open.update(part);
            self.open_bytes += part.len() as u64;
            self.end += part.len() as u64;
            bytes = rest;
            if self.open_bytes == RANGE_MAX_BYTES {
                self.close_range();
            }
        }
    }

    fn close_range(&mut self) {
        if self.open_bytes > 0 {
            let sha256 = hex(&self.open.finalize_reset());
            self.ready.push(Range { offset: self.end - self.open_bytes, bytes: self.open_bytes, sha256 });
            self.open_bytes = 0;
        }
    }
}

/// As much as the disk takes, and why it was not more.
fn write_all(mut file: &File, bytes: &[u8]) -> (usize, Option<io::Error>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
}

/// Small letters, as `sha256sum` prints them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_printed_as_sha256sum_prints_them() {
        assert_eq!(hex(&[0x00, 0x0f, 0xa5, 0xff]), "000fa5ff");
    }

    #[test]
    fn output_is_kept_up_to_its_limit_and_not_beyond() {
        let room = tempfile::tempdir().unwrap();
        let spool = Spool::create(&Place::new(room.path()), Stream::Stdout, 4).unwrap();
        assert!(!spool.has_news());
        spool.write(b"kept");
        assert!(spool.has_news());
        let news = spool.take();
        assert!(matches!(news[..], [Happening::Output { offset: 0, bytes: 4, .. }]), "{news:?}");
        assert!(!spool.has_news());
        spool.write(b"x");
        assert!(spool.has_news());
        let missing = Happening::OutputTruncated { stream: Stream::Stdout, offset: 4, why: Truncation::Limit };
        assert_eq!(spool.take(), [missing]);
        assert_eq!((spool.bytes(), spool.has_news()), (4, false));
    }

    #[test]
    fn what_comes_after_a_cut_is_thrown_away_and_the_first_reason_is_told() {
        let room = tempfile::tempdir().unwrap();
        let spool = Spool::create(&Place::new(room.path()), Stream::Stderr, 100).unwrap();
        spool.write(b"kept");
        spool.cut(Truncation::NoSpace);
        spool.cut(Truncation::DiskError);
        spool.write(b"lost");
        let news = spool.take();
        let missing = Happening::OutputTruncated { stream: Stream::Stderr, offset: 4, why: Truncation::NoSpace };
        assert!(matches!(news[0], Happening::Output { offset: 0, bytes: 4, .. }), "{news:?}");
        assert_eq!(news[1..], [missing]);
        assert_eq!((spool.bytes(), spool.take()), (4, Vec::new()));
        assert_eq!(std::fs::read(room.path().join("stderr")).unwrap(), b"kept");
    }

    #[test]
    fn output_that_a_full_disk_does_not_take_is_told_to_be_missing() {
        let room = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", room.path().join("stdout")).unwrap();
        let spool = Spool::create(&Place::new(room.path()), Stream::Stdout, 100).unwrap();
        spool.write(b"lost");
        let missing = Happening::OutputTruncated { stream: Stream::Stdout, offset: 0, why: Truncation::NoSpace };
        assert_eq!(spool.take(), [missing]);
        assert_eq!((spool.bytes(), spool.has_news()), (0, false));
    }

    #[test]
    fn ranges_are_dense_bounded_and_hashed() {
        let room = tempfile::tempdir().unwrap();
        let spool = Spool::create(&Place::new(room.path()), Stream::Stdout, 3 << 20).unwrap();
        let block = vec![7u8; 700_000];
        spool.write(&block);
        spool.write(&block);
        let news = spool.take();
        let [Happening::Output { offset: 0, bytes: 1_048_576, sha256, .. }, second] = news.as_slice() else {
            panic!("{news:?}")
        };
        assert_eq!(*sha256, hex(&Sha256::digest(vec![7u8; 1 << 20])));
        assert!(matches!(second, Happening::Output { offset: 1_048_576, bytes: 351_424, .. }), "{second:?}");
        assert!(!spool.has_news());
        (0..4).for_each(|_| spool.write(&block));
        let news = spool.take();
        let last = Happening::OutputTruncated { stream: Stream::Stdout, offset: 3 << 20, why: Truncation::Limit };
        assert_eq!(news.last(), Some(&last));
        spool.write(&block);
        assert_eq!(spool.take(), [], "it is told once");
        assert_eq!(std::fs::metadata(room.path().join("stdout")).unwrap().len(), 3 << 20);
    }
}
