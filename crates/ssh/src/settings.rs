//! How the pool behaves: whom it is, whom it trusts, how much it takes on.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::secret::Secret;

/// All settings of a pool. [`SshSettings::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct SshSettings {
    /// Whom to become on targets that do not say.
    pub user: String,
    /// Private keys in OpenSSH's format, tried in this order: Ed25519, ECDSA, RSA (signing with SHA-2 only).
    pub key_files: Vec<PathBuf>,
    /// Opens encrypted keys. Without it an encrypted key is refused.
    pub passphrases: Option<Passphrases>,
    /// The socket of an ssh-agent, whose keys are tried after the files.
    pub agent_socket: Option<PathBuf>,
    /// Where known host keys are written down, in OpenSSH's format. Read again when they change; one that does not
    /// exist is empty.
    pub known_hosts: Vec<PathBuf>,
    pub host_keys: HostKeyRule,
    /// For the way from the first packet to a successful login, without the wait for a turn.
    pub connect_timeout: Duration,
    /// After this long without a word from the server it is asked for one.
    pub keepalive_interval: Duration,
    /// After so many questions without an answer the connection is given up.
    pub keepalive_max: usize,
    /// Connections open at once. Whoever needs one more gets the place of one that is idle, or waits.
    pub connections_max: usize,
    /// Logins under way at once.
    pub handshakes_max: usize,
    /// Commands at once on one connection. OpenSSH allows 10 unless told otherwise, and ending a command needs one.
    pub sessions_max: usize,
    /// A connection nobody has used for this long is closed.
    pub idle_timeout: Duration,
    /// How long to wait for output after a command has ended, counted from the last of it: something it left running
    /// may hold its output open for ever.
    pub linger: Duration,
}

impl SshSettings {
    #[must_use]
    pub fn new(user: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            key_files: Vec::new(),
            passphrases: None,
            agent_socket: None,
            known_hosts: Vec::new(),
            host_keys: HostKeyRule::Strict,
            connect_timeout: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(15),
            keepalive_max: 3,
            connections_max: 512,
            handshakes_max: 64,
            sessions_max: 8,
            idle_timeout: Duration::from_secs(60),
            linger: Duration::from_secs(3),
        }
    }

    pub(crate) fn check(&self) -> Result<(), BadSettings> {
        let counts = [
            ("connections_max", self.connections_max),
            ("handshakes_max", self.handshakes_max),
            ("sessions_max", self.sessions_max),
            ("keepalive_max", self.keepalive_max),
        ];
        let times = [("connect_timeout", self.connect_timeout), ("keepalive_interval", self.keepalive_interval)];
        let counted = counts.into_iter().find(|(_, count)| *count == 0).map(|(name, _)| name);
        let timed = times.into_iter().find(|(_, time)| time.is_zero()).map(|(name, _)| name);
        match counted.or(timed) {
            Some(name) => Err(BadSettings::Zero(name)),
            None if self.key_files.is_empty() && self.agent_socket.is_none() => Err(BadSettings::Nobody),
            None => Ok(()),
        }
    }
}

/// What to do with the key of a host that no `known_hosts` file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKeyRule {
    /// Refuse.
    Strict,
    /// Trust it this once and remember it. A host that has a known key and shows another is refused as ever.
    AcceptNew { remember_in: PathBuf },
}

/// Who knows the passphrases of key files; `None` if there is none for this one.
#[derive(Clone)]
pub struct Passphrases(Arc<Ask>);

type Ask = dyn Fn(&Path) -> Option<Secret> + Send + Sync;

impl Passphrases {
    pub fn new(ask: impl Fn(&Path) -> Option<Secret> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    pub(crate) fn ask(&self, key_file: &Path) -> Option<Secret> {
        (self.0)(key_file)
    }
}

impl fmt::Debug for Passphrases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrases")
    }
}

/// Why a pool cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BadSettings {
    #[error("{0} must not be zero")]
    Zero(&'static str),
    #[error("neither key_files nor agent_socket is set, so there is no way to log in anywhere")]
    Nobody,
    #[error("the default user does not do")]
    User(#[source] crate::target::BadTarget),
    #[error("the key file {} cannot be read", file.display())]
    Unreadable {
        file: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{} is not a private key we can use", file.display())]
    NotAKey {
        file: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("the key in {} is encrypted, and nobody gave its passphrase", file.display())]
    Encrypted { file: PathBuf },
    #[error("the passphrase for {} does not open it", file.display())]
    WrongPassphrase { file: PathBuf },
    #[error("the key in {} is of the type {algorithm}, which is not supported", file.display())]
    Unsupported { file: PathBuf, algorithm: String },
}
