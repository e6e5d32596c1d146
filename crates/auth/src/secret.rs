//! Values that must never be printed.
//!
//! A secret has no `Display` and no `Serialize`; its `Debug` says only that it is there. Whoever needs the value writes
//! `expose()`, so that every such place can be found by searching for that word. On drop the memory is overwritten, as
//! well as safe code can promise it: copies the allocator or the compiler made earlier are out of reach.

use std::fmt;
use std::hint::black_box;

use serde::{Deserialize, Deserializer};
use subtle::ConstantTimeEq;

/// Secret bytes: keys, decoded token secrets.
#[derive(Clone)]
pub struct SecretBytes(Vec<u8>);

impl SecretBytes {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Room to decode into, so that no second copy is made.
    pub(crate) fn expose_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for SecretBytes {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Takes as long for a near miss as for a wild guess; only the length may be learned from the time.
impl PartialEq for SecretBytes {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretBytes {}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(***)")
    }
}

/// A secret text: passwords, token texts, secrets in a configuration file.
#[derive(Clone)]
pub struct SecretText(String);

impl SecretText {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for SecretText {
    fn drop(&mut self) {
        wipe(&mut std::mem::take(&mut self.0).into_bytes());
    }
}

/// As for [`SecretBytes`]: only the length may be learned from the time.
impl PartialEq for SecretText {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for SecretText {}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(***)")
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

/// The text's bytes, as they are: no base64, no trimming.
impl From<SecretText> for SecretBytes {
    fn from(mut text: SecretText) -> Self {
        Self(std::mem::take(&mut text.0).into_bytes())
    }
}

fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    // Without a reader the compiler may drop the writes above.
    black_box(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_is_silent() {
        let bytes = SecretBytes::new(*b"hunter2");
        let text = SecretText::new("hunter2");
        assert_eq!(format!("{bytes:?} {text:?} {:#?}", Some(&text)).matches("hunter2").count(), 0);
    }

    #[test]
    fn secrets_compare_by_value() {
        assert_eq!(SecretBytes::new(*b"abc"), SecretBytes::new(*b"abc"));
        assert_ne!(SecretBytes::new(*b"abc"), SecretBytes::new(*b"abd"));
        assert_ne!(SecretText::new("abc"), SecretText::new("abcd"));
    }

    #[test]
    fn a_text_becomes_bytes_unchanged() {
        assert_eq!(SecretBytes::from(SecretText::new(" a=\n")).expose(), b" a=\n");
    }

    #[test]
    fn wiping_leaves_zeros() {
        let mut bytes = *b"hunter2";
        wipe(&mut bytes);
        assert_eq!(bytes, [0; 7]);
    }

    #[test]
    fn a_secret_is_read_from_configuration() {
        let text: SecretText = serde_json::from_str("\"s3cret\"").unwrap();
        assert_eq!(text.expose(), "s3cret");
    }
}
