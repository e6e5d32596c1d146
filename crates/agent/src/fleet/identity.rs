//! Who an agent is: a key that never leaves its data directory, and the credential the server gave it for that.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_model::{Labels, RetryPolicy, WorkerName};
use bowline_protocol::{EnrollAnswer, EnrollRequest, RenewRequest, enroll_message, renew_message};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde::{Deserialize, Serialize};
use tracing::{debug, info, warn};

use crate::error::chain;
use crate::fleet::error::FleetError;
use crate::server::backoff::Backoff;
use crate::server::client::{BadAddress, CallError, Client};

const KEY: &str = "agent.key";
const CREDENTIAL: &str = "credential.json";

/// The file `credential.json`.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Credential {
    pub name: WorkerName,
    pub token: String,
    /// The token before it was renewed. A server that was restored from a copy from before that knows only this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    #[serde(default)]
    pub labels: Labels,
    /// The hash of the join token it was given for, so that one which stays in a unit file is used once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_with: Option<String>,
}

/// The credential of the agent in this directory: the one it has, or a new one for its join token. A join token that it has
/// not used before admits it anew, under the same name and key. Tries for as long as the server is unavailable.
pub(crate) async fn identify(
    data: &Path,
    server: &str,
    name: Option<&str>,
    join: Option<&str>,
    patience: &RetryPolicy,
) -> Result<Credential, FleetError> {
    let asked = name.map(WorkerName::new).transpose()?;
    if let Some(credential) = read_credential(data)? {
        let enrolled = &credential.name;
        if let Some(asked) = asked.filter(|asked| asked != enrolled) {
            return Err(FleetError::OtherName { enrolled: enrolled.clone(), asked });
        }
        return match join.filter(|join| credential.joined_with.as_ref() != Some(&digest(join))) {
            Some(join) => admitted_anew(data, server, credential, join, patience).await,
            None => Ok(credential),
        };
    }
    let join = join.ok_or(FleetError::NotEnrolled)?;
    let name = match asked {
        Some(name) => name,
        None => WorkerName::new(&host_name()?).map_err(FleetError::HostName)?,
    };
    let key = key(data)?;
    let client = Client::new(server, join).map_err(address)?;
    let credential = enroll(&client, &key, name, join, Backoff::new(patience)).await?;
    keep_credential(data, &credential)?;
    Ok(credential)
}

/// Uses another join token. If it is not good, the agent goes on with the credential it has.
async fn admitted_anew(
    data: &Path,
    server: &str,
    credential: Credential,
    join: &str,
    patience: &RetryPolicy,
) -> Result<Credential, FleetError> {
    let name = credential.name.clone();
    let Some(key) = signing_key(data)? else {
        warn!(agent.id = %name, "the key this agent enrolled with is gone, so the join token is not used");
        return Ok(credential);
    };
    let client = Client::new(server, join).map_err(address)?;
    match enroll(&client, &key, name.clone(), join, Backoff::new(patience)).await {
        Ok(credential) => {
            keep_credential(data, &credential)?;
            Ok(credential)
        }
        Err(FleetError::NotEnrollable { refusal, .. }) => {
            warn!(agent.id = %name, "the join token is not accepted ({refusal}); agent {name} keeps its credential");
            Ok(credential)
        }
        Err(error) => Err(error),
    }
}

pub(super) fn keep_credential(data: &Path, credential: &Credential) -> Result<(), FleetError> {
    let text = serde_json::to_vec_pretty(credential).map_err(|error| file(data.join(CREDENTIAL), error.into()))?;
    keep(data, CREDENTIAL, &text)
}

/// What an agent asks for a new credential with.
pub(super) fn signed_renewal(data: &Path, credential: &Credential) -> Result<RenewRequest, FleetError> {
    let signature = key(data)?.sign(&renew_message(&credential.token, &credential.name));
    Ok(RenewRequest { signature: STANDARD.encode(signature) })
}

fn digest(join: &str) -> String {
    STANDARD.encode(ring::digest::digest(&ring::digest::SHA256, join.as_bytes()))
}

