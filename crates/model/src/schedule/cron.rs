//! Cron patterns: five fields, read strictly, and the next moment at which a clock on the wall matches them.
//!
//! What happens when that clock is put forward or back follows the oldest cron that thought about it:
//! - A pattern that names certain hours means each of its times once a day. One that the clock jumps over is made up for at
//!   the first moment after the jump; one that comes twice counts the first time.
//! - A pattern for every hour, or for every so many minutes (`*` or `*/n`), follows the clock: what it shows twice counts
//!   twice, so that every five minutes stays every five minutes.
//! - A pattern for every hour makes up for nothing: there is a next time within the hour.

use std::fmt;
use std::str::FromStr;

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Zone;
use crate::time::Timestamp;

/// A pattern of minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    text: String,
    minutes: u64,
    hours: u64,
    days: u64,
    /// The last day of the month, whichever that is.
    last_day: bool,
    months: u64,
    /// Sunday is 0.
    weekdays: u64,
    /// Both sorts of days are named: either will do.
    either_day: bool,
    /// The minutes are `*` or `*/n`.
    every_minutes: bool,
}

/// Why a text is no pattern, and which field of it says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotACron {
    #[error(
        "has {0} fields; a pattern has five: minute hour day-of-month month day-of-week \
         (for less than a minute there is every_ms)"
    )]
    Fields(usize),
    #[error("{0} is not known; there are @hourly, @daily, @weekly, @monthly and @yearly")]
    Nickname(String),
    #[error("{field}: {what}")]
    Field { field: &'static str, what: String },
    #[error("never fires: no month of these has such a day")]
    Never,
    #[error("is too long")]
    Length,
}

/// What one field may say.
struct Field {
    name: &'static str,
    low: u32,
    high: u32,
    words: &'static [&'static str],
    /// The number of the first word.
    first: u32,
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const MINUTE: Field = Field { name: "minute", low: 0, high: 59, words: &[], first: 0 };
const HOUR: Field = Field { name: "hour", low: 0, high: 23, words: &[], first: 0 };
const DAY: Field = Field { name: "day of month", low: 1, high: 31, words: &[], first: 0 };
const MONTH: Field = Field { name: "month", low: 1, high: 12, words: &MONTHS, first: 1 };
/// Both 0 and 7 are Sunday.
const WEEKDAY: Field = Field { name: "day of week", low: 0, high: 7, words: &WEEKDAYS, first: 0 };

const EVERY_HOUR: u64 = (1 << 24) - 1;
/// Leap days are at most eight years apart; whatever comes later than that comes never.
const YEARS_MAX: i16 = 9;
const TEXT_MAX: usize = 256;

impl Field {
    fn bad(&self, what: impl Into<String>) -> NotACron {
        NotACron::Field { field: self.name, what: what.into() }
    }

    fn number(&self, text: &str) -> Result<u32, NotACron> {
        if let Some(n) = self.words.iter().position(|word| word.eq_ignore_ascii_case(text)) {
            return Ok(self.first + n as u32);
        }
        let plain = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        match text.parse() {
            Ok(n) if plain && (self.low..=self.high).contains(&n) => Ok(n),
            _ => Err(self.bad(format!("{text:?} is not between {} and {}", self.low, self.high))),
        }
    }

    /// The numbers that a list such as `1-5,10,*/20` means, as bits.
    fn read(&self, text: &str) -> Result<u64, NotACron> {
        text.split(',').try_fold(0, |bits, part| Ok(bits | self.part(part)?))
    }

    fn part(&self, text: &str) -> Result<u64, NotACron> {
        let (range, step) = match text.split_once('/') {
            None => (text, None),
            Some((range, step)) => (range, Some(step)),
        };
        let (low, high) = match range.split_once('-') {
            _ if range == "*" => (self.low, self.high),
            None => {
                let one = self.number(range)?;
                if step.is_some() {
                    return Err(self.bad(format!("a step needs a range: {one}-{}/n, or */n", self.high)));
                }
                (one, one)
            }
            Some((low, high)) => {
                let (low, mut high) = (self.number(low)?, self.number(high)?);
                // A week may end with its Sunday.
                if self.high == 7 && high == 0 && low > 0 {
                    high = 7;
                }
                if low > high {
                    return Err(self.bad(format!("{range} goes backwards")));
                }
                (low, high)
            }
        };
        let step = match step {
            None => 1,
            Some(text) => match text.parse::<u32>() {
                Ok(step) if (1..=self.high.max(1)).contains(&step) && text.len() <= 2 => step,
                _ => return Err(self.bad(format!("a step is between 1 and {}, not {text:?}", self.high))),
            },
        };
        Ok((low..=high).step_by(step as usize).fold(0, |bits, n| bits | 1 << n))
    }
}

impl FromStr for Cron {
    type Err = NotACron;

