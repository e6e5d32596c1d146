//! How we prefer to speak.
//!
//! Nothing with SHA-1, no compression. AES-GCM before ChaCha20: both ends have it in hardware, and it carries several times
//! as much. The exchange that also withstands a quantum computer comes first, where the server has it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use russh::client::Config;
use russh::keys::{Algorithm, EcdsaCurve, HashAlg};
use russh::{Preferred, SshId, cipher};

use crate::settings::SshSettings;

/// Messages of one channel that may wait for their reader. Each is up to [`PACKET_BYTES_MAX`].
const BUFFERED_MESSAGES: usize = 16;
const PACKET_BYTES_MAX: u32 = 32 * 1024;
/// What the server may send ahead on one channel.
const WINDOW_BYTES: u32 = 2 * 1024 * 1024;

const CIPHERS: &[cipher::Name] =
    &[cipher::AES_256_GCM, cipher::CHACHA20_POLY1305, cipher::AES_256_CTR, cipher::AES_192_CTR, cipher::AES_128_CTR];

const HOST_KEYS: &[Algorithm] = &[
    Algorithm::Ed25519,
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
    Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
    Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
];

pub(crate) struct Negotiation {
    keepalive_interval: Duration,
    keepalive_max: usize,
    /// For hosts of which nothing special is known.
    common: Arc<Config>,
}

impl Negotiation {
    pub fn new(settings: &SshSettings) -> Self {
        let SshSettings { keepalive_interval, keepalive_max, .. } = *settings;
        let common = config(keepalive_interval, keepalive_max, Cow::Borrowed(HOST_KEYS));
        Self { keepalive_interval, keepalive_max, common: Arc::new(common) }
    }

    /// For a host of which keys of these types are known. It is asked for one of those first, as it would seem to have
    /// changed if it showed another.
    pub fn config(&self, known: &[String]) -> Arc<Config> {
        let is_known = |algorithm: &Algorithm| known.iter().any(|name| is_of_type(algorithm, name));
        let ours = &self.common.preferred.key;
        // The common order does in most cases: nothing is known, or the first is.
        if known.is_empty() || ours.first().is_some_and(is_known) {
            return Arc::clone(&self.common);
        }
        let (first, rest): (Vec<Algorithm>, Vec<Algorithm>) = ours.iter().cloned().partition(is_known);
        let keys = first.into_iter().chain(rest).collect();
        Arc::new(config(self.keepalive_interval, self.keepalive_max, Cow::Owned(keys)))
    }
}

fn config(keepalive_interval: Duration, keepalive_max: usize, host_keys: Cow<'static, [Algorithm]>) -> Config {
    Config {
        client_id: SshId::Standard(Cow::Borrowed(concat!("SSH-2.0-Bowline_", env!("CARGO_PKG_VERSION")))),
        window_size: WINDOW_BYTES,
        maximum_packet_size: PACKET_BYTES_MAX,
        channel_buffer_size: BUFFERED_MESSAGES,
        keepalive_interval: Some(keepalive_interval),
        keepalive_max,
        preferred: Preferred { key: host_keys, cipher: Cow::Borrowed(CIPHERS), ..Preferred::default() },
        ..Config::default()
    }
}

/// RSA keys are of one type, however they sign.
fn is_of_type(algorithm: &Algorithm, name: &str) -> bool {
    match algorithm {
        Algorithm::Rsa { .. } => name == "ssh-rsa",
        other => other.as_str() == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(known: &[&str]) -> Vec<String> {
        let known: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
        let config = Negotiation::new(&SshSettings::new("me")).config(&known);
        config.preferred.key.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_host_is_asked_for_a_key_that_is_known() {
        let usual = order(&[]);
        assert_eq!(usual[0], "ssh-ed25519");
        assert_eq!(order(&["ssh-ed25519", "ssh-rsa"]), usual);
        assert_eq!(order(&["something-new"]), usual);
        assert_eq!(order(&["ssh-rsa"])[..3], ["rsa-sha2-512", "rsa-sha2-256", "ssh-ed25519"]);
        assert_eq!(order(&["ecdsa-sha2-nistp384"])[..2], ["ecdsa-sha2-nistp384", "ssh-ed25519"]);
    }

    #[test]
    fn nothing_with_sha_1_is_offered() {
        assert!(!order(&["ssh-rsa"]).contains(&"ssh-rsa".to_owned()));
    }
}
