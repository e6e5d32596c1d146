//! What a command's process does to itself between its birth and its program.
//!
//! Everything is made ready before the process is, because it must not allocate: it is a copy of one with threads. The
//! order is the point. Limits first, while they may be set; then the user, groups before it, because nobody may change
//! groups afterwards; then the directory, entered as that user; the walls last.
#![expect(unsafe_code, reason = "pre_exec is unsafe; what runs there are plain system calls")]

use std::ffi::CString;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use bowline_model::fleet::Sandbox;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Gid, Resource, Rlimit, Uid, geteuid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use seccompiler::{BpfProgram, apply_filter};

use super::walls::{NoSandbox, Walls};
use super::{closed, filter};
use crate::manifest::{Manifest, RunUser};
use crate::place::Place;
use crate::process::restrict_self;

pub(crate) struct Confinement {
    rlimits: Vec<(Resource, Rlimit)>,
    user: Option<(Uid, Gid, Vec<Gid>)>,
    directory: CString,
    /// Keeps a command with the agent's user, and without a sandbox, from the agent's process.
    plain: Option<BpfProgram>,
    /// Closes the agent's directory to it.
    closed: Option<OwnedFd>,
    walls: Option<Walls>,
}

/// What could not be done, so that an error number is not all that people get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Step {
    Limits = 1,
    Privileges,
    User,
    Directory,
    Walls,
    Closed,
}

impl Step {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Limits, "its limits could not be set"),
        (Self::Privileges, "its privileges could not be given up"),
        (Self::User, "it could not become its user"),
        (Self::Directory, "its user cannot enter its directory"),
        (Self::Walls, "its sandbox could not be closed"),
        (Self::Closed, "the agent's directory could not be closed to it"),
    ];
}

impl Confinement {
    pub(crate) fn new(
        place: &Place,
        manifest: &Manifest,
        directory: &Path,
        rlimits: Vec<(Resource, Rlimit)>,
    ) -> Result<Self, NoSandbox> {
        let user = manifest.user.as_ref().map(|RunUser { uid, gid, groups, .. }| {
            (Uid::from_raw(*uid), Gid::from_raw(*gid), groups.iter().map(|group| Gid::from_raw(*group)).collect())
        });
        let walls = match manifest.sandbox {
            Sandbox::None => None,
            sandbox => Some(Walls::build(sandbox, shares_user(manifest), place)?),
        };
        // With a filter comes that no privileges can be gained.
        let is_plain = walls.is_none() && shares_user(manifest) && !manifest.allow_new_privileges;
        // Where there are no filters the agent says so at its start; it was not asked for here.
        let plain = is_plain.then(filter::plain).and_then(Result::ok).filter(|_| filter::is_there());
        let closed = match walls {
            None if !manifest.closed.is_empty() => closed::rules(&manifest.closed, &[place.work(), place.tmp()])
                .map_err(|error| NoSandbox::Rules(error.to_string()))?,
            _ => None,
        };
        // A manifest with such a directory is not executed.
        let directory = CString::new(directory.as_os_str().as_bytes()).unwrap_or_default();
        Ok(Self { rlimits, user, directory, plain, closed, walls })
    }

    /// Has the command do all this to itself. The witness says what went wrong if it cannot be spawned.
    pub(crate) fn install(self, command: &mut Command) -> io::Result<Witness> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let confine = move || match self.apply() {
            Ok(()) => Ok(()),
            Err((step, error)) => {
                let _ = rustix::io::write(&write, &[step as u8]);
                Err(error.into())
            }
        };
        // SAFETY: between fork and exec only system calls are made, on memory that was made ready before: nothing is
        // allocated and no lock is taken.
        unsafe { command.pre_exec(confine) };
        Ok(Witness(read))
    }

    fn apply(&self) -> Result<(), (Step, Errno)> {
        let at = |step| move |error| (step, error);
        for (resource, limit) in &self.rlimits {
            rustix::process::setrlimit(*resource, *limit).map_err(at(Step::Limits))?;
        }
        if self.walls.is_some() {
            give_up_for_good().map_err(at(Step::Privileges))?;
        }
        if let Some((uid, gid, groups)) = &self.user {
            become_user(*uid, *gid, groups).map_err(at(Step::User))?;
        }
        rustix::process::chdir(self.directory.as_c_str()).map_err(at(Step::Directory))?;
        if let Some(walls) = &self.walls {
            let nothing = CapabilitySet::empty();
            let nothing = CapabilitySets { effective: nothing, permitted: nothing, inheritable: nothing };
            rustix::thread::clear_ambient_capability_set().map_err(at(Step::Privileges))?;
            rustix::thread::set_capabilities(None, nothing).map_err(at(Step::Privileges))?;
            walls.close().map_err(at(Step::Walls))?;
        }
        if let Some(closed) = &self.closed {
            restrict_self(closed).map_err(at(Step::Closed))?;
        }
        if let Some(plain) = &self.plain {
            apply_filter(plain).map_err(|_| (Step::Closed, Errno::NOSYS))?;
        }
        Ok(())
    }
}

/// Whether the command has the agent's user.
fn shares_user(manifest: &Manifest) -> bool {
    manifest.user.as_ref().is_none_or(|user| user.uid == geteuid().as_raw())
}

/// Groups, then the main group, then the user: afterwards nobody may change any of them.
fn become_user(uid: Uid, gid: Gid, groups: &[Gid]) -> Result<(), Errno> {
    rustix::thread::set_thread_groups(groups)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)
}

/// Without these root gets no privilege back by executing something. Whoever is not root has none to get.
fn give_up_for_good() -> Result<(), Errno> {
    for bit in 0..u64::BITS {
        match rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            Ok(()) => {}
            // There are no more of them.
            Err(Errno::INVAL) => break,
            Err(Errno::PERM) if !geteuid().is_root() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Knows at which step a command could not be spawned.
pub(crate) struct Witness(OwnedFd);

impl Witness {
    pub(crate) fn explain(self, error: io::Error) -> io::Error {
        let mut step = [0];
        let told = std::fs::File::from(self.0).read(&mut step).unwrap_or(0);
        let known = Step::ALL.iter().find(|(known, _)| told == 1 && *known as u8 == step[0]);
        known.map_or(error, |(_, words)| io::Error::new(io::ErrorKind::PermissionDenied, *words))
    }
}
