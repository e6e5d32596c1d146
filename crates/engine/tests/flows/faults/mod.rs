//! Faults in runs of workflows. Each leaves evidence that it happened, and each judgement is shown a sight that it must
//! refuse.

mod clock;
mod definitions;
mod errors;
mod hosts;
mod poison;
mod table;
mod twice;

pub use hosts::play as play_hosts;

/// What is wrong, if something is.
type Judgement = Result<(), String>;
