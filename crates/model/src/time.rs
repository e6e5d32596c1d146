//! Moments. One type, microseconds since 1970 in UTC, because both engines keep it without loss.
//!
//! Never here: asking what time it is. `now` is always an argument.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment in microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// This moment moved by `millis`; it stops at the ends of time instead of wrapping.
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis.saturating_mul(1_000)))
    }

    /// The same in microseconds.
    pub const fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// Milliseconds from `earlier` to this moment; negative when `earlier` is later.
    pub const fn millis_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0) / 1_000
    }
}

/// Why a text is not a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotATimestamp {
    #[error("`{0}` is not an RFC 3339 date and time with a zone, such as 2026-01-03T00:00:00Z")]
    Shape(String),
    #[error("`{0}` is too far away: the last day there is is 9999-12-30")]
    TooFar(String),
}

/// Whether a text is written as a moment is, and only its year is more than we know.
fn is_too_far(text: &str) -> bool {
    let (Some(local), Some(rest)) = (text.get(..19), text.get(4..)) else { return false };
    local.parse::<jiff::civil::DateTime>().is_ok() && format!("2000{rest}").parse::<jiff::Timestamp>().is_ok()
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(at) => write!(f, "{at:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    fn from_str(text: &str) -> Result<Self, NotATimestamp> {
        // jiff accepts more than RFC 3339 (a space for the `T`, comma fractions, bracketed zones); the API does not.
        let plain = text.len() <= 40 && !text.contains(['[', ',', ' ']);
        match text.parse::<jiff::Timestamp>() {
            Ok(at) if plain => Ok(Self(at.as_microsecond())),
            Err(_) if plain && is_too_far(text) => Err(NotATimestamp::TooFar(text.to_owned())),
            _ => Err(NotATimestamp::Shape(text.chars().take(64).collect())),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time", "description": "RFC 3339 with a zone"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_prints_and_parses_to_the_microsecond() {
        let at = Timestamp::from_micros(1_767_398_400_123_456);
        assert_eq!(at.to_string(), "2026-01-03T00:00:00.123456Z");
        assert_eq!("2026-01-03T00:00:00.123456Z".parse(), Ok(at));
        assert_eq!("2026-01-03T01:00:00.123456+01:00".parse(), Ok(at));
    }

    #[test]
    fn moments_are_moved_and_compared_in_their_units() {
        let at = Timestamp::from_millis(1_500);
        assert_eq!((at.as_micros(), at.as_millis()), (1_500_000, 1_500));
        assert_eq!(at.plus_millis(2), Timestamp::from_micros(1_502_000));
        assert_eq!(at.plus_micros(-1), Timestamp::from_micros(1_499_999));
        assert_eq!(at.plus_micros(-1).as_millis(), 1_499);
        assert_eq!(Timestamp::from_micros(-1).as_millis(), -1, "before 1970, too");
        assert_eq!(at.millis_since(Timestamp::from_micros(1_000)), 1_499);
        assert_eq!(Timestamp::default().millis_since(at), -1_500);
        let last = Timestamp::from_micros(i64::MAX);
        assert_eq!((last.plus_millis(1), last.plus_micros(1)), (last, last));
        assert_eq!(last.to_string(), format!("{}us", i64::MAX), "there is no such year");
    }

    #[test]
    fn a_moment_is_a_text_in_json() {
        let at = Timestamp::from_millis(1_767_398_400_000);
        let text = serde_json::to_value(at).unwrap();
        assert_eq!(text, "2026-01-03T00:00:00.000000Z");
        assert_eq!(serde_json::from_value::<Timestamp>(text).unwrap(), at);
        assert!(serde_json::from_value::<Timestamp>(7.into()).is_err());
    }

    #[test]
    fn texts_without_a_zone_or_with_extras_are_refused() {
        for text in
            ["", "2026-01-03", "2026-01-03T00:00:00", "2026-01-03 00:00:00Z", "tomorrow", "99999-01-01T00:00:00Z"]
        {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_moment_that_is_too_far_away_is_not_called_a_misspelt_one() {
        for text in ["9999-12-31T23:59:00Z", "9999-12-31T00:00:00.5+01:00"] {
            let error = text.parse::<Timestamp>().expect_err(text).to_string();
            assert!(error.contains("too far away"), "{error}");
        }
        assert!("9999-12-30T00:00:00Z".parse::<Timestamp>().is_ok());
        for text in ["9999-12-31T23:59:00", "9999-12-31 23:59:00Z", "9999-12-32T00:00:00Z", "9999-12-31T23:59:00X"] {
            let error = text.parse::<Timestamp>().expect_err(text).to_string();
            assert!(error.contains("RFC 3339"), "{error}");
        }
    }
}
