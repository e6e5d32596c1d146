//! The writer of the log. Lines go to standard error at once, but for those of the access log: a server that answers
//! thousands of requests a second would spend a system call on each, so they are gathered for a moment.
//!
//! The order stays: any other line first writes what was gathered. A process that is killed loses at most the access
//! lines of its last [`GATHER`].

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

/// How long access lines wait for others.
const GATHER: Duration = Duration::from_millis(50);
/// As many bytes are written without waiting any longer.
const GATHER_MAX: usize = 64 << 10;

#[derive(Debug, Default)]
struct Gathered {
    lines: Mutex<Vec<u8>>,
    some: Condvar,
}

impl Gathered {
    fn add(&self, line: &[u8]) -> io::Result<()> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            self.some.notify_one();
        }
        lines.extend_from_slice(line);
        if lines.len() >= GATHER_MAX { flush(&mut lines) } else { Ok(()) }
    }

    /// Writes a line after everything that was gathered.
    fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            return io::stderr().write_all(line);
        }
        lines.extend_from_slice(line);
        flush(&mut lines)
    }

    fn flush_forever(&self) {
        loop {
            let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.some.wait_while(lines, |lines| lines.is_empty()));
            std::thread::sleep(GATHER);
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            // A line that cannot be written is lost, as every other.
            let _ = flush(&mut lines);
        }
    }
}

fn flush(lines: &mut Vec<u8>) -> io::Result<()> {
    let written = io::stderr().write_all(lines);
    lines.clear();
    written
}

/// Makes a writer for each line.
#[derive(Debug, Clone)]
pub struct LogWriter(Arc<Gathered>);

impl LogWriter {
    pub fn start() -> anyhow::Result<Self> {
        let gathered = Arc::new(Gathered::default());
        let flushed = Arc::clone(&gathered);
        let thread = std::thread::Builder::new().name("log".to_owned());
        thread.spawn(move || flushed.flush_forever()).context("cannot start the thread that writes the log")?;
        Ok(Self(gathered))
    }
}

/// Takes one line.
#[derive(Debug)]
pub struct Line {
    to: Arc<Gathered>,
    gather: bool,
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = if self.gather { self.to.add(line) } else { self.to.write(line) };
        written.map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { to: Arc::clone(&self.0), gather: false }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line {
        Line { to: Arc::clone(&self.0), gather: meta.target() == bowline_api::ACCESS_LOG_TARGET }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_wait_are_bounded() {
        let gathered = Gathered::default();
        for _ in 0..(3 * GATHER_MAX / 1_000) {
            // Nothing of it is shown: it is spaces.
            gathered.add(&[b' '; 1_000]).expect("standard error takes spaces");
            let waiting = gathered.lines.lock().expect("nothing panicked").len();
            assert!(waiting < GATHER_MAX, "{waiting} bytes wait");
        }
    }

    #[test]
    fn another_line_does_not_overtake_them() {
        let gathered = Gathered::default();
        gathered.add(b" ").expect("standard error takes a space");
        gathered.write(b" ").expect("standard error takes a space");
        assert!(gathered.lines.lock().expect("nothing panicked").is_empty(), "it wrote what waited before it");
    }
}
