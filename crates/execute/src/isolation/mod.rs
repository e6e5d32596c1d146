//! What keeps a command from its host: another user, limits, a sandbox.
//!
//! Enters: what a manifest asks for. Leaves: a process that has given up everything it is not to have before its program
//! begins. What this machine cannot grant is known before a run is begun ([`Machine`]), and is never left out in silence:
//! a sandbox that cannot be built is a refusal, a limit that cannot be enforced is named.

mod closed;
mod confine;
mod filter;
mod held;
mod machine;
mod user;
mod walls;

pub(crate) use confine::Confinement;
pub(crate) use held::Held;
pub use machine::Machine;
pub(crate) use user::give;
pub use walls::NoSandbox;

/// Closes `/proc` of this process to others of the same user: its environment, its memory, its files.
pub fn close_proc() -> std::io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?)
}
