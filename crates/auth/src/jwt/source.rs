//! The current key set, and when it is fetched again.
//!
//! Enters: a `kid` and the time it is now. Leaves: its key, from memory whenever possible.
//! A `kid` we do not know may be a key that was just published, so it is worth one look at the issuer – but anybody can
//! make up a `kid`, so there is one look in 30 seconds at most. What was fetched last stays in use while the issuer
//! cannot be reached.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};

use super::error::JwtError;
use super::jwks::{JwksError, KeySet, VerifyingKey};

/// The shortest time between two looks at the issuer because of an unknown `kid`.
pub const REFRESH_EVERY_S: i64 = 30;

/// The same after a look that nobody waited for: a caller who hangs up must not lock new keys out for half a minute.
const REFRESH_AFTER_ABANDONED_S: i64 = 1;

/// The text of a key set, on its way.
pub type Fetching<'a> = Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'a>>;

/// Brings the text of the key set. The address is configuration; no part of a token ever reaches this trait.
///
/// The implementation sets a time limit (callers with unknown keys wait for it) and a size limit. The error is one
/// sentence for the log.
pub trait JwksFetcher: Send + Sync {
    fn fetch(&self) -> Fetching<'_>;
}

pub(super) struct KeySource {
    fetcher: Arc<dyn JwksFetcher>,
    keys: RwLock<KeySet>,
    /// Whose turn it is to fetch. Only those who miss a key queue here; whoever knows their key never touches it.
    turn: tokio::sync::Mutex<Turn>,
}

#[derive(Default)]
struct Turn {
    next_at: Option<i64>,
    /// Why the last look brought nothing.
    fault: Option<JwksError>,
}

impl KeySource {
    pub(super) fn new(fetcher: Arc<dyn JwksFetcher>) -> Self {
        Self { fetcher, keys: RwLock::default(), turn: tokio::sync::Mutex::default() }
    }

    pub(super) async fn get(&self, kid: &str, now_unix_s: i64) -> Result<Arc<VerifyingKey>, JwtError> {
        if let Some(key) = self.find(kid) {
            return Ok(key);
        }
        let mut turn = self.turn.lock().await;
        // Whoever had the turn before us may have brought it.
        if let Some(key) = self.find(kid) {
            return Ok(key);
        }
        if turn.is_open(now_unix_s) {
            // The outcome is kept in `turn.fault` and answered below.
            let _ = self.fetch(&mut turn, now_unix_s).await;
            if let Some(key) = self.find(kid) {
                return Ok(key);
            }
        }
        Err(turn.fault.clone().map_or(JwtError::UnknownKey, JwtError::KeysUnavailable))
    }

    /// Fetches now, whatever the time of the last look.
    pub(super) async fn refresh(&self, now_unix_s: i64) -> Result<(), JwksError> {
        let mut turn = self.turn.lock().await;
        self.fetch(&mut turn, now_unix_s).await
    }

    async fn fetch(&self, turn: &mut Turn, now: i64) -> Result<(), JwksError> {
        turn.next_at = Some(now.saturating_add(REFRESH_AFTER_ABANDONED_S));
        let fetched = self.fetcher.fetch().await;
        turn.next_at = Some(now.saturating_add(REFRESH_EVERY_S));
        match fetched.map_err(JwksError::Fetch).and_then(|text| KeySet::parse(&text)) {
            Ok(keys) => {
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
                turn.fault = None;
                Ok(())
            }
            Err(fault) => {
                turn.fault = Some(fault.clone());
                Err(fault)
            }
        }
    }

    fn find(&self, kid: &str) -> Option<Arc<VerifyingKey>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).find(kid).cloned()
    }
}

impl Turn {
    /// A moment further away than any wait was set by a clock that has gone back since; it does not count.
    fn is_open(&self, now: i64) -> bool {
        self.next_at.is_none_or(|next_at| next_at <= now || next_at.saturating_sub(now) > REFRESH_EVERY_S)
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySource").field("keys", &self.keys).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::jwt::samples::{EC_KID, ED_KID, ec_jwk, ed_jwk};

    /// Answers one by one what it was told, and counts how often it was asked.
    struct Script {
        answers: Mutex<Vec<Result<String, String>>>,
        asked: Mutex<usize>,
        gate: Semaphore,
    }

    impl Script {
        fn of(answers: impl IntoIterator<Item = Result<String, String>>) -> Arc<Self> {
            let mut answers: Vec<_> = answers.into_iter().collect();
            answers.reverse();
            Arc::new(Self { answers: Mutex::new(answers), asked: Mutex::new(0), gate: Semaphore::new(1_000) })
        }

        fn asked(&self) -> usize {
            *self.asked.lock().unwrap()
        }
    }

    impl JwksFetcher for Script {
        fn fetch(&self) -> Fetching<'_> {
            Box::pin(async {
                *self.asked.lock().unwrap() += 1;
                let _pass = self.gate.acquire().await.unwrap();
                self.answers.lock().unwrap().pop().unwrap_or_else(|| Err("the script is over".to_owned()))
            })
        }
    }

