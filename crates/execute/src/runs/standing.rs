//! How far a run is, as seen from the agent.

use std::sync::Arc;

use bowline_model::RunId;

use crate::log::Ended;
use crate::manifest::Manifest;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// There is no start marker, and no keeper that could still make one. It may be begun again, or given back.
    NeverStarted { why: Option<String> },
    /// It has a keeper; or it had one, and was not looked after yet ([`Runs::recover`](super::Runs::recover)).
    Running,
    /// It is over. Also when nobody saw the end: it is then interrupted.
    Ended(Ended),
}

/// A run that has a directory here.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub run: RunId,
    pub manifest: Arc<Manifest>,
    pub standing: Standing,
}
