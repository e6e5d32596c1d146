//! Durations as people type them: `30s`, `10m`, `2h`, `7d`, `500ms`, `1h30m`.

use std::str::FromStr;
use std::time::Duration;

/// Why a text is not a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotADuration {
    #[error("a number and a unit are expected, such as 500ms, 30s, 10m, 2h or 7d")]
    Form,
    #[error("that is longer than a hundred years")]
    TooLong,
}

/// A duration from the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(Duration);

impl Span {
    const MAX_MS: u64 = 100 * 366 * 24 * 60 * 60 * 1_000;

    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// Whole seconds; a part of a second counts as one, so that something never becomes nothing.
    pub fn as_secs(self) -> u64 {
        self.as_millis().div_ceil(1_000)
    }
}

impl FromStr for Span {
    type Err = NotADuration;

    fn from_str(text: &str) -> Result<Self, NotADuration> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(NotADuration::Form);
        }
        let mut millis = 0u64;
        while !rest.is_empty() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, after) = rest.split_at(digits);
            if number.is_empty() {
                return Err(NotADuration::Form);
            }
            let letters = after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
            let (unit, after) = after.split_at(letters);
            let unit_ms = match unit {
                "ms" => 1,
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return Err(NotADuration::Form),
            };
            let number: u64 = number.parse().map_err(|_| NotADuration::TooLong)?;
            millis = number
                .checked_mul(unit_ms)
                .and_then(|part| millis.checked_add(part))
                .filter(|sum| *sum <= Self::MAX_MS)
                .ok_or(NotADuration::TooLong)?;
            rest = after;
        }
        Ok(Self(Duration::from_millis(millis)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn millis(text: &str) -> Result<u64, NotADuration> {
        text.parse::<Span>().map(Span::as_millis)
    }

    #[test]
    fn units_and_sums_of_them_are_understood() {
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("30s"), Ok(30_000));
        assert_eq!(millis("10m"), Ok(600_000));
        assert_eq!(millis("2h"), Ok(7_200_000));
        assert_eq!(millis("7d"), Ok(604_800_000));
        assert_eq!(millis("1h30m"), Ok(5_400_000));
        assert_eq!("1500ms".parse::<Span>().map(Span::as_secs), Ok(2));
    }

    #[test]
    fn everything_else_is_refused() {
        for text in ["", " ", "30", "s", "-5s", "1.5h", "10 m", "10x", "10min", "１０s", "5s-"] {
            assert_eq!(millis(text), Err(NotADuration::Form), "{text:?}");
        }
        for text in ["99999999999999999999s", "40000d", "18446744073709551615d"] {
            assert_eq!(millis(text), Err(NotADuration::TooLong), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[0-9a-z .-]{0,24}") {
            let _ = text.parse::<Span>();
        }
    }
}
