//! What every handler may use.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::actors::Actors;
use crate::connections::ConnectionLimits;
use crate::cursor::CursorKey;
use crate::gate::Gate;
use crate::output::Uploads;
use crate::refusals::Refusals;
use crate::shares::{ShareLimits, Shares};

/// The API's part of the configuration.
#[derive(Debug, Clone)]
pub struct ApiSettings {
    /// The largest body of an ordinary request.
    pub body_max: usize,
    /// The largest body of `POST /jobs/batch`.
    pub batch_body_max: usize,
    /// The largest description of an inventory.
    pub inventory_body_max: usize,
    /// Readers of the event stream, and of output that is followed, at once.
    pub streams: ShareLimits,
    /// Requests that wait for work at once.
    pub polls: ShareLimits,
    /// Open connections.
    pub connections: ConnectionLimits,
    /// Answers carry at most this many items.
    pub page_max: u32,
    /// Only `/healthz`, `/readyz`, `/health` and `/metrics` are answered.
    pub health_only: bool,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            body_max: 1 << 20,
            batch_body_max: 8 << 20,
            inventory_body_max: 32 << 20,
            streams: ShareLimits::of(500),
            polls: ShareLimits { total: 20_000, per_tenant: 15_000, per_token: 64 },
            connections: ConnectionLimits::default(),
            page_max: 500,
            health_only: false,
        }
    }
}

/// The state behind every route. A request is given several copies of it, so a copy is one pointer.
#[derive(Debug, Clone)]
pub struct App(Arc<AppState>);

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

/// What [`App`] points to.
#[derive(Debug)]
pub struct AppState {
    pub engine: Arc<Engine>,
    pub gate: Arc<Gate>,
    pub actors: Arc<Actors>,
    pub refusals: Arc<Refusals>,
    pub settings: Arc<ApiSettings>,
    pub cursors: Arc<CursorKey>,
    pub streams: Arc<Shares>,
    pub polls: Arc<Shares>,
    pub uploads: Uploads,
    /// Canceled when the house closes: streams end, long polls answer.
    pub stop: CancellationToken,
    ready: AtomicBool,
}

impl App {
    pub fn new(
        engine: Arc<Engine>,
        gate: Arc<Gate>,
        settings: ApiSettings,
        cursor_secret: [u8; 32],
        stop: CancellationToken,
    ) -> Self {
        Self(Arc::new(AppState {
            refusals: Arc::new(Refusals::new(Arc::clone(&engine.ledger))),
            actors: Arc::new(Actors::new(Arc::clone(&engine.ledger))),
            engine,
            gate,
            streams: Shares::new("streams", settings.streams),
            polls: Shares::new("waiting polls", settings.polls),
            settings: Arc::new(settings),
            cursors: Arc::new(CursorKey::new(cursor_secret)),
            uploads: Uploads::default(),
            stop,
            ready: AtomicBool::new(true),
        }))
    }

    /// Readiness goes first when the house closes, so that nobody new is sent here.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }

    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }
}
