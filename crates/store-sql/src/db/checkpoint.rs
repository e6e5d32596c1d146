//! Moves what is committed from SQLite's log into the ledger's file, beside the writer instead of inside its commits.
//!
//! The log can only begin anew when all of it has been moved and nobody adds to it meanwhile. Under load that never happens
//! by itself, so at a certain length the writer moves the rest, which is short by then.

use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, Thread};

use bowline_store::{StoreError, StoreResult};
use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::sqlite::error;

/// Pages the log grows by before some are moved. Fewer would move the same page again and again, and each move makes the
/// disk wait for it.
const BITE: i32 = 12_000;
/// Pages at which the writer itself moves what is left.
const LOG_MAX: i32 = 24_000;
/// Bytes that the log's file keeps when it begins anew: more than it needs. To write over what is there, the disk waits
/// once; to make a file longer, the file system's own journal has to be written, too, which takes twice as long.
const FILE_KEEPS: u32 = 128 << 20;

/// What the writer and the mover know of the log.
#[derive(Debug, Default)]
struct Log {
    /// Pages of it that are in the ledger's file.
    moved: AtomicI32,
}

/// What is to be done about the log after a commit.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// The mover moves some.
    Part,
    /// The writer moves the rest.
    Rest,
}

impl Log {
    /// The log has so many pages now.
    fn committed(&self, pages: i32) -> Due {
        if pages < self.moved.load(Ordering::Relaxed) {
            // It has begun anew.
            self.moved.store(0, Ordering::Relaxed);
        }
        if pages >= LOG_MAX {
            Due::Rest
        } else if pages - self.moved.load(Ordering::Relaxed) >= BITE {
            Due::Part
        } else {
            Due::Nothing
        }
    }
}

/// The writer's end: tells the mover when to move. The mover leaves when this is gone.
struct Bell {
    log: Option<Arc<Log>>,
    mover: Thread,
}

impl Bell {
    fn committed(&self, wal: &mut Wal, pages: i32) {
        let Some(log) = &self.log else { return };
        match log.committed(pages) {
            Due::Nothing => {}
            Due::Part => self.mover.unpark(),
            Due::Rest => {
                // An error would be told as one of the commit, which is done.
                if let Err(error) = wal.checkpoint() {
                    tracing::debug!(%error, "cannot move the log into the ledger now");
                }
            }
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.log = None;
        self.mover.unpark();
    }
}

/// Starts the mover for this writer.
pub fn start(path: &Path, writer: &mut Connection) -> StoreResult<thread::JoinHandle<()>> {
    writer.pragma_update(None, "journal_size_limit", FILE_KEEPS).map_err(error)?;
    let own = Connection::open(path).map_err(error)?;
    own.execute_batch("pragma cache_size = -1024; pragma wal_autocheckpoint = 0;").map_err(error)?;
    let log = Arc::new(Log::default());
    let known = Arc::downgrade(&log);
    let mover = thread::Builder::new()
        .name("ledger-move".to_owned())
        .spawn(move || move_forever(&own, &known))
        .map_err(|e| StoreError::Unavailable(format!("a thread cannot be started: {e}")))?;
    let bell = Bell { log: Some(log), mover: mover.thread().clone() };
    let hook = move |wal: &mut Wal, pages| {
        bell.committed(wal, pages);
        Ok(())
    };
    writer.wal_hook(Some(hook)).map_err(error)?;
    Ok(mover)
}

fn move_forever(own: &Connection, known: &Weak<Log>) {
    loop {
        thread::park();
        let Some(log) = known.upgrade() else { return };
        // Passive: neither the writer nor readers wait for it.
        match own.query_row("pragma wal_checkpoint(passive)", [], |row| row.get::<_, i32>(2)) {
            Ok(moved) => log.moved.store(moved.max(0), Ordering::Relaxed),
            Err(error) => tracing::warn!(%error, "cannot move the log into the ledger, retrying"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log, so many pages of which are in the file.
    fn log(moved: i32) -> Log {
        Log { moved: AtomicI32::new(moved) }
    }

    #[test]
    fn some_is_moved_when_the_log_has_grown_by_enough() {
        assert_eq!(log(0).committed(BITE - 1), Due::Nothing);
        assert_eq!(log(0).committed(BITE), Due::Part);
        assert_eq!(log(5_000).committed(BITE + 4_999), Due::Nothing);
        assert_eq!(log(5_000).committed(BITE + 5_000), Due::Part);
        assert_eq!(log(BITE).committed(BITE), Due::Nothing, "all of it is in the file");
    }

    #[test]
    fn the_writer_moves_the_rest_of_a_long_log() {
        assert_eq!(log(LOG_MAX - 10).committed(LOG_MAX - 1), Due::Nothing);
        assert_eq!(log(LOG_MAX - 10).committed(LOG_MAX), Due::Rest);
        assert_eq!(log(0).committed(LOG_MAX + 1), Due::Rest);
    }

    #[test]
    fn a_log_that_begins_anew_is_counted_anew() {
        let log = log(20_000);
        assert_eq!(log.committed(10), Due::Nothing);
        assert_eq!(log.committed(BITE), Due::Part, "nothing of the new one is in the file yet");
    }
}
