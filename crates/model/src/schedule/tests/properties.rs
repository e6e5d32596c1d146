//! Patterns against a clock that ticks minute by minute and knows nothing of how instants are found.

use std::collections::BTreeSet;

use jiff::ToSpan;
use jiff::civil::DateTime;
use proptest::prelude::*;

use super::cron;
use crate::schedule::cron::{Cron, LOOKED_AT};
use crate::time::Timestamp;

const ZONES: [&str; 6] =
    ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu"];

/// The sets a pattern means, and whether its minutes are written with a star.
#[derive(Debug, Clone)]
struct Pattern {
    minutes: BTreeSet<i8>,
    hours: BTreeSet<i8>,
    weekdays: BTreeSet<i8>,
    star: bool,
}

fn list(numbers: &BTreeSet<i8>) -> String {
    numbers.iter().map(i8::to_string).collect::<Vec<_>>().join(",")
}

impl Pattern {
    fn text(&self) -> String {
        let step = self.minutes.iter().nth(1).copied().unwrap_or(59);
        let minutes = if self.star { format!("*/{step}") } else { list(&self.minutes) };
        let hours = if self.hours.len() == 24 { "*".to_owned() } else { list(&self.hours) };
        let weekdays = if self.weekdays.len() == 7 { "*".to_owned() } else { list(&self.weekdays) };
        format!("{minutes} {hours} * * {weekdays}")
    }

    fn matches(&self, local: DateTime) -> bool {
        self.minutes.contains(&local.minute())
            && self.hours.contains(&local.hour())
            && self.weekdays.contains(&local.weekday().to_sunday_zero_offset())
    }
}

fn numbers(below: i8) -> impl Strategy<Value = BTreeSet<i8>> {
    prop_oneof![prop::collection::btree_set(0..below, 1..4), Just((0..below).collect::<BTreeSet<i8>>()),]
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let minutes = prop_oneof![
        prop::collection::btree_set(0..60_i8, 1..4).prop_map(|minutes| (minutes, false)),
        prop::sample::select(vec![5_i8, 7, 15, 20, 30]).prop_map(|n| ((0..60).step_by(n as usize).collect(), true)),
    ];
    (minutes, numbers(24), numbers(7)).prop_map(|((minutes, star), hours, weekdays)| Pattern {
        minutes,
        hours,
        weekdays,
        star,
    })
}

/// What the rules say, found by watching the clock.
fn watched(pattern: &Pattern, zone: &jiff::tz::TimeZone, from: jiff::Timestamp, minutes: i64) -> Vec<jiff::Timestamp> {
    let (named, every) = (pattern.hours.len() < 24, pattern.star);
    // Begun a day before, so that it knows what the clock has shown already.
    let mut instant = from - (24 * 60).minutes();
    let mut latest = zone.to_datetime(instant);
    let mut found = Vec::new();
    while instant < from + minutes.minutes() {
        instant += 1.minute();
        let shows = zone.to_datetime(instant);
        let again = shows <= latest;
        let mut fires = pattern.matches(shows) && (!again || !named || every);
        let mut skipped = latest + 1.minute();
        while skipped < shows {
            fires |= named && pattern.matches(skipped);
            skipped += 1.minute();
        }
        latest = latest.max(shows);
        if fires && instant > from {
            found.push(instant);
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_instants_are_those_that_a_watcher_of_the_clock_would_name(
        pattern in pattern(),
        zone in prop::sample::select(ZONES.to_vec()),
        // Around the days on which clocks change in one or the other zone.
        day in prop::sample::select(vec![
            "2026-02-14", "2026-03-07", "2026-03-21", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31",
        ]),
        second in 0..86_400_i64,
    ) {
        let schedule = cron(&pattern.text(), zone);
        let from = format!("{day}T00:00:00Z").parse::<jiff::Timestamp>().expect("a moment") + (second / 60).minutes();
        let minutes = 2 * 24 * 60;
        let wanted = watched(&pattern, schedule.timezone.rules(), from, minutes);
        let until = Timestamp::from_micros((from + minutes.minutes()).as_microsecond());
        let mut found = Vec::new();
        let mut after = Timestamp::from_micros(from.as_microsecond());
        while let Some(next) = schedule.next_after(after).filter(|next| *next <= until) {
            prop_assert!(next > after);
            found.push(jiff::Timestamp::from_microsecond(next.as_micros()).expect("a moment"));
            after = next;
        }
        prop_assert_eq!(found, wanted, "{} in {}", pattern.text(), zone);
    }

    /// However the looks fall, each instant is fired or missed once, and none is fired twice.
    #[test]
    fn every_instant_is_considered_once(
        steps in prop::collection::vec(-90_000_000..90_000_000_i64, 1..40),
        misfire in prop::sample::select(vec!["skip", "once", "all"]),
        every in prop::sample::select(vec!["*/7 * * * *", "30 2 * * *", "0 * * * *"]),
        zone in prop::sample::select(ZONES.to_vec()),
    ) {
        let schedule = super::schedule(serde_json::json!({
            "cron": every, "timezone": zone, "misfire": misfire, "misfire_max": 1000, "grace_ms": 3_600_000
        }));
        let start = super::at("2026-03-27T00:00:00Z");
        let (mut seen, mut now) = (start, start);
        let (mut fired, mut missed) = (BTreeSet::new(), 0);
        for step in steps {
            now = now.plus_millis(step);
            let look = schedule.look(seen, now);
            prop_assert!(look.to >= seen);
            for instant in look.fire {
                prop_assert!(instant > seen && instant <= look.to);
                prop_assert!(fired.insert(instant), "{} twice", instant);
            }
            missed += look.missed;
            seen = look.to;
        }
        let mut all = 0;
        let mut after = start;
        while let Some(next) = schedule.next_after(after).filter(|next| *next <= seen) {
            all += 1;
            after = next;
        }
        prop_assert_eq!(fired.len() as u64 + missed, all);
    }
}

fn field(texts: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(texts.to_vec())
}

/// What one search may look at: every day of nine years, anew after each of the changes of a zone's clock in them.
const DAYS_MAX: u64 = 200_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Patterns that are never or hardly ever due are those that take long.
    #[test]
    fn no_pattern_looks_at_more_days_than_its_budget(
        minute in field(&["*", "0", "59", "*/7", "1,2,3"]),
        hour in field(&["*", "0", "2", "23", "*/5"]),
        day in field(&["*", "29", "30", "31", "L", "1-7", "29,30,31"]),
        month in field(&["*", "2", "2,4", "4,6,9,11", "11", "*/2"]),
        weekday in field(&["*", "0", "5", "1-5"]),
        zone in prop::sample::select(ZONES.to_vec()),
        year in 1_900_i64..2_200,
    ) {
        // A schedule that is never due is refused; the pattern alone is looked for all the same.
        let Ok(pattern) = format!("{minute} {hour} {day} {month} {weekday}").parse::<Cron>() else { return Ok(()) };
        let rules = cron("0 0 * * *", zone).timezone;
        let after = format!("{year:04}-03-01T00:00:00Z").parse::<jiff::Timestamp>().expect("a moment");
        let before = LOOKED_AT.with(std::cell::Cell::get);
        let _ = pattern.next_in(&rules, Timestamp::from_micros(after.as_microsecond()));
        let looked_at = LOOKED_AT.with(std::cell::Cell::get) - before;
        prop_assert!(looked_at <= DAYS_MAX, "{looked_at} for {minute} {hour} {day} {month} {weekday} in {zone}");
    }
}
