//! Tests of schedules: patterns, the days on which clocks change, and what a look comes to.

mod changeovers;
mod looks;
mod patterns;
mod properties;

use serde_json::{Value, json};

use super::ScheduleSpec;
use crate::resource::{BadSpec, ResourceKind, Spec};
use crate::time::Timestamp;

fn at(text: &str) -> Timestamp {
    text.parse().expect("a moment")
}

/// A schedule that starts an echo, with these fields besides.
fn read(mut fields: Value) -> Result<ScheduleSpec, BadSpec> {
    fields["start"] = json!({"type": "echo"});
    match Spec::from_value(ResourceKind::Schedule, fields)? {
        Spec::Schedule(spec) => spec.check().map(|()| *spec),
        other => panic!("{other:?}"),
    }
}

fn schedule(fields: Value) -> ScheduleSpec {
    read(fields).expect("a good schedule")
}

fn cron(pattern: &str, zone: &str) -> ScheduleSpec {
    schedule(json!({"cron": pattern, "timezone": zone}))
}

/// The instants of a schedule between two moments, as a clock in its zone shows them.
fn shown(schedule: &ScheduleSpec, from: &str, until: &str) -> Vec<String> {
    let mut after = Timestamp::from_micros(at(from).as_micros() - 1);
    let mut shown = Vec::new();
    while let Some(next) = schedule.next_after(after).filter(|next| *next < at(until)) {
        let instant = jiff::Timestamp::from_microsecond(next.as_micros()).expect("a moment");
        let zoned = instant.to_zoned(schedule.timezone.rules().clone());
        shown.push(zoned.strftime("%d %H:%M%z").to_string());
        after = next;
    }
    shown
}
