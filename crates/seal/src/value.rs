//! A value in memory: it is not printed, not compared, and wiped when it is dropped.

use std::collections::BTreeMap;
use std::fmt;

use zeroize::Zeroizing;

/// The value of a secret. Whoever needs it writes `reveal`, which can be searched for.
#[derive(Clone)]
pub struct SecretValue(Zeroizing<String>);

impl SecretValue {
    pub fn new(value: impl Into<String>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// The value itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(***)")
    }
}

/// Values by the name under which a command knows them.
pub type Values = BTreeMap<String, SecretValue>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_not_shown() {
        let values: Values = [("db".to_owned(), SecretValue::new("hunter22"))].into();
        assert_eq!(format!("{values:?}"), "{\"db\": SecretValue(***)}");
        assert_eq!(values["db"].reveal(), "hunter22");
    }
}
