//! How long a caller is kept waiting.
//!
//! A ledger that is away says so. One that is slow, locked or frozen says nothing, and requests would queue up behind it,
//! each waiting for all before it. So a request has a time, counted by the door, over whatever the request asks of the
//! ledger. When it is over the caller hears 503 and comes back; what it asked for may still be stored.
//! The time stands still while the caller itself is waited for: a body that is arriving has a limit of its own, and a
//! worker that polls says how long it wants to wait.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio::sync::watch;
use tokio::time::Instant;

/// Callers hear something within five seconds; what is left is for the way there and back.
pub const PATIENCE: Duration = Duration::from_millis(4_500);

/// When one request's time is over.
#[derive(Debug, Clone)]
pub struct Patience(watch::Sender<Instant>);

impl Patience {
    pub fn start() -> Self {
        Self(watch::Sender::new(Instant::now() + PATIENCE))
    }

    /// Does something that is not the ledger's to answer for, and takes at most `limit`; this time does not count.
    pub async fn besides<T>(&self, limit: Duration, what: impl Future<Output = T>) -> T {
        let began = Instant::now();
        self.0.send_modify(|end| *end += limit);
        let done = what.await;
        self.0.send_modify(|end| *end -= limit.saturating_sub(began.elapsed()));
        done
    }

    /// Returns when the time is over.
    pub async fn over(&self) {
        let mut end = self.0.subscribe();
        loop {
            let at = *end.borrow_and_update();
            tokio::select! {
                biased;
                _ = end.changed() => {}
                () = tokio::time::sleep_until(at) => return,
            }
        }
    }
}

/// The request's own; one that nobody counts, where no door stands before the handler.
impl<S: Send + Sync> FromRequestParts<S> for Patience {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(Self::start))
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
