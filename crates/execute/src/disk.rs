//! The few habits with files that durability rests on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How a file is brought to disk. A value, so that tests can have disks that fail.
pub(crate) type Sync = fn(&File) -> io::Result<()>;

/// Content, and what is needed to find it again.
pub(crate) const SYNC: Sync = File::sync_data;

/// Makes names in a directory durable: what was created, renamed or removed there.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Options for a file that only its owner reads.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Writes a file that must not exist yet. It is on disk when this returns; its name is not, see [`sync_directory`].
pub(crate) fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = private().write(true).create_new(true).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Whether there is no room, as opposed to a broken disk.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// Removes a file or says nothing if there is none.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
