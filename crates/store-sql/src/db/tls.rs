//! Connections to PostgreSQL, encrypted and checked as far as the URL asks for it.
//!
//! Input: a [`PgTarget`]. Output: a connection, or what is wrong in words an operator can act on. rustls does the work; what is
//! here is the meaning of libpq's modes, which differ in what they check.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode as Attempt;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::target::{InvalidTarget, PgTarget, Roots, SslMode};

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Target(#[from] InvalidTarget),
    #[error("{what} {file} cannot be used: {why}")]
    File { what: &'static str, file: String, why: String },
    #[error("this machine has no certificates of authorities (sslrootcert=system)")]
    NoSystemRoots,
    #[error("the certificate and key in sslcert and sslkey do not fit together")]
    Identity(#[source] rustls::Error),
    #[error("sslmode={0} asks for TLS, and the server does not offer it")]
    NotOffered(SslMode),
    #[error("the server is not trusted: {0}")]
    Untrusted(String),
    #[error("the server did not accept our side of TLS ({0}); does it want a client certificate (sslcert, sslkey)?")]
    Alert(String),
    #[error("PostgreSQL cannot be reached")]
    Driver(#[source] tokio_postgres::Error),
}

/// Connects once, in the way the mode says.
pub(crate) async fn connect(target: &PgTarget) -> Result<(Client, Connection<Socket, Stream>), ConnectError> {
    let tls = MakeRustlsConnect::new(client_config(target)?);
    let attempt = async |mode: Attempt| {
        let mut config = target.config.clone();
        config.ssl_mode(mode);
        config.connect(tls.clone()).await
    };
    let refused_by_rule =
        |error: &tokio_postgres::Error| error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
    let done = match target.mode {
        SslMode::Disable => attempt(Attempt::Disable).await,
        SslMode::Allow => match attempt(Attempt::Disable).await {
            Err(error) if refused_by_rule(&error) => attempt(Attempt::Require).await,
            other => other,
        },
        SslMode::Prefer => match attempt(Attempt::Prefer).await {
            Err(error) if refused_by_rule(&error) || rustls_error(&error).is_some() => attempt(Attempt::Disable).await,
            other => other,
        },
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => attempt(Attempt::Require).await,
    };
    done.map_err(|error| explain(error, target))
}

fn client_config(target: &PgTarget) -> Result<ClientConfig, ConnectError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = match &target.roots {
        // Below `verify-ca` nothing is checked, so nothing has to be there.
        _ if target.mode < SslMode::VerifyCa => None,
        None => None,
        Some(Roots::System) => Some(system_roots()?),
        Some(Roots::File(file)) => Some(roots_in(file)?),
    };
    let check = ServerCheck { roots, name: target.mode == SslMode::VerifyFull, provider: Arc::clone(&provider) };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ConnectError::Identity)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(check));
    match &target.identity {
        None => Ok(config.with_no_client_auth()),
        Some((cert, key)) => {
            config.with_client_auth_cert(certificates("sslcert", cert)?, key_in(key)?).map_err(ConnectError::Identity)
        }
    }
}

fn unusable(what: &'static str, file: &Path, why: impl ToString) -> ConnectError {
    ConnectError::File { what, file: file.display().to_string(), why: why.to_string() }
}

fn certificates(what: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let text = std::fs::read(file).map_err(|error| unusable(what, file, error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| unusable(what, file, error))?;
    if found.is_empty() {
        return Err(unusable(what, file, "no certificate (PEM) is in it"));
    }
    Ok(found)
}

fn roots_in(file: &Path) -> Result<RootCertStore, ConnectError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("sslrootcert", file)? {
        roots.add(certificate).map_err(|error| unusable("sslrootcert", file, error))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, ConnectError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(ConnectError::NoSystemRoots) } else { Ok(roots) }
}

