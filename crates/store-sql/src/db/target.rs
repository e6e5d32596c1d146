//! Where a PostgreSQL ledger is, and how much its connection must be protected: the database URL, taken apart.
//!
//! Input: a URL with libpq's `sslmode`, `sslrootcert`, `sslcert` and `sslkey`. Output: what the driver understands, and what
//! [`super::tls`] needs. Not here: reading the files those parameters name. They are read for each new connection, so a
//! renewed certificate needs no restart.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use tokio_postgres::config::Host;

/// How far a connection is protected. The names and their order are libpq's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server insists.
    Allow,
    /// Encrypted if the server can. The default, as in libpq.
    Prefer,
    /// Encrypted; nothing is known of the server. With `sslrootcert` the same as `verify-ca`, as in libpq.
    Require,
    /// Encrypted, to a server with a certificate of an authority in `sslrootcert`.
    VerifyCa,
    /// Encrypted, to a server whose certificate also names the host that was dialled.
    VerifyFull,
}

impl SslMode {
    const ALL: [(&'static str, Self); 6] = [
        ("disable", Self::Disable),
        ("allow", Self::Allow),
        ("prefer", Self::Prefer),
        ("require", Self::Require),
        ("verify-ca", Self::VerifyCa),
        ("verify-full", Self::VerifyFull),
    ];
}

impl fmt::Display for SslMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, mode)| mode == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for SslMode {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, mode)| *mode);
        found.ok_or_else(|| InvalidTarget::Mode(text.to_owned()))
    }
}

/// Which authorities may vouch for the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roots {
    /// Those this machine trusts: `sslrootcert=system`.
    System,
    File(PathBuf),
}

#[derive(Debug, thiserror::Error)]
pub enum InvalidTarget {
    #[error("sslmode `{0}` is not one of disable, allow, prefer, require, verify-ca, verify-full")]
    Mode(String),
    #[error("sslmode={0} needs sslrootcert, the file with the certificate of the authority (PEM)")]
    NoRoots(SslMode),
    #[error("sslrootcert=system needs sslmode=verify-full: any public authority would do otherwise")]
    SystemNeedsFull,
    #[error("sslcert and sslkey belong together; {0} is missing")]
    HalfACertificate(&'static str),
    #[error("the value of {0} in the database URL is not valid UTF-8 after percent-decoding")]
    NotText(String),
    #[error("the database URL cannot be read")]
    Url(#[source] tokio_postgres::Error),
}

/// A database URL, taken apart.
#[derive(Debug, Clone)]
pub struct PgTarget {
    /// Without anything about TLS; the mode is set for each attempt.
    pub(super) config: tokio_postgres::Config,
    pub mode: SslMode,
    pub(super) roots: Option<Roots>,
    /// Certificate and key to show the server.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
}

/// What we understand and the driver does not.
const OURS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

impl PgTarget {
    /// Reads a `postgres://` URL.
    pub fn parse(url: &str) -> Result<Self, InvalidTarget> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let mut found: [Option<String>; OURS.len()] = Default::default();
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match OURS.iter().position(|ours| *ours == name) {
                Some(at) => found[at] = Some(decode(name, value)?).filter(|value| !value.is_empty()),
                None => rest.push(pair),
            }
        }
        let bare = if rest.is_empty() { place.to_owned() } else { format!("{place}?{}", rest.join("&")) };
        let config = bare.parse().map_err(InvalidTarget::Url)?;
        let [mode, roots, cert, key] = found;
        let roots = roots.map(|text| if text == "system" { Roots::System } else { Roots::File(text.into()) });
        let asked = mode.as_deref().map(str::parse).transpose()?;
        // What libpq does: a file of authorities makes sense of `require`, and `system` of nothing but the full check.
        let mode = match (asked, &roots) {
            (Some(SslMode::VerifyFull) | None, Some(Roots::System)) => SslMode::VerifyFull,
            (Some(_), Some(Roots::System)) => return Err(InvalidTarget::SystemNeedsFull),
            (Some(SslMode::Require), Some(Roots::File(_))) => SslMode::VerifyCa,
            (Some(SslMode::VerifyCa), None) => return Err(InvalidTarget::NoRoots(SslMode::VerifyCa)),
            (asked, _) => asked.unwrap_or(SslMode::Prefer),
        };
        let roots = roots.or_else(|| (mode == SslMode::VerifyFull).then_some(Roots::System));
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert.into(), key.into())),
            (None, None) => None,
            (Some(_), None) => return Err(InvalidTarget::HalfACertificate("sslkey")),
            (None, Some(_)) => return Err(InvalidTarget::HalfACertificate("sslcert")),
        };
        Ok(Self { config, mode, roots, identity })
    }

    /// Whether every host of it is this machine: loopback or a Unix socket.
    pub fn is_local(&self) -> bool {
        let local = |host: &Host| match host {
            Host::Tcp(name) => {
                let address: Option<IpAddr> = name.parse().ok();
                name == "localhost" || address.is_some_and(|address| address.is_loopback())
            }
            Host::Unix(_) => true,
        };
        self.config.get_hosts().iter().all(local) && self.config.get_hostaddrs().iter().all(IpAddr::is_loopback)
    }

    /// For messages: the hosts, without user and password.
    pub fn hosts(&self) -> String {
        let names = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        names.collect::<Vec<_>>().join(", ")
    }
}

