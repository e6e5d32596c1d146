//! Values in files: `secrets/<tenant>/<name>` in the data directory, each readable by the server's user and nobody else.
//!
//! A file that others can read has been read by others, so it is refused instead of used. So is a directory in which others
//! could put another file in its place, and a link, which leads somewhere that nobody meant.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use bowline_engine::secrets::{NoValue, SecretSource};
use bowline_seal::SecretValue;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open, openat};
use rustix::io::Errno;
use zeroize::Zeroizing;

use super::VALUE_MAX_BYTES;

#[derive(Debug)]
pub struct FileSecrets {
    directory: PathBuf,
}

impl FileSecrets {
    pub const fn new(directory: PathBuf) -> Self {
        Self { directory }
    }
}

impl SecretSource for FileSecrets {
    fn read(&self, tenant: &str, name: &str) -> Result<SecretValue, NoValue> {
        if !is_one_name(tenant) || !is_one_name(name) {
            return Err(NoValue::Unfit("the tenant's name, or the secret's, cannot be the name of a file"));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = open(&self.directory, flags | OFlags::DIRECTORY, Mode::empty()).map_err(no_value)?;
        check_directory(&directory)?;
        let own = openat(&directory, tenant, flags | OFlags::DIRECTORY, Mode::empty()).map_err(no_value)?;
        check_directory(&own)?;
        // Whoever puts a pipe there must not make us wait for it.
        let file = openat(&own, name, flags | OFlags::NONBLOCK, Mode::empty()).map_err(no_value)?;
        let found = fstat(&file).map_err(no_value)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(NoValue::Unfit("it is not a file"));
        }
        if found.st_mode & 0o077 != 0 {
            return Err(NoValue::Unfit("its file can be read or written by others; it must be 0600 or 0400"));
        }
        check_owner(&found)?;
        // Once, in memory that does not grow.
        let mut bytes = Zeroizing::new(Vec::with_capacity(VALUE_MAX_BYTES + 2));
        let read = File::from(file).take(VALUE_MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| unavailable(&error))?;
        super::value(&bytes)
    }
}

/// One step down, and nowhere else.
fn is_one_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}

fn check_directory(directory: &OwnedFd) -> Result<(), NoValue> {
    let found = fstat(directory).map_err(no_value)?;
    if found.st_mode & 0o022 != 0 {
        return Err(NoValue::Unfit("its directory can be written by others"));
    }
    check_owner(&found)
}

fn check_owner(found: &Stat) -> Result<(), NoValue> {
    let own = rustix::process::geteuid().as_raw();
    if found.st_uid == own || found.st_uid == 0 {
        Ok(())
    } else {
        Err(NoValue::Unfit("its file or directory belongs to somebody else"))
    }
}

/// What will not change by waiting, and what may.
fn no_value(error: Errno) -> NoValue {
    match error {
        Errno::NOENT => NoValue::Missing,
        Errno::LOOP | Errno::MLINK => NoValue::Unfit("it is a link"),
        Errno::NOTDIR => NoValue::Unfit("its directory is none"),
        Errno::ACCESS | Errno::PERM => NoValue::Unfit("the server may not read it"),
        Errno::NAMETOOLONG => NoValue::Unfit("its name is too long"),
        other => unavailable(&other.into()),
    }
}

fn unavailable(error: &io::Error) -> NoValue {
    NoValue::Unavailable(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_secret_is_a_file_of_its_tenant_that_nobody_else_reads() {
        let room = tempfile::tempdir().unwrap();
        let secrets = room.path().join("secrets");
        let put = |path: &str, text: &[u8], mode: u32| {
            let path = secrets.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        let store = FileSecrets::new(secrets.clone());
        let read = |tenant: &str, name: &str| store.read(tenant, name).map(|value| value.reveal().to_owned());
        assert_eq!(read("acme", "db"), Err(NoValue::Missing), "there is no directory yet");
        put("acme/db", b"hunter22\r\n", 0o600);
        put("acme/read-only", b"a\nb\n\n", 0o400);
        put("acme/group", b"hunter22", 0o640);
        put("acme/all", b"hunter22", 0o604);
        put("acme/empty", b"\n", 0o600);
        put("acme/zero", b"a\0b", 0o600);
        put("acme/binary", &[0xff, 0xfe], 0o600);
        put("acme/long", &vec![b'x'; 65_537], 0o600);
        put("acme/longest", &vec![b'x'; 65_536], 0o600);
        put("other/db", b"theirs", 0o600);
        symlink(secrets.join("other/db"), secrets.join("acme/link")).unwrap();
        fs::create_dir(secrets.join("acme/directory")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, secrets.join("acme/pipe"), Mode::from_raw_mode(0o600)).unwrap();
        assert_eq!(read("acme", "db"), Ok("hunter22".to_owned()));
        assert_eq!(read("acme", "read-only"), Ok("a\nb\n".to_owned()));
        assert_eq!(read("acme", "longest").map(|text| text.len()), Ok(65_536));
        assert_eq!(read("other", "db"), Ok("theirs".to_owned()));
        assert_eq!(read("acme", "none"), Err(NoValue::Missing));
        for (name, why) in [
            ("group", "by others"),
            ("all", "by others"),
            ("empty", "empty"),
            ("zero", "zero bytes"),
            ("binary", "not text"),
            ("long", "more than"),
            ("link", "a link"),
            ("directory", "not a file"),
            ("pipe", "not a file"),
            ("../other/db", "cannot be the name"),
            ("..", "cannot be the name"),
            ("/etc/passwd", "cannot be the name"),
            ("", "cannot be the name"),
        ] {
            let Err(NoValue::Unfit(said)) = read("acme", name) else { panic!("{name} is used") };
            assert!(said.contains(why), "{name}: {said}");
        }
        assert!(matches!(read("a/b", "db"), Err(NoValue::Unfit(_))), "a tenant's name is one name, too");
        fs::set_permissions(secrets.join("acme"), Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(read("acme", "db"), Err(NoValue::Unfit(said)) if said.contains("directory")));
    }
}
