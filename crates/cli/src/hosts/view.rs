//! A host as the server shows it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::output::Text;

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct HostView {
    pub name: Text,
    pub inventory: Text,
    pub labels: Option<BTreeMap<String, Text>>,
    pub groups: Vec<Text>,
    pub connection: ConnectionView,
    pub created_at: Text,
    pub updated_at: Text,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct ConnectionView {
    via: Text,
    agent: Text,
    address: Text,
    port: Text,
    user: Text,
    through: Option<BTreeMap<String, Text>>,
}

impl ConnectionView {
    /// In a few words: `ssh ops@10.0.0.9:2222 through site=fra`.
    pub fn words(&self) -> String {
        let mut words = self.via.to_string();
        let place = match (self.address.as_str(), self.agent.as_str()) {
            ("", agent) => agent.to_owned(),
            (address, _) if address.contains(':') && !self.port.is_empty() => format!("[{address}]"),
            (address, _) => address.to_owned(),
        };
        let user = if self.user.is_empty() { String::new() } else { format!("{}@", self.user) };
        let port = if self.port.is_empty() { String::new() } else { format!(":{}", self.port) };
        let whole = format!("{user}{place}{port}");
        if !whole.is_empty() {
            words.push(' ');
            words.push_str(&whole);
        }
        let through = crate::workers::labels(self.through.as_ref());
        if !through.is_empty() {
            words.push_str(" through ");
            words.push_str(&through);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_in_a_few_words() {
        let words = |json: &str| serde_json::from_str::<ConnectionView>(json).unwrap().words();
        assert_eq!(words(r#"{"via":"agent"}"#), "agent");
        assert_eq!(words(r#"{"via":"agent","agent":"a1"}"#), "agent a1");
        assert_eq!(words(r#"{"via":"ssh","user":"ops","port":2222}"#), "ssh ops@:2222");
        assert_eq!(
            words(r#"{"via":"ssh","address":"::1","port":22,"through":{"site":"fra"}}"#),
            "ssh [::1]:22 through site=fra"
        );
    }
}
