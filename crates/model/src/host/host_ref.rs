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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_host_is_meant_by_its_name_or_by_its_number() {
        let read = |value: Value| serde_json::from_value::<HostRef>(value).map_err(|error| error.to_string());
        let name = HostName::new("web1").expect("a name");
        assert_eq!(read(json!("web1")), Ok(HostRef::Name(name.clone())));
        assert_eq!((read(json!(7)), read(json!(-7))), (Ok(HostRef::Number(7)), Ok(HostRef::Number(-7))));
        for (value, says) in [
            (json!("a b"), "a host name starts with"),
            (json!(u64::MAX), "expected the name or the number of a host"),
            (json!(1.5), "expected the name or the number of a host"),
            (json!(["web1"]), "expected the name or the number of a host"),
        ] {
            let error = read(value.clone()).expect_err("no host");
            assert!(error.contains(says), "{value}: {error}");
        }
        assert_eq!(HostRef::from(name).to_string(), "web1");
        assert_eq!(HostRef::Number(7).to_string(), "with the number 7");
    }
}
