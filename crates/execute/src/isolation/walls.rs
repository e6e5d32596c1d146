//! The walls of a sandbox: which files a command reaches, and which system calls it may make.
//!
//! Made before its process is, because that one must not allocate; they close around it from within ([`Walls::close`]).

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bowline_model::fleet::Sandbox;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    Scope, path_beneath_rules,
};
use rustix::io::Errno;
use seccompiler::{BpfProgram, apply_filter};

use super::{filter, machine};
use crate::place::Place;
use crate::process::restrict_self;

/// Programs, and what they need to run.
const PROGRAMS: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"];
/// What programs look at. What `/proc` says about other processes' insides stays closed to those within walls.
const LOOKED_AT: &[&str] = &["/proc", "/sys", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager"];
const CONFIGURATION: &str = "/etc";
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// How deep configuration is looked through. What lies deeper is not shown.
const DEPTH_MAX: usize = 8;

/// Why there can be no sandbox here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSandbox {
    #[error("this kernel has no Landlock, or it is switched off")]
    NoLandlock,
    #[error("this kernel has Landlock {0}, and a sandbox needs {needed} (Linux 6.2)", needed = machine::LANDLOCK_MIN)]
    OldLandlock(u32),
    #[error(
        "this kernel has Landlock {0}, and a sandbox for a command with the agent's own user needs 6 (Linux 6.12), to keep its \
         signals in; give the command another user"
    )]
    NoSignalScope(u32),
    #[error("this kernel or processor has no filters for system calls (seccomp)")]
    NoSeccomp,
    #[error("{} lies where a sandbox lets commands look; move it", .0.display())]
    InSight(PathBuf),
    #[error("the rules of the sandbox could not be made: {0}")]
    Rules(String),
}

pub(super) struct Walls {
    rules: OwnedFd,
    filters: Vec<BpfProgram>,
}

impl Walls {
    pub(super) fn build(sandbox: Sandbox, shares_user: bool, place: &Place) -> Result<Self, NoSandbox> {
        let broken = |error: RulesetError| NoSandbox::Rules(error.to_string());
        let rules: Option<OwnedFd> = rules(&[place.work(), place.tmp()]).map_err(broken)?.into();
        let filters = filter::filters(sandbox, shares_user).map_err(|error| NoSandbox::Rules(error.to_string()))?;
        Ok(Self { rules: rules.ok_or(NoSandbox::NoLandlock)?, filters })
    }

    /// Closes the walls around this process. Nothing in here allocates.
    pub(super) fn close(&self) -> Result<(), Errno> {
        rustix::thread::set_no_new_privs(true)?;
        restrict_self(&self.rules)?;
        // The errors of the kernel are all that may go wrong with a program it was given before.
        self.filters.iter().try_for_each(|filter| apply_filter(filter)).map_err(|_| Errno::NOSYS)
    }
}

fn rules(own: &[PathBuf]) -> Result<landlock::RulesetCreated, RulesetError> {
    let needed = AccessFs::from_all(ABI::V3);
    let look = AccessFs::ReadFile | AccessFs::ReadDir;
    let execute = look | AccessFs::Execute;
    let device: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let everything = AccessFs::from_all(ABI::V5);
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(needed)?
        // Newer kernels can do more: devices' own commands, and signals and sockets that have no path.
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .scope(Scope::from_all(ABI::V6))?
        .create()?
        .add_rules(path_beneath_rules(PROGRAMS, execute))?
        .add_rules(path_beneath_rules(LOOKED_AT, look))?
        .add_rules(path_beneath_rules(everybodys(Path::new(CONFIGURATION)), execute))?
        .add_rules(path_beneath_rules(DEVICES, device))?
        .add_rules(path_beneath_rules(own, everything))
}

/// Whether commands could look at this path however its permissions are.
pub(super) fn is_in_sight(path: &Path) -> bool {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let shown = PROGRAMS.iter().chain(LOOKED_AT).map(|shown| fs::canonicalize(shown).unwrap_or_else(|_| shown.into()));
    shown.into_iter().any(|shown| real.starts_with(shown))
}

/// The paths below which there is only what everybody may read. A command that runs as root is not everybody, and must
/// not read the keys of the host because of that.
fn everybodys(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if look_through(directory, DEPTH_MAX, &mut found) { vec![directory.to_owned()] } else { found }
}

/// True if everybody may read all of this directory. Otherwise the parts that everybody may read are added.
fn look_through(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> bool {
    let (Some(depth), Ok(entries)) = (depth.checked_sub(1), fs::read_dir(directory)) else { return false };
    let mut whole = true;
    let mut parts = Vec::new();
    for entry in entries {
        let Some((path, meta)) = entry.ok().and_then(|entry| Some((entry.path(), entry.metadata().ok()?))) else {
            whole = false;
            continue;
        };
        let (kind, mode) = (meta.file_type(), meta.permissions().mode());
        let is_everybodys = match () {
            // Where it leads to is what counts, and has a rule of its own or none.
            () if kind.is_symlink() => continue,
            () if kind.is_dir() => mode & 0o5 == 0o5 && look_through(&path, depth, &mut parts),
            () if kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device() => false,
            () => mode & 0o4 != 0,
        };
        if is_everybodys {
            parts.push(path);
        } else {
            whole = false;
        }
    }
    if !whole {
        found.extend(parts);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_everybody_may_read_is_shown() {
        let room = tempfile::tempdir().unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let make = |name: &str, mode| {
            let path = room.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            set(path.parent().unwrap(), 0o755);
            fs::write(&path, "").unwrap();
            set(&path, mode);
        };
        for (name, mode) in
            [("hosts", 0o644), ("shadow", 0o640), ("ssl/a", 0o644), ("ssl/b", 0o604), ("ssh/config", 0o644)]
        {
            make(name, mode);
        }
        make("ssh/key", 0o600);
        make("closed/open", 0o644);
        set(&room.path().join("closed"), 0o711);
        std::os::unix::fs::symlink("/root", room.path().join("link")).unwrap();
        let mut shown = everybodys(room.path());
        shown.sort();
        assert_eq!(shown, ["hosts", "ssh/config", "ssl"].map(|name| room.path().join(name)));
    }

    #[test]
    fn what_lies_among_programs_is_in_sight() {
        assert!(
            is_in_sight(Path::new("/usr/lib"))
                && is_in_sight(Path::new("/opt/agent"))
                && is_in_sight(Path::new("/bin"))
        );
        assert!(!is_in_sight(Path::new("/var/lib/bowline-agent")) && !is_in_sight(Path::new("/root")));
        assert!(!is_in_sight(Path::new("/usrlocal")));
    }
}