    fn ed_only() -> Result<String, String> {
        Ok(json!({ "keys": [ed_jwk()] }).to_string())
    }

    fn both() -> Result<String, String> {
        Ok(json!({ "keys": [ed_jwk(), ec_jwk()] }).to_string())
    }

    fn outcome(result: Result<Arc<VerifyingKey>, JwtError>) -> Result<(), JwtError> {
        result.map(|_| ())
    }

    #[tokio::test]
    async fn a_known_key_asks_nobody() {
        let script = Script::of([ed_only()]);
        let source = KeySource::new(script.clone());
        source.refresh(0).await.unwrap();
        for now in 0..100 {
            source.get(ED_KID, now).await.unwrap();
        }
        assert_eq!(script.asked(), 1);
    }

    #[tokio::test]
    async fn an_unknown_key_is_looked_for_once_in_thirty_seconds() {
        let script = Script::of([ed_only(), ed_only(), both()]);
        let source = KeySource::new(script.clone());
        assert_eq!(outcome(source.get(EC_KID, 100).await), Err(JwtError::UnknownKey));
        for now in 100..130 {
            assert_eq!(outcome(source.get(EC_KID, now).await), Err(JwtError::UnknownKey));
            assert_eq!(outcome(source.get("../../dev/null", now).await), Err(JwtError::UnknownKey));
        }
        assert_eq!(script.asked(), 1);
        assert_eq!(outcome(source.get("made up", 130).await), Err(JwtError::UnknownKey));
        assert_eq!(outcome(source.get(EC_KID, 159).await), Err(JwtError::UnknownKey));
        assert_eq!(script.asked(), 2);
        source.get(EC_KID, 160).await.unwrap();
        assert_eq!(script.asked(), 3);
    }

    #[tokio::test]
    async fn old_keys_stay_while_the_issuer_is_away() {
        let script = Script::of([ed_only(), Err("connection refused".to_owned()), Ok("<html>".to_owned()), both()]);
        let source = KeySource::new(script.clone());
        source.refresh(0).await.unwrap();
        let away = JwtError::KeysUnavailable(JwksError::Fetch("connection refused".to_owned()));
        assert_eq!(outcome(source.get(EC_KID, 100).await), Err(away.clone()));
        assert_eq!(outcome(source.get(EC_KID, 101).await), Err(away));
        source.get(ED_KID, 101).await.unwrap();
        assert_eq!(outcome(source.get(EC_KID, 130).await), Err(JwtError::KeysUnavailable(JwksError::Malformed)));
        source.get(EC_KID, 160).await.unwrap();
        assert_eq!(outcome(source.get("made up", 161).await), Err(JwtError::UnknownKey));
    }

    #[tokio::test]
    async fn a_withdrawn_key_is_gone_after_a_refresh() {
        let source = KeySource::new(Script::of([both(), ed_only()]));
        source.refresh(0).await.unwrap();
        source.get(EC_KID, 0).await.unwrap();
        source.refresh(300).await.unwrap();
        assert_eq!(outcome(source.get(EC_KID, 300).await), Err(JwtError::UnknownKey));
    }

    #[tokio::test]
    async fn those_who_come_during_a_fetch_share_it() {
        let script = Script::of([both()]);
        let closed = script.gate.acquire_many(1_000).await.unwrap();
        let source = KeySource::new(script.clone());
        let first = source.get(ED_KID, 5);
        let second = source.get(EC_KID, 5);
        let open = async {
            tokio::task::yield_now().await;
            drop(closed);
        };
        let (first, second, ()) = tokio::join!(first, second, open);
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(script.asked(), 1);
    }

    #[tokio::test]
    async fn a_caller_who_hangs_up_does_not_lock_new_keys_out() {
        let script = Script::of([both()]);
        let source = KeySource::new(script.clone());
        {
            let _closed = script.gate.acquire_many(1_000).await.unwrap();
            let mut hung_up = Box::pin(source.get(EC_KID, 5));
            assert!(poll_once(&mut hung_up).await.is_none());
        }
        assert_eq!(outcome(source.get(EC_KID, 5).await), Err(JwtError::UnknownKey));
        source.get(EC_KID, 6).await.unwrap();
        assert_eq!(script.asked(), 2);
    }

    #[tokio::test]
    async fn a_clock_set_back_does_not_lock_new_keys_out() {
        let script = Script::of([ed_only(), both()]);
        let source = KeySource::new(script.clone());
        source.refresh(1_000_000).await.unwrap();
        source.get(EC_KID, 10).await.unwrap();
    }

    /// Polls once and gives up.
    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        std::future::poll_fn(|context| match Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }
}
