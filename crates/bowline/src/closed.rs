//! A process that holds secrets in its memory shows it to nobody: no core dump has it, and no process of the same user reads
//! it through `/proc`.

use rustix::process::{Resource, Rlimit, setrlimit};

/// To be called before the first secret is read. Where the system does not allow it, that is said and the work goes on.
pub fn close_memory() {
    let mut closed = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    if cfg!(target_os = "linux") {
        closed = closed.and_then(|()| close_proc());
    }
    if let Err(error) = closed {
        tracing::warn!("the memory of this process could not be closed to others: {error}");
    }
}

#[cfg(target_os = "linux")]
fn close_proc() -> rustix::io::Result<()> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
}

/// Elsewhere nobody reads the memory of others through a file.
#[cfg(not(target_os = "linux"))]
fn close_proc() -> rustix::io::Result<()> {
    Ok(())
}
