//! Lengths of time as people write them: `90s`, `5m`, `1h30m`, `30d`.

use bowline_model::{RunError, Timestamp};

use super::building::Building;
use super::fields::{Text, failure};
use crate::expression::{Context, Insert};
use crate::node::Visit;

/// Ten years, leap days included. Whoever wants to wait longer has made a mistake.
pub(super) const MILLIS_MAX: u64 = 3_653 * 24 * 60 * 60 * 1_000;
const TOO_LONG: &str = "a run waits at most ten years";
const NO_TIME: &str = "must be at least a millisecond";

/// A moment that no run will see, whoever begins it when: in the year 2200.
const NEVER: Timestamp = Timestamp::from_millis(7_258_118_400_000);

/// Whether a moment that stands in a definition could be waited for. Ten years from when is known when a run comes to it.
pub(crate) fn check_moment(text: &str) -> Result<(), String> {
    let moment = text.parse::<Timestamp>().map_err(|error| error.to_string())?;
    if moment >= NEVER { Err(format!("this is too far away: {TOO_LONG}")) } else { Ok(()) }
}

/// Reads a length of time; in milliseconds.
pub(super) fn parse(text: &str) -> Result<u64, &'static str> {
    const SHAPE: &str = "a length of time is numbers with their units: ms, s, m, h, d or w, such as `90s` or `1h30m`";
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(SHAPE);
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(SHAPE)?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let factor: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return Err(SHAPE),
        };
        if number.is_empty() {
            return Err(SHAPE);
        }
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or(TOO_LONG)?;
        total = total.checked_add(part).filter(|total| *total <= MILLIS_MAX).ok_or(TOO_LONG)?;
        rest = after.trim_start();
    }
    Ok(total)
}

/// A length of time that may be computed.
#[derive(Debug)]
pub(super) enum Span {
    Millis(u64),
    Text(Text),
}

impl Span {
    /// From a number of milliseconds or from a text, whichever is given. Both is a mistake.
    pub fn build(
        (at_millis, millis): (&str, Option<u64>),
        (at_text, text): (&str, Option<&str>),
        building: &mut Building<'_>,
    ) -> Option<Self> {
        match (millis, text) {
            (Some(_), Some(_)) => {
                building.mistake(at_text, format!("give this or `{}`, not both", at_millis.trim_start_matches('/')));
                None
            }
            (Some(millis), None) => {
                if millis > MILLIS_MAX {
                    building.mistake(at_millis, TOO_LONG);
                }
                Some(Self::Millis(millis))
            }
            (None, Some(text)) => {
                let text = building.text(at_text, text);
                match text.as_literal().map(parse) {
                    Some(Ok(millis)) => Some(Self::Millis(millis)),
                    Some(Err(what)) => {
                        building.mistake(at_text, what);
                        None
                    }
                    None => Some(Self::Text(text)),
                }
            }
            (None, None) => None,
        }
    }

    /// The same, for whoever gives up afterwards: without any time at all, nobody could answer.
    pub fn build_limit(
        (at_millis, millis): (&str, Option<u64>),
        (at_text, text): (&str, Option<&str>),
        building: &mut Building<'_>,
    ) -> Option<Self> {
        let span = Self::build((at_millis, millis), (at_text, text), building);
        if let Some(Self::Millis(0)) = span {
            building.mistake(if millis.is_some() { at_millis } else { at_text }, NO_TIME);
        }
        span
    }

    pub fn millis(&self, context: &Context) -> Result<u64, RunError> {
        match self {
            Self::Millis(millis) => Ok(*millis),
            Self::Text(text) => {
                parse(&text.text(context, Insert::Text)?).map_err(|what| failure(format!("{}: {what}", text.field())))
            }
        }
    }

    /// The same, for whoever gives up afterwards.
    pub fn limit_millis(&self, context: &Context) -> Result<u64, RunError> {
        match (self.millis(context)?, self) {
            (0, Self::Text(text)) => Err(failure(format!("{}: {NO_TIME}", text.field()))),
            (millis, _) => Ok(millis),
        }
    }
}

/// When whoever waits gives up: as the node says, or else as its policy says.
pub(super) fn expires_at(span: Option<&Span>, visit: Visit<'_>) -> Result<Option<Timestamp>, RunError> {
    let millis = match span {
        Some(span) => Some(span.limit_millis(visit.context)?),
        None => visit.policy.timeout_ms,
    };
    Ok(millis.map(|millis| later(visit.now, millis)))
}

/// So many milliseconds after a moment.
pub(super) fn later(moment: Timestamp, millis: u64) -> Timestamp {
    moment.plus_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        for (text, millis) in [
            ("0s", 0),
            ("250ms", 250),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1d 12h", 129_600_000),
            ("2w", 1_209_600_000),
            ("3653d", MILLIS_MAX),
        ] {
            assert_eq!(parse(text), Ok(millis), "{text}");
        }
        for text in ["", "5", "m", "5 m", "5x", "-5m", "1.5h", "5m3", "3654d", "99999999999999999999d", "5µs"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
