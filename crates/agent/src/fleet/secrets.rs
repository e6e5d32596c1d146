//! The values of secrets: one file each, in a directory that only this agent knows.
//!
//! Never here: a value in an error, in a log line or on disk anywhere else.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use bowline_execute::Secrets;
use bowline_model::secret::NamedSecret;

use crate::fleet::error::FleetError;

const VALUE_MAX_BYTES: u64 = 64 * 1024;

/// Why a run does not get its secrets. Names the secret, and nothing of its value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("this agent was started without a directory of secrets, and the command needs {0}")]
    NoDirectory(String),
    #[error("`{0}` cannot be the name of a secret")]
    NotAName(String),
    #[error("this agent has no secret {0}")]
    Missing(String),
    #[error("secret {0} has more than {VALUE_MAX_BYTES} bytes")]
    TooLong(String),
    #[error("secret {0} is not text without zero bytes")]
    NotText(String),
    #[error("secret {name} cannot be read")]
    Disk {
        name: String,
        #[source]
        source: io::Error,
    },
}

pub(crate) struct SecretStore {
    directory: Option<PathBuf>,
}

impl SecretStore {
    pub fn open(directory: Option<&Path>) -> Result<Self, FleetError> {
        let bad = |path: &Path, why: &str| FleetError::Secrets { path: path.to_owned(), why: why.to_owned() };
        match directory {
            None => Ok(Self { directory: None }),
            Some(path) => match std::fs::metadata(path) {
                Ok(found) if found.is_dir() => Ok(Self { directory: Some(path.to_owned()) }),
                Ok(_) => Err(bad(path, "it is not a directory")),
                Err(error) => Err(bad(path, &error.to_string())),
            },
        }
    }

    /// The values of those secrets among these that are the agent's own, read anew each time: a value that was changed is used
    /// from the next run on.
    pub fn get<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> Result<Secrets, SecretError> {
        let names: BTreeSet<&String> = names.into_iter().filter(|name| !NamedSecret::is_servers(name)).collect();
        let read = |name: &String| self.read(name.strip_prefix("agent://").unwrap_or(name));
        names.into_iter().map(|name| Ok((name.clone(), read(name)?))).collect()
    }

    fn read(&self, name: &str) -> Result<String, SecretError> {
        let directory = self.directory.as_ref().ok_or_else(|| SecretError::NoDirectory(name.to_owned()))?;
        let mut parts = Path::new(name).components();
        let is_plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
        if !is_plain || name.starts_with('.') || name.contains(['/', '\0']) {
            return Err(SecretError::NotAName(name.chars().take(64).collect()));
        }
        let disk = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => SecretError::Missing(name.to_owned()),
            _ => SecretError::Disk { name: name.to_owned(), source },
        };
        let mut bytes = Vec::new();
        File::open(directory.join(name))
            .and_then(|file| file.take(VALUE_MAX_BYTES + 1).read_to_end(&mut bytes))
            .map_err(disk)?;
        if bytes.len() as u64 > VALUE_MAX_BYTES {
            return Err(SecretError::TooLong(name.to_owned()));
        }
        let mut value = String::from_utf8(bytes).map_err(|_| SecretError::NotText(name.to_owned()))?;
        // Editors and `echo` end a file with a line break, which nobody means.
        if value.ends_with('\n') {
            value.pop();
            if value.ends_with('\r') {
                value.pop();
            }
        }
        if value.contains('\0') { Err(SecretError::NotText(name.to_owned())) } else { Ok(value) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_secret_is_a_file_by_its_name_and_nothing_else() {
        let room = tempfile::tempdir().unwrap();
        let inside = room.path().join("secrets");
        fs::create_dir(&inside).unwrap();
        fs::write(room.path().join("outside"), "no").unwrap();
        fs::write(inside.join("db"), "hunter22\r\n").unwrap();
        fs::write(inside.join("lines"), "a\nb\n\n").unwrap();
        fs::write(inside.join("long"), vec![b'x'; 65_537]).unwrap();
        fs::write(inside.join("zero"), b"a\0b").unwrap();
        fs::write(inside.join("binary"), [0xff, 0xfe]).unwrap();
        let store = SecretStore::open(Some(&inside)).unwrap();
        let get = |name: &str| store.get([&name.to_owned()]).map_err(|error| error.to_string());
        assert_eq!(get("db").unwrap().get("db"), Some("hunter22"));
        assert_eq!(get("agent://db").unwrap().get("agent://db"), Some("hunter22"));
        assert_eq!(get("secret://db").unwrap().values().count(), 0, "that one comes from the server");
        assert_eq!(get("lines").unwrap().get("lines"), Some("a\nb\n"));
        for name in ["../outside", "..", ".", "", "/etc/passwd", ".hidden", "a/b"] {
            assert!(get(name).unwrap_err().contains("cannot be the name"), "{name}");
        }
        assert_eq!(get("none").unwrap_err(), "this agent has no secret none");
        assert!(get("long").unwrap_err().contains("more than"));
        assert!(get("zero").unwrap_err().contains("not text"));
        assert!(get("binary").unwrap_err().contains("not text"));
        let none = SecretStore::open(None).unwrap();
        assert!(none.get([&"db".to_owned()]).unwrap_err().to_string().contains("needs db"));
        assert_eq!(none.get([]).unwrap().values().count(), 0);
        assert!(SecretStore::open(Some(&room.path().join("outside"))).is_err());
    }
}
