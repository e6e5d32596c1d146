//! The values of secrets, on their way from the agent to a command. They exist in memory and in a pipe, never on disk.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

/// Values by the name of their secret. `Debug` says how many there are, and nothing more; dropped values are wiped.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secrets(BTreeMap<String, String>);

impl Secrets {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn names_and_values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(String::as_str)
    }
}

impl Secrets {
    /// These, and others beside them.
    #[must_use]
    pub fn and<'a>(mut self, others: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        self.0.extend(others.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        self
    }
}

impl Drop for Secrets {
    fn drop(&mut self) {
        self.0.values_mut().for_each(Zeroize::zeroize);
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_not_shown() {
        let secrets: Secrets = [("db", "hunter22")].into_iter().collect();
        assert_eq!(format!("{secrets:?}"), "Secrets(1)");
        assert_eq!(secrets.get("db"), Some("hunter22"));
        let more = secrets.and([("key", "other")]);
        assert_eq!((more.get("db"), more.get("key")), (Some("hunter22"), Some("other")));
    }
}
