//! Which process is meant. A pid is a number that is given out again; together with the moment its process was started and
//! the boot of the machine it is a name.

use std::io;
use std::sync::OnceLock;

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::table;

/// A process, for good. Never equal for two processes of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub boot_id: String,
    pub pid: u32,
    /// In clock ticks since the boot, as `/proc/<pid>/stat` has it.
    pub start_time: u64,
}

impl Identity {
    /// Who has this pid now.
    pub fn of(pid: u32) -> io::Result<Self> {
        let start_time = table::look(pid).ok_or(io::ErrorKind::NotFound)?.start_time;
        Ok(Self { boot_id: boot_id().to_owned(), pid, start_time })
    }

    /// Whether this very process still exists and has not ended.
    pub fn is_alive(&self) -> bool {
        self.boot_id == boot_id()
            && table::look(self.pid).is_some_and(|found| found.start_time == self.start_time && !found.is_dead())
    }

    /// What the process calls itself, as far as it has a printable name.
    pub(crate) fn name(&self) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        name.trim().chars().filter(|c| !c.is_control()).collect()
    }

    /// Sends a signal to this very process. Does nothing, and says so, if it is gone.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let Some(handle) = self.handle() else { return false };
        pidfd_send_signal(handle, signal).is_ok()
    }

    /// A descriptor is opened first and the identity checked after it: from then on the pid cannot change hands unseen.
    fn handle(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        self.is_alive().then_some(handle)
    }
}

/// Which boot of the machine this is. Empty where the system does not say, which equals no recorded boot but another such.
pub(crate) fn boot_id() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_forged_identity_reaches_nobody() {
        let mut innocent = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let real = Identity::of(innocent.id()).unwrap();
        let earlier = Identity { start_time: real.start_time - 1, ..real.clone() };
        let other_boot = Identity { boot_id: "another".into(), ..real.clone() };
        for forged in [&earlier, &other_boot] {
            assert!(!forged.is_alive());
            assert!(!forged.signal(Signal::KILL));
        }
        assert!(innocent.try_wait().unwrap().is_none(), "the innocent was hit");
        assert!(real.is_alive());
        assert_eq!(real.name(), "sleep");
        assert!(real.signal(Signal::KILL));
        innocent.wait().unwrap();
        assert!(!real.is_alive());
    }
}
