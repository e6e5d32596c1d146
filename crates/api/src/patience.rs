//! How long a caller is kept waiting.
//!
//! A ledger that is away says so. One that is slow, locked or frozen says nothing, and requests would queue up behind it,
//! each waiting for all before it. So a request has a time, counted by the door, over whatever the request asks of the
//! ledger. When it is over the caller hears 503 and comes back; what it asked for may still be stored.
//! The time stands still while the caller itself is waited for: a body that is arriving has a limit of its own, and a
//! worker that polls says how long it wants to wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::door::Entered;

/// Callers hear something within five seconds; what is left is for the way there and back.
pub const PATIENCE: Duration = Duration::from_millis(4_500);

/// When one request's time is over.
#[derive(Debug, Clone)]
pub struct Patience(Arc<Deadline>);

#[derive(Debug)]
struct Deadline {
    end: Mutex<Instant>,
    moved: Notify,
}

impl Patience {
    pub fn start() -> Self {
        Self(Arc::new(Deadline { end: Mutex::new(Instant::now() + PATIENCE), moved: Notify::new() }))
    }

    fn end(&self) -> MutexGuard<'_, Instant> {
        self.0.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something that is not the ledger's to answer for, and takes at most `limit`; this time does not count.
    pub async fn besides<T>(&self, limit: Duration, what: impl Future<Output = T>) -> T {
        let began = Instant::now();
        *self.end() += limit;
        let done = what.await;
        *self.end() -= limit.saturating_sub(began.elapsed());
        self.0.moved.notify_one();
        done
    }

    /// Returns when the time is over.
    pub async fn over(&self) {
        // Nearly always the request is answered before this: whether the end was moved is looked at only afterwards.
        let at = *self.end();
        tokio::time::sleep_until(at).await;
        loop {
            let at = *self.end();
            if at <= Instant::now() {
                return;
            }
            tokio::select! {
                biased;
                () = self.0.moved.notified() => {}
                () = tokio::time::sleep_until(at) => {}
            }
        }
    }
}

/// The request's own; one that nobody counts, where no door stands before the handler.
impl<S: Send + Sync> FromRequestParts<S> for Patience {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Entered>().map_or_else(Self::start, |entered| entered.patience.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_done_besides_does_not_count() {
        let patience = Patience::start();
        let began = Instant::now();
        let aside = Duration::from_secs(7);
        let work = async {
            tokio::time::sleep(PATIENCE / 2).await;
            patience.besides(Duration::from_secs(60), tokio::time::sleep(aside)).await;
        };
        tokio::join!(patience.over(), work);
        let late = began.elapsed().saturating_sub(PATIENCE + aside);
        assert!(began.elapsed() >= PATIENCE + aside && late < Duration::from_millis(10), "{:?}", began.elapsed());
    }
}
