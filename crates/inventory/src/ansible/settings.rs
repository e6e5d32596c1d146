//! Variables that are more than variables: how a host is reached, which labels it has, and secrets, which are refused.
//!
//! They are judged where they are written, so that a mistake is said with its line, and come together in `settle`. A
//! password has no business in an inventory, which many may read and nobody encrypts. It is refused with the name of its
//! owner and never repeated.

use std::collections::BTreeMap;

use bowline_model::host::{Connection, Host};
use bowline_model::name::{Labels, WorkerName};
use serde_json::Value;

use crate::connection;
use crate::error::ImportError;
use crate::owner::Owner;
use crate::place::At;
use crate::tree::VAULT;

/// Not said; said to be nothing; said.
type Slot<T> = Option<Option<T>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Agent,
    Ssh,
    Simulate,
}

/// What was said at one place, or, put over each other, at several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    connection: Slot<Reach>,
    via: Slot<Reach>,
    host: Slot<String>,
    ssh_host: Slot<String>,
    port: Slot<u16>,
    ssh_port: Slot<u16>,
    user: Slot<String>,
    ssh_user: Slot<String>,
    agent: Slot<WorkerName>,
    through: Slot<Labels>,
    labels: Slot<Labels>,
}

/// Whether a variable of this name is a setting, and hence no variable.
pub(crate) fn is_setting(key: &str) -> bool {
    matches!(
        key,
        "ansible_connection"
            | "ansible_host"
            | "ansible_ssh_host"
            | "ansible_port"
            | "ansible_ssh_port"
            | "ansible_user"
            | "ansible_ssh_user"
            | "bowline_via"
            | "bowline_agent"
            | "bowline_through"
            | "bowline_labels"
    )
}

/// Whether the value of such a variable is a secret: every plugin has its own password, and all are named alike.
fn is_secret_name(key: &str) -> bool {
    let passwords = ["_pass", "_password", "_passwd", "_passphrase"];
    key.starts_with("ansible_") && passwords.iter().any(|end| key.ends_with(end))
        || matches!(key, "ansible_private_key" | "ansible_ssh_private_key")
}

fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

fn is_vault_text(text: &str) -> bool {
    text.trim_start().starts_with("$ANSIBLE_VAULT;")
}

/// Whether some part of the value is encrypted by Ansible Vault.
fn is_sealed(value: &Value) -> bool {
    match value {
        Value::String(text) => is_vault_text(text),
        Value::Array(items) => items.iter().any(is_sealed),
        Value::Object(map) => map.contains_key(VAULT) || map.values().any(is_sealed),
        _ => false,
    }
}

/// Why a variable may not stand in an inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forbidden {
    Secret,
    Sealed,
}

pub(crate) fn forbidden(key: &str, value: &Value) -> Option<Forbidden> {
    if is_sealed(value) {
        return Some(Forbidden::Sealed);
    }
    let is_key_file = matches!(key, "ansible_private_key_file" | "ansible_ssh_private_key_file");
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(text) if is_secret_name(key) && is_template(text) => Some(Forbidden::Sealed),
        // The name of a file is no secret; what is in it is.
        Value::String(text) if is_key_file && text.contains("PRIVATE KEY-----") => Some(Forbidden::Secret),
        _ => is_secret_name(key).then_some(Forbidden::Secret),
    }
}

pub(crate) fn refuse_secrets(key: &str, value: &Value, owner: &Owner, at: At<'_>) -> Result<(), ImportError> {
    let (owner, variable) = (|| owner.clone(), || key.to_owned());
    match forbidden(key, value) {
        None => Ok(()),
        Some(Forbidden::Secret) => Err(ImportError::Secret { at: at.place(), owner: owner(), variable: variable() }),
        Some(Forbidden::Sealed) => {
            Err(ImportError::SealedSecret { at: at.place(), owner: owner(), variable: variable() })
        }
    }
}

