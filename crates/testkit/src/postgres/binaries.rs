//! Where PostgreSQL lives on this machine, and as whom it may run.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::workshop;

/// The oldest major version Bowline supports.
const MAJOR_MIN: u32 = 15;

/// One installation, and the user its server runs as.
#[derive(Debug, Clone)]
pub(super) struct Binaries {
    directory: PathBuf,
    /// As the server prints it, for example `15.18`.
    pub version: String,
    pub uid: u32,
    /// Whom to become first; `None` if we are nobody special and it can run as us.
    becomes: Option<(u32, u32)>,
}

impl Binaries {
    /// The newest version in Debian's place, otherwise the one in `PATH`.
    pub fn find() -> anyhow::Result<Self> {
        let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let newest = debian.map(|entry| entry.path().join("bin")).filter_map(installed).max_by_key(|found| found.0);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let (_, version, directory) =
            newest.or_else(|| std::env::split_paths(&path).find_map(installed)).with_context(|| {
                format!("no PostgreSQL {MAJOR_MIN} or newer found; scripts/install-test-deps.sh installs one")
            })?;
        let own = workshop::own_uid()?;
        // The server refuses to run as root.
        let becomes = if own == 0 { Some(unprivileged()?) } else { None };
        Ok(Self { directory, version, uid: becomes.map_or(own, |(uid, _)| uid), becomes })
    }

    /// A command that runs as the server's user, in a directory that user can enter, undisturbed by our environment.
    pub fn command(&self, program: &str, home: &Path) -> Command {
        let mut command = Command::new(self.directory.join(program));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
        if let Some((uid, gid)) = self.becomes {
            command.uid(uid).gid(gid);
        }
        command.current_dir(home).env("TZ", "UTC").env("LC_ALL", "C");
        command
    }

    /// Gives a file or directory of ours to the server's user.
    pub fn hand_over(&self, path: &Path) -> anyhow::Result<()> {
        if let Some((uid, gid)) = self.becomes {
            std::os::unix::fs::chown(path, Some(uid), Some(gid))
                .with_context(|| format!("cannot give {} to user {uid}", path.display()))?;
        }
        Ok(())
    }
}

/// Major version, version and directory, if a server that is new enough can be started and set up from there.
fn installed(directory: PathBuf) -> Option<(u32, String, PathBuf)> {
    if !directory.join("initdb").is_file() {
        return None;
    }
    let answer = Command::new(directory.join("postgres")).arg("--version").output().ok()?;
    let (major, version) = version_in(&String::from_utf8_lossy(&answer.stdout))?;
    (major >= MAJOR_MIN).then_some((major, version, directory))
}

/// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)` is major 15, version `15.18`.
fn version_in(text: &str) -> Option<(u32, String)> {
    let version = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    Some((version[..digits].parse().ok()?, version.to_owned()))
}

/// `postgres`, whom every package creates, otherwise `nobody`.
fn unprivileged() -> anyhow::Result<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").context("cannot read the list of users")?;
    let ids = |wanted: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(wanted))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    ids("postgres").or_else(|| ids("nobody")).context("PostgreSQL does not run as root, and no other user was found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_the_servers_print_them() {
        let read = |text| version_in(text).map(|(major, version)| format!("{major} {version}"));
        assert_eq!(read("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n").as_deref(), Some("15 15.18"));
        assert_eq!(read("postgres (PostgreSQL) 18beta1\n").as_deref(), Some("18 18beta1"));
        assert_eq!(read("no such thing"), None);
    }
}
