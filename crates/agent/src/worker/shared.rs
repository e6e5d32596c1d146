//! What the loops and tasks of one worker share.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bowline_model::RunId;
use bowline_protocol::HeartbeatAnswer;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::server::lease_loop::Holder;
use crate::server::link::Link;
use crate::server::poll_loop::Taker;
use crate::worker::accept::{Errand, Offer, accept};
use crate::worker::hand::Hand;
use crate::worker::handlers::Handlers;
use crate::worker::lease::StopReason;

/// What the builder decided.
pub(crate) struct Settings {
    pub grace: Duration,
    pub stop_when_cut_off: bool,
}

pub(crate) struct Shared {
    pub link: Link,
    pub settings: Settings,
    pub handlers: Handlers,
    pub hand: Arc<Hand>,
    /// Bytes of progress that no server holds yet, of all tasks together.
    pub unheard_bytes: Arc<AtomicUsize>,
    /// Handlers must stop: in the closing sequence, after nothing more is taken.
    pub leaving: CancellationToken,
}

impl Shared {
    pub fn new(link: Link, settings: Settings, handlers: Handlers) -> Arc<Self> {
        let slots = usize::try_from(link.settings.registration.slots).unwrap_or(usize::MAX);
        Arc::new(Self {
            link,
            settings,
            handlers,
            hand: Hand::new(slots),
            unheard_bytes: Arc::default(),
            leaving: CancellationToken::new(),
        })
    }
}

impl Holder for Shared {
    fn named(&self) -> Vec<RunId> {
        self.hand.named()
    }

    fn hear(&self, answer: &HeartbeatAnswer, sent_at: Instant) {
        for (runs, reason) in [(&answer.renewed, None), (&answer.cancel, Some(StopReason::Canceled))] {
            for (run, lease) in runs.iter().filter_map(|run| Some((run, self.hand.find(*run)?))) {
                lease.renew(sent_at);
                if reason.is_some_and(|reason| lease.stop(reason)) {
                    info!(run.id = %run, "task {run} was canceled; its handler is asked to stop");
                }
            }
        }
        for run in &answer.stale {
            if self.hand.find(*run).is_some_and(|lease| lease.stop(StopReason::Stale)) {
                warn!(run.id = %run, "task {run} is not ours any more; its handler is asked to stop");
            }
        }
    }

    fn when_cut_off(&self) -> &'static str {
        if self.settings.stop_when_cut_off { "stop" } else { "go on and are reported late" }
    }
}

/// Accepts what polls bring, one answer after the other, and passes on what is ours.
pub(crate) struct Desk {
    pub shared: Arc<Shared>,
    pub errands: mpsc::Sender<Errand>,
}

impl Taker for Desk {
    async fn room(&self) -> usize {
        self.shared.hand.room().await
    }

    async fn take(&self, tasks: Vec<Box<RawValue>>, received_at: Instant) -> ControlFlow<()> {
        let offers = Offer::take(&self.shared, &tasks, received_at);
        for errand in accept(&self.shared, offers).await {
            if self.errands.send(errand).await.is_err() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}
