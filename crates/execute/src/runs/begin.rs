//! Beginning a run: may it, a directory for it, and a keeper to own it.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bowline_model::fleet::Sandbox;
use bowline_model::{HostName, RunId};
use rustix::process::geteuid;

use super::open::{GONE, NEW};
use super::standing::Standing;
use super::state::{Entry, Runs, Shared};
use crate::disk;
use crate::isolation::{Machine, NoSandbox, give};
use crate::log::EndedAs;
use crate::manifest::{BadManifest, Manifest};
use crate::place::{Handover, Place};
use crate::process::Identity;
use crate::secrets::Secrets;

/// A run that has a keeper now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    pub run: RunId,
    pub keeper: Identity,
}

/// Why a run was not begun. Nothing was executed.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    #[error("run {0} has been started here before")]
    AlreadyStarted(RunId),
    #[error("this or a later attempt at the job was executed here before, as run {run}")]
    AlreadyExecuted {
        run: RunId,
        /// Absent while it still runs.
        outcome: Option<EndedAs>,
        exit_code: Option<i32>,
    },
    #[error("host {host} has been leased under {seen} since, and {given} is over")]
    Superseded { host: HostName, given: u64, seen: u64 },
    #[error("the host is busy with run {run}")]
    HostBusy { run: RunId },
    #[error("there is not enough room on the disk")]
    NoSpace,
    #[error(transparent)]
    Manifest(#[from] BadManifest),
    #[error("the value of secret {0} is missing, or cannot be a variable's value")]
    Secret(String),
    #[error("a command in the sandbox `{}` cannot be executed here", sandbox.name())]
    Sandbox {
        sandbox: Sandbox,
        #[source]
        source: NoSandbox,
    },
    #[error("this agent is not root and cannot become user {0}")]
    User(String),
    #[error("the keeper could not be started")]
    Keeper(#[source] io::Error),
    #[error("the run directory could not be made")]
    Disk(#[source] io::Error),
}

impl From<io::Error> for BeginError {
    fn from(error: io::Error) -> Self {
        if disk::is_full(&error) { Self::NoSpace } else { Self::Disk(error) }
    }
}

impl Runs {
    /// Begins a run. When this returns without an error the run has an owner, which starts it once and no more, whatever
    /// happens to this process.
    pub fn begin(&self, manifest: Manifest, secrets: &Secrets) -> Result<Running, BeginError> {
        self.shared.can_isolate(&manifest)?;
        self.check(&manifest, secrets)?;
        let run = manifest.run;
        let launched = self.shared.launch(&manifest, secrets);
        match launched {
            Ok((keeper, child)) => {
                self.watcher.attach(run, child);
                Ok(Running { run, keeper })
            }
            Err(error) => {
                self.not_begun(run);
                Err(error)
            }
        }
    }

    /// Everything that can be asked before something is made. If the answer is yes, the run has its place.
    pub(super) fn check(&self, manifest: &Manifest, secrets: &Secrets) -> Result<(), BeginError> {
        manifest.check()?;
        let has_value = |name: &&String| secrets.get(name).is_some_and(|value| !value.contains('\0'));
        if let Some(name) = manifest.secrets.values().find(|name| !has_value(name)) {
            return Err(BeginError::Secret(name.clone()));
        }
        self.admit(manifest).inspect_err(|error| {
            if matches!(error, BeginError::Disk(_)) {
                self.shared.see_if_removed();
            }
        })
    }

    /// Gives back the place of a run that came to nothing. What is left of it, if anything, is a run like any other.
    pub(super) fn not_begun(&self, run: RunId) {
        if self.shared.place(run).path().exists() {
            self.watcher.watch(run);
        } else {
            self.shared.lock().runs.remove(&run);
            self.shared.see_if_removed();
        }
    }

    /// Admits the run and takes its place, so that nobody else is admitted beside it.
    fn admit(&self, manifest: &Manifest) -> Result<(), BeginError> {
        let shared = &self.shared;
        let mut answer = shared.lock().admit(manifest);
        if let Err(BeginError::HostBusy { run } | BeginError::AlreadyExecuted { run, outcome: None, .. }) = answer {
            // It may have ended a moment ago.
            shared.settle_if_ending(run);
            answer = shared.lock().admit(manifest);
        }
        let mut state = shared.lock();
        // Asked again under one lock with the entry that is made.
        let answer = answer.and_then(|()| state.admit(manifest));
        if matches!(answer, Err(BeginError::HostBusy { .. })) {
            // Refused, but seen: an older lease of the host is over.
            state.journal.see_host(&manifest.host, manifest.host_fence)?;
        }
        answer?;
        let space = rustix::fs::statvfs(&shared.directory).map_err(io::Error::from)?;
        if space.f_bavail.saturating_mul(space.f_frsize) < shared.settings.free_min_bytes {
            return Err(BeginError::NoSpace);
        }
        state.runs.insert(manifest.run, Entry::new(manifest.clone(), Standing::Running));
        Ok(())
    }
}

impl Shared {
    /// What a manifest asks for is there, or nothing of it is executed.
    fn can_isolate(&self, manifest: &Manifest) -> Result<(), BeginError> {
        match &manifest.user {
            Some(user) if !geteuid().is_root() && user.uid != geteuid().as_raw() => {
                return Err(BeginError::User(user.name.clone()));
            }
            _ => {}
        }
        let sandbox = manifest.sandbox;
        let shares_user = manifest.user.as_ref().is_none_or(|user| user.uid == geteuid().as_raw());
        let private: Vec<_> = self.settings.private.iter().cloned().chain([self.directory.clone()]).collect();
        Machine::can(sandbox, shares_user, &private).map_err(|source| BeginError::Sandbox { sandbox, source })
    }

    fn launch(&self, manifest: &Manifest, secrets: &Secrets) -> Result<(Identity, Child), BeginError> {
        let run = manifest.run;
        let place = self.place(run);
        self.clear_never_started(&place, run)?;
        let (lock, ()) = self.make_directory(&place, manifest, |_| Ok(()))?;
        let spawned = self.spawn_keeper(&place, lock, secrets);
        if spawned.is_err() && !place.is_started().unwrap_or(true) {
            self.discard(&place, run)?;
        }
        spawned
    }

    /// Makes way for a run whose directory was made before, if it never was started and never will be.
    pub(super) fn clear_never_started(&self, place: &Place, run: RunId) -> Result<(), BeginError> {
        if !place.path().try_exists()? {
            return Ok(());
        }
        let lock = place.try_lock()?;
        if lock.is_none() || place.is_started()? {
            return Err(BeginError::AlreadyStarted(run));
        }
        Ok(self.discard(place, run)?)
    }

    /// The directory appears complete, with what `furnish` puts there, and locked, or not at all.
    pub(super) fn make_directory<T>(
        &self,
        place: &Place,
        manifest: &Manifest,
        furnish: impl FnOnce(&Place) -> io::Result<T>,
    ) -> Result<(File, T), BeginError> {
        let parent = self.runs_directory();
        let new = Place::new(parent.join(format!("{NEW}{}", manifest.run)));
        let make = || -> io::Result<(File, T)> {
            if new.path().try_exists()? {
                fs::remove_dir_all(new.path())?;
            }
            DirBuilder::new().mode(0o700).create(new.path())?;
            own_directory(&new.work(), manifest)?;
            if !manifest.sandbox.is_none() {
                own_directory(&new.tmp(), manifest)?;
            }
            new.write_manifest(manifest)?;
            new.make_reserve(self.settings.reserve_bytes)?;
            let lock = new.try_lock()?.ok_or(io::ErrorKind::ResourceBusy)?;
            let furniture = furnish(&new)?;
            let_pass(new.path(), manifest)?;
            disk::sync_directory(new.path())?;
            fs::rename(new.path(), place.path())?;
            disk::sync_directory(&parent)?;
            Ok((lock, furniture))
        };
        make().map_err(|error| {
            let _ = fs::remove_dir_all(new.path());
            error.into()
        })
    }

    /// The lock goes over to the keeper as its standard error: it is never free in between.
    fn spawn_keeper(&self, place: &Place, lock: File, secrets: &Secrets) -> Result<(Identity, Child), BeginError> {
        let nothing = || BeginError::Keeper(io::ErrorKind::InvalidInput.into());
        let (program, arguments) = self.settings.keeper.split_first().ok_or_else(nothing)?;
        let mut command = Command::new(program);
        command.args(arguments).arg(place.path()).current_dir("/").env_clear();
        for name in ["HOME", "LANG"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(lock);
        let mut child = command.spawn().map_err(BeginError::Keeper)?;
        drop(command);
        let handover = Handover { secrets: secrets.clone(), cgroup_parent: self.settings.cgroup_parent.clone() };
        let given = handover.text().and_then(|text| {
            let mut stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
            stdin.write_all(&text)
        });
        let known = Identity::of(child.id());
        match given.and(known) {
            Ok(keeper) => Ok((keeper, child)),
            Err(error) => {
                // It cannot have started anything without what it was not given; and it will not.
                let _ = child.kill();
                let _ = child.wait();
                let words = fs::read_to_string(place.lock()).unwrap_or_default();
                Err(BeginError::Keeper(io::Error::new(error.kind(), format!("{error}: {}", words.trim()))))
            }
        }
    }

    /// Removes a directory as a whole: it is there, or it is not.
    pub(super) fn discard(&self, place: &Place, run: RunId) -> io::Result<()> {
        let gone = self.set_aside(place, run)?;
        disk::sync_directory(&self.runs_directory())?;
        sweep(&gone);
        Ok(())
    }

    /// Gives a directory a name under which it is no run's any more. On disk when the directory above is.
    pub(super) fn set_aside(&self, place: &Place, run: RunId) -> io::Result<PathBuf> {
        let gone = self.runs_directory().join(format!("{GONE}{run}"));
        fs::rename(place.path(), &gone)?;
        Ok(gone)
    }
}

/// A directory that belongs to the command.
fn own_directory(path: &Path, manifest: &Manifest) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    give(path, manifest.user.as_ref())
}

/// Lets a command that runs as another user through to its own directory, and lets it see nothing on the way.
fn let_pass(path: &Path, manifest: &Manifest) -> io::Result<()> {
    let Some(user) = &manifest.user else { return Ok(()) };
    chown(path, None, Some(user.gid))?;
    fs::set_permissions(path, Permissions::from_mode(0o710))
}

/// Removes what is left of a directory that is none any more. A command can leave things in it that are hard to remove;
/// they are tried again when the agent starts.
pub(super) fn sweep(gone: &Path) {
    if let Err(error) = fs::remove_dir_all(gone) {
        tracing::warn!(error = &error as &dyn std::error::Error, "{} cannot be removed", gone.display());
    }
}