impl Settings {
    /// Takes a variable for which [`is_setting`] is true.
    pub(crate) fn take(&mut self, key: &str, value: &Value, owner: &Owner, at: At<'_>) -> Result<(), ImportError> {
        if let Value::String(text) = value
            && is_template(text)
        {
            return Err(ImportError::Template { at: at.place(), owner: owner.clone(), variable: key.to_owned() });
        }
        let word = word(key, value, at);
        match key {
            "ansible_connection" => self.connection = Some(word?.map(|via| reach(&via, owner, at)).transpose()?),
            "ansible_host" => self.host = Some(word?.map(|text| connection::address(&text, at)).transpose()?),
            "ansible_ssh_host" => self.ssh_host = Some(word?.map(|text| connection::address(&text, at)).transpose()?),
            "ansible_port" => self.port = Some(word?.map(|text| connection::port(&text, at)).transpose()?),
            "ansible_ssh_port" => self.ssh_port = Some(word?.map(|text| connection::port(&text, at)).transpose()?),
            "ansible_user" => self.user = Some(word?.map(|text| connection::user(&text, at)).transpose()?),
            "ansible_ssh_user" => self.ssh_user = Some(word?.map(|text| connection::user(&text, at)).transpose()?),
            "bowline_via" => self.via = Some(word?.map(|text| our_reach(&text, at)).transpose()?),
            "bowline_agent" => self.agent = Some(word?.map(|text| connection::worker_name(&text, at)).transpose()?),
            "bowline_through" => self.through = Some(Some(labels(key, value, at)?)),
            "bowline_labels" => self.labels = Some(Some(labels(key, value, at)?)),
            _ => {}
        }
        Ok(())
    }

    /// A port behind the name of a host, which counts like `ansible_port`.
    pub(crate) fn set_port(&mut self, port: u16) {
        self.port = Some(Some(port));
    }

    /// Puts what others say over it.
    pub(crate) fn cover(&mut self, over: &Self) {
        fn each<T: Clone>(slot: &mut Slot<T>, over: &Slot<T>) {
            if over.is_some() {
                slot.clone_from(over);
            }
        }
        each(&mut self.connection, &over.connection);
        each(&mut self.via, &over.via);
        each(&mut self.host, &over.host);
        each(&mut self.ssh_host, &over.ssh_host);
        each(&mut self.port, &over.port);
        each(&mut self.ssh_port, &over.ssh_port);
        each(&mut self.user, &over.user);
        each(&mut self.ssh_user, &over.ssh_user);
        each(&mut self.agent, &over.agent);
        each(&mut self.through, &over.through);
        each(&mut self.labels, &over.labels);
    }

    /// About how much memory the labels take in each host that has them.
    pub(crate) fn weight(&self) -> usize {
        [&self.labels, &self.through].into_iter().flatten().flatten().map(connection::weight).sum()
    }

    /// The connection and the labels of a host of which all this is said.
    pub(crate) fn resolve(self) -> (Connection, Labels) {
        let through = self.through.flatten().unwrap_or_default();
        let connection = match self.via.flatten().or(self.connection.flatten()).unwrap_or(Reach::Ssh) {
            Reach::Agent => Connection::Agent { agent: self.agent.flatten() },
            Reach::Ssh => Connection::Ssh {
                address: self.ssh_host.flatten().or(self.host.flatten()),
                port: self.ssh_port.flatten().or(self.port.flatten()),
                user: self.ssh_user.flatten().or(self.user.flatten()),
                through,
            },
            Reach::Simulate => Connection::Simulate { through },
        };
        (connection, self.labels.flatten().unwrap_or_default())
    }
}

/// A word, or nothing: an empty text says nothing in Ansible either. Numbers are words here.
fn word(key: &str, value: &Value, at: At<'_>) -> Result<Option<String>, ImportError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.is_empty() => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Number(number) if !number.is_f64() => Ok(Some(number.to_string())),
        _ => Err(ImportError::Value { at: at.place(), what: format!("{key} is a text") }),
    }
}

fn reach(via: &str, owner: &Owner, at: At<'_>) -> Result<Reach, ImportError> {
    match via.strip_prefix("ansible.builtin.").unwrap_or(via) {
        "local" => Ok(Reach::Agent),
        "ssh" | "smart" | "paramiko" | "paramiko_ssh" => Ok(Reach::Ssh),
        _ => Err(ImportError::Unreachable { at: at.place(), owner: owner.clone(), via: via.to_owned() }),
    }
}