/// Adds to a URL what it does not say itself: libpq's `PGSSLMODE` and its relatives, by the names they have in a URL.
#[must_use]
pub fn with_defaults<'a>(url: &str, defaults: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut url = url.to_owned();
    for (name, value) in defaults {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        if query.split('&').any(|pair| pair.split_once('=').map_or(pair, |(name, _)| name) == name) {
            continue;
        }
        let separator = if url.contains('?') { '&' } else { '?' };
        let value = percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC);
        url = format!("{url}{separator}{name}={value}");
    }
    url
}

fn decode(name: &str, value: &str) -> Result<String, InvalidTarget> {
    let text = percent_encoding::percent_decode_str(value).decode_utf8();
    text.map(std::borrow::Cow::into_owned).map_err(|_| InvalidTarget::NotText(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<PgTarget, InvalidTarget> {
        PgTarget::parse(&format!("postgres://me:secret@db.example/bowline{query}"))
    }

    #[test]
    fn each_mode_of_libpq_is_known_and_nothing_else() {
        let roots = "&sslrootcert=/ca.pem";
        for (name, mode) in SslMode::ALL {
            let more = if mode == SslMode::VerifyCa { roots } else { "" };
            assert_eq!(read(&format!("?sslmode={name}{more}")).unwrap().mode, mode);
            assert_eq!(mode.to_string(), name);
        }
        assert_eq!(read("").unwrap().mode, SslMode::Prefer);
        assert_eq!(read("?sslmode=").unwrap().mode, SslMode::Prefer);
        let error = read("?sslmode=verify_full").unwrap_err().to_string();
        assert!(error.contains("verify_full") && error.contains("verify-full"), "{error}");
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        assert!(matches!(read("?sslmode=verify-ca"), Err(InvalidTarget::NoRoots(SslMode::VerifyCa))));
        assert!(matches!(read("?sslmode=require&sslrootcert=system"), Err(InvalidTarget::SystemNeedsFull)));
        assert!(matches!(read("?sslcert=/a"), Err(InvalidTarget::HalfACertificate("sslkey"))));
        assert!(matches!(read("?sslkey=/a"), Err(InvalidTarget::HalfACertificate("sslcert"))));
        assert!(matches!(read("?sslrootcert=%ff"), Err(InvalidTarget::NotText(name)) if name == "sslrootcert"));
        assert!(matches!(read("?sslcrl=/a"), Err(InvalidTarget::Url(_))));
    }

    #[test]
    fn authorities_decide_as_they_do_for_libpq() {
        let strict = read("?sslmode=require&sslrootcert=/etc/my%20ca.pem").unwrap();
        assert_eq!((strict.mode, strict.roots), (SslMode::VerifyCa, Some(Roots::File("/etc/my ca.pem".into()))));
        let full = read("?sslmode=verify-full").unwrap();
        assert_eq!((full.mode, full.roots), (SslMode::VerifyFull, Some(Roots::System)));
        assert_eq!(read("?sslrootcert=system").unwrap().mode, SslMode::VerifyFull);
        // Without a word about the mode a file changes nothing.
        assert_eq!(read("?sslrootcert=/ca.pem").unwrap().mode, SslMode::Prefer);
    }

    #[test]
    fn other_parameters_reach_the_driver() {
        let target = read("?sslmode=require&application_name=x&sslcert=/c&sslkey=/k").unwrap();
        assert_eq!(target.config.get_application_name(), Some("x"));
        assert_eq!(target.identity, Some(("/c".into(), "/k".into())));
        assert_eq!(target.config.get_password(), Some(b"secret".as_slice()));
        assert_eq!(target.hosts(), "db.example");
    }

    #[test]
    fn every_mode_is_written_as_it_is_read() {
        for name in ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] {
            assert_eq!(name.parse::<SslMode>().unwrap().to_string(), name);
        }
        assert!("verify".parse::<SslMode>().is_err());
    }

    #[test]
    fn only_this_machine_is_local() {
        let local = |url: &str| PgTarget::parse(url).unwrap().is_local();
        assert!(local("postgres://u@127.0.0.1/d"));
        assert!(local("postgres://u@localhost,[::1]/d"));
        assert!(local("postgres://u@%2Fvar%2Frun%2Fpostgresql/d"));
        assert!(!local("postgres://u@db.example/d"));
        assert!(!local("postgres://u@localhost,db.example/d"));
        assert!(!local("postgres://u@localhost/d?hostaddr=10.0.0.7"));
    }

    #[test]
    fn what_the_url_says_itself_counts() {
        let defaults = [("sslmode", "require"), ("sslrootcert", "/my ca.pem")];
        assert_eq!(
            with_defaults("postgres://h/d", defaults),
            "postgres://h/d?sslmode=require&sslrootcert=%2Fmy%20ca%2Epem"
        );
        let own = with_defaults("postgres://h/d?sslmode=disable", [("sslmode", "require")]);
        assert_eq!(own, "postgres://h/d?sslmode=disable");
    }
}
