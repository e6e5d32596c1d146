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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_new_file_belongs_to_its_owner_alone_and_is_written_once() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("file");
        write_new(&path, b"first").unwrap();
        assert_eq!(write_new(&path, b"second").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_not_there_need_not_be_removed() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("file");
        fs::write(&path, "").unwrap();
        for _ in 0..2 {
            remove_if_there(&path).unwrap();
            assert!(!path.exists());
        }
        assert!(remove_if_there(room.path()).is_err(), "a directory is no file");
        assert!(sync_directory(room.path()).is_ok() && sync_directory(&path).is_err());
    }

    #[test]
    fn a_full_disk_is_not_a_broken_one() {
        let is_full = |number| is_full(&io::Error::from_raw_os_error(number));
        assert!([libc::ENOSPC, libc::EDQUOT, libc::EFBIG].into_iter().all(is_full));
        assert!(![libc::EIO, libc::EROFS, libc::ENOENT].into_iter().any(is_full));
    }
}
