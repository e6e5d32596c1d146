//! Names that people and programs choose: checked once, on the way in, and safe everywhere afterwards.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a text cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAName {
    #[error("a {what} must not be empty")]
    Empty { what: &'static str },
    #[error("a {what} has at most {max} characters, this one has {len}")]
    TooLong { what: &'static str, max: usize, len: usize },
    #[error("a {what} starts with a letter or digit and goes on with letters, digits and . _ : / @ -")]
    BadCharacter { what: &'static str },
    #[error("at most {max} labels are allowed, there are {len}")]
    TooManyLabels { max: usize, len: usize },
}

fn check(what: &'static str, max: usize, text: &str) -> Result<(), NotAName> {
    let mut bytes = text.bytes();
    match bytes.next() {
        None => return Err(NotAName::Empty { what }),
        Some(first) if !first.is_ascii_alphanumeric() => return Err(NotAName::BadCharacter { what }),
        Some(_) => {}
    }
    if text.len() > max {
        return Err(NotAName::TooLong { what, max, len: text.len() });
    }
    if bytes.all(|b| b.is_ascii_alphanumeric() || b"._:/@-".contains(&b)) && !text.contains("..") {
        Ok(())
    } else {
        Err(NotAName::BadCharacter { what })
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: &str) -> Result<Self, NotAName> {
                check($what, $max, text)?;
                Ok(Self(text.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Self::new(&text).map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "minLength": 1,
                    "maxLength": $max,
                    "pattern": "^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"
                })
            }
        }
    };
}

name_type!(
    /// What sort of work a job is, such as `stripe.webhook.process`. Workers say which of these they take.
    TaskType,
    "task type",
    128
);
impl TaskType {
    /// Types that begin like this are ours; nobody can submit jobs of them.
    pub const RESERVED: &'static str = "bowline.";

    /// What agents take: a command for one host.
    pub fn command() -> Self {
        Self(Arc::from("bowline.command"))
    }

    /// What runs of workflows are.
    pub fn workflow() -> Self {
        Self(Arc::from("bowline.workflow"))
    }

    /// What stands in the place of a type that was stored and cannot be read.
    pub fn unreadable() -> Self {
        Self(Arc::from("bowline.unreadable"))
    }

    pub fn is_reserved(&self) -> bool {
        self.as_str().starts_with(Self::RESERVED)
    }
}

name_type!(
    /// How a worker calls itself.
    WorkerName,
    "worker id",
    128
);

name_type!(
    /// What a resource is called, unique within its tenant and kind.
    ResourceName,
    "resource name",
    128
);
name_type!(
    /// What an inventory is called, unique within its tenant.
    InventoryName,
    "inventory name",
    64
);
name_type!(
    /// What a host is called, unique within its inventory.
    HostName,
    "host name",
    253
);
name_type!(
    /// What a group of hosts is called, unique within its inventory.
    GroupName,
    "group name",
    128
);

/// Labels a worker or a host has, or a job requires. Sorted, so that equal sets have equal texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    const MAX: usize = 32;

    pub fn new(map: BTreeMap<String, String>) -> Result<Self, NotAName> {
        if map.len() > Self::MAX {
            return Err(NotAName::TooManyLabels { max: Self::MAX, len: map.len() });
        }
        Self::checked(map)
    }

    fn checked(map: BTreeMap<String, String>) -> Result<Self, NotAName> {
        for (key, value) in &map {
            check("label name", 63, key)?;
            check("label value", 253, value)?;
        }
        Ok(Self(map))
    }

    /// Labels of which each part is known to be a name already.
    pub(crate) fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether everything that is required here is offered there.
    pub fn satisfied_by(&self, offered: &Self) -> bool {
        self.0.iter().all(|(key, value)| offered.0.get(key) == Some(value))
    }

    /// One text for one set; empty for none. Part of a channel's identity.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        for (key, value) in &self.0 {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(key);
            text.push('=');
            text.push_str(value);
        }
        text
    }

    /// Reads back what [`Self::canonical`] wrote.
    pub fn from_canonical(text: &str) -> Result<Self, NotAName> {
        let map = text
            .split(' ')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Self::checked(map)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(BTreeMap::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_paths_or_options_are_refused() {
        for text in ["", "../../keys/root", "-oProxyCommand=x", "a\nb", "a b", "a..b", "\u{202e}x", "a\0"] {
            assert!(WorkerName::new(text).is_err(), "{text:?}");
        }
        for text in ["w1", "stripe.webhook.process", "site/fra-1:gpu@2"] {
            assert!(TaskType::new(text).is_ok(), "{text:?}");
        }
        assert!(TaskType::new(&"x".repeat(129)).is_err());
    }

    #[test]
    fn labels_have_one_text_and_read_it_back() {
        let labels = Labels::new([("b".into(), "2".into()), ("a".into(), "1".into())].into()).unwrap();
        assert_eq!(labels.canonical(), "a=1 b=2");
        assert_eq!(Labels::from_canonical("a=1 b=2"), Ok(labels.clone()));
        assert_eq!(Labels::from_canonical(""), Ok(Labels::default()));
        assert!(Labels::default().satisfied_by(&labels));
        assert!(!labels.satisfied_by(&Labels::default()));
    }
}
