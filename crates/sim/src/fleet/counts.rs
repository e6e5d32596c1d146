//! How often something rare happened, so that a test can ask whether it ever did.

/// What a simulation reached. A generator that never gets here proves nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FleetCounts {
    pub starts: u64,
    pub agent_crashes: u64,
    pub machine_crashes: u64,
    pub keepers_lost: u64,
    pub records_forgotten_by_disk: u64,
    pub stale_refused: u64,
    pub lost_corrected: u64,
    pub approvals_given: u64,
    pub approvals_superseded: u64,
    pub approvals_rejected: u64,
    pub approvals_expired: u64,
    pub deciders_raced: u64,
    pub blocked_at_the_last_moment: u64,
    pub canceled_in_partition: u64,
    pub spools_replayed: u64,
    pub waited_for_host: u64,
    pub refused_by_host: u64,
    pub stopped_by_failures: u64,
    pub deadlines_passed: u64,
}

impl FleetCounts {
    /// Each with its name.
    pub const fn named(&self) -> [(&'static str, u64); 19] {
        [
            ("starts on hosts", self.starts),
            ("agents crashed", self.agent_crashes),
            ("machines crashed", self.machine_crashes),
            ("keepers lost", self.keepers_lost),
            ("records forgotten by a disk", self.records_forgotten_by_disk),
            ("stale words from hosts refused", self.stale_refused),
            ("lost hosts corrected", self.lost_corrected),
            ("approvals given", self.approvals_given),
            ("approvals superseded", self.approvals_superseded),
            ("approvals rejected", self.approvals_rejected),
            ("approvals expired", self.approvals_expired),
            ("deciders raced", self.deciders_raced),
            ("hosts blocked at the last moment", self.blocked_at_the_last_moment),
            ("cancellations in a partition", self.canceled_in_partition),
            ("spools replayed", self.spools_replayed),
            ("waited for a host", self.waited_for_host),
            ("refused by the host itself", self.refused_by_host),
            ("commands stopped by failures", self.stopped_by_failures),
            ("commands past their time", self.deadlines_passed),
        ]
    }

    /// Both together.
    pub const fn plus(self, other: Self) -> Self {
        Self {
            starts: self.starts + other.starts,
            agent_crashes: self.agent_crashes + other.agent_crashes,
            machine_crashes: self.machine_crashes + other.machine_crashes,
            keepers_lost: self.keepers_lost + other.keepers_lost,
            records_forgotten_by_disk: self.records_forgotten_by_disk + other.records_forgotten_by_disk,
            stale_refused: self.stale_refused + other.stale_refused,
            lost_corrected: self.lost_corrected + other.lost_corrected,
            approvals_given: self.approvals_given + other.approvals_given,
            approvals_superseded: self.approvals_superseded + other.approvals_superseded,
            approvals_rejected: self.approvals_rejected + other.approvals_rejected,
            approvals_expired: self.approvals_expired + other.approvals_expired,
            deciders_raced: self.deciders_raced + other.deciders_raced,
            blocked_at_the_last_moment: self.blocked_at_the_last_moment + other.blocked_at_the_last_moment,
            canceled_in_partition: self.canceled_in_partition + other.canceled_in_partition,
            spools_replayed: self.spools_replayed + other.spools_replayed,
            waited_for_host: self.waited_for_host + other.waited_for_host,
            refused_by_host: self.refused_by_host + other.refused_by_host,
            stopped_by_failures: self.stopped_by_failures + other.stopped_by_failures,
            deadlines_passed: self.deadlines_passed + other.deadlines_passed,
        }
    }
}
