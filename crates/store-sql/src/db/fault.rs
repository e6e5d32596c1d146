//! Failing on purpose. Tests go through every moment at which a ledger can fail; simulations roll dice for it.

/// When something can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Begin,
    Statement,
    /// The commit was not sent.
    BeforeCommit,
    /// It is committed; only the answer can still get lost.
    AfterCommit,
}

/// How it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injected {
    Unavailable,
    Conflict,
    Unknown,
}

/// Decides at every moment whether to fail.
pub trait FaultPlan: Send + Sync + std::fmt::Debug {
    fn at(&self, moment: Moment) -> Option<Injected>;
}
