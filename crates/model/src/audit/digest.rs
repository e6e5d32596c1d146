//! A SHA-256 sum that prints itself.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// 32 bytes; as text 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Digest([u8; 32]);

impl Digest {
    /// What stands before the first record of a chain.
    pub const NONE: Self = Self([0; 32]);

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

/// Why a text is not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a digest (64 hex digits are expected)")]
pub struct NotADigest;

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        hex(text).map(Self).ok_or(NotADigest)
    }
}

/// As many bytes as wanted, from twice as many lower-case hex digits.
pub(super) fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Digest {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "SHA-256, as 64 hex digits"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_its_bytes() {
        let mut bytes = [0; 32];
        (bytes[0], bytes[31]) = (0x09, 0xaf);
        let digest = Digest::from_bytes(bytes);
        assert_eq!(digest.as_bytes(), &bytes);
        let text = format!("09{}af", "00".repeat(30));
        assert_eq!((digest.to_string(), format!("{digest:?}")), (text.clone(), text));
        assert_eq!(hex::<2>("09af"), Some([0x09, 0xaf]));
        for bad in ["09a", "09afa", "09ag", "09AF", "0 af", "09:f", "09`f"] {
            assert_eq!(hex::<2>(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_digest_is_a_text_in_json() {
        let digest = Digest::of(b"abc");
        let text = serde_json::to_value(digest).unwrap();
        assert_eq!(text, digest.to_string());
        assert_eq!(serde_json::from_value::<Digest>(text).unwrap(), digest);
        let schema = schemars::schema_for!(Digest);
        assert_eq!(schema.get("title"), Some(&"Digest".into()));
        assert_eq!(schema.get("pattern"), Some(&"^[0-9a-f]{64}$".into()));
    }

    #[test]
    fn a_digest_prints_and_parses() {
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for bad in ["", "ba", &digest.to_string().to_uppercase(), &format!("{digest}00")] {
            assert_eq!(bad.parse::<Digest>(), Err(NotADigest), "{bad}");
        }
    }
}
