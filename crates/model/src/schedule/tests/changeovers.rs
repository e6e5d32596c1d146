//! The two days of the year on which a clock on the wall is put forward or back, in three zones.

use super::{cron, shown};

/// Berlin: 2026-03-29 at 02:00 the clock shows 03:00; 2026-10-25 at 03:00 it shows 02:00.
/// New York: 2026-03-08 at 02:00 the clock shows 03:00; 2026-11-01 at 02:00 it shows 01:00.
/// Lord Howe: 2026-10-04 at 02:00 the clock shows 02:30; 2026-04-05 at 02:00 it shows 01:30.
#[test]
fn a_time_the_clock_jumps_over_is_made_up_for_right_after_the_jump() {
    for (zone, pattern, from, until, wanted) in [
        (
            "Europe/Berlin",
            "30 2 * * *",
            "2026-03-28T00:00:00Z",
            "2026-03-31T00:00:00Z",
            vec!["28 02:30+0100", "29 03:00+0200", "30 02:30+0200"],
        ),
        (
            "Europe/Berlin",
            "0,30 2,3 * * *",
            "2026-03-29T00:00:00Z",
            "2026-03-29T04:00:00Z",
            vec!["29 03:00+0200", "29 03:30+0200"],
        ),
        ("Europe/Berlin", "*/5 2 * * *", "2026-03-29T00:00:00Z", "2026-03-30T00:00:00Z", vec!["29 03:00+0200"]),
        (
            "America/New_York",
            "15 2 * * *",
            "2026-03-08T00:00:00Z",
            "2026-03-10T00:00:00Z",
            vec!["08 03:00-0400", "09 02:15-0400"],
        ),
        (
            "Australia/Lord_Howe",
            "15 2 * * *",
            "2026-10-02T15:00:00Z",
            "2026-10-04T20:00:00Z",
            vec!["03 02:15+1030", "04 02:30+1100", "05 02:15+1100"],
        ),
        ("Australia/Lord_Howe", "45 2 * * *", "2026-10-03T12:00:00Z", "2026-10-04T12:00:00Z", vec!["04 02:45+1100"]),
    ] {
        assert_eq!(shown(&cron(pattern, zone), from, until), wanted, "{pattern} in {zone}");
    }
}

#[test]
fn a_time_the_clock_shows_twice_counts_the_first_time() {
    for (zone, pattern, from, until, wanted) in [
        (
            "Europe/Berlin",
            "30 2 * * *",
            "2026-10-24T00:00:00Z",
            "2026-10-27T00:00:00Z",
            vec!["24 02:30+0200", "25 02:30+0200", "26 02:30+0100"],
        ),
        (
            "America/New_York",
            "0 1 * * *",
            "2026-11-01T00:00:00Z",
            "2026-11-03T00:00:00Z",
            vec!["01 01:00-0400", "02 01:00-0500"],
        ),
        (
            "Australia/Lord_Howe",
            "45 1 * * *",
            "2026-04-04T00:00:00Z",
            "2026-04-06T00:00:00Z",
            vec!["05 01:45+1100", "06 01:45+1030"],
        ),
        (
            "Europe/Berlin",
            "0 2,3 * * *",
            "2026-10-25T00:00:00Z",
            "2026-10-25T12:00:00Z",
            vec!["25 02:00+0200", "25 03:00+0100"],
        ),
    ] {
        assert_eq!(shown(&cron(pattern, zone), from, until), wanted, "{pattern} in {zone}");
    }
}

#[test]
fn every_so_many_minutes_stays_so_through_both_changes() {
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        for day in ["2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01"] {
            let day: jiff::civil::Date = day.parse().expect("a day");
            let from = day.yesterday().expect("a day before");
            let until = day.tomorrow().expect("a day after");
            let found = shown(&cron("*/5 * * * *", zone), &format!("{from}T00:00:00Z"), &format!("{until}T00:00:00Z"));
            assert_eq!(found.len(), 2 * 24 * 12, "{zone} {day}");
        }
    }
}

#[test]
fn a_pattern_for_every_hour_follows_the_clock() {
    let hourly = |pattern: &str, zone: &str, from: &str, until: &str| shown(&cron(pattern, zone), from, until);
    assert_eq!(
        hourly("30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z"),
        ["25 02:30+0200", "25 02:30+0100", "25 03:30+0100"]
    );
    assert_eq!(
        hourly("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z"),
        ["29 01:30+0100", "29 03:30+0200"]
    );
    assert_eq!(
        hourly("45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", "2026-04-04T16:30:00Z"),
        ["05 01:45+1100", "05 01:45+1030", "05 02:45+1030"]
    );
    // Every five minutes within a certain hour: in both of its showings.
    let both = hourly("*/15 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z");
    assert_eq!(both.len(), 8, "{both:?}");
}

#[test]
fn a_whole_day_that_a_zone_leaves_out_is_made_up_for_once() {
    // Samoa went from the 29th of December 2011 to the 31st.
    let found = shown(&cron("0 12 * * *", "Pacific/Apia"), "2011-12-29T00:00:00Z", "2011-12-31T12:00:00Z");
    assert_eq!(found, ["29 12:00-1000", "31 00:00+1400", "31 12:00+1400"]);
}
