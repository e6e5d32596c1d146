//! Commands on hosts under faults, with real agents, keepers and commands.
//!
//! The command itself is the witness: it writes a line when it starts, one when it ends, and one when it finds another of
//! its kind at work, to a file the system knows nothing of ([`scene`]). What was seen is judged in one place ([`judge`]),
//! and each judgement is shown a sight that it must refuse ([`controls`]).

mod agent_gone;
mod children;
mod clocks;
mod controls;
mod disk;
mod judge;
mod logs;
mod outage;
mod partition;
mod restore;
mod rogue;
mod scene;
mod zombie;