/// A key that others can read is not used, as with libpq: 0600, or 0640 if it belongs to root.
fn key_in(file: &Path) -> Result<PrivateKeyDer<'static>, ConnectError> {
    let meta = std::fs::metadata(file).map_err(|error| unusable("sslkey", file, error))?;
    let open_to_others = if meta.uid() == 0 { 0o037 } else { 0o077 };
    if meta.mode() & open_to_others != 0 {
        return Err(unusable("sslkey", file, "others can read it; chmod 600 it"));
    }
    let text = std::fs::read(file).map_err(|error| unusable("sslkey", file, error))?;
    if String::from_utf8_lossy(&text).contains("ENCRYPTED") {
        return Err(unusable("sslkey", file, "it is encrypted with a passphrase, which is not supported"));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| unusable("sslkey", file, error))
}

/// What a mode checks of the server's certificate. That the server has the key to it is checked always.
#[derive(Debug)]
struct ServerCheck {
    roots: Option<RootCertStore>,
    name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ServerCheck {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(certificate)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
            if self.name {
                verify_server_name(&certificate, name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The error of rustls somewhere inside one of the driver, if TLS is what failed.
fn rustls_error(error: &tokio_postgres::Error) -> Option<&rustls::Error> {
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        // An `io::Error` names as its source what its content names, not the content.
        let content = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let found = content.and_then(|content| content.downcast_ref()).or_else(|| inner.downcast_ref());
        if found.is_some() {
            return found;
        }
        cause = inner.source();
    }
    None
}

fn explain(error: tokio_postgres::Error, target: &PgTarget) -> ConnectError {
    let roots = match &target.roots {
        Some(Roots::File(file)) => file.display().to_string(),
        _ => "the system's store".to_owned(),
    };
    match rustls_error(&error) {
        Some(rustls::Error::InvalidCertificate(why)) => ConnectError::Untrusted(match why {
            CertificateError::UnknownIssuer => format!("its certificate is of no authority in {roots} (sslrootcert)"),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("its certificate does not name the host {} (sslmode=verify-full): {why}", target.hosts())
            }
            other => format!("its certificate is not valid: {other}"),
        }),
        Some(rustls::Error::AlertReceived(alert)) => ConnectError::Alert(format!("{alert:?}")),
        Some(_) => ConnectError::Driver(error),
        None if error.to_string().contains("TLS")
            && super::postgres::chain(&error).contains("does not support TLS") =>
        {
            ConnectError::NotOffered(target.mode)
        }
        None => ConnectError::Driver(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use bowline_testkit::Authority;

    use super::*;

    /// What becomes of a key file with this content and mode.
    fn read(content: &str, mode: u32) -> Result<(), String> {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("client.key");
        std::fs::write(&file, content).expect("a file");
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).expect("a mode");
        key_in(&file).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_is_for_its_owner_and_that_of_root_for_its_group_too() {
        let key = Authority::new("ours").issue("localhost", "DNS:localhost").key;
        let directory = tempfile::tempdir().expect("a directory");
        let is_root = std::fs::metadata(directory.path()).expect("it is there").uid() == 0;
        assert_eq!((read(&key, 0o600), read(&key, 0o400)), (Ok(()), Ok(())));
        assert_eq!(read(&key, 0o640).is_ok(), is_root);
        for open in [0o604, 0o601, 0o620, 0o650, 0o666] {
            let why = read(&key, open).expect_err("others have access to it");
            assert!(why.contains("chmod 600"), "{open:o}: {why}");
        }
    }

    #[test]
    fn a_key_that_cannot_be_used_says_why() {
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let why = read(encrypted, 0o600).expect_err("nobody knows the passphrase");
        assert!(why.contains("passphrase"), "{why}");
        let why = read("no key", 0o600).expect_err("it is something else");
        assert!(why.contains("sslkey") && why.contains("client.key"), "{why}");
    }

    #[test]
    fn a_file_of_certificates_has_one_at_least() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("ca.pem");
        std::fs::write(&file, "").expect("a file");
        let why = certificates("sslrootcert", &file).expect_err("it is empty").to_string();
        assert!(why.contains("sslrootcert") && why.contains("no certificate"), "{why}");
        std::fs::write(&file, Authority::new("ours").pem()).expect("a file");
        assert_eq!(certificates("sslrootcert", &file).expect("there is one").len(), 1);
        assert_eq!(roots_in(&file).expect("it can be trusted").len(), 1);
    }
}
