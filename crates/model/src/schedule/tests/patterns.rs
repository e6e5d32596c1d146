//! What a pattern may say, and what it means.

use serde_json::{Value, json};

use super::{at, cron, read, schedule, shown};
use crate::resource::{ResourceKind, Spec};
use crate::schedule::Cron;

#[test]
fn fields_are_lists_of_ranges_with_steps_and_names() {
    // 2026-01-01 is a Thursday.
    for (pattern, wanted) in [
        ("0 12 * * *", vec!["01 12:00+0000", "02 12:00+0000"]),
        ("*/30 6-7 1 * *", vec!["01 06:00+0000", "01 06:30+0000", "01 07:00+0000", "01 07:30+0000"]),
        ("5,10-12/2 3 1 * *", vec!["01 03:05+0000", "01 03:10+0000", "01 03:12+0000"]),
        ("5,10,5-5 3 1 * *", vec!["01 03:05+0000", "01 03:10+0000"]),
        ("0 9 * JAN fri", vec!["02 09:00+0000"]),
        ("0 0 * 2-12 *", vec![]),
        ("@daily", vec!["01 00:00+0000", "02 00:00+0000"]),
    ] {
        let found = shown(&cron(pattern, "UTC"), "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z");
        assert_eq!(found, wanted, "{pattern}");
    }
}

#[test]
fn days_of_the_week_begin_and_end_with_sunday() {
    let week = |pattern: &str| {
        let found = shown(&cron(pattern, "UTC"), "2026-02-01T00:00:00Z", "2026-02-08T00:00:00Z");
        found.iter().map(|text| text[..2].to_owned()).collect::<Vec<_>>()
    };
    // 2026-02-01 is a Sunday.
    assert_eq!(week("0 0 * * 0"), ["01"]);
    assert_eq!(week("0 0 * * 7"), ["01"]);
    assert_eq!(week("0 0 * * 0,7"), ["01"]);
    assert_eq!(week("0 0 * * SUN-SUN"), ["01"]);
    assert_eq!(week("0 0 * * SAT-SUN"), ["01", "07"]);
    assert_eq!(week("0 0 * * 5-7"), ["01", "06", "07"]);
    assert_eq!(week("0 0 * * MON-FRI"), ["02", "03", "04", "05", "06"]);
}

