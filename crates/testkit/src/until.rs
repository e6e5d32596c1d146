//! Waiting for a state, never for a duration.
//!
//! A test that sleeps is either slow or wrong, depending on the machine. This looks often, goes on at once when the
//! state is there, and says what it saw last when the state never came.

use std::fmt::Debug;
use std::panic::Location;
use std::time::{Duration, Instant};

/// How long to rest between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// What one look brought: the value waited for, or a word on what was there instead.
pub trait Sighting {
    type Value;
    fn judge(self) -> Result<Self::Value, String>;
}

impl Sighting for bool {
    type Value = ();
    fn judge(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("not yet".to_owned()) }
    }
}

impl<T> Sighting for Option<T> {
    type Value = T;
    fn judge(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing".to_owned())
    }
}

/// The error is not a failure but the detail to show if waiting ends in vain.
impl<T, E: Debug> Sighting for Result<T, E> {
    type Value = T;
    fn judge(self) -> Result<T, String> {
        self.map_err(|seen| format!("{seen:?}"))
    }
}

/// Looks until the state is there and returns it. A look may answer `bool`, `Option<T>`, or `Result<T, what it saw>`.
///
/// Time is real time: do not use it in a runtime whose time is paused.
///
/// # Panics
/// If the state is not there within `timeout`, at the line of the caller, with `what` and the last sighting. A look
/// that hangs is ended by the timeout too.
#[track_caller]
pub fn until<S: Sighting>(
    timeout: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> S,
) -> impl Future<Output = S::Value> {
    let caller = Location::caller();
    async move {
        let deadline = Instant::now() + timeout;
        let mut last = "nothing, not one look came back".to_owned();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left.max(PAUSE), look()).await.map(Sighting::judge) {
                Ok(Ok(value)) => return value,
                Ok(Err(seen)) => last = seen,
                Err(_) => last.push_str(", and then a look that did not come back"),
            }
            assert!(Instant::now() < deadline, "waited {timeout:?} for {what} ({caller}); last seen: {last}");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_returns_what_it_waited_for() {
        let mut looks = 0;
        let seen = until(Duration::from_secs(5), "the third look", async || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(seen.await, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "last seen: \"2 of 3\"")]
    async fn it_says_what_it_saw_last() {
        until(Duration::from_millis(30), "all three", || async { Err::<(), _>("2 of 3") }).await;
    }

    #[tokio::test]
    #[should_panic(expected = "a look that did not come back")]
    async fn a_look_that_hangs_is_ended() {
        until(Duration::from_millis(30), "an answer", std::future::pending::<bool>).await;
    }
}
