//! Time zones by name. The rules come with the program, so that every server of a ledger has the same ones, also on a
//! machine that has none.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::Timestamp;

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// A zone of the IANA database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// Why a text is not a zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no time zone {0:?}; zones have names such as UTC or Europe/Berlin")]
pub struct NotAZone(String);

impl Zone {
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// What a clock in this zone shows at a moment, with its distance from UTC.
    pub fn local(&self, at: Timestamp) -> String {
        match jiff::Timestamp::from_microsecond(at.as_micros()) {
            Ok(moment) => moment.to_zoned(self.0.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            Err(_) => at.to_string(),
        }
    }

    pub const fn rules(&self) -> &TimeZone {
        &self.0
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl FromStr for Zone {
    type Err = NotAZone;

    fn from_str(text: &str) -> Result<Self, NotAZone> {
        let not = || NotAZone(text.chars().take(64).collect());
        if text.len() > 64 {
            return Err(not());
        }
        let zone = ZONES.get(text).map_err(|_| not())?;
        if zone.iana_name().is_none() { Err(not()) } else { Ok(Self(zone)) }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Zone {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TimeZone".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "a zone of the IANA database, such as Europe/Berlin",
            "default": "UTC",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_in_a_zone_shows_its_own_time() {
        let zone: Zone = "Europe/Berlin".parse().expect("a zone");
        let shown = |text: &str| zone.local(text.parse().expect("a moment"));
        assert_eq!(shown("2026-07-01T12:00:00Z"), "2026-07-01T14:00:00+02:00");
        assert_eq!(shown("2026-01-01T12:00:00Z"), "2026-01-01T13:00:00+01:00");
        let last = Timestamp::from_micros(i64::MAX);
        assert_eq!(zone.local(last), last.to_string(), "there is no such year");
        let text = serde_json::to_value(&zone).expect("JSON");
        assert_eq!(text, zone.to_string());
        assert_eq!(serde_json::from_value::<Zone>(text).expect("a zone"), zone);
        assert!(format!("{}/x", "x".repeat(70)).parse::<Zone>().is_err());
    }

    #[test]
    fn zones_are_known_by_their_names() {
        for name in ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"] {
            assert_eq!(name.parse::<Zone>().expect("a zone").name(), name);
        }
        assert_eq!("europe/berlin".parse::<Zone>().expect("a zone").name(), "Europe/Berlin");
        assert_eq!(Zone::default().name(), "UTC");
        for name in ["", "Berlin", "+02:00", "CEST-2", "Europe/Berlin ", "../etc/passwd", "Local"] {
            assert!(name.parse::<Zone>().is_err(), "{name}");
        }
    }
}
