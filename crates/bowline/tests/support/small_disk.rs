//! A small file system of its own, for tests that fill it.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Unmounted at the end.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where we may not mount.
    pub fn mount(mebibytes: u32) -> Option<Self> {
        let directory = tempfile::tempdir().ok()?;
        let size = format!("size={mebibytes}m");
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path()).status();
        status.is_ok_and(|s| s.success()).then_some(Self(directory))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Writes ballast until nothing more can be written, and says why.
    pub fn fill(&self) -> io::Result<()> {
        let mut ballast = File::options().create(true).append(true).open(self.ballast())?;
        // More than there can be room for.
        let parts = [1 << 20, 1 << 12, 1];
        for part in parts {
            let bytes = vec![0_u8; part];
            let written = (0..100_000).try_for_each(|_| ballast.write_all(&bytes));
            if part == 1 {
                return written;
            }
        }
        Ok(())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}
