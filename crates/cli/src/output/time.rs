//! Moments and durations, as people say them.

use bowline_model::Timestamp;

use super::text::Text;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// `now`, `3s ago`, `in 10m`; a date for what is more than 60 days away; the text itself if it is no moment.
pub fn relative(moment: &Text, now: Timestamp) -> String {
    if moment.is_empty() {
        return String::new();
    }
    let Ok(at) = moment.as_str().parse::<Timestamp>() else { return moment.to_string() };
    let millis = now.millis_since(at);
    let distance = millis.saturating_abs();
    if distance < SECOND {
        return "now".to_owned();
    }
    if distance > 60 * DAY {
        return at.to_string().chars().take(10).collect();
    }
    let (unit, letter) = match distance {
        ..MINUTE => (SECOND, 's'),
        MINUTE..HOUR => (MINUTE, 'm'),
        HOUR..DAY => (HOUR, 'h'),
        _ => (DAY, 'd'),
    };
    if millis > 0 {
        format!("{}{letter} ago", distance / unit)
    } else {
        // What was made for 30 days a moment ago is due in 30 days, not in 29.
        format!("in {}{letter}", (distance + unit / 2) / unit)
    }
}

/// How long something took: `12ms`, `3.2s`, `1m 20s`, `2h 5m`.
pub fn span(millis: i64) -> String {
    match millis {
        ..SECOND => format!("{}ms", millis.max(0)),
        SECOND..MINUTE => format!("{}.{}s", millis / SECOND, millis % SECOND / 100),
        MINUTE..HOUR => format!("{}m {}s", millis / MINUTE, millis % MINUTE / SECOND),
        HOUR..DAY => format!("{}h {}m", millis / HOUR, millis % HOUR / MINUTE),
        _ => format!("{}d {}h", millis / DAY, millis % DAY / HOUR),
    }
}

/// How long it was from one moment to another; empty where one of them is missing.
pub fn between(from: &Text, to: &Text) -> String {
    match (from.as_str().parse::<Timestamp>(), to.as_str().parse::<Timestamp>()) {
        (Ok(from), Ok(to)) => span(to.millis_since(from)),
        _ => String::new(),
    }
}

/// The time of day in UTC, to the millisecond, for lines of a running log; with the date if it is not today's.
pub fn clock_time(moment: &Text, now: Timestamp) -> String {
    let Ok(at) = moment.as_str().parse::<Timestamp>() else { return moment.to_string() };
    let (at, now) = (at.to_string(), now.to_string());
    match (at.get(..10), at.get(11..23), now.get(..10)) {
        (Some(day), Some(time), Some(today)) if day == today => format!("{time}Z"),
        (Some(day), Some(time), _) => format!("{day} {time}Z"),
        _ => at,
    }
}

/// A number with its thousands apart.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-03T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn moments_are_told_from_now() {
        let told = |moment: &str| relative(&Text::new(moment), now());
        assert_eq!(told("2026-01-03T11:59:59.500Z"), "now");
        assert_eq!(told("2026-01-03T12:00:00.999Z"), "now");
        assert_eq!(told("2026-01-03T11:59:57Z"), "3s ago");
        assert_eq!(told("2026-01-03T11:55:01Z"), "4m ago");
        assert_eq!(told("2026-01-03T10:00:00Z"), "2h ago");
        assert_eq!(told("2025-12-29T12:00:00Z"), "5d ago");
        assert_eq!(told("2025-01-03T12:00:00Z"), "2025-01-03");
        assert_eq!(told("2026-01-03T12:10:00Z"), "in 10m");
        assert_eq!(told("2026-02-02T11:59:59Z"), "in 30d");
        assert_eq!(told("2027-01-03T12:10:00Z"), "2027-01-03");
        assert_eq!(told("yesterday"), "yesterday");
        assert_eq!(told(""), "");
    }

    #[test]
    fn spans_are_told_in_two_units_at_most() {
        let told = [-5, 0, 812, 3_270, 80_000, 7_500_000, 90_000_000].map(span);
        assert_eq!(told, ["0ms", "0ms", "812ms", "3.2s", "1m 20s", "2h 5m", "1d 1h"]);
        assert_eq!(between(&Text::new("2026-01-03T12:00:00Z"), &Text::new("2026-01-03T12:00:01.5Z")), "1.5s");
        assert_eq!(between(&Text::new("2026-01-03T12:00:00Z"), &Text::new("")), "");
    }

    #[test]
    fn the_time_of_day_names_the_day_when_it_is_another() {
        assert_eq!(clock_time(&Text::new("2026-01-03T11:59:57.1239Z"), now()), "11:59:57.123Z");
        assert_eq!(clock_time(&Text::new("2026-01-02T11:59:57Z"), now()), "2026-01-02 11:59:57.000Z");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
