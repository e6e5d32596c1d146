//! A wrong wall clock for some processes: libfaketime, between them and the kernel.
//!
//! Only the time of day is wrong, and can be turned while they run. The monotonic clock stays honest, as it does on a
//! machine whose clock somebody turns.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::room::Room;

/// Where Debian and others keep it. The version for programs with threads.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
/// Where the library keeps what its processes share; those that were killed leave it behind.
const SHARED: &str = "/dev/shm";

/// A clock that is wrong for every process started with its [`env`](Self::env), until this guard is dropped.
pub struct WrongClock {
    library: PathBuf,
    room: Room,
}

impl WrongClock {
    /// A clock that differs from the real one by so many seconds.
    ///
    /// # Panics
    /// If there is no libfaketime. A test that silently has the right time proves nothing.
    #[must_use]
    pub fn start(seconds: i64) -> Self {
        let library = find().expect("no libfaketime found; scripts/install-test-deps.sh installs it");
        sweep();
        let clock = Self { library, room: Room::take("clock").expect("temporary files can be made") };
        clock.turn(seconds);
        clock
    }

    /// Turns the clock, for those who run already as well: they notice within a second.
    ///
    /// # Panics
    /// If the file cannot be written that says so.
    pub fn turn(&self, seconds: i64) {
        // Renamed into its place, so that nobody reads half of it.
        let new = self.room.path().join("new");
        let turned = fs::write(&new, format!("{seconds:+}\n")).and_then(|()| fs::rename(new, self.file()));
        turned.expect("temporary files can be written");
    }

    /// What a process needs in its environment to have this clock.
    #[must_use]
    pub fn env(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        let variables = [
            ("LD_PRELOAD", text(&self.library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&self.file())),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ];
        variables.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn file(&self) -> PathBuf {
        self.room.path().join("offset")
    }
}

impl Drop for WrongClock {
    fn drop(&mut self) {
        sweep();
    }
}

/// The same places as scripts/install-test-deps.sh.
fn find() -> Option<PathBuf> {
    let by_machine = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let places = by_machine.chain([PathBuf::from("/usr/lib"), PathBuf::from("/usr/local/lib")]);
    places.map(|place| place.join(LIBRARY)).find(|library| library.is_file())
}

/// Removes what processes left that are gone. One that gets the same number later would trip over it.
fn sweep() {
    for entry in fs::read_dir(SHARED).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = |prefix: &str| name.to_str()?.strip_prefix(prefix)?.parse::<u32>().ok();
        let pid = number("faketime_shm_").or_else(|| number("sem.faketime_sem_"));
        let is_gone = |pid: u32| !Path::new("/proc").join(pid.to_string()).join(OsStr::new("stat")).exists();
        if pid.is_some_and(is_gone) {
            // Somebody else may have been quicker.
            let _ = fs::remove_file(entry.path());
        }
    }
}
