//! What exactly was approved, in a form that can be compared again: when somebody votes, and when a run is handed out.
//!
//! *Host digest*: of one host, everything about it that reaches the process there: its number, its name, how it is reached,
//! and every text of the command with the host's own values filled in. *Named*: what the command names and others may change:
//! the active version of its type, and what each secret reference means. A secret's identity is where it is kept, under which
//! name, and its pinned version, never its value: a value that rotates in its place is the same secret.
//!
//! Never here: values of secrets, storage.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{HostScope, PinnedCommand, Rollout, Scope};
use crate::host::Host;
use crate::idempotency::RequestHash;
use crate::secret::SecretRefSpec;

/// Of one host, what was approved for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostDigest([u8; HostDigest::BYTES]);

impl HostDigest {
    pub const BYTES: usize = 16;
    /// No host has it: for one that is not there any more.
    pub const NONE: Self = Self([0; Self::BYTES]);

    /// `scope` is what the host brings to the places of the command.
    pub fn of(id: i64, host: &Host, command: &PinnedCommand, scope: &HostScope) -> Self {
        let mut hasher = Sha256::new();
        let mut add = |part: &[u8]| {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        };
        add(b"bowline host 1");
        add(&id.to_be_bytes());
        add(host.name.as_str().as_bytes());
        add(&serde_json::to_vec(&host.connection).unwrap_or_default());
        if !command.spec.wants_of_host().is_empty() {
            let scope = Scope { params: &command.params, host_name: host.name.as_str(), host: scope };
            match command.spec.filled(&scope) {
                Ok(texts) => texts.iter().for_each(|(path, text)| {
                    add(path.as_bytes());
                    add(text.as_bytes());
                }),
                // It cannot run so. Nothing that can has this digest.
                Err((path, cannot)) => add(format!("{path}: {cannot}").as_bytes()),
            }
        }
        let whole: [u8; 32] = hasher.finalize().into();
        let mut short = [0; Self::BYTES];
        short.copy_from_slice(&whole[..Self::BYTES]);
        Self(short)
    }

    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// The digests of the hosts of a command, in the order of its targets, as the ledger keeps them.
pub fn write_digests(digests: &[HostDigest]) -> Vec<u8> {
    digests.iter().flat_map(|digest| digest.0).collect()
}

pub fn read_digests(bytes: &[u8]) -> Vec<HostDigest> {
    bytes.chunks_exact(HostDigest::BYTES).filter_map(HostDigest::from_slice).collect()
}

/// What a secret is, apart from its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretIdentity {
    /// The place and the name there, such as `file://stripe`.
    #[serde(rename = "ref")]
    pub reference: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl SecretIdentity {
    pub fn of(spec: &SecretRefSpec) -> Self {
        Self { reference: spec.reference.to_string(), version: spec.version.clone() }
    }
}

/// What a command names, and what that means at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Named {
    /// The active version of its command type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<u32>,
    /// By the name of the `secret_ref`; `None` for one that is not there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, Option<SecretIdentity>>,
}

impl Named {
    /// As the ledger keeps it.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub fn from_text(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// What of it has another meaning by now, in words. Places and names of secrets are not repeated.
    pub fn changed(&self, now: &Self) -> Option<String> {
        if self.active != now.active {
            let version = |active: Option<u32>| active.map_or("none".to_owned(), |version| version.to_string());
            return Some(format!(
                "the active version of its command was {} and is {}",
                version(self.active),
                version(now.active)
            ));
        }
        let names = self.secrets.keys().chain(now.secrets.keys());
        let other = names.into_iter().find(|name| self.secrets.get(*name) != now.secrets.get(*name))?;
        Some(format!("secret_ref {other} refers to another secret"))
    }
}