async fn enroll(
    client: &Client,
    key: &Ed25519KeyPair,
    name: WorkerName,
    join: &str,
    mut backoff: Backoff,
) -> Result<Credential, FleetError> {
    let request = EnrollRequest {
        public_key: STANDARD.encode(key.public_key()),
        signature: STANDARD.encode(key.sign(&enroll_message(join, &name))),
        name,
    };
    let agent = &request.name;
    loop {
        match client.enroll(&request).await {
            Ok(answer) => {
                info!(agent.id = %answer.name, "agent {} is enrolled", answer.name);
                let joined_with = Some(digest(join));
                let EnrollAnswer { name, token, labels } = answer;
                return Ok(Credential { name, token, before: None, labels, joined_with });
            }
            Err(CallError::Refused(refusal)) => {
                return Err(FleetError::NotEnrollable { agent: agent.clone(), refusal });
            }
            Err(error) => {
                let pause = backoff.after(&error);
                let why = chain(&error);
                if backoff.is_first() {
                    warn!(agent.id = %agent, "agent {agent} cannot enroll yet and keeps trying: {why}");
                } else {
                    debug!(agent.id = %agent, "agent {agent} cannot enroll yet: {why}; again in {pause:?}");
                }
                tokio::time::sleep(pause).await;
            }
        }
    }
}

fn read_credential(data: &Path) -> Result<Option<Credential>, FleetError> {
    let path = data.join(CREDENTIAL);
    match fs::read(&path) {
        Ok(text) => match serde_json::from_slice(&text) {
            Ok(credential) => Ok(Some(credential)),
            Err(_) => Err(FleetError::Unreadable { path }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FleetError::File { path, source }),
    }
}

/// The key of this directory, made if there is none. It is on disk before anybody hears of it: should the answer to the
/// enrollment get lost, the next attempt shows the same one.
pub(super) fn key(data: &Path) -> Result<Ed25519KeyPair, FleetError> {
    let path = data.join(KEY);
    let document = match fs::read(&path) {
        Ok(document) => document,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
                .map_err(|_| file(path.clone(), io::Error::other("no key can be made without randomness")))?;
            keep(data, KEY, made.as_ref())?;
            made.as_ref().to_vec()
        }
        Err(source) => return Err(FleetError::File { path, source }),
    };
    Ed25519KeyPair::from_pkcs8(&document).map_err(|_| FleetError::Unreadable { path })
}

/// The key of this directory, if there is one.
pub(super) fn signing_key(data: &Path) -> Result<Option<Ed25519KeyPair>, FleetError> {
    if data.join(KEY).try_exists().map_err(|error| file(data.join(KEY), error))? {
        key(data).map(Some)
    } else {
        Ok(None)
    }
}

/// Writes a file that only its owner reads: the whole of it, on disk, or nothing.
pub(super) fn keep(data: &Path, name: &str, content: &[u8]) -> Result<(), FleetError> {
    let path = data.join(name);
    let new = data.join(format!("{name}.new"));
    let write = || -> io::Result<()> {
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        out.write_all(content)?;
        out.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(data)?.sync_all()
    };
    write().map_err(|source| FleetError::File { path: path.clone(), source })
}

fn host_name() -> Result<String, FleetError> {
    let path = PathBuf::from("/proc/sys/kernel/hostname");
    match fs::read_to_string(&path) {
        Ok(name) => Ok(name.trim().to_owned()),
        Err(source) => Err(FleetError::File { path, source }),
    }
}

pub(crate) fn address(error: BadAddress) -> FleetError {
    FleetError::Address(chain(&error))
}

fn file(path: PathBuf, source: io::Error) -> FleetError {
    FleetError::File { path, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_only() {
        let room = tempfile::tempdir().unwrap();
        let first = key(room.path()).unwrap();
        let again = key(room.path()).unwrap();
        assert_eq!(first.public_key().as_ref(), again.public_key().as_ref());
        let mode = fs::metadata(room.path().join(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(room.path().join(KEY), b"x").unwrap();
        assert!(matches!(key(room.path()), Err(FleetError::Unreadable { .. })));
    }
}
