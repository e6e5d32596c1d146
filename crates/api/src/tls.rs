//! HTTPS: the server's certificate and key, read from files and read again when they change.
//!
//! A certificate lives for weeks, a server for longer. So the files are compared with what is in use every few seconds; new
//! ones that are good serve new connections, and new ones that are not (half written, a key to another certificate) are
//! named in the log while the old ones stay.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// How often the files are compared with what is in use.
const RELOAD_EVERY: Duration = Duration::from_secs(5);

/// Where a certificate (with those above it) and the key to it are, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{what} {} cannot be read", .file.display())]
    Read {
        what: &'static str,
        file: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{what} {} holds no {wanted} (PEM)", .file.display())]
    Content { what: &'static str, file: PathBuf, wanted: &'static str },
    #[error("the certificate in {} (tls.cert) and the key in {} (tls.key) cannot be used together", .files.cert.display(), .files.key.display())]
    Pair {
        files: TlsFiles,
        #[source]
        source: rustls::Error,
    },
}

/// What the files held when they were read.
#[derive(PartialEq, Eq)]
struct Content {
    cert: Vec<u8>,
    key: Vec<u8>,
}

/// The certificate in use.
pub struct ServerTls {
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// If they cannot be read or do not belong together. A server that was asked for TLS does not start without it.
    pub fn open(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let config = parse(&files, &read(&files)?)?;
        Ok(Arc::new(Self { files, current: RwLock::new(config) }))
    }

    /// For one new connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Takes over new files until `stop`.
    ///
    /// # Errors
    /// Never; for the supervisor's sake.
    pub async fn reload_forever(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        // Nothing is known at first, so files that changed since the start are found by the first look.
        let mut known: Option<Option<Content>> = None;
        loop {
            let found = read(&self.files);
            let content = found.as_ref().ok();
            if known.as_ref().is_none_or(|known| known.as_ref() != content) {
                let taken = match &found {
                    Ok(content) => self.take(content).map_err(|error| tell(&error)),
                    Err(error) => Err(tell(error)),
                };
                if let Err(why) = taken {
                    tracing::error!(error = why, "cannot use the new certificate, keeping the old one");
                }
                known = Some(found.ok());
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(RELOAD_EVERY) => {}
            }
        }
    }

    fn take(&self, content: &Content) -> Result<(), TlsError> {
        let config = parse(&self.files, content)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
        tracing::info!(tls.cert = %self.files.cert.display(), "certificate loaded");
        Ok(())
    }
}

fn tell(error: &TlsError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

fn read(files: &TlsFiles) -> Result<Content, TlsError> {
    let file = |what: &'static str, file: &Path| {
        std::fs::read(file).map_err(|source| TlsError::Read { what, file: file.to_owned(), source })
    };
    Ok(Content { cert: file("tls.cert", &files.cert)?, key: file("tls.key", &files.key)? })
}

fn parse(files: &TlsFiles, content: &Content) -> Result<Arc<ServerConfig>, TlsError> {
    let no_cert =
        || TlsError::Content { what: "tls.cert", file: files.cert.clone(), wanted: "certificate that can be read" };
    let no_key = || TlsError::Content { what: "tls.key", file: files.key.clone(), wanted: "key without a passphrase" };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content.cert).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(no_cert)?;
    let key = PrivateKeyDer::from_pem_slice(&content.key).map_err(|_| no_key())?;
    let pair = |source| TlsError::Pair { files: files.clone(), source };
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
