//! The certificate that the server shows.

use std::path::PathBuf;

use anyhow::bail;
use bowline_api::TlsFiles;
use serde::Deserialize;

/// HTTPS, if both files are named. They are read again when they change. (since 0.1)
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// The certificate and those above it, PEM.
    pub cert: Option<PathBuf>,
    /// The key to it, PEM, without a passphrase.
    pub key: Option<PathBuf>,
}

impl TlsConfig {
    pub fn files(&self) -> Option<TlsFiles> {
        Some(TlsFiles { cert: self.cert.clone()?, key: self.key.clone()? })
    }

    pub fn check(&self) -> anyhow::Result<()> {
        match (&self.cert, &self.key) {
            (Some(_), None) => bail!("tls.cert is set, but tls.key (BOWLINE_TLS_KEY, --tls-key) is not"),
            (None, Some(_)) => bail!("tls.key is set, but tls.cert (BOWLINE_TLS_CERT, --tls-cert) is not"),
            _ => Ok(()),
        }
    }
}
