//! `serve --in-memory`: a server for an hour of development, of which nothing stays.
//!
//! Everything a server keeps (ledger, token, output) goes to a temporary directory of this process, which is removed when the
//! server ends. What a killed server left behind is removed by the next one: a directory whose lock nobody holds. A process
//! number would not do, because containers that share a temporary directory have process numbers of their own.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::config::{Config, ConfigFlags};
use crate::modes::prepare_directory;

const PREFIX: &str = "bowline-in-memory-";
/// In each directory, locked for as long as its server lives.
const LOCK: &str = "in-memory.lock";

/// The directory, for as long as this lives.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    _lock: File,
}

impl Temporary {
    /// Makes the directory, and has the configuration use it.
    pub fn make(config: &mut Config, flags: &ConfigFlags) -> anyhow::Result<Self> {
        if config.database.url.is_some() {
            bail!(
                "--in-memory keeps nothing, and DATABASE_URL (--database-url, database.url) names a database that does; \
                 leave one of them out"
            );
        }
        if flags.data_dir.is_some() || config.server.data_dir != Config::default().server.data_dir {
            bail!(
                "--in-memory keeps nothing, and --data-dir (server.data_dir) names where to keep it; leave one of them out"
            );
        }
        if config.server.objects_dir.is_some() {
            bail!(
                "--in-memory keeps nothing, and server.objects_dir names where to keep output; leave one of them out"
            );
        }
        let parent = std::env::temp_dir();
        remove_left_behind(&parent);
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent);
        let path = made.with_context(|| format!("cannot make a directory in {}", parent.display()))?.keep();
        let cannot = || format!("cannot lock the directory {}", path.display());
        let lock = File::create_new(path.join(LOCK)).with_context(cannot)?;
        lock.try_lock().with_context(cannot)?;
        let temporary = Self { path, _lock: lock };
        prepare_directory(&temporary.path)?;
        config.server.data_dir.clone_from(&temporary.path);
        Ok(temporary)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes directories whose server is no more. One that is not ours cannot be removed, and one that is being made has no lock
/// yet: both stay.
fn remove_left_behind(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_to_stay_is_refused() {
        type Change = fn(&mut Config, &mut ConfigFlags);
        let with = |change: Change| {
            let (mut config, mut flags) = (Config::default(), ConfigFlags::default());
            change(&mut config, &mut flags);
            Temporary::make(&mut config, &flags).map(|made| (made.path().to_owned(), config.server.data_dir))
        };
        let cases: [Change; 4] = [
            |config, _| config.database.url = Some("postgres://db/x".to_owned()),
            |config, _| config.server.data_dir = "/var/lib/bowline".into(),
            |config, _| config.server.objects_dir = Some("/mnt/objects".into()),
            |_, flags| flags.data_dir = Some("bowline-data".into()),
        ];
        for case in cases {
            assert!(with(case).unwrap_err().to_string().contains("leave one of them out"));
        }
        let (path, data_dir) = with(|_, _| {}).unwrap();
        assert_eq!(path, data_dir);
        assert!(!path.exists(), "it is removed at the end");
    }

    #[test]
    fn only_what_no_server_holds_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let [held, left, young, other] =
            [format!("{PREFIX}held"), format!("{PREFIX}left"), format!("{PREFIX}young"), "other".to_owned()]
                .map(|name| parent.path().join(name));
        for path in [&held, &left, &young, &other] {
            std::fs::create_dir(path).unwrap();
        }
        let lock = File::create_new(held.join(LOCK)).unwrap();
        lock.try_lock().unwrap();
        for path in [&left, &other] {
            File::create_new(path.join(LOCK)).unwrap();
        }
        remove_left_behind(parent.path());
        assert_eq!([&held, &left, &young, &other].map(|path| path.exists()), [true, false, true, true]);
    }
}
