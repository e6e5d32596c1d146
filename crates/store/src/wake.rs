//! Wake-ups. A wake-up carries no news: it says "look", and the store says what there is.

use std::sync::Arc;

use tokio::sync::watch;

/// A bell many tasks can listen to. A ring while nobody listens is not lost: the next wait returns at once.
#[derive(Debug, Clone)]
pub struct Wake(Arc<watch::Sender<u64>>);

impl Default for Wake {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Wake {
    pub fn ring(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub fn listen(&self) -> WakeListener {
        WakeListener(self.0.subscribe())
    }
}

/// One listener's ear.
#[derive(Debug)]
pub struct WakeListener(watch::Receiver<u64>);

impl WakeListener {
    /// Returns after the next ring since the last time this returned.
    pub async fn rung(&mut self) {
        if self.0.changed().await.is_err() {
            // The bell is gone, so it never rings again.
            std::future::pending::<()>().await;
        }
    }

    /// Forgets rings that already happened: call it right before looking.
    pub fn forget(&mut self) {
        self.0.mark_unchanged();
    }
}
