//! What can be wrong with a host's key.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A host that was not spoken to because of its key.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the host key of {host} ({algorithm} {fingerprint}) {fault}")]
pub struct HostKeyProblem {
    /// As `known_hosts` spells it.
    pub host: String,
    pub algorithm: String,
    /// `SHA256:…` of the key the host showed.
    pub fingerprint: String,
    pub fault: HostKeyFault,
}

#[derive(Debug, Clone)]
pub enum HostKeyFault {
    Unknown {
        /// Where it was looked for.
        files: Vec<PathBuf>,
        /// Where a certificate authority is named for the host, which we do not support.
        authority: Option<(PathBuf, usize)>,
    },
    /// The host was set up anew, or somebody else answers in its place.
    Changed {
        file: PathBuf,
        line: usize,
        /// `SHA256:…` of the key in that line.
        expected: String,
    },
    Revoked {
        file: PathBuf,
        line: usize,
    },
    Unreadable {
        file: PathBuf,
        source: Arc<std::io::Error>,
    },
    /// It is new and would be accepted, but then every other key would be as well.
    NotRemembered {
        file: PathBuf,
        source: Arc<std::io::Error>,
    },
}

impl fmt::Display for HostKeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { files, authority } => {
                f.write_str("is not known: it is not in ")?;
                if files.is_empty() {
                    f.write_str("any file, as none was named")?;
                }
                for (n, file) in files.iter().enumerate() {
                    let comma = if n == 0 { "" } else { ", " };
                    let absent = if file.exists() { "" } else { " (which does not exist)" };
                    write!(f, "{comma}{}{absent}", file.display())?;
                }
                if let Some((file, line)) = authority {
                    write!(
                        f,
                        "; {}:{line} names a certificate authority for the host, and host certificates are not supported",
                        file.display()
                    )?;
                }
                Ok(())
            }
            Self::Changed { file, line, expected } => {
                write!(f, "is not the known one: {}:{line} has {expected}", file.display())
            }
            Self::Revoked { file, line } => write!(f, "is revoked in {}:{line}", file.display()),
            Self::Unreadable { file, source } => {
                write!(f, "cannot be looked up: {} cannot be read: {source}", file.display())
            }
            Self::NotRemembered { file, source } => {
                write!(f, "is new and cannot be remembered in {}: {source}", file.display())
            }
        }
    }
}
