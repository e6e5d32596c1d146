//! One `known_hosts` file, kept in memory for as long as it does not change.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::lines::Lines;

/// Far more than a file for 100,000 hosts. A file that is larger is something else.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

pub(super) struct KnownHostsFile {
    path: PathBuf,
    read: Mutex<Option<(Seal, Arc<Lines>)>>,
}

/// What changes when a file does.
#[derive(PartialEq, Eq)]
struct Seal {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Seal {
    fn of(file: &Metadata) -> Self {
        Self { inode: file.ino(), size: file.size(), changed: (file.ctime(), file.ctime_nsec()) }
    }
}

impl KnownHostsFile {
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: Mutex::new(None) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// As it is now.
    pub fn read(&self) -> io::Result<Arc<Lines>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *read = None;
                return Ok(Arc::default());
            }
            file => file?,
        };
        let seal = Seal::of(&file.metadata()?);
        if let Some((seen, lines)) = &*read
            && *seen == seal
        {
            return Ok(Arc::clone(lines));
        }
        let mut text = Vec::new();
        (&mut file).take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too large for a known_hosts file"));
        }
        let lines = Arc::new(Lines::parse(&String::from_utf8_lossy(&text)));
        for line in lines.not_understood() {
            tracing::warn!("line {line} of {} is not understood, and ignored", self.path.display());
        }
        *read = Some((seal, Arc::clone(&lines)));
        Ok(lines)
    }

    /// Adds a whole line, in one write.
    pub fn append(&self, line: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(&self.path)?;
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        let gap = if last == [b'\n'] { "" } else { "\n" };
        file.write_all(format!("{gap}{line}").as_bytes())
    }
}
