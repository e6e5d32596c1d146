//! The few system calls a keeper needs that nobody wraps.
#![expect(
    unsafe_code,
    reason = "close_range, signal, pthread_sigmask and Landlock's calls have no safe wrapper; all are small and local"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;

/// Closes every descriptor but the three standard ones. To be called first of all: what this process opened itself would
/// be closed too.
pub(crate) fn close_inherited() -> io::Result<()> {
    // SAFETY: close_range takes integers only. Called before anything was opened, it closes nothing that has an owner here.
    match unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Puts signals in order, for this process and for what it spawns. To be called before threads are made.
///
/// Polite requests to end, and the signal for a file that grew too long (which `write` tells as well), are caught and
/// nothing is done. Caught and not blocked or ignored: a mask and what is ignored would be handed down to commands, while
/// what is caught becomes the default again. What this process inherited is made the default, too.
pub(crate) fn order_signals() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    let nothing = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    let caught = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGXFSZ];
    // Broken pipes are errors here; the standard library makes the signal a signal again for commands. It also guards the
    // stack with the two others.
    let left_alone = [libc::SIGKILL, libc::SIGSTOP, libc::SIGPIPE, libc::SIGSEGV, libc::SIGBUS];
    for signal in (1..32).filter(|signal| !left_alone.contains(signal)) {
        let action = if caught.contains(&signal) { nothing } else { libc::SIG_DFL };
        // SAFETY: the handler touches nothing, so it may run at any moment; the numbers are those of standard signals.
        if unsafe { libc::signal(signal, action) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    let mut none = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set before it is read, and a null pointer for the old mask is allowed.
    let result = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Which version of Landlock the kernel has. None where it has none, or does not use it.
pub(crate) fn landlock_version() -> Option<u32> {
    const ASK_FOR_THE_VERSION: u32 = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the kernel looks at neither the pointer nor the size, and answers with a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0usize, ASK_FOR_THE_VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// Puts this thread, and whatever it will start, under the rules of Landlock. The wrapper would allocate.
pub(crate) fn restrict_self(rules: &OwnedFd) -> Result<(), Errno> {
    // SAFETY: it takes a descriptor, which lives as long as the call, and a number.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0u32) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}
