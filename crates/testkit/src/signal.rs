//! Signals to processes we started, and the one promise the kernel keeps for us when we cannot: children die with us.
//!
//! The only unsafe code of this crate. It exists because `std` can start a process but neither signal nor bequeath it.
#![expect(unsafe_code, reason = "kill and prctl have no safe wrapper in std, and tests are about exactly these calls")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Signal {
    Cont = libc::SIGCONT,
    Hup = libc::SIGHUP,
    Int = libc::SIGINT,
    Kill = libc::SIGKILL,
    Quit = libc::SIGQUIT,
    Stop = libc::SIGSTOP,
    Term = libc::SIGTERM,
}

/// The caller vouches that `pid` is a child of ours that was not reaped yet; otherwise the number may belong to a
/// stranger by now.
pub(crate) fn send(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: kill takes two integers and touches no memory of ours. The pid is positive, so it names one process and
    // never a group.
    match unsafe { libc::kill(pid, signal as libc::c_int) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The process gets `signal` when the *thread* that spawned it ends, however that comes about. Threads of a test come
/// and go, so spawn through the [nursery](crate::nursery), whose thread lives as long as the test process.
pub(crate) fn bequeath(command: &mut Command, signal: Signal) {
    let parent = std::process::id();
    // SAFETY: between fork and exec only async-signal-safe functions may run; prctl, getppid and raise are, and the
    // closure neither allocates nor locks.
    unsafe {
        command.pre_exec(move || {
            #[cfg(target_os = "linux")]
            {
                if libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) != 0 {
                    return Err(io::Error::last_os_error());
                }
                // The parent may have died before we asked to be told.
                if libc::getppid().cast_unsigned() != parent {
                    libc::raise(libc::SIGKILL);
                }
            }
            #[cfg(not(target_os = "linux"))]
            let _ = (parent, signal);
            Ok(())
        });
    }
}
