//! Who we are: the keys we log in with.

use std::path::Path;
use std::sync::Arc;

use russh::MethodKind;
use russh::client::{AuthResult, Handle, Handler};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{Algorithm, HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey, decode_secret_key};
use zeroize::Zeroizing;

use crate::error::ConnectError;
use crate::secret::Secret;
use crate::settings::{BadSettings, SshSettings};

/// Keys from files, read once.
pub(crate) struct Identities {
    keys: Vec<Arc<PrivateKey>>,
}

impl Identities {
    pub fn load(settings: &SshSettings) -> Result<Self, BadSettings> {
        let keys = settings.key_files.iter().map(|file| load(file, settings).map(Arc::new));
        Ok(Self { keys: keys.collect::<Result<_, _>>()? })
    }

    /// Offers one key after the other, until the server is content or wants no more.
    pub async fn log_in<H: Handler>(
        &self,
        handle: &mut Handle<H>,
        user: &str,
        settings: &SshSettings,
    ) -> Result<(), LoginError> {
        let mut attempt = Attempt { handle, user, tried: Vec::new(), methods: String::from("no method at all") };
        for key in &self.keys {
            if attempt.with_key(key).await? {
                return Ok(());
            }
        }
        if let Some(socket) = &settings.agent_socket
            && attempt.with_agent(socket).await?
        {
            return Ok(());
        }
        let Attempt { tried, methods, .. } = attempt;
        Err(LoginError::Refused { tried, methods })
    }
}

pub(crate) enum LoginError {
    Refused {
        tried: Vec<String>,
        methods: String,
    },
    /// The connection is gone.
    Lost,
    Agent(Box<ConnectError>),
}

struct Attempt<'a, H: Handler> {
    handle: &'a mut Handle<H>,
    user: &'a str,
    tried: Vec<String>,
    methods: String,
}

impl<H: Handler> Attempt<'_, H> {
    async fn with_key(&mut self, key: &Arc<PrivateKey>) -> Result<bool, LoginError> {
        let Some(hash) = self.hash_for(key.public_key()).await? else { return Ok(false) };
        let answer = self.handle.authenticate_publickey(self.user, PrivateKeyWithHashAlg::new(Arc::clone(key), hash));
        let answer = answer.await.map_err(|_| LoginError::Lost)?;
        self.heed(key.public_key(), answer)
    }

    async fn with_agent(&mut self, socket: &Path) -> Result<bool, LoginError> {
        let of_agent = |source| LoginError::Agent(Box::new(ConnectError::Agent { socket: socket.to_owned(), source }));
        let mut agent = AgentClient::connect_uds(socket).await.map_err(of_agent)?;
        for identity in agent.request_identities().await.map_err(of_agent)? {
            // Certificates come beside the plain key, which is enough.
            let AgentIdentity::PublicKey { key, .. } = identity else { continue };
            let Some(hash) = self.hash_for(&key).await? else { continue };
            match self.handle.authenticate_publickey_with(self.user, key.clone(), hash, &mut agent).await {
                Ok(answer) => {
                    if self.heed(&key, answer)? {
                        return Ok(true);
                    }
                }
                // It has the key and does not sign with it now; the next one may be more willing.
                Err(error) => self.tried.push(format!("{} (the agent: {error})", name(&key))),
            }
        }
        Ok(false)
    }

    /// Which hash to sign with: that of the key's type, or for RSA the better one the server knows. `None` if it knows only
    /// SHA-1.
    async fn hash_for(&mut self, key: &PublicKey) -> Result<Option<Option<HashAlg>>, LoginError> {
        if !matches!(key.algorithm(), Algorithm::Rsa { .. }) {
            return Ok(Some(None));
        }
        match self.handle.best_supported_rsa_hash().await.map_err(|_| LoginError::Lost)? {
            Some(Some(hash)) => Ok(Some(Some(hash))),
            // Servers that do not say which they know are old, but not as old as SHA-1.
            None => Ok(Some(Some(HashAlg::Sha256))),
            Some(None) => {
                self.tried.push(format!("{} (the server knows only SHA-1 with it)", name(key)));
                Ok(None)
            }
        }
    }

    fn heed(&mut self, key: &PublicKey, answer: AuthResult) -> Result<bool, LoginError> {
        match answer {
            AuthResult::Success => Ok(true),
            // This is how the library says that the connection ended instead of an answer.
            AuthResult::Failure { .. } if self.handle.is_closed() => Err(LoginError::Lost),
            AuthResult::Failure { remaining_methods, partial_success } => {
                let also = if partial_success { " (accepted, but not enough)" } else { "" };
                self.tried.push(name(key) + also);
                self.methods = remaining_methods.iter().map(<&str>::from).collect::<Vec<_>>().join(", ");
                if remaining_methods.contains(&MethodKind::PublicKey) {
                    return Ok(false);
                }
                let (tried, methods) = (std::mem::take(&mut self.tried), std::mem::take(&mut self.methods));
                Err(LoginError::Refused { tried, methods })
            }
        }
    }
}

fn name(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

fn load(file: &Path, settings: &SshSettings) -> Result<PrivateKey, BadSettings> {
    let path = || file.to_owned();
    let text = std::fs::read_to_string(file).map(Zeroizing::new);
    let text = text.map_err(|source| BadSettings::Unreadable { file: path(), source })?;
    let key = match decode_secret_key(&text, None) {
        Err(russh::keys::Error::KeyIsEncrypted) => {
            let passphrase: Option<Secret> = settings.passphrases.as_ref().and_then(|known| known.ask(file));
            let passphrase = passphrase.ok_or_else(|| BadSettings::Encrypted { file: path() })?;
            decode_secret_key(&text, Some(passphrase.reveal()))
                .map_err(|_| BadSettings::WrongPassphrase { file: path() })?
        }
        read => read.map_err(|source| BadSettings::NotAKey { file: path(), source: Box::new(source) })?,
    };
    match key.algorithm() {
        Algorithm::Ed25519 | Algorithm::Ecdsa { .. } | Algorithm::Rsa { .. } => Ok(key),
        other => Err(BadSettings::Unsupported { file: path(), algorithm: other.to_string() }),
    }
}
