//! Ports of the ledger beyond jobs and runs, each as calls to the committer and the readers.

mod agents;
mod audit;
mod bounds;
mod evidence;
mod fleet;
mod flows;
mod hosts;
mod once;
mod resources;
mod schedules;
