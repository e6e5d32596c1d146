//! A host as a request names it.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

use super::HostName;

/// A host by its name, or by its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum HostRef {
    Number(i64),
    Name(HostName),
}

// By hand, so that a name that is none says why.
impl<'de> Deserialize<'de> for HostRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrNumber;

        impl Visitor<'_> for NameOrNumber {
            type Value = HostRef;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name or the number of a host")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<HostRef, E> {
                HostName::new(text).map(HostRef::Name).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<HostRef, E> {
                Ok(HostRef::Number(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<HostRef, E> {
                let found = i64::try_from(number).map(HostRef::Number);
                found.map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
            }
        }

        deserializer.deserialize_any(NameOrNumber)
    }
}

impl From<HostName> for HostRef {
    fn from(name: HostName) -> Self {
        Self::Name(name)
    }
}

impl fmt::Display for HostRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "with the number {number}"),
            Self::Name(name) => name.fmt(f),
        }
    }
}