    fn from_str(text: &str) -> Result<Self, NotACron> {
        if text.len() > TEXT_MAX {
            return Err(NotACron::Length);
        }
        let full = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" => "0 0 1 1 *",
            nickname if nickname.starts_with('@') => return Err(NotACron::Nickname(nickname.to_owned())),
            other => other,
        };
        let fields: Vec<&str> = full.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else { return Err(NotACron::Fields(fields.len())) };
        let (days, last_day) = read_days(day)?;
        let weekdays = WEEKDAY.read(weekday)?;
        let cron = Self {
            text: text.split_ascii_whitespace().collect::<Vec<_>>().join(" "),
            minutes: MINUTE.read(minute)?,
            hours: HOUR.read(hour)?,
            days,
            last_day,
            months: MONTH.read(month)?,
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            either_day: !day.starts_with('*') && !weekday.starts_with('*'),
            every_minutes: minute.starts_with('*'),
        };
        // Any year will do: the pattern has none.
        let somewhere = Date::constant(2000, 1, 1).to_datetime(Time::midnight());
        if cron.next_local(somewhere).is_none() { Err(NotACron::Never) } else { Ok(cron) }
    }
}

/// Days of the month, of which `L` is the last.
fn read_days(text: &str) -> Result<(u64, bool), NotACron> {
    let mut days = 0;
    let mut last = false;
    for part in text.split(',') {
        if part.eq_ignore_ascii_case("L") {
            last = true;
        } else {
            days |= DAY.part(part)?;
        }
    }
    Ok((days, last))
}

#[cfg(test)]
thread_local! {
    /// Days and months that were looked at, on this thread.
    pub(super) static LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl Cron {
    fn day_matches(&self, date: Date) -> bool {
        let day = self.days >> date.day() & 1 == 1 || (self.last_day && date.day() == date.days_in_month());
        let weekday = self.weekdays >> date.weekday().to_sunday_zero_offset() & 1 == 1;
        if self.either_day { day || weekday } else { day && weekday }
    }

    /// The first time of a day, from this one on, that the minutes and hours allow.
    fn time_from(&self, from: Time) -> Option<Time> {
        let (from_hour, from_minute) = (from.hour(), from.minute());
        for hour in from_hour..24 {
            if self.hours >> hour & 1 == 0 {
                continue;
            }
            let first = if hour == from_hour { from_minute } else { 0 };
            let later = self.minutes >> first;
            if later != 0 {
                let minute = first + later.trailing_zeros() as i8;
                return Time::new(hour, minute, 0, 0).ok();
            }
        }
        None
    }

    /// The first time a clock on the wall can show, from this one on, that matches; `from` is a whole minute.
    fn next_local(&self, from: DateTime) -> Option<DateTime> {
        let last_year = from.year().saturating_add(YEARS_MAX);
        let (mut date, mut time) = (from.date(), from.time());
        while date.year() <= last_year {
            #[cfg(test)]
            LOOKED_AT.with(|days| days.set(days.get() + 1));
            if self.months >> date.month() & 1 == 0 {
                date = date.first_of_month().checked_add(1.month()).ok()?;
            } else if let Some(found) = Some(time).filter(|_| self.day_matches(date)).and_then(|t| self.time_from(t)) {
                return Some(date.to_datetime(found));
            } else {
                date = date.tomorrow().ok()?;
            }
            time = Time::midnight();
        }
        None
    }

    const fn names_hours(&self) -> bool {
        self.hours != EVERY_HOUR
    }

    /// The first instant after this one at which the pattern wants something started.
    pub fn next_after(&self, zone: &TimeZone, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let moment = 1.nanosecond();
        // Where to look from, and whether that moment itself counts.
        let (mut at, mut itself) = (after, false);
        loop {
            // Between two changes of the zone its clock goes on evenly.
            let offset = zone.to_offset(at);
            let change = zone.following(at).next();
            let mut local = offset.to_datetime(at);
            if !itself {
                local = local.checked_add(moment).ok()?;
            }
            if self.names_hours()
                && !self.every_minutes
                && let Some(begin) = zone.preceding(at.checked_add(moment).ok()?).next()
            {
                // What the clock showed before it was put back counted then.
                let shown = zone.to_offset(begin.timestamp().checked_sub(moment).ok()?).to_datetime(begin.timestamp());
                local = local.max(shown);
            }
            let found = self.next_local(whole_minute(local)?)?;
            let instant = offset.to_timestamp(found).ok();
            let Some(change) = change else { return instant };
            if let Some(instant) = instant.filter(|instant| *instant < change.timestamp()) {
                return Some(instant);
            }
            let (shown, shows) =
                (offset.to_datetime(change.timestamp()), change.offset().to_datetime(change.timestamp()));
            if self.names_hours() && shown < shows && self.next_local(whole_minute(shown)?)? < shows {
                return Some(change.timestamp());
            }
            (at, itself) = (change.timestamp(), true);
        }
    }
}

impl Cron {
    /// The same in our own moments.
    pub fn next_in(&self, zone: &Zone, after: Timestamp) -> Option<Timestamp> {
        let after = jiff::Timestamp::from_microsecond(after.as_micros()).ok()?;
        Some(Timestamp::from_micros(self.next_after(zone.rules(), after)?.as_microsecond()))
    }
}

/// This minute if it just begins, or the next one.
fn whole_minute(local: DateTime) -> Option<DateTime> {
    let begun = local.date().at(local.hour(), local.minute(), 0, 0);
    if begun == local { Some(begun) } else { begun.checked_add(1.minute()).ok() }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Cron {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Cron {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Cron {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cron".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": TEXT_MAX,
            "description": "minute hour day-of-month month day-of-week; lists, ranges, steps, names, L for the last day of a \
                            month; or @hourly, @daily, @weekly, @monthly, @yearly",
        })
    }
}