fn our_reach(via: &str, at: At<'_>) -> Result<Reach, ImportError> {
    match via {
        "agent" => Ok(Reach::Agent),
        "ssh" => Ok(Reach::Ssh),
        "simulate" => Ok(Reach::Simulate),
        _ => Err(ImportError::Value { at: at.place(), what: "bowline_via is agent, ssh or simulate".to_owned() }),
    }
}

/// A map, or `k=v,k=v`.
fn labels(key: &str, value: &Value, at: At<'_>) -> Result<Labels, ImportError> {
    let mut map = BTreeMap::new();
    match value {
        Value::Null => {}
        Value::String(text) => connection::add_pairs(&mut map, text, &[',', ';'], at)?,
        Value::Object(entries) => {
            for (name, value) in entries {
                let text = match value {
                    Value::String(text) => text.clone(),
                    Value::Number(_) | Value::Bool(_) => value.to_string(),
                    _ => return Err(not_labels(key, at)),
                };
                map.insert(name.clone(), text);
            }
        }
        _ => return Err(not_labels(key, at)),
    }
    connection::labels(map, at)
}

fn not_labels(key: &str, at: At<'_>) -> ImportError {
    ImportError::Value { at: at.place(), what: format!("{key} is a map of texts, or name=value,name=value") }
}

/// The settings that say what a host says, for the way out. Labels are maps, or words where there are no maps.
pub(crate) fn of_host(host: &Host, labels_as: LabelsAs) -> Vec<(&'static str, Value)> {
    let mut said: Vec<(&'static str, Value)> = Vec::new();
    let labels = |labels: &Labels| match labels_as {
        LabelsAs::Words => Value::from(connection::pairs(labels, ",")),
        LabelsAs::Map => labels.iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect(),
    };
    let through = match &host.connection {
        Connection::Agent { agent } => {
            said.push(("ansible_connection", "local".into()));
            said.extend(agent.iter().map(|agent| ("bowline_agent", agent.as_str().into())));
            None
        }
        Connection::Ssh { address, port, user, through } => {
            said.extend(address.iter().map(|address| ("ansible_host", address.as_str().into())));
            said.extend(port.iter().map(|port| ("ansible_port", (*port).into())));
            said.extend(user.iter().map(|user| ("ansible_user", user.as_str().into())));
            Some(through)
        }
        Connection::Simulate { through } => {
            said.push(("bowline_via", "simulate".into()));
            Some(through)
        }
    };
    said.extend(through.filter(|through| !through.is_empty()).map(|through| ("bowline_through", labels(through))));
    if !host.labels.is_empty() {
        said.push(("bowline_labels", labels(&host.labels)));
    }
    said
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelsAs {
    Words,
    Map,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn passwords_are_known_by_their_names_and_references_by_their_form() {
        let secret = |key: &str, value: Value| forbidden(key, &value);
        for key in [
            "ansible_password",
            "ansible_ssh_pass",
            "ansible_become_pass",
            "ansible_become_password",
            "ansible_doas_pass",
        ] {
            assert_eq!(secret(key, json!("hunter2")), Some(Forbidden::Secret), "{key}");
            assert_eq!(secret(key, json!("{{ vault_it }}")), Some(Forbidden::Sealed), "{key}");
            assert_eq!(secret(key, json!(null)), None, "{key}");
        }
        assert_eq!(secret("ansible_password", json!(1234)), Some(Forbidden::Secret));
        assert_eq!(secret("anything", json!({"__ansible_vault": "..."})), Some(Forbidden::Sealed));
        assert_eq!(secret("anything", json!(["$ANSIBLE_VAULT;1.1;AES256\n61"])), Some(Forbidden::Sealed));
        assert_eq!(secret("anything", json!("{{ other }}")), None, "a template is a text");
        assert_eq!(secret("ansible_ssh_private_key_file", json!("~/.ssh/id")), None);
        let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nx";
        assert_eq!(secret("ansible_ssh_private_key_file", json!(key)), Some(Forbidden::Secret));
        assert_eq!(secret("ansible_ssh_private_key", json!(key)), Some(Forbidden::Secret));
        assert_eq!(secret("password_policy", json!("strict")), None, "not Ansible's");
    }
}
