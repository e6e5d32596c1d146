//! Wake-ups. A wake-up carries no news: it says "look", and the store says what there is.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A bell many tasks can listen to. A ring while nobody listens is not lost: the next wait returns at once. Whoever waits
/// longest is woken first; a watch channel would wake them by chance, and no simulation would run twice the same way.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Bell>);

#[derive(Debug, Default)]
struct Bell {
    rings: AtomicU64,
    heard: Notify,
}

impl Wake {
    pub fn ring(&self) {
        self.0.rings.fetch_add(1, Ordering::SeqCst);
        self.0.heard.notify_waiters();
    }

    pub fn listen(&self) -> WakeListener {
        WakeListener { bell: Arc::clone(&self.0), known: self.0.rings.load(Ordering::SeqCst) }
    }
}

/// One listener's ear.
#[derive(Debug)]
pub struct WakeListener {
    bell: Arc<Bell>,
    /// Rings that this listener has heard.
    known: u64,
}

impl WakeListener {
    /// Returns after the next ring since the last time this returned.
    pub async fn rung(&mut self) {
        loop {
            let mut next = pin!(self.bell.heard.notified());
            // From here on no ring is missed, so looking at the count afterwards misses none before.
            next.as_mut().enable();
            let rings = self.bell.rings.load(Ordering::SeqCst);
            if rings != self.known {
                self.known = rings;
                return;
            }
            next.await;
        }
    }

    /// Forgets rings that already happened: call it right before looking.
    pub fn forget(&mut self) {
        self.known = self.bell.rings.load(Ordering::SeqCst);
    }
}
