//! Values that were read a moment ago. A command on ten thousand hosts does not read a file ten thousand times.
//!
//! A value is kept for less than a minute, whether or not anybody asks again: a loop throws away what is old, and its
//! memory is wiped. A `secret_ref` that says another version is another entry, so a value that was changed on purpose is
//! read at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_model::secret::SecretRef;
use bowline_model::{TenantId, Timestamp};
use bowline_seal::SecretValue;
use tokio_util::sync::CancellationToken;

use super::Secrets;

/// With the pause of the loop that throws away, this stays below a minute.
const KEPT_MS: i64 = 50_000;
const PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    pub tenant: TenantId,
    pub reference: SecretRef,
    pub version: Option<String>,
}

#[derive(Debug, Default)]
pub struct Cache {
    values: Mutex<HashMap<Entry, (Timestamp, SecretValue)>>,
}

impl Cache {
    fn lock(&self) -> MutexGuard<'_, HashMap<Entry, (Timestamp, SecretValue)>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn find(&self, entry: &Entry, now: Timestamp) -> Option<SecretValue> {
        self.lock().get(entry).filter(|(read_at, _)| is_fresh(*read_at, now)).map(|(_, value)| value.clone())
    }

    pub fn keep(&self, entry: Entry, value: SecretValue, now: Timestamp) {
        self.lock().insert(entry, (now, value));
    }

    pub fn forget_old(&self, now: Timestamp) {
        self.lock().retain(|_, (read_at, _)| is_fresh(*read_at, now));
    }
}

fn is_fresh(read_at: Timestamp, now: Timestamp) -> bool {
    read_at <= now && now < read_at.plus_millis(KEPT_MS)
}

/// Throws away what is old, until the house closes; then everything.
pub async fn forget_forever(secrets: Arc<Secrets>, stop: CancellationToken) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            () = stop.cancelled() => {
                secrets.forget_all();
                return Ok(());
            }
            () = tokio::time::sleep(PAUSE) => secrets.forget_old(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_for_less_than_a_minute_and_for_its_version() {
        let at = Timestamp::from_millis;
        let tenant = TenantId::mint(at(1), [1; 10]);
        let entry = Entry { tenant, reference: "file://a".parse().expect("a reference"), version: None };
        let cache = Cache::default();
        cache.keep(entry.clone(), SecretValue::new("one"), at(1_000));
        let found = |entry: &Entry, now| cache.find(entry, at(now)).map(|value| value.reveal().to_owned());
        assert_eq!(found(&entry, 1_000), Some("one".to_owned()));
        assert_eq!(found(&entry, 1_000 + KEPT_MS - 1), Some("one".to_owned()));
        assert_eq!(found(&entry, 1_000 + KEPT_MS), None, "too old");
        assert_eq!(found(&entry, 999), None, "a clock that went back is no reason to keep it longer");
        let rotated = Entry { version: Some("2".to_owned()), ..entry.clone() };
        assert_eq!(found(&rotated, 1_001), None, "another version is read anew");
        let foreign = Entry { tenant: TenantId::mint(at(1), [2; 10]), ..entry };
        assert_eq!(found(&foreign, 1_001), None, "another tenant's file of this name is another file");
        cache.forget_old(at(1_000 + KEPT_MS - 1));
        assert_eq!(cache.lock().len(), 1);
        cache.forget_old(at(1_000 + KEPT_MS));
        assert_eq!(cache.lock().len(), 0, "nobody has to ask for it to be forgotten");
        assert!(KEPT_MS + i64::try_from(PAUSE.as_millis()).unwrap_or(i64::MAX) < 60_000);
    }
}
