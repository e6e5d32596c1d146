//! The address of a person, as far as it matters here: it is kept, shown and handed to workflows, never written to.

use std::fmt;
use std::str::FromStr;

/// Somebody's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Email(String);

/// This is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an address has one @ with a name before it and a place behind it, no spaces, and at most {} bytes",
    Email::BYTES_MAX
)]
pub struct NotAnEmail;

impl Email {
    /// What mail itself allows.
    pub const BYTES_MAX: usize = 254;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Email {
    type Err = NotAnEmail;

    fn from_str(text: &str) -> Result<Self, NotAnEmail> {
        let has_parts = matches!(text.split_once('@'), Some((who, place)) if !who.is_empty() && !place.is_empty() && !place.contains('@'));
        let is_plain = !text.chars().any(|c| c.is_control() || c.is_whitespace());
        if has_parts && is_plain && text.len() <= Self::BYTES_MAX { Ok(Self(text.to_owned())) } else { Err(NotAnEmail) }
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_name_and_a_place() {
        for good in ["user@example.com", "a@b", "ann+test@mail.example", "ида@пример.рф"] {
            assert_eq!(good.parse::<Email>().map(|email| email.to_string()).as_deref(), Ok(good));
        }
        let long = format!("{}@example.com", "a".repeat(250));
        for bad in
            ["", "@", "ann", "ann@", "@example.com", "a@b@c", "ann @example.com", "ann@example.com\n", "a\0@b", &long]
        {
            assert_eq!(bad.parse::<Email>(), Err(NotAnEmail), "{bad:?}");
        }
    }
}
