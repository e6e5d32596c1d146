//! Between those who write output and the one who brings it to disk: when to sync, and when to wait for it.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Syncs are at least this far apart, unless there is much to sync.
const REST: Duration = Duration::from_millis(100);
const MUCH_BYTES: u64 = 8 << 20;
/// So much may wait for the disk. Then the command waits too.
const UNSYNCED_MAX_BYTES: u64 = 64 << 20;

#[derive(Default)]
pub(super) struct Bell {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    news: bool,
    bytes: u64,
    closing: bool,
}

impl Bell {
    /// There are so many new bytes. Waits while too many are on their way to the disk.
    pub(super) fn ring(&self, bytes: u64) {
        let mut state = self.lock();
        let before = state.bytes;
        state.bytes += bytes;
        if !state.news || (before < MUCH_BYTES && state.bytes >= MUCH_BYTES) {
            state.news = true;
            self.changed.notify_all();
        }
        while state.bytes > UNSYNCED_MAX_BYTES && !state.closing {
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// There will be no more news.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_all();
    }

    /// Waits until something should be synced, or `again` has come. False when there will be no more news.
    pub(super) fn wait(&self, synced: Instant, again: Option<Instant>) -> bool {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let due = if state.news { Some(synced + REST) } else { again };
            if state.closing || state.bytes >= MUCH_BYTES || due.is_some_and(|due| due <= now) {
                break;
            }
            let pause = due.map_or(Duration::from_secs(3_600), |due| due - now);
            state = self.changed.wait_timeout(state, pause).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        state.news = false;
        state.bytes = 0;
        self.changed.notify_all();
        !state.closing
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn news_are_waited_for_until_there_will_be_no_more() {
        let bell = Bell::default();
        let long_ago = Instant::now() - REST;
        bell.ring(1);
        assert!(bell.wait(long_ago, None));
        assert!(bell.wait(long_ago, Some(Instant::now())), "it is time to look again, without news");
        bell.close();
        assert!(!bell.wait(Instant::now(), None));
    }

    #[test]
    fn much_is_synced_at_once_and_whoever_is_far_ahead_of_the_disk_waits_for_it() {
        let bell = Arc::new(Bell::default());
        let writer = std::thread::spawn({
            let bell = Arc::clone(&bell);
            move || {
                bell.ring(UNSYNCED_MAX_BYTES);
                bell.ring(1);
            }
        });
        while bell.lock().bytes <= UNSYNCED_MAX_BYTES {
            std::thread::yield_now();
        }
        assert!(!writer.is_finished());
        assert!(bell.wait(Instant::now(), None));
        writer.join().unwrap();
        assert_eq!(bell.lock().bytes, 0);
    }

    #[test]
    fn nobody_waits_for_one_who_has_left() {
        let bell = Bell::default();
        bell.close();
        bell.ring(2 * UNSYNCED_MAX_BYTES);
        assert!(!bell.wait(Instant::now(), None));
    }
}
