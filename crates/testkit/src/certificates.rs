//! Certificates for tests of TLS, made by openssl: an oracle that shares no code with the TLS under test.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// An authority, its key and what it signed, gone with this guard.
pub struct Authority {
    directory: TempDir,
}

/// A certificate and the key to it, both PEM.
#[derive(Debug, Clone)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    /// # Panics
    /// If openssl cannot be run; scripts/install-test-deps.sh installs it.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let here = directory.path();
        openssl(here, &format!("req -x509 {KEY} -keyout ca.key -out ca.pem -days 2 -subj /CN={name}"));
        Self { directory }
    }

    /// Its own certificate, for those who shall trust it.
    ///
    /// # Panics
    /// If the file has gone.
    #[must_use]
    pub fn pem(&self) -> String {
        self.read("ca.pem")
    }

    /// A certificate for a server or client. `names` as openssl writes them: `DNS:localhost,IP:127.0.0.1`.
    ///
    /// # Panics
    /// If openssl refuses the names.
    #[must_use]
    pub fn issue(&self, subject: &str, names: &str) -> Issued {
        let here = self.directory.path();
        openssl(here, &format!("req {KEY} -keyout issued.key -out issued.csr -subj /CN={subject}"));
        let extensions = format!("subjectAltName={names}\nbasicConstraints=CA:FALSE\n");
        std::fs::write(here.join("extensions"), extensions).expect("a file");
        let sign = "x509 -req -in issued.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out issued.pem -days 2";
        openssl(here, &format!("{sign} -extfile extensions"));
        Issued { certificate: self.read("issued.pem"), key: self.read("issued.key") }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).expect("openssl made it")
    }
}

fn openssl(directory: &Path, words: &str) {
    let done = Command::new("openssl").args(words.split_whitespace()).current_dir(directory).output();
    let done = done.expect("openssl can be run");
    assert!(done.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&done.stderr));
}
