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

/// The writer's end: tells the mover when to move. The mover leaves when this is gone.
struct Bell {
    log: Option<Arc<Log>>,
    mover: Thread,
}

impl Bell {
    fn committed(&self, wal: &mut Wal, pages: i32) {
        let Some(log) = &self.log else { return };
        if pages < log.moved.load(Ordering::Relaxed) {
            // It has begun anew.
            log.moved.store(0, Ordering::Relaxed);
        }
        if pages >= LOG_MAX {
            // An error would be told as one of the commit, which is done.
            if let Err(error) = wal.checkpoint() {
                tracing::debug!(%error, "cannot move the log into the ledger now");
            }
        } else if pages - log.moved.load(Ordering::Relaxed) >= BITE {
            self.mover.unpark();
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
