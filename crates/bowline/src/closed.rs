//! Limits of the process itself. A process that holds secrets in its memory shows it to nobody: no core dump has it, and no process of the same user reads
//! it through `/proc`.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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

/// Raises the limit of open descriptors as far as the system allows without asking; returns what it is then. Systems keep the
/// soft limit low for programs that use `select`, which this one does not.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // Beyond this, tables of the kernel grow for nothing.
    let wanted = limit.maximum.unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX);
    let now = limit.current.unwrap_or(DESCRIPTORS_MAX);
    if now >= wanted {
        return now;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }) {
        Ok(()) => wanted,
        Err(error) => {
            tracing::warn!(%error, limit = now, "cannot raise the limit of open descriptors");
            now
        }
    }
}

const DESCRIPTORS_MAX: u64 = 1 << 20;

#[cfg(target_os = "linux")]
fn close_proc() -> rustix::io::Result<()> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
}

/// Elsewhere nobody reads the memory of others through a file.
#[cfg(not(target_os = "linux"))]
fn close_proc() -> rustix::io::Result<()> {
    Ok(())
}
