//! A reference to a secret: the place that keeps the value, and the name it has there.
//!
//! `file://NAME` is a file in the tenant's own directory on the server, `env://NAME` a variable of the server's
//! environment. A name is a name and never a path: it has no slash, no wildcard, no query and no letters beyond ASCII.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Who keeps the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretPlace {
    /// A file in the tenant's directory on the server.
    File,
    /// A variable of the server's environment, under the tenant's prefix.
    Env,
}

impl SecretPlace {
    pub const ALL: [Self; 2] = [Self::File, Self::Env];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Env => "env",
        }
    }
}

impl fmt::Display for SecretPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a text refers to no secret. The text is not repeated: it may be the secret itself, pasted into the wrong field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotARef {
    #[error("a reference is PLACE://NAME, such as file://stripe-key")]
    Shape,
    #[error("there is no such place for secrets; the places are: file, env")]
    Place,
    #[error("a reference has at most {} characters", SecretRef::CHARS_MAX)]
    TooLong,
    #[error("file://NAME: a name begins with a letter or digit and goes on with letters, digits and . _ -")]
    FileName,
    #[error("env://NAME: a name begins with an upper-case letter and goes on with upper-case letters, digits and _")]
    EnvName,
}

/// Where a value is. It can be shown to everybody who may read configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretRef {
    place: SecretPlace,
    name: Box<str>,
}

impl SecretRef {
    pub const CHARS_MAX: usize = 136;
    const NAME_MAX: usize = 128;

    pub const fn place(&self) -> SecretPlace {
        self.place
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

fn is_file_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric()) && name.bytes().all(plain) && !name.contains("..")
}

fn is_env_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    name.bytes().next().is_some_and(|b| b.is_ascii_uppercase()) && name.bytes().all(plain)
}

impl FromStr for SecretRef {
    type Err = NotARef;

    fn from_str(text: &str) -> Result<Self, NotARef> {
        if text.len() > Self::CHARS_MAX {
            return Err(NotARef::TooLong);
        }
        let (place, name) = text.split_once("://").ok_or(NotARef::Shape)?;
        let place = SecretPlace::ALL.into_iter().find(|p| p.as_str() == place).ok_or(NotARef::Place)?;
        if name.len() > Self::NAME_MAX {
            return Err(NotARef::TooLong);
        }
        match place {
            SecretPlace::File if !is_file_name(name) => Err(NotARef::FileName),
            SecretPlace::Env if !is_env_name(name) => Err(NotARef::EnvName),
            _ => Ok(Self { place, name: name.into() }),
        }
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.place, self.name)
    }
}

impl Serialize for SecretRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SecretRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not with the text of the error serde would make for another type: that one repeats what it found.
        let text = String::deserialize(deserializer).map_err(|_| serde::de::Error::custom(NotARef::Shape))?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for SecretRef {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SecretRef".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": Self::CHARS_MAX,
            "pattern": "^(file://[A-Za-z0-9][A-Za-z0-9._-]*|env://[A-Z][A-Z0-9_]*)$"
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> NotARef {
        text.parse::<SecretRef>().expect_err(text)
    }

    #[test]
    fn a_reference_is_a_place_and_a_name() {
        for text in ["file://stripe", "file://db.main_1-x", "env://ACME_STRIPE_KEY", "file://9"] {
            let reference: SecretRef = text.parse().unwrap();
            assert_eq!(reference.to_string(), text);
            assert_eq!(serde_json::to_value(&reference).unwrap(), text);
            assert_eq!(serde_json::from_value::<SecretRef>(text.into()).unwrap(), reference);
        }
    }

    /// B072, B073, B074: foreign places, paths, wildcards, lookalikes, endless texts.
    #[test]
    fn what_is_no_reference_is_refused() {
        use NotARef as N;
        for (text, why) in [
            ("", N::Shape),
            ("stripe", N::Shape),
            ("file:stripe", N::Shape),
            ("file:/stripe", N::Shape),
            ("://stripe", N::Place),
            ("FILE://stripe", N::Place),
            (" file://stripe", N::Place),
            ("fil\u{435}://stripe", N::Place),
            ("docker://../x", N::Place),
            ("vault://kv/T2/x", N::Place),
            ("file://", N::FileName),
            ("file:///etc/shadow", N::FileName),
            ("file://../other/key", N::FileName),
            ("file://..", N::FileName),
            ("file://a..b", N::FileName),
            ("file://.hidden", N::FileName),
            ("file://-x", N::FileName),
            ("file://a/b", N::FileName),
            ("file://a\\b", N::FileName),
            ("file://a b", N::FileName),
            ("file://a\n", N::FileName),
            ("file://a\0", N::FileName),
            ("file://a?version=3", N::FileName),
            ("file://a#key", N::FileName),
            ("file://a%2Fb", N::FileName),
            ("file://\u{430}bc", N::FileName),
            ("env://*", N::EnvName),
            ("env://", N::EnvName),
            ("env://path", N::EnvName),
            ("env://_X", N::EnvName),
            ("env://A=B", N::EnvName),
            ("env://A-B", N::EnvName),
            ("env://1A", N::EnvName),
        ] {
            assert_eq!(refused(text), why, "{text:?}");
        }
        assert_eq!(refused(&format!("file://{}", "x".repeat(100 * 1024))), N::TooLong);
        assert_eq!(refused(&format!("file://{}", "x".repeat(129))), N::TooLong);
        assert!(format!("file://{}", "x".repeat(128)).parse::<SecretRef>().is_ok());
        for value in [serde_json::json!(7), serde_json::json!({"a": "hunter22"}), serde_json::json!("hunter22")] {
            let error = serde_json::from_value::<SecretRef>(value).unwrap_err().to_string();
            assert!(!error.contains("hunter22"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_taken_stays_in_its_directory(text in "(file|env)://[ -~]{0,20}|\\PC{0,30}") {
            if let Ok(reference) = text.parse::<SecretRef>() {
                prop_assert_eq!(reference.to_string(), text);
                let mut parts = std::path::Path::new(reference.name()).components();
                prop_assert!(matches!(parts.next(), Some(std::path::Component::Normal(_))));
                prop_assert!(parts.next().is_none());
            }
        }
    }
}
