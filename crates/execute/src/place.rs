//! Where things lie: the names of files in a run directory, and the few that both sides read.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::disk;
use crate::log::Stream;
use crate::manifest::Manifest;
use crate::process::{Cgroups, Identity};
use crate::secrets::Secrets;

/// A run directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place(PathBuf);

/// The start marker. That it exists is what counts; what it says helps to find what was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    pub keeper: Identity,
    #[serde(default)]
    pub cgroups: Cgroups,
    /// It is executed elsewhere, by the agent itself, and there is nothing of it on this host.
    #[serde(default)]
    pub inside: bool,
}

/// What an agent tells a keeper through its standard input, and nobody else.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Handover {
    pub secrets: Secrets,
    /// The control group to make the run's own in.
    #[serde(default)]
    pub cgroup_parent: Option<PathBuf>,
}

impl Handover {
    /// As it goes through the pipe, in memory that is wiped and does not grow: the values are in it.
    pub(crate) fn text(&self) -> io::Result<Zeroizing<Vec<u8>>> {
        // The longest escape of a byte has six.
        let room =
            self.secrets.names_and_values().map(|(name, value)| 8 + 6 * (name.len() + value.len())).sum::<usize>();
        let mut text = Zeroizing::new(Vec::with_capacity(room + 8_192));
        serde_json::to_writer(&mut *text, self)?;
        Ok(text)
    }
}

impl Place {
    pub(crate) fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn events(&self) -> PathBuf {
        self.0.join("events.log")
    }

    pub(crate) fn stream(&self, stream: Stream) -> PathBuf {
        self.0.join(stream.name())
    }

    pub(crate) fn cancel(&self) -> PathBuf {
        self.0.join("cancel")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.0.join("tmp")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.0.join("keeper.lock")
    }

    fn marker(&self) -> PathBuf {
        self.0.join("started")
    }

    fn reserve(&self) -> PathBuf {
        self.0.join("reserve")
    }

    fn manifest(&self) -> PathBuf {
        self.0.join("manifest.json")
    }

    pub(crate) fn write_manifest(&self, manifest: &Manifest) -> io::Result<()> {
        disk::write_new(&self.manifest(), &serde_json::to_vec_pretty(manifest)?)
    }

    pub(crate) fn read_manifest(&self) -> io::Result<Manifest> {
        Ok(serde_json::from_slice(&fs::read(self.manifest())?)?)
    }

    /// Whether the run was started, by whomever and whenever.
    pub(crate) fn is_started(&self) -> io::Result<bool> {
        self.marker().try_exists()
    }

    /// Says that the run is being started. On disk, with its name, when this returns. Fails if it was said before.
    pub(crate) fn mark_started(&self, marker: &Marker) -> io::Result<()> {
        self.write_marker(marker)?;
        disk::sync_directory(&self.0)
    }

    /// The same in a directory that has not appeared yet, and whose names are brought to disk before it does.
    pub(crate) fn write_marker(&self, marker: &Marker) -> io::Result<()> {
        disk::write_new(&self.marker(), &serde_json::to_vec(marker)?)
    }

    /// What the marker says; nothing if there is none or a crash cut it short.
    pub(crate) fn read_marker(&self) -> Option<Marker> {
        serde_json::from_slice(&fs::read(self.marker()).ok()?).ok()
    }

    /// Takes the keeper's lock, or nothing if a keeper lives. It is held as long as the file, or a copy of it, is open.
    pub(crate) fn try_lock(&self) -> io::Result<Option<File>> {
        let file = disk::private().append(true).create(true).open(self.lock())?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets room aside for the last words on a full disk.
    pub(crate) fn make_reserve(&self, bytes: u64) -> io::Result<()> {
        let mut file = disk::private().write(true).create_new(true).open(self.reserve())?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Err(rustix::io::Errno::OPNOTSUPP) => {
                file.write_all(&vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)])?;
                file.sync_data()
            }
            done => Ok(done?),
        }
    }

    /// Gives up the room that was set aside. There is none any more when it was given up before.
    pub(crate) fn give_up_reserve(&self) -> io::Result<()> {
        disk::remove_if_there(&self.reserve())
    }
}
