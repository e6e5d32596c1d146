//! Objects as files in a directory.
//!
//! An object is written beside its place, synced, and moved there; then the directory is synced. So a file that has its
//! name is whole, whatever happened in between.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{BlobError, BlobStore, Key};

/// A directory of objects.
#[derive(Debug)]
pub struct FileBlobs {
    root: PathBuf,
    /// Tells half-written files apart: ours from each other, and from those of other servers, wherever they run.
    turn: AtomicU64,
    nonce: u64,
}

impl FileBlobs {
    pub fn open(root: &Path) -> io::Result<Self> {
        let half = root.join(HALF);
        DirBuilder::new().recursive(true).mode(0o700).create(&half)?;
        for entry in fs::read_dir(&half)? {
            // What was half-written an hour ago belongs to nobody. Another server may be at work here, too.
            let entry = entry?;
            let age = entry.metadata().and_then(|file| file.modified()).ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > HALF_MAX) {
                drop(fs::remove_file(entry.path()));
            }
        }
        Ok(Self { root: root.to_owned(), turn: AtomicU64::new(0), nonce: RandomState::new().build_hasher().finish() })
    }

    /// What this directory calls itself; `fresh`, if it was never asked before. It keeps that name wherever it is mounted.
    pub fn identity(&self, fresh: &str) -> io::Result<String> {
        let place = self.root.join(IDENTITY);
        let half = self.root.join(HALF).join(format!("{:016x}-{IDENTITY}", self.nonce));
        if !place.try_exists()? {
            write(&half, fresh.as_bytes())?;
            // A link is made by one of those who try at once; the others read what that one wrote.
            let named = match fs::hard_link(&half, &place) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                named => named,
            };
            fs::remove_file(&half)?;
            named?;
            File::open(&self.root)?.sync_all()?;
        }
        Ok(fs::read_to_string(place)?.trim().to_owned())
    }

    async fn blocking<T: Send + 'static>(
        &self,
        key: &Key,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, BlobError> {
        let name = key.as_str().to_owned();
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(e)) if e.kind() == io::ErrorKind::NotFound => Err(BlobError::Missing(name)),
            Ok(Err(e)) if e.kind() == io::ErrorKind::StorageFull => Err(BlobError::NoSpace(name)),
            Ok(Err(source)) => Err(BlobError::Io { key: name, source }),
            Err(ended) => Err(BlobError::Io { key: name, source: io::Error::other(ended) }),
        }
    }
}

/// No object takes this long to be written.
const HALF_MAX: Duration = Duration::from_secs(3_600);
/// Where files are that have no name yet.
const HALF: &str = ".half";
/// Where the directory says what it calls itself. No key begins with a dot.
const IDENTITY: &str = ".identity";

fn put(root: &Path, key: &str, turn: &str, bytes: &[u8]) -> io::Result<()> {
    let place = root.join(key);
    let parent = place.parent().unwrap_or(root);
    make_dirs(root, parent)?;
    let half = root.join(HALF).join(turn);
    let written = write(&half, bytes).and_then(|()| fs::rename(&half, &place));
    if written.is_err() {
        drop(fs::remove_file(&half));
    }
    written?;
    File::open(parent)?.sync_all()
}

/// Makes directories, and syncs each parent of one that was made: a directory that is forgotten takes its files along.
fn make_dirs(root: &Path, dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().unwrap_or(root);
    if dir != root {
        make_dirs(root, parent)?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    File::open(parent)?.sync_all()
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[async_trait]
impl BlobStore for FileBlobs {
    async fn put(&self, key: &Key, bytes: Bytes) -> Result<(), BlobError> {
        let (root, name) = (self.root.clone(), key.as_str().to_owned());
        let turn = format!("{:016x}-{}", self.nonce, self.turn.fetch_add(1, Ordering::Relaxed));
        self.blocking(key, move || put(&root, &name, &turn, &bytes)).await
    }

    async fn get(&self, key: &Key) -> Result<Bytes, BlobError> {
        let place = self.root.join(key.as_str());
        self.blocking(key, move || fs::read(place).map(Bytes::from)).await
    }

    async fn remove(&self, prefix: &Key) -> Result<(), BlobError> {
        let place = self.root.join(prefix.as_str());
        let gone = self
            .blocking(prefix, move || if place.is_dir() { fs::remove_dir_all(place) } else { fs::remove_file(place) });
        match gone.await {
            Err(BlobError::Missing(_)) => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::new(text).expect("a key")
    }

    #[tokio::test]
    async fn what_was_put_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = FileBlobs::open(dir.path()).unwrap();
        blobs.put(&key("runs/a/stdout/0"), Bytes::from_static(b"one")).await.unwrap();
        blobs.put(&key("runs/a/stdout/0"), Bytes::from_static(b"two")).await.unwrap();
        let again = FileBlobs::open(dir.path()).unwrap();
        assert_eq!(&again.get(&key("runs/a/stdout/0")).await.unwrap()[..], b"two");
        assert_eq!(fs::read_dir(dir.path().join(HALF)).unwrap().count(), 0, "nothing is left half-written");
        assert!(matches!(again.get(&key("runs/a/stdout/1")).await, Err(BlobError::Missing(_))));
    }

    #[test]
    fn a_directory_keeps_its_name_and_two_who_ask_at_once_hear_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let open = || FileBlobs::open(dir.path()).unwrap();
        let names: Vec<String> = std::thread::scope(|scope| {
            let asked: Vec<_> =
                (0..8).map(|n| scope.spawn(move || open().identity(&format!("name-{n}")).unwrap())).collect();
            asked.into_iter().map(|asked| asked.join().unwrap()).collect()
        });
        assert!(names[0].starts_with("name-") && names.iter().all(|name| *name == names[0]), "{names:?}");
        assert_eq!(open().identity("another").unwrap(), names[0]);
        assert_eq!(fs::read_dir(dir.path().join(HALF)).unwrap().count(), 0, "nothing is left half-written");
        let other = tempfile::tempdir().unwrap();
        assert_eq!(FileBlobs::open(other.path()).unwrap().identity("another").unwrap(), "another");
    }

    #[tokio::test]
    async fn a_prefix_goes_with_everything_under_it() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = FileBlobs::open(dir.path()).unwrap();
        for name in ["runs/a/stdout/0", "runs/a/stderr/0", "runs/b/stdout/0"] {
            blobs.put(&key(name), Bytes::from_static(b"x")).await.unwrap();
        }
        blobs.remove(&key("runs/a")).await.unwrap();
        blobs.remove(&key("runs/a")).await.unwrap();
        assert!(blobs.get(&key("runs/a/stderr/0")).await.is_err());
        assert!(blobs.get(&key("runs/b/stdout/0")).await.is_ok());
    }

    #[test]
    fn names_that_lead_elsewhere_are_no_keys() {
        for text in ["", "/a", "a/", "a//b", "../a", "a/../b", "a.b", "a b", "a\0", "."] {
            assert_eq!(Key::new(text), Err(crate::BadKey), "{text}");
        }
    }
}
