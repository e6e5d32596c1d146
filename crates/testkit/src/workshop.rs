//! The directory all test processes of one user share: server templates, reserved ports, data of running servers.
//!
//! What must be exclusive is held by a file lock, never by a pid in a name: a lock ends with its process, whatever ends
//! it, and means the same in every pid namespace.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, ensure};

/// The shared directory, without symbolic links in its path. Everybody may pass through it, as the database server
/// runs as somebody else when we are root.
pub(crate) fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| prepare().expect("the test kit needs a directory of its own in the temporary directory"))
}

/// The user we run as, told by the owner of a file we just made.
pub(crate) fn own_uid() -> anyhow::Result<u32> {
    Ok(tempfile::tempfile().and_then(|file| file.metadata()).context("cannot create a temporary file")?.uid())
}

/// Waits until nobody else holds the lock `name`. It is held until the file is dropped.
pub(crate) fn lock(name: &str) -> anyhow::Result<File> {
    let file = lock_file(name)?;
    file.lock().with_context(|| format!("cannot lock {name}"))?;
    Ok(file)
}

/// Takes the lock `name` if it is free now.
pub(crate) fn try_lock(name: &str) -> anyhow::Result<Option<File>> {
    let file = lock_file(name)?;
    Ok(file.try_lock().is_ok().then_some(file))
}

fn lock_file(name: &str) -> anyhow::Result<File> {
    let path = directory().join(name);
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot open the lock file {}", path.display()))
}

fn prepare() -> anyhow::Result<PathBuf> {
    let uid = own_uid()?;
    let path = std::env::temp_dir().join(format!("bowline-testkit-{uid}"));
    for path in [path.clone(), path.join("ports")] {
        DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
    }
    let found = std::fs::symlink_metadata(&path)?;
    // The name can be guessed, so somebody else may have made it first.
    ensure!(found.is_dir() && found.uid() == uid, "{} is not a directory of ours", path.display());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o711))?;
    Ok(path.canonicalize()?)
}
