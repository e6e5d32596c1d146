//! How often something rare happened to runs of workflows, so that a test can ask whether it ever did.

/// What a simulation reached. A generator that never gets here proves nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowCounts {
    pub runs: u64,
    pub steps: u64,
    pub children: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub canceled: u64,
    pub slept: u64,
    pub looped: u64,
    pub joined: u64,
    pub items: u64,
    pub failures_led_on: u64,
    pub rescued: u64,
    pub signals_heard: u64,
    pub signals_early: u64,
    pub waits_expired: u64,
    pub decided: u64,
    pub deciders_raced: u64,
    pub halted: u64,
    pub retried: u64,
    pub retried_after_cancel: u64,
    pub forked: u64,
    pub undone: u64,
    pub not_undone: u64,
    pub begun_again: u64,
    pub parents_left_children: u64,
    pub snapshots_passed: u64,
    pub definitions_changed: u64,
    pub clock_jumps: u64,
}

impl FlowCounts {
    /// Each with its name.
    pub const fn named(&self) -> [(&'static str, u64); 28] {
        [
            ("runs of workflows", self.runs),
            ("steps", self.steps),
            ("child runs", self.children),
            ("runs that succeeded", self.succeeded),
            ("runs that failed", self.failed),
            ("runs that were canceled", self.canceled),
            ("sleepers woken", self.slept),
            ("loops gone round", self.looped),
            ("joins passed", self.joined),
            ("items of a foreach", self.items),
            ("failures that led on by an edge", self.failures_led_on),
            ("failures taken by a handler", self.rescued),
            ("signals heard", self.signals_heard),
            ("signals that came early", self.signals_early),
            ("waits that expired", self.waits_expired),
            ("approvals decided", self.decided),
            ("deciders of approvals raced", self.deciders_raced),
            ("halts", self.halted),
            ("retries from where it failed", self.retried),
            ("retries of canceled runs", self.retried_after_cancel),
            ("forks", self.forked),
            ("deeds undone", self.undone),
            ("deeds that could not be undone", self.not_undone),
            ("runs begun again after all was undone", self.begun_again),
            ("children given up by their run", self.parents_left_children),
            ("runs long enough for a snapshot", self.snapshots_passed),
            ("definitions changed meanwhile", self.definitions_changed),
            ("clocks that jumped", self.clock_jumps),
        ]
    }

    /// Both together.
    pub const fn plus(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            steps: self.steps + other.steps,
            children: self.children + other.children,
            succeeded: self.succeeded + other.succeeded,
            failed: self.failed + other.failed,
            canceled: self.canceled + other.canceled,
            slept: self.slept + other.slept,
            looped: self.looped + other.looped,
            joined: self.joined + other.joined,
            items: self.items + other.items,
            failures_led_on: self.failures_led_on + other.failures_led_on,
            rescued: self.rescued + other.rescued,
            signals_heard: self.signals_heard + other.signals_heard,
            signals_early: self.signals_early + other.signals_early,
            waits_expired: self.waits_expired + other.waits_expired,
            decided: self.decided + other.decided,
            deciders_raced: self.deciders_raced + other.deciders_raced,
            halted: self.halted + other.halted,
            retried: self.retried + other.retried,
            retried_after_cancel: self.retried_after_cancel + other.retried_after_cancel,
            forked: self.forked + other.forked,
            undone: self.undone + other.undone,
            not_undone: self.not_undone + other.not_undone,
            begun_again: self.begun_again + other.begun_again,
            parents_left_children: self.parents_left_children + other.parents_left_children,
            snapshots_passed: self.snapshots_passed + other.snapshots_passed,
            definitions_changed: self.definitions_changed + other.definitions_changed,
            clock_jumps: self.clock_jumps + other.clock_jumps,
        }
    }
}
