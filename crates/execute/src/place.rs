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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn place() -> (tempfile::TempDir, Place) {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::new(directory.path());
        (directory, place)
    }

    fn marker() -> Marker {
        let keeper = Identity::of(std::process::id()).unwrap();
        Marker { keeper, cgroups: Cgroups::default(), inside: true }
    }

    #[test]
    fn every_file_has_its_own_name() {
        let place = Place::new("/runs/1");
        let files = [
            place.events(),
            place.stream(Stream::Stdout),
            place.stream(Stream::Stderr),
            place.cancel(),
            place.work(),
            place.tmp(),
            place.lock(),
            place.marker(),
            place.reserve(),
            place.manifest(),
        ];
        let names: Vec<&str> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
        // Agents of other versions look for the same ones.
        let known = "events.log stdout stderr cancel work tmp keeper.lock started reserve manifest.json";
        assert_eq!(names.join(" "), known);
        assert!(files.iter().all(|file| file.parent() == Some(place.path())));
    }

    #[test]
    fn a_run_is_started_once() {
        let (_directory, place) = place();
        assert!(!place.is_started().unwrap());
        assert_eq!(place.read_marker(), None);
        place.mark_started(&marker()).unwrap();
        assert!(place.is_started().unwrap());
        assert_eq!(place.read_marker(), Some(marker()));
        assert_eq!(place.mark_started(&marker()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let mode = fs::metadata(place.marker()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(place.marker(), "{").unwrap();
        assert!(place.is_started().unwrap(), "a marker that was cut short is one");
        assert_eq!(place.read_marker(), None);
    }

    #[test]
    fn a_manifest_is_written_once_and_read_as_it_was() {
        let (_directory, place) = place();
        assert!(place.read_manifest().is_err());
        let manifest = crate::manifest::tests::sample();
        place.write_manifest(&manifest).unwrap();
        assert_eq!(place.read_manifest().unwrap(), manifest);
        assert_eq!(place.write_manifest(&manifest).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(place.read_manifest().unwrap(), manifest);
    }

    #[test]
    fn a_marker_of_an_older_version_is_of_this_host() {
        let (_directory, place) = place();
        let keeper = serde_json::to_value(marker().keeper).unwrap();
        fs::write(place.marker(), serde_json::json!({"keeper": keeper}).to_string()).unwrap();
        assert_eq!(place.read_marker(), Some(Marker { inside: false, ..marker() }));
    }

    #[test]
    fn a_lock_is_held_by_one_for_as_long_as_it_is_open() {
        let (_directory, place) = place();
        let first = place.try_lock().unwrap().unwrap();
        assert!(place.try_lock().unwrap().is_none());
        let copy = first.try_clone().unwrap();
        drop(first);
        assert!(place.try_lock().unwrap().is_none(), "a copy is as good");
        drop(copy);
        assert!(place.try_lock().unwrap().is_some());
        let nowhere = Place::new("/does/not/exist");
        assert!(nowhere.try_lock().is_err());
    }

    #[test]
    fn room_is_set_aside_and_given_up_once() {
        let (_directory, place) = place();
        place.make_reserve(10_000).unwrap();
        assert_eq!(fs::metadata(place.reserve()).unwrap().len(), 10_000);
        assert!(place.make_reserve(10_000).is_err(), "it is there");
        place.give_up_reserve().unwrap();
        assert!(!place.reserve().exists());
        place.give_up_reserve().unwrap();
    }

    #[test]
    fn a_handover_does_not_grow_in_memory_whatever_is_in_it() {
        let value = "\u{1}\"\\".repeat(20_000);
        let secrets: Secrets = serde_json::from_value(serde_json::json!({"token": value})).unwrap();
        let handover = Handover { secrets, cgroup_parent: Some("/x".into()) };
        let text = handover.text().unwrap();
        let room = 8 + 6 * ("token".len() + value.len()) + 8_192;
        assert!(text.len() <= room && text.capacity() == room, "{} {} {room}", text.len(), text.capacity());
        let back: Handover = serde_json::from_slice(&text).unwrap();
        assert_eq!(back.secrets.get("token"), Some(value.as_str()));
        assert_eq!(back.cgroup_parent, Some("/x".into()));
    }
}
