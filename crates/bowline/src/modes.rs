//! Who can read what a server keeps: its own user, and nobody else on the machine.
//!
//! The ledger has payloads and results, objects have output, and both may hold what a tenant calls secret. New files are closed
//! from their first byte on ([`close_new_files`]); a directory that was there before (of a package, a mount, `mkdir`) is
//! closed at the start, or the start is refused.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::Mode;

use crate::config::Config;

const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;
/// What lies in a data directory itself. It may be somebody's working directory, so nothing else in it is touched.
const FILES: [&str; 6] =
    ["bowline.db", "bowline.db-wal", "bowline.db-shm", "bowline.lock", "admin.token", "admin.token.old"];
const DIRECTORIES: [&str; 2] = ["audit", "objects"];

/// From now on no file or directory that this process makes is open to others.
pub fn close_new_files() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Makes the data directory, or closes the one that is there with everything of ours in it.
pub fn prepare_directory(directory: &Path) -> anyhow::Result<()> {
    if !directory.exists() {
        return DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .with_context(|| format!("the data directory {} cannot be made", directory.display()));
    }
    if !directory.is_dir() {
        bail!("{} is not a directory", directory.display());
    }
    close(directory, 0o700)?;
    for name in FILES {
        close(&directory.join(name), 0o600)?;
    }
    for name in DIRECTORIES {
        close_tree(&directory.join(name))?;
    }
    Ok(())
}

/// Closes a directory of ours. What is below is looked at only if the directory was open: behind a closed one nothing is
/// reached, and walking all objects at each start would take long.
pub fn close_tree(directory: &Path) -> anyhow::Result<()> {
    if !close(directory, 0o700)? {
        return Ok(());
    }
    let unreadable = || format!("{} cannot be listed", directory.display());
    for entry in fs::read_dir(directory).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        let Ok(meta) = path.symlink_metadata() else { continue };
        if meta.is_dir() {
            close_tree(&path)?;
        } else if meta.is_file() {
            close(&path, 0o600)?;
        }
    }
    Ok(())
}

/// Takes from others what they may do with it. Whether they could do something. What is not there is closed enough.
fn close(path: &Path, mode: u32) -> anyhow::Result<bool> {
    let Ok(meta) = path.metadata() else { return Ok(false) };
    let found = meta.permissions().mode() & 0o7777;
    if found & OTHERS == 0 {
        return Ok(false);
    }
    if found & STICKY != 0 {
        bail!("{} is shared by all users of this machine; give Bowline a directory of its own", path.display());
    }
    fs::set_permissions(path, Permissions::from_mode(mode)).with_context(|| {
        format!(
            "{} is open to other users (mode {found:04o}) and cannot be closed; give it to the user that runs the server \
             (chown) and chmod {mode:o} it",
            path.display()
        )
    })?;
    tracing::warn!("{} was open to other users (mode {found:04o}); its mode is {mode:04o} now", path.display());
    Ok(true)
}

/// What of an installation other users of this machine can reach, with its mode.
pub fn open_to_others(config: &Config) -> Vec<(PathBuf, u32)> {
    let data = &config.server.data_dir;
    let mode = |path: &Path| path.metadata().map(|meta| meta.permissions().mode() & 0o7777).unwrap_or(0);
    let mut open = Vec::new();
    let mut look = |path: PathBuf| {
        let mode = mode(&path);
        if mode & OTHERS != 0 {
            open.push((path, mode));
        }
    };
    look(data.clone());
    for name in FILES.into_iter().chain(DIRECTORIES) {
        look(data.join(name));
    }
    if config.server.objects_dir() != data.join("objects") {
        look(config.server.objects_dir());
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_directory_that_is_there_is_closed_with_what_is_ours_in_it() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        fs::create_dir_all(data.join("objects/ab")).unwrap();
        for name in ["bowline.db", "objects/ab/one", "notes.txt"] {
            fs::write(data.join(name), "x").unwrap();
            set(&data.join(name), 0o644);
        }
        for name in ["objects/ab", "objects", ""] {
            set(&data.join(name), 0o755);
        }
        prepare_directory(&data).unwrap();
        let found = ["", "bowline.db", "objects", "objects/ab", "objects/ab/one", "notes.txt"]
            .map(|name| mode(&data.join(name)));
        assert_eq!(found, [0o700, 0o600, 0o700, 0o700, 0o600, 0o644], "{found:?}");
        let config = Config {
            server: crate::config::ServerConfig { data_dir: data, ..Default::default() },
            ..Default::default()
        };
        assert_eq!(open_to_others(&config), []);
    }

    #[test]
    fn a_directory_of_everybody_is_refused() {
        let home = tempfile::tempdir().unwrap();
        set(home.path(), 0o1777);
        let error = prepare_directory(home.path()).unwrap_err();
        assert!(error.to_string().contains("directory of its own"), "{error}");
        assert_eq!(mode(home.path()), 0o1777);
    }
}
