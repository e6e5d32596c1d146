//! What a look comes to: on time, late, after a long absence, after the clock was moved.

use serde_json::json;

use super::{at, cron, schedule};
use crate::schedule::Look;

fn look(fire: &[&str], missed: u64, to: &str, again_at: Option<&str>) -> Look {
    Look { fire: fire.iter().map(|text| at(text)).collect(), missed, to: at(to), again_at: again_at.map(at) }
}

#[test]
fn an_instant_on_time_is_fired() {
    let hourly = cron("0 * * * *", "UTC");
    assert_eq!(
        hourly.look(at("2026-01-01T00:30:00Z"), at("2026-01-01T01:00:00.2Z")),
        look(&["2026-01-01T01:00:00Z"], 0, "2026-01-01T01:00:00.2Z", Some("2026-01-01T02:00:00Z"))
    );
    assert_eq!(
        hourly.look(at("2026-01-01T01:00:00.2Z"), at("2026-01-01T01:59:00Z")),
        look(&[], 0, "2026-01-01T01:59:00Z", Some("2026-01-01T02:00:00Z"))
    );
    // Within its grace.
    assert_eq!(hourly.look(at("2026-01-01T00:30:00Z"), at("2026-01-01T01:01:00Z")).fire.len(), 1);
}

#[test]
fn after_a_day_away_the_rule_for_missed_instants_counts() {
    let (seen, now) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T00:30:00Z"));
    let with = |misfire: &str, max: u32| {
        schedule(json!({"cron": "0 * * * *", "misfire": misfire, "misfire_max": max})).look(seen, now)
    };
    let end = (now, Some(at("2026-01-02T01:00:00Z")));
    let skip = with("skip", 100);
    assert_eq!((skip.fire.len(), skip.missed, (skip.to, skip.again_at)), (0, 24, end));
    let once = with("once", 100);
    assert_eq!((once.fire, once.missed, (once.to, once.again_at)), (vec![at("2026-01-02T00:00:00Z")], 23, end));
    let all = with("all", 100);
    assert_eq!((all.fire.len(), all.missed, all.fire[0]), (24, 0, at("2026-01-01T01:00:00Z")));
    let some = with("all", 3);
    let latest = ["2026-01-01T22:00:00Z", "2026-01-01T23:00:00Z", "2026-01-02T00:00:00Z"].map(at);
    assert_eq!((some.fire, some.missed), (latest.to_vec(), 21));
}

#[test]
fn an_instant_on_time_stands_for_those_that_were_missed() {
    let (seen, now) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T06:00:10Z"));
    let once = cron("0 * * * *", "UTC").look(seen, now);
    assert_eq!((once.fire, once.missed), (vec![at("2026-01-01T06:00:00Z")], 5));
    let skip = schedule(json!({"cron": "0 * * * *", "misfire": "skip"})).look(seen, now);
    assert_eq!((skip.fire, skip.missed), (vec![at("2026-01-01T06:00:00Z")], 5));
}

#[test]
fn a_clock_that_was_put_back_is_waited_for() {
    let hourly = cron("0 * * * *", "UTC");
    assert_eq!(
        hourly.look(at("2026-01-02T00:00:00Z"), at("2026-01-01T00:00:00Z")),
        look(&[], 0, "2026-01-02T00:00:00Z", Some("2026-01-02T01:00:00Z"))
    );
}

#[test]
fn what_is_disabled_or_over_waits_for_nothing() {
    let (seen, now) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"));
    let disabled = schedule(json!({"cron": "0 * * * *", "enabled": false}));
    assert_eq!(disabled.look(seen, now), look(&[], 0, "2026-01-02T00:00:00Z", None));
    let over = schedule(json!({"cron": "0 * * * *", "ends_at": "2025-12-31T00:00:00Z"}));
    assert_eq!(over.look(seen, now), look(&[], 0, "2026-01-02T00:00:00Z", None));
}

#[test]
fn a_rare_schedule_is_looked_at_every_day() {
    let yearly = cron("0 0 1 7 *", "UTC");
    let now = at("2026-01-01T00:00:00Z");
    assert_eq!(yearly.look(now, now.plus_millis(1)).again_at, Some(now.plus_millis(24 * 60 * 60 * 1_000 + 1)));
}

#[test]
fn a_year_of_missed_seconds_is_one_short_look() {
    let fast = schedule(json!({"every_ms": 1_000, "misfire": "all", "misfire_max": 1_000, "grace_ms": 1_000}));
    let now = at("2027-01-01T00:00:00.5Z");
    let look = fast.look(at("2026-01-01T00:00:00Z"), now);
    assert_eq!(look.fire.len(), 1_001, "a thousand that were missed and the one that is on time");
    assert!(look.missed >= 1 && look.missed < 10_000, "{}", look.missed);
    assert_eq!(look.fire.last(), Some(&at("2027-01-01T00:00:00Z")));
}

#[test]
fn more_than_a_look_can_fire_is_left_for_the_next_one() {
    let fast = schedule(json!({"every_ms": 1_000, "grace_ms": 86_400_000}));
    let now = at("2026-01-01T01:00:00Z");
    let first = fast.look(at("2026-01-01T00:00:00Z"), now);
    assert_eq!((first.fire.len(), first.to, first.again_at), (1_000, at("2026-01-01T00:16:40Z"), Some(now)));
    let second = fast.look(first.to, now);
    assert_eq!(second.fire[0], at("2026-01-01T00:16:41Z"));
}
