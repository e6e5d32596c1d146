//! Ports of the ledger beyond jobs and runs, each as calls to the committer and the readers.

mod hosts;
mod resources;