#[test]
fn a_day_of_the_month_or_a_day_of_the_week_will_do_where_both_are_named() {
    let days = |pattern: &str| {
        let found = shown(&cron(pattern, "UTC"), "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z");
        found.iter().map(|text| text[..2].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(days("0 0 13 * FRI"), ["06", "13", "20", "27"]);
    assert_eq!(days("0 0 10 * FRI"), ["06", "10", "13", "20", "27"]);
    assert_eq!(days("0 0 */14 * SUN"), ["01", "15"], "where one is `*`, both must fit");
}

#[test]
fn the_last_day_of_a_month_is_its_last_day() {
    let found = shown(&cron("0 0 L 2,4 *", "UTC"), "2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z");
    assert_eq!(found, ["28 00:00+0000", "30 00:00+0000"]);
    let leap = shown(&cron("0 0 15,L * *", "UTC"), "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z");
    assert_eq!(leap, ["15 00:00+0000", "29 00:00+0000"]);
}

#[test]
fn a_leap_day_comes_also_when_a_century_leaves_one_out() {
    let leap = cron("0 0 29 2 *", "UTC");
    assert_eq!(leap.next_after(at("2026-01-01T00:00:00Z")), Some(at("2028-02-29T00:00:00Z")));
    assert_eq!(leap.next_after(at("2096-03-01T00:00:00Z")), Some(at("2104-02-29T00:00:00Z")));
}

#[test]
fn what_is_no_pattern_is_refused_with_its_field() {
    for (pattern, says) in [
        ("", "has 0 fields"),
        ("* * * *", "has 4 fields"),
        ("* * * * * *", "has 6 fields"),
        ("60 * * * *", "minute: \"60\" is not between 0 and 59"),
        ("* 24 * * *", "hour: "),
        ("* * 0 * *", "day of month: "),
        ("* * 32 * *", "day of month: "),
        ("* * * 13 *", "month: "),
        ("* * * * 8", "day of week: "),
        ("* * * FOO *", "month: \"FOO\""),
        ("*/0 * * * *", "minute: a step"),
        ("*/60 * * * *", "minute: a step"),
        ("5/15 * * * *", "minute: a step needs a range: 5-59/n"),
        ("*/001 * * * *", "minute: a step"),
        ("30-10 * * * *", "minute: 30-10 goes backwards"),
        ("30-0 * * * *", "minute: 30-0 goes backwards"),
        ("1,,2 * * * *", "minute: \"\""),
        ("-1 * * * *", "minute: "),
        ("+1 * * * *", "minute: \"+1\""),
        ("001 * * * *", "minute: \"001\""),
        ("? * * * *", "minute: "),
        ("* * LW * *", "day of month: "),
        ("* * * * 5L", "day of week: "),
        ("* * * * 5#2", "day of week: "),
        ("@reboot", "@reboot is not known"),
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 2,4,6,9,11 *", "never fires"),
    ] {
        let said = pattern.parse::<Cron>().expect_err(pattern).to_string();
        assert!(said.contains(says), "{pattern}: {said}");
        let bad = read(json!({"cron": pattern})).expect_err(pattern);
        assert_eq!(bad.path, "cron", "{pattern}");
    }
    assert!("1 ".repeat(200).parse::<Cron>().is_err());
}

#[test]
fn what_is_no_schedule_is_refused_with_its_place() {
    let cron = "0 0 * * *";
    for (fields, path) in [
        (json!({}), "cron"),
        (json!({"cron": cron, "every_ms": 60_000}), "every_ms"),
        (json!({"every_ms": 999}), "every_ms"),
        (json!({"every_ms": -1}), "every_ms"),
        (json!({"cron": cron, "timezone": "Mars/Olympus"}), "timezone"),
        (json!({"cron": cron, "misfire": "twice"}), "misfire"),
        (json!({"cron": cron, "misfire_max": 0}), "misfire_max"),
        (json!({"cron": cron, "grace_ms": 0}), "grace_ms"),
        (json!({"cron": cron, "jitter_ms": 86_400_001}), "jitter_ms"),
        (json!({"cron": cron, "overlap": "kill"}), "overlap"),
        (json!({"cron": cron, "starts_at": "2026-02-01T00:00:00Z", "ends_at": "2026-01-01T00:00:00Z"}), "ends_at"),
        (json!({"cron": cron, "starts_at": "2026-02-01T01:00:00Z", "ends_at": "2026-02-01T02:00:00Z"}), "ends_at"),
        (json!({"cron": cron, "starts_at": "tomorrow"}), "starts_at"),
        (json!({"cron": cron, "time_zone": "UTC"}), "time_zone"),
    ] {
        let bad = read(fields.clone()).expect_err("it is refused");
        assert_eq!(bad.path, path, "{fields}: {bad}");
    }
}

#[test]
fn what_a_schedule_leaves_out_has_its_default() {
    let whole = json!({
        "cron": "0 * * * *", "timezone": "UTC", "start": {"type": "echo"}, "enabled": true,
        "misfire": "once", "misfire_max": 100, "grace_ms": 60_000, "overlap": "allow",
    });
    let written = |value: Value| {
        let spec = Spec::from_value(ResourceKind::Schedule, value).expect("a schedule");
        serde_json::from_str::<Value>(&spec.canonical()).expect("JSON")
    };
    assert_eq!(written(json!({"cron": "0 * * * *", "start": {"type": "echo"}})), whole);
    assert_eq!(written(whole.clone()), whole);
}

#[test]
fn every_so_often_is_counted_from_its_beginning() {
    let free = schedule(json!({"every_ms": 90_000}));
    assert_eq!(free.next_after(at("1970-01-01T00:00:00Z")), Some(at("1970-01-01T00:01:30Z")));
    assert_eq!(free.next_after(at("1970-01-01T00:02:00Z")), Some(at("1970-01-01T00:03:00Z")));
    let bound = schedule(json!({
        "every_ms": 3_600_000, "starts_at": "2026-01-01T00:10:00Z", "ends_at": "2026-01-01T02:10:00Z"
    }));
    let found = shown(&bound, "2025-12-31T00:00:00Z", "2026-01-02T00:00:00Z");
    assert_eq!(found, ["01 00:10+0000", "01 01:10+0000", "01 02:10+0000"]);
}

#[test]
fn a_delay_follows_from_the_name_and_the_instant() {
    let jittery = schedule(json!({"cron": "* * * * *", "jitter_ms": 30_000}));
    let instant = at("2026-01-01T00:00:00Z");
    let delays: Vec<i64> = (0..50).map(|n| jittery.due_at(&format!("s{n}"), instant).millis_since(instant)).collect();
    assert!(delays.iter().all(|ms| (0..=30_000).contains(ms)));
    assert!(delays.iter().any(|ms| *ms > 15_000) && delays.iter().any(|ms| *ms < 15_000), "{delays:?}");
    assert_eq!(jittery.due_at("s1", instant), jittery.due_at("s1", instant));
    assert_eq!(cron("* * * * *", "UTC").due_at("s1", instant), instant);
}