/// What somebody who approves says yes to: the command with its parameters, its spread, what it names, and every host.
/// `payload` is the pinned command as it is stored.
pub fn approval_hash(
    payload: &str,
    rollout: &Rollout,
    deadline_ms: Option<u64>,
    inventory: &str,
    named: &Named,
    hosts: &[HostDigest],
) -> RequestHash {
    let json = |value: Result<Vec<u8>, serde_json::Error>| value.unwrap_or_default();
    RequestHash::of_parts(&[
        b"bowline command 2",
        payload.as_bytes(),
        &json(serde_json::to_vec(rollout)),
        &json(serde_json::to_vec(&deadline_ms)),
        inventory.as_bytes(),
        named.to_text().as_bytes(),
        &write_digests(hosts),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::HostName;
    use crate::fleet::SCOPE_STEPS_MAX;
    use crate::host::{HostVars, Steps, Vars};
    use crate::name::Labels;

    fn command(spec: serde_json::Value) -> PinnedCommand {
        PinnedCommand {
            name: None,
            version: None,
            spec: serde_json::from_value(spec).expect("a command"),
            params: Vars::new(),
        }
    }

    fn host(change: impl FnOnce(&mut Host)) -> Host {
        let mut host = Host::named(HostName::new("web1").expect("a name"));
        change(&mut host);
        host
    }

    fn digest(id: i64, host: &Host, command: &PinnedCommand) -> HostDigest {
        let mut steps = Steps::up_to(SCOPE_STEPS_MAX);
        let scope = command.spec.scope_of(&host.labels, &HostVars::own(&host.vars), &mut steps).expect("enough steps");
        HostDigest::of(id, host, command, &scope)
    }

    #[test]
    fn whatever_reaches_the_process_is_in_the_digest() {
        let command = command(json!({
            "argv": ["echo", "{{ host.vars.target }}"],
            "env": {"ROLE": "{{ host.labels.role }}"},
            "cwd": "/{{ host.vars.deep.dir }}",
        }));
        let vars = |target: &str, dir: &str, other: &str| {
            let value = json!({"target": target, "deep": {"dir": dir, "other": other}, "unused": other});
            value.as_object().expect("an object").clone()
        };
        let plain = |host: &mut Host| {
            host.vars = vars("a", "srv", "x");
            host.labels = Labels::of([("role", "web"), ("site", "fra")]);
        };
        let first = digest(1, &host(plain), &command);
        assert_eq!(first, digest(1, &host(plain), &command));
        let unused = host(|host| {
            plain(host);
            host.vars = vars("a", "srv", "y");
            host.labels = Labels::of([("role", "web"), ("site", "muc")]);
        });
        assert_eq!(digest(1, &unused, &command), first, "what the command does not use is not in it");
        type Change = Box<dyn Fn(&mut Host)>;
        let changes: [(&str, Change); 5] = [
            ("a variable in argv", Box::new(move |host| host.vars = vars("evil", "srv", "x"))),
            ("a variable in cwd", Box::new(move |host| host.vars = vars("a", "etc", "x"))),
            ("a variable that is gone", Box::new(|host| host.vars = Vars::new())),
            ("a label in env", Box::new(|host| host.labels = Labels::of([("role", "db")]))),
            ("the name", Box::new(|host| host.name = HostName::new("web2").expect("a name"))),
        ];
        for (what, change) in changes {
            let changed = host(|host| {
                plain(host);
                change(host);
            });
            assert_ne!(digest(1, &changed, &command), first, "{what}");
        }
        assert_ne!(digest(2, &host(plain), &command), first, "another host of the same name");
        let connection = host(|host| {
            plain(host);
            host.connection =
                serde_json::from_value(json!({"via": "ssh", "address": "attacker.example"})).expect("a connection");
        });
        assert_ne!(digest(1, &connection, &command), first, "the connection");
    }

    #[test]
    fn the_hash_covers_every_part() {
        let one = |payload: &str, deadline, inventory: &str, named: &Named, hosts: &[HostDigest]| {
            approval_hash(payload, &Rollout::default(), deadline, inventory, named, hosts)
        };
        let secret = |reference: &str, version: Option<&str>| Named {
            active: Some(1),
            secrets: [(
                "stripe".to_owned(),
                Some(SecretIdentity { reference: reference.to_owned(), version: version.map(ToOwned::to_owned) }),
            )]
            .into(),
        };
        let (named, hosts) = (secret("file://a", None), [HostDigest([1; 16])]);
        let first = one("{}", None, "main", &named, &hosts);
        assert_eq!(first, one("{}", None, "main", &secret("file://a", None), &hosts));
        for other in [
            one("{\"a\":1}", None, "main", &named, &hosts),
            one("{}", Some(1_000), "main", &named, &hosts),
            one("{}", None, "other", &named, &hosts),
            one("{}", None, "main", &secret("file://b", None), &hosts),
            one("{}", None, "main", &secret("file://a", Some("2")), &hosts),
            one("{}", None, "main", &Named { active: Some(2), ..named.clone() }, &hosts),
            one("{}", None, "main", &named, &[HostDigest([2; 16])]),
            one("{}", None, "main", &named, &[]),
        ] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn a_change_is_named_without_the_place_of_the_secret() {
        let named = |reference: Option<&str>, active| Named {
            active: Some(active),
            secrets: [(
                "stripe".to_owned(),
                reference.map(|text| SecretIdentity { reference: text.to_owned(), version: None }),
            )]
            .into(),
        };
        let first = named(Some("file://a"), 1);
        assert_eq!(first.changed(&first), None);
        assert_eq!(Named::from_text(&first.to_text()), first);
        let moved = first.changed(&named(Some("file://b"), 1)).expect("it changed");
        assert_eq!(moved, "secret_ref stripe refers to another secret");
        assert!(first.changed(&named(None, 1)).is_some());
        assert!(first.changed(&Named { active: Some(1), ..Named::default() }).is_some());
        let version = first.changed(&named(Some("file://a"), 2)).expect("it changed");
        assert_eq!(version, "the active version of its command was 1 and is 2");
    }

    #[test]
    fn digests_are_kept_in_order() {
        let digests = [HostDigest([3; 16]), HostDigest::NONE, HostDigest([1; 16])];
        assert_eq!(read_digests(&write_digests(&digests)), digests);
        assert_eq!(digests[0].as_bytes(), &[3; 16]);
        assert_eq!(HostDigest::from_slice(&[3; 15]), None);
    }
}
