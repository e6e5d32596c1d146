//! When the clock is not believed.

use anyhow::bail;
use bowline_cli::Span;
use bowline_model::clock::ClockRules;
use serde::Deserialize;

/// How far the clock may be from the ledger's last known time. (since 0.1)
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClockConfig {
    /// Ahead by more than this, expiry, retention, misfires and timeouts wait for `bowline clock accept`.
    pub gap_max: String,
}

impl Default for ClockConfig {
    fn default() -> Self {
        Self { gap_max: "30d".to_owned() }
    }
}

impl ClockConfig {
    pub fn check(&self) -> anyhow::Result<()> {
        match self.gap_max.parse::<Span>() {
            Ok(gap) if gap.as_millis() >= 60_000 => Ok(()),
            Ok(_) => bail!("clock.gap_max must be at least 1m"),
            Err(error) => bail!("clock.gap_max is `{}`: {error}", self.gap_max),
        }
    }

    pub fn rules(&self) -> ClockRules {
        let rules = ClockRules::default();
        let gap = self.gap_max.parse::<Span>().ok().and_then(|gap| i64::try_from(gap.as_millis()).ok());
        ClockRules { gap_max_ms: gap.unwrap_or(rules.gap_max_ms), ..rules }
    }
}
