//! Signals that an execution remembers until a node waits for them.
//!
//! Thousands of signals may be remembered while thousands of nodes wait, and after each step it is asked whether one of these fits one of
//! those. So what is remembered is known by name and key, and only a signal that fits is looked for.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::Waiting;

/// Signals that an execution remembers before a node waits for them, and their size. The ledger refuses what is sent to an
/// execution beyond half of that; should more arrive all the same, the oldest are forgotten.
const MAILBOX_MAX: usize = 2_000;
const MAILBOX_BYTES_MAX: usize = 16 << 20;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Signal {
    pub name: Arc<str>,
    pub key: Option<String>,
    pub payload: Value,
}

impl Signal {
    /// About as many bytes as it has as JSON.
    fn size(&self) -> usize {
        self.name.len() + self.key.as_ref().map_or(0, String::len) + size_of_json(&self.payload)
    }

    pub fn fits(&self, wait: &Waiting) -> bool {
        matches!(wait, Waiting::Event { name, key, .. }
            if *name == self.name && (key.is_none() || *key == self.key))
    }
}

/// About as many bytes as a value has as JSON.
fn size_of_json(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 10,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + size_of_json(item)).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + size_of_json(value)).sum::<usize>()
        }
    }
}

/// What is remembered, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Mailbox {
    signals: Vec<Signal>,
    bytes: usize,
    names: HashMap<Arc<str>, Keys>,
}

/// How many signals of a name there are, and how many of them have which key.
#[derive(Debug, Clone, Default)]
struct Keys {
    all: usize,
    by_key: HashMap<String, usize>,
}

impl Mailbox {
    pub fn of(signals: Vec<Signal>) -> Self {
        let mut mailbox = Self::default();
        signals.into_iter().for_each(|signal| mailbox.add(signal));
        mailbox
    }

    pub fn signals(&self) -> &[Signal] {
        &self.signals
    }

    pub const fn len(&self) -> usize {
        self.signals.len()
    }

    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Remembers one. The oldest are forgotten if there are too many.
    pub fn remember(&mut self, signal: Signal) {
        let size = signal.size();
        while !self.signals.is_empty() && (self.len() >= MAILBOX_MAX || self.bytes + size > MAILBOX_BYTES_MAX) {
            self.remove(0);
        }
        self.add(signal);
    }

    fn add(&mut self, signal: Signal) {
        self.bytes += signal.size();
        let keys = self.names.entry(Arc::clone(&signal.name)).or_default();
        keys.all += 1;
        if let Some(key) = &signal.key {
            *keys.by_key.entry(key.clone()).or_default() += 1;
        }
        self.signals.push(signal);
    }

    /// The first that fits.
    pub fn find(&self, wait: &Waiting) -> Option<&Signal> {
        self.position(wait).map(|at| &self.signals[at])
    }

    /// Takes the first that fits.
    pub fn take(&mut self, wait: &Waiting) {
        if let Some(at) = self.position(wait) {
            self.remove(at);
        }
    }

    fn position(&self, wait: &Waiting) -> Option<usize> {
        let Waiting::Event { name, key, .. } = wait else { return None };
        let keys = self.names.get(name)?;
        let fits = key.as_ref().is_none_or(|key| keys.by_key.contains_key(key));
        if fits { self.signals.iter().position(|signal| signal.fits(wait)) } else { None }
    }

    fn remove(&mut self, at: usize) {
        let taken = self.signals.remove(at);
        self.bytes = self.bytes.saturating_sub(taken.size());
        let Some(keys) = self.names.get_mut(&taken.name) else { return };
        keys.all -= 1;
        if keys.all == 0 {
            self.names.remove(&taken.name);
            return;
        }
        if let Some(key) = &taken.key
            && let Some(count) = keys.by_key.get_mut(key)
        {
            *count -= 1;
            if *count == 0 {
                keys.by_key.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn signal(name: u8, key: Option<u8>, n: usize) -> Signal {
        Signal { name: format!("s{name}").into(), key: key.map(|key| format!("k{key}")), payload: n.into() }
    }

    fn wait(name: u8, key: Option<u8>) -> Waiting {
        Waiting::Event { name: format!("s{name}").into(), key: key.map(|key| format!("k{key}")), expires_at: None }
    }

    proptest! {
        /// Whatever comes and is taken: the first that fits is found, as if each were looked at; and what fits none costs no look at any.
        #[test]
        fn what_fits_is_found_as_if_all_were_looked_at(
            steps in prop::collection::vec((any::<bool>(), 0..4_u8, prop::option::of(0..4_u8)), 0..200),
        ) {
            let (mut mailbox, mut plain): (Mailbox, Vec<Signal>) = (Mailbox::default(), Vec::new());
            for (n, (comes, name, key)) in steps.into_iter().enumerate() {
                if comes {
                    mailbox.remember(signal(name, key, n));
                    plain.push(signal(name, key, n));
                } else {
                    let wait = wait(name, key);
                    let fits = plain.iter().position(|signal| signal.fits(&wait));
                    prop_assert_eq!(mailbox.find(&wait), fits.map(|at| &plain[at]));
                    mailbox.take(&wait);
                    fits.map(|at| plain.remove(at));
                }
                prop_assert_eq!(mailbox.signals(), &plain[..]);
                prop_assert_eq!(mailbox.bytes(), plain.iter().map(Signal::size).sum::<usize>());
                let counted: usize = mailbox.names.values().map(|keys| keys.all).sum();
                prop_assert_eq!(counted, plain.len());
                // Only what is there is known by name and key, so a wait that fits none ends there.
                for (name, keys) in &mailbox.names {
                    for key in keys.by_key.keys() {
                        prop_assert!(plain.iter().any(|signal| signal.name == *name && signal.key.as_ref() == Some(key)));
                    }
                }
            }
        }
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_too_many() {
        let mut mailbox = Mailbox::default();
        for n in 0..MAILBOX_MAX + 10 {
            mailbox.remember(signal(0, Some(1), n));
        }
        assert_eq!((mailbox.len(), &mailbox.signals()[0].payload), (MAILBOX_MAX, &Value::from(10)));
        assert_eq!(mailbox.names.len(), 1);
    }
}
