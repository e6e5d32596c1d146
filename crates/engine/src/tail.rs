//! The event tail: reads the ledger's stream once, for everybody who listens.
//!
//! A listener that cannot keep up is cut, never waited for; it comes back with the last position it saw and reads what it
//! missed from the ledger.

use std::sync::Arc;
use std::time::Duration;

use bowline_model::Event;
use bowline_store::{EventFilter, Ledger, Position};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// Events in ledger order; shared by all listeners.
pub type TailItem = Arc<Vec<(Position, Event)>>;

const BITE: u32 = 1_000;
/// Bites a listener may be behind before it is cut.
const BEHIND_MAX: usize = 64;
/// Bites are read at most this often: a busy ledger is read in larger pieces, not more often.
const GAP: Duration = Duration::from_millis(20);
const SAFETY_NET: Duration = Duration::from_secs(1);

/// Where listeners get the live stream.
#[derive(Debug)]
pub struct Tail {
    ledger: Arc<dyn Ledger>,
    sender: broadcast::Sender<TailItem>,
    listened: tokio::sync::Notify,
}

impl Tail {
    pub fn new(ledger: Arc<dyn Ledger>) -> Arc<Self> {
        let (sender, _) = broadcast::channel(BEHIND_MAX);
        Arc::new(Self { ledger, sender, listened: tokio::sync::Notify::new() })
    }

    /// Live events from about now on. Read the ledger from your own position after subscribing, and skip what comes twice.
    pub fn listen(&self) -> broadcast::Receiver<TailItem> {
        let receiver = self.sender.subscribe();
        self.listened.notify_one();
        receiver
    }

    /// Reads while somebody listens.
    pub async fn serve(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        let mut bell = self.ledger.event_wake().listen();
        loop {
            if self.sender.receiver_count() == 0 {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return Ok(()),
                    () = self.listened.notified() => {}
                }
            }
            // Nobody listened, so nobody misses what lies before.
            let mut position = match self.ledger.event_range().await {
                Ok((_, newest)) => newest,
                Err(error) => {
                    tracing::debug!(%error, "cannot read the event stream");
                    tokio::time::sleep(Duration::from_millis(250)).await;
                    continue;
                }
            };
            while self.sender.receiver_count() > 0 {
                bell.forget();
                let more = match self.ledger.events_after(position, EventFilter::default(), BITE).await {
                    Ok(page) => {
                        position = page.end;
                        if !page.events.is_empty() {
                            // Nobody listening any more is no mistake.
                            let _ = self.sender.send(Arc::new(page.events));
                        }
                        page.more
                    }
                    Err(error) => {
                        tracing::debug!(%error, "cannot read the event stream");
                        false
                    }
                };
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return Ok(()),
                    () = tokio::time::sleep(if more { Duration::from_millis(1) } else { GAP }) => {}
                }
                if !more {
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => return Ok(()),
                        () = bell.rung() => {}
                        () = tokio::time::sleep(SAFETY_NET) => {}
                    }
                }
            }
        }
    }
}
