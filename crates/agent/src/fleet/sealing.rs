//! The key to which the server seals secrets for this agent, and the opening of what it sealed.
//!
//! The private half is a file of the data directory that only its owner reads. The public half is shown at every
//! registration, signed by the key the agent enrolled with: an agent that enrolled before there were such keys shows one
//! like any other, and whoever wants a new one removes the file and starts the agent again.
//!
//! What is opened stays in memory. It goes to the keeper through a pipe, and a keeper that outlives its agent has it already.

use std::fs;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_model::WorkerName;
use bowline_model::secret::NamedSecret;
use bowline_protocol::{SealingOffer, Task, sealing_message};
use bowline_seal::{Addressed, OpeningKey, Values, open};
use zeroize::Zeroizing;

use crate::fleet::error::FleetError;
use crate::fleet::identity::{keep, signing_key};

const KEY: &str = "sealing.key";

/// Why the server's secrets cannot be used. Nothing was begun.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotGiven {
    #[error("the server gave no value for {0}")]
    Missing(String),
    #[error(transparent)]
    NotOpened(#[from] bowline_seal::NotOpened),
}

/// The key of this directory, made if there is none, and what is shown of it. `None` if nobody could tell that it is ours:
/// the key the agent enrolled with is gone.
pub(crate) fn sealing(data: &Path, name: &WorkerName) -> Result<Option<(OpeningKey, SealingOffer)>, FleetError> {
    let Some(signing) = signing_key(data)? else { return Ok(None) };
    let path = data.join(KEY);
    let key = match fs::read(&path).map(Zeroizing::new) {
        Ok(bytes) => OpeningKey::from_bytes(&bytes).map_err(|_| FleetError::Unreadable { path })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = OpeningKey::make();
            keep(data, KEY, &*made.reveal())?;
            made
        }
        Err(source) => return Err(FleetError::File { path, source }),
    };
    let public = key.sealing_key().to_bytes();
    let offer = SealingOffer {
        public_key: STANDARD.encode(public),
        signature: STANDARD.encode(signing.sign(&sealing_message(name, &public))),
    };
    Ok(Some((key, offer)))
}

/// The values of the server's secrets among `wanted`, out of what came with the task.
pub(crate) fn unseal<'a>(
    key: Option<&OpeningKey>,
    task: &Task,
    wanted: impl Iterator<Item = &'a String>,
) -> Result<Values, NotGiven> {
    let wanted: Vec<&String> = wanted.filter(|text| NamedSecret::is_servers(text)).collect();
    let Some(first) = wanted.first() else { return Ok(Values::new()) };
    let (Some(key), Some(sealed)) = (key, &task.sealed) else { return Err(NotGiven::Missing((*first).clone())) };
    let envelope = STANDARD.decode(sealed).map_err(|_| bowline_seal::NotOpened)?;
    let values = open(&envelope, key, Addressed { run: task.task_id, fence: task.fence })?;
    match wanted.into_iter().find(|text| !values.contains_key(*text)) {
        Some(missing) => Err(NotGiven::Missing(missing.clone())),
        None => Ok(values),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use bowline_model::RunId;
    use bowline_seal::{SecretValue, seal};
    use ring::signature::{ED25519, KeyPair, UnparsedPublicKey};
    use serde_json::json;

    use super::*;
    use crate::fleet::identity::key;

    #[test]
    fn the_key_is_made_once_and_shown_with_a_signature() {
        let room = tempfile::tempdir().unwrap();
        let name = WorkerName::new("web1").unwrap();
        assert!(sealing(room.path(), &name).unwrap().is_none(), "nobody could check the signature");
        let own = key(room.path()).unwrap();
        let (first, offer) = sealing(room.path(), &name).unwrap().unwrap();
        let (again, _) = sealing(room.path(), &name).unwrap().unwrap();
        let public = first.sealing_key().to_bytes();
        assert_eq!((public, STANDARD.encode(public)), (again.sealing_key().to_bytes(), offer.public_key));
        let signed = UnparsedPublicKey::new(&ED25519, own.public_key().as_ref());
        let signature = STANDARD.decode(offer.signature).unwrap();
        assert!(signed.verify(&sealing_message(&name, &public), &signature).is_ok());
        let other = WorkerName::new("web2").unwrap();
        assert!(signed.verify(&sealing_message(&other, &public), &signature).is_err(), "it is for this name");
        let mode = fs::metadata(room.path().join(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(room.path().join(KEY), b"x").unwrap();
        assert!(matches!(sealing(room.path(), &name), Err(FleetError::Unreadable { .. })));
    }

    #[test]
    fn what_was_sealed_for_another_hand_out_is_not_opened() {
        let mut task: Task = serde_json::from_value(json!({
            "task_id": "01890a5d-ac96-774b-bcce-b302099a8057", "task_type": "bowline.command", "params": {},
            "job_id": "01890a5d-ac96-774b-bcce-b302099a8058", "worker_id": "web1", "lane": "default", "attempt": 1,
            "fence": 3, "idempotency_key": "k", "timeout_ms": 1, "created_at": "2026-01-01T00:00:00Z",
        }))
        .unwrap();
        let key = OpeningKey::make();
        let values: Values = [("secret://db".to_owned(), SecretValue::new("hunter22"))].into();
        let sealed_for = |run: RunId, fence| {
            Some(STANDARD.encode(seal(&values, &key.sealing_key(), Addressed { run, fence }).unwrap()))
        };
        let wanted = ["secret://db".to_owned(), "own".to_owned()];
        let ask = |task: &Task, key: Option<&OpeningKey>| {
            unseal(key, task, wanted.iter()).map(|values| values["secret://db"].reveal().to_owned())
        };
        assert_eq!(ask(&task, Some(&key)), Err(NotGiven::Missing("secret://db".to_owned())));
        task.sealed = sealed_for(task.task_id, 3);
        assert_eq!(ask(&task, Some(&key)), Ok("hunter22".to_owned()));
        assert_eq!(ask(&task, None), Err(NotGiven::Missing("secret://db".to_owned())));
        assert_eq!(ask(&task, Some(&OpeningKey::make())), Err(NotGiven::NotOpened(bowline_seal::NotOpened)));
        let more = ["secret://db".to_owned(), "secret://more".to_owned()];
        let missing = unseal(Some(&key), &task, more.iter()).map(drop);
        assert_eq!(missing, Err(NotGiven::Missing("secret://more".to_owned())));
        for wrong in [sealed_for(task.task_id, 2), sealed_for(RunId::from_uuid(*task.job_id.as_uuid()), 3)] {
            task.sealed = wrong;
            assert_eq!(ask(&task, Some(&key)), Err(NotGiven::NotOpened(bowline_seal::NotOpened)));
        }
        task.sealed = Some("?".to_owned());
        assert_eq!(ask(&task, Some(&key)), Err(NotGiven::NotOpened(bowline_seal::NotOpened)));
        assert!(unseal(None, &task, ["own".to_owned()].iter()).unwrap().is_empty(), "the agent's own need no envelope");
    }
}
