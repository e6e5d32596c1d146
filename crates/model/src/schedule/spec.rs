//! What a schedule says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Cron, Zone};
use crate::resource::{BadSpec, Checks};
use crate::start::StartSpec;
use crate::time::Timestamp;

/// What becomes of instants that were missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Misfire {
    /// Nothing.
    Skip,
    /// One job for all of them together.
    #[default]
    Once,
    /// One job for each, up to `misfire_max` of the latest.
    All,
}

/// What happens when the last job of the schedule is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Another one is started beside it.
    #[default]
    Allow,
    /// The instant is passed over.
    Skip,
}

/// Something that is started again and again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When, by the clock on the wall. This, or `every_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<Cron>,
    /// How often, counted from `starts_at`, or from 1970 if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000, max = 31_622_400_000_u64))]
    pub every_ms: Option<u64>,
    /// The zone of that clock.
    #[serde(default)]
    pub timezone: Zone,
    /// What is started.
    pub start: StartSpec,
    /// A schedule that is not enabled starts nothing, and makes up for nothing later.
    #[serde(default = "yes")]
    pub enabled: bool,
    #[serde(default)]
    pub misfire: Misfire,
    /// With `misfire` `all`: how many of the missed instants are made up for.
    #[serde(default = "misfire_max")]
    #[schemars(range(min = 1, max = 1000))]
    pub misfire_max: u32,
    /// An instant that is considered no later than this is not missed.
    #[serde(default = "grace_ms")]
    #[schemars(range(min = 1000, max = 86_400_000))]
    pub grace_ms: u64,
    #[serde(default)]
    pub overlap: Overlap,
    /// No instant before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
    /// No instant after this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
    /// Each job waits up to this long after its instant; how long follows from the schedule and the instant.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(max = 86_400_000))]
    pub jitter_ms: u64,
}

const fn yes() -> bool {
    true
}

const fn misfire_max() -> u32 {
    100
}

const fn grace_ms() -> u64 {
    60_000
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_zero(ms: &u64) -> bool {
    *ms == 0
}

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
const DESCRIPTION_MAX: usize = 1_000;

impl ScheduleSpec {
    /// Whether its parts fit together.
    pub fn check(&self) -> Result<(), BadSpec> {
        let within = |field: &str, value: u64, low: u64, high: u64| {
            let good = (low..=high).contains(&value);
            if good { Ok(()) } else { Err(BadSpec::at(field, format!("must be between {low} and {high}"))) }
        };
        let mut checks = Checks::default();
        let fits = self.description.as_ref().is_none_or(|text| text.len() <= DESCRIPTION_MAX);
        checks.holds(fits, "description", format!("has at most {DESCRIPTION_MAX} bytes"));
        let mut fires = true;
        checks.add(
            match (&self.cron, self.every_ms) {
                (None, None) => Err(BadSpec::at("cron", "a schedule needs `cron` or `every_ms`")),
                (Some(_), Some(_)) => Err(BadSpec::at("every_ms", "give `cron` or `every_ms`, not both")),
                (None, Some(ms)) => within("every_ms", ms, 1_000, 366 * DAY_MS),
                (Some(_), None) => Ok(()),
            }
            .inspect_err(|_| fires = false),
        );
        checks.add(within("misfire_max", self.misfire_max.into(), 1, 1_000));
        checks.add(within("grace_ms", self.grace_ms, 1_000, DAY_MS));
        checks.add(within("jitter_ms", self.jitter_ms, 0, DAY_MS));
        if let (Some(starts), Some(ends)) = (self.starts_at, self.ends_at)
            && ends < starts
        {
            checks.holds(false, "ends_at", "must not be before starts_at");
        } else if fires && self.ends_at.is_some() && self.next_after(Timestamp::default()).is_none() {
            checks.holds(false, "ends_at", "never fires: there is no instant up to then");
        }
        checks.add(self.start.check().map_err(|bad| bad.under("start")));
        checks.done()
    }

    /// The first instant after this moment; `None` if there is no more.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let before_start = self.starts_at.map(|at| Timestamp::from_micros(at.as_micros() - 1));
        let after = before_start.map_or(after, |start| after.max(start));
        let next = match (&self.cron, self.every_ms) {
            (Some(cron), _) => cron.next_in(&self.timezone, after)?,
            (None, Some(ms)) => {
                let anchor = self.starts_at.unwrap_or_default().as_micros();
                let every = i64::try_from(ms).ok()?.checked_mul(1_000).filter(|every| *every > 0)?;
                let passed = after.as_micros().checked_sub(anchor)?.div_euclid(every);
                Timestamp::from_micros(anchor.checked_add(passed.checked_add(1)?.checked_mul(every)?)?)
            }
            (None, None) => return None,
        };
        Some(next).filter(|next| self.ends_at.is_none_or(|ends| *next <= ends))
    }

    /// When the job of an instant is due. The same on every server: it follows from the name and the instant.
    pub fn due_at(&self, name: &str, instant: Timestamp) -> Timestamp {
        if self.jitter_ms == 0 {
            return instant;
        }
        let mut hasher = Sha256::new();
        hasher.update(name.as_bytes());
        hasher.update(instant.as_micros().to_be_bytes());
        let digest: [u8; 32] = hasher.finalize().into();
        let number = digest[..8].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        instant.plus_millis(i64::try_from(number % (self.jitter_ms + 1)).unwrap_or(0))
    }
}
