//! Who answers for us when the server speaks: looks at its key, and notes why it left.

use std::sync::Arc;

use russh::client::{DisconnectReason, Handler};
use russh::keys::PublicKeyOrCertificate;

use super::Ties;
use crate::host_key::HostKeyProblem;
use crate::known_hosts::{HostKey, KnownHosts};

pub(super) struct Gatekeeper {
    known_hosts: Arc<KnownHosts>,
    /// As `known_hosts` spells it.
    host: String,
    ties: Ties,
}

impl Gatekeeper {
    pub fn new(known_hosts: Arc<KnownHosts>, host: String, ties: Ties) -> Self {
        Self { known_hosts, host, ties }
    }
}

/// The task that speaks owns us, so our end is its end.
impl Drop for Gatekeeper {
    fn drop(&mut self) {
        self.ties.ended.cancel();
    }
}

#[derive(Debug)]
pub(super) enum HandshakeError {
    HostKey(Box<HostKeyProblem>),
    Ssh(russh::Error),
}

impl From<russh::Error> for HandshakeError {
    fn from(error: russh::Error) -> Self {
        Self::Ssh(error)
    }
}

impl Handler for Gatekeeper {
    type Error = HandshakeError;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, HandshakeError> {
        let key = shown.public_key();
        let blob = key.to_bytes().map_err(russh::Error::from)?;
        let key = HostKey { algorithm: key.algorithm().to_string(), blob };
        let (known_hosts, host) = (Arc::clone(&self.known_hosts), self.host.clone());
        let look = move || {
            known_hosts.check(&host, &key).map_err(|fault| {
                let fingerprint = key.fingerprint();
                Box::new(HostKeyProblem { host, algorithm: key.algorithm, fingerprint, fault })
            })
        };
        // Files may lie on a disk that takes its time.
        let verdict = tokio::task::spawn_blocking(look).await.map_err(|_| russh::Error::UnknownKey)?;
        verdict.map(|()| true).map_err(HandshakeError::HostKey)
    }

    async fn disconnected(&mut self, reason: DisconnectReason<HandshakeError>) -> Result<(), HandshakeError> {
        let text = match &reason {
            DisconnectReason::ReceivedDisconnect(said) => format!("the server said: {}", said.message.escape_debug()),
            DisconnectReason::Error(HandshakeError::Ssh(error)) => error.to_string(),
            DisconnectReason::Error(HandshakeError::HostKey(problem)) => problem.to_string(),
        };
        // Only the first reason is one.
        let _ = self.ties.farewell.set(text);
        Ok(())
    }
}
