//! The numbers the engine runs by.

use bowline_connect::egress::TenantRules;
use bowline_model::fleet::CommandRetries;
use bowline_model::lane::LaneWeights;
use bowline_model::lease::LeaseTimes;
use bowline_model::worker::Strategy;
use bowline_store::Retention;

use crate::quotas::QuotaLimits;

/// The engine's part of the configuration.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    pub weights: LaneWeights,
    pub strategy: Strategy,
    pub lease: LeaseTimes,
    pub retention: Retention,
    /// How long a plain job may take unless it says so itself.
    pub job_deadline_ms: Option<u64>,
    /// How often commands whose type does not say are tried again on a host.
    pub command_retries: CommandRetries,
    /// Runs the built-in worker may have at once; 0 switches it off.
    pub builtin_slots: u32,
    /// Where the brokers of tenants may be. (Handlers that go out have theirs already.)
    pub egress: TenantRules,
    /// What each tenant may have.
    pub quotas: QuotaLimits,
    /// Tells this server's own worker from those of other servers.
    pub server_name: String,
    pub seed: u64,
}
