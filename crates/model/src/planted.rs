//! Known mistakes, on purpose.
//!
//! A simulation that never fails proves nothing. Each mistake here can be switched on in builds with the feature
//! `planted`, one at a time; the simulation must then find it. In every other build [`on`] is `false` and vanishes.

/// The mistakes, named after the rule they break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mistake {
    /// The caller is answered before the batch is durable.
    AnswerBeforeCommit = 1,
    /// A report is accepted whatever its fence.
    NoFenceOnFinish = 2,
    /// A duplicate event counts again.
    CountDuplicates = 3,
    /// Runs are called lost by the age of their heartbeat alone.
    IgnoreWatermark = 4,
    /// A commit whose answer was lost is treated as a failure and done again under a new key.
    UnknownIsFailure = 5,
    /// The idempotency key is looked up outside the transaction that stores the job.
    IdempotencyOutside = 9,
    /// An approval counts, whatever would run by now.
    ApprovalUnbound = 10,
    /// Leases follow the wall clock.
    LeaseByWallClock = 11,
    /// One query forgets the tenant.
    ForgetTenant = 15,
    /// The record of a privileged deed is written in a transaction of its own, after the deed.
    AuditOutside = 16,
    /// A dead letter is replayed without looking whether somebody else did.
    ReplayTwice = 17,
    /// A retry keeps the queue row of the attempt before.
    QueueTwice = 18,
    /// A host is given to whoever asks.
    HostForEverybody = 19,
    /// A host is given away although a run went missing there.
    HostNotKept = 20,
    /// The start marker is written after the command was started.
    MarkAfterSpawn = 7,
    /// What is on an agent's disk is freed when it was sent, not when it was confirmed.
    FreedUnconfirmed = 6,
    /// All hosts are begun at once, whatever the first ones do.
    CanaryIgnored = 23,
    /// Nobody looks once more whether a command is forbidden when it is handed out.
    BlocksForgotten = 21,
    /// The host does not look whether it is busy.
    GateOpen = 22,
    /// Numbers go on after the last record on disk, whatever others hold.
    NumberReused = 8,
    /// A turn of a workflow's run is added, whoever else has taken one meanwhile.
    TurnTwice = 24,
    /// How far a schedule was considered is written without looking whether somebody else wrote it.
    ScheduleTwice = 25,
    /// A run of a workflow is not told that the time it waits for has come.
    WakeForgotten = 26,
    /// Runs that a run of a workflow began go on when it no longer wants them.
    ChildForgotten = 27,
    /// What a run of a workflow did is undone in the order in which it was done.
    UndoneForwards = 28,
}

impl Mistake {
    pub const ALL: [Self; 25] = [
        Self::AnswerBeforeCommit,
        Self::NoFenceOnFinish,
        Self::CountDuplicates,
        Self::IgnoreWatermark,
        Self::UnknownIsFailure,
        Self::IdempotencyOutside,
        Self::ApprovalUnbound,
        Self::LeaseByWallClock,
        Self::ForgetTenant,
        Self::AuditOutside,
        Self::ReplayTwice,
        Self::QueueTwice,
        Self::HostForEverybody,
        Self::HostNotKept,
        Self::MarkAfterSpawn,
        Self::FreedUnconfirmed,
        Self::CanaryIgnored,
        Self::BlocksForgotten,
        Self::GateOpen,
        Self::NumberReused,
        Self::TurnTwice,
        Self::ScheduleTwice,
        Self::WakeForgotten,
        Self::ChildForgotten,
        Self::UndoneForwards,
    ];
}

#[cfg(feature = "planted")]
mod switch {
    use std::sync::atomic::{AtomicU8, Ordering};

    static ACTIVE: AtomicU8 = AtomicU8::new(0);

    /// Switches one mistake on, or all off.
    pub fn plant(mistake: Option<super::Mistake>) {
        ACTIVE.store(mistake.map_or(0, |m| m as u8), Ordering::SeqCst);
    }

    /// Whether this mistake is being made.
    pub fn on(mistake: super::Mistake) -> bool {
        ACTIVE.load(Ordering::SeqCst) == mistake as u8
    }
}

#[cfg(not(feature = "planted"))]
mod switch {
    /// Whether this mistake is being made: never, in a build for use.
    pub const fn on(_: super::Mistake) -> bool {
        false
    }
}

pub use switch::*;
