//! What a resource of kind `secret_ref` says: where a secret is, and who may have it. Never the secret.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Destination, HostRule, SecretRef, looks_secret};
use crate::name::ResourceName;
use crate::resource::{BadSpec, Checks};

/// Where a secret is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretRefSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `file://NAME` or `env://NAME`. The value is read from there when a run that needs it is handed out.
    #[serde(rename = "ref")]
    pub reference: SecretRef,
    /// Which value is there, in words of yours. The value is read anew at once when this changes, and within a minute otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub version: Option<String>,
    /// The command types that get it; `*` is every command of the tenant, also one that was written for a single job. None,
    /// unless given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub commands: Vec<String>,
    /// What of the server may use it in the tenant's name: `http_request` for calls, or the name of a `rabbitmq` resource. None,
    /// unless given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub connectors: Vec<String>,
    /// Where connectors may send it: `[scheme://]host[:port]`, with a host name, an address, `*.example.com` for every name below
    /// one, or `*` for every host. Without a scheme the connection must be encrypted, and without a port it must be the default one;
    /// with a scheme exactly that scheme and port are meant. Nowhere, unless given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub hosts: Vec<String>,
}

/// What a secret is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretUse<'a> {
    /// A command on hosts; `None` is one that was written for a single job.
    Command(Option<&'a ResourceName>),
    /// A connector of the server, which sends it there.
    Connector { name: &'a str, to: Destination<'a> },
}

/// Which part of a `secret_ref` does not allow a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAllowedBy {
    Commands,
    Connectors,
    Hosts,
}

/// Everything of its kind.
const ANY: &str = "*";
/// The connector that calls have.
pub const HTTP_REQUEST: &str = "http_request";

impl SecretRefSpec {
    const VERSION_MAX: usize = 64;
    const LIST_MAX: usize = 1_000;
    const DESCRIPTION_MAX: usize = 1_000;

    pub fn check(&self) -> Result<(), BadSpec> {
        let texts = [
            ("description", self.description.as_deref(), Self::DESCRIPTION_MAX),
            ("version", self.version.as_deref(), Self::VERSION_MAX),
        ];
        let mut checks = Checks::default();
        for (path, text, max) in texts {
            let Some(text) = text else { continue };
            let fits = !text.is_empty() && text.len() <= max && !text.chars().any(char::is_control);
            checks.holds(fits, path, format!("between 1 and {max} characters, in one line"));
            if let Some(what) = looks_secret(text) {
                let what = format!("this looks like {what}; a value is never kept here");
                checks.add(Err(BadSpec::forbidden(path, what)));
            }
        }
        let named = |path: &'static str, text: &str| {
            ResourceName::new(text).map(drop).map_err(|error| BadSpec::at(path, error.to_string()))
        };
        for (path, list) in [("commands", &self.commands), ("connectors", &self.connectors), ("hosts", &self.hosts)] {
            checks.holds(list.len() <= Self::LIST_MAX, path, format!("at most {} entries", Self::LIST_MAX));
        }
        for text in self.commands.iter().filter(|text| *text != ANY).take(Self::LIST_MAX) {
            checks.add(named("commands", text));
        }
        for text in self.connectors.iter().filter(|text| *text != HTTP_REQUEST).take(Self::LIST_MAX) {
            checks.add(named("connectors", text));
        }
        for text in self.hosts.iter().take(Self::LIST_MAX) {
            let rule = HostRule::parse(text).map(drop);
            checks.add(rule.map_err(|error| BadSpec::at("hosts", format!("`{text}` is {error}"))));
        }
        let nowhere = !self.connectors.is_empty() && self.hosts.is_empty();
        checks.holds(!nowhere, "hosts", "name the hosts that its connectors may send it to");
        checks.done()
    }

    /// Whether it may be used so; otherwise which part of it stands against that.
    pub fn allows(&self, wanted: SecretUse<'_>) -> Result<(), NotAllowedBy> {
        let lists = |list: &[String], name: &str| list.iter().any(|text| text == name);
        match wanted {
            SecretUse::Command(name) => {
                let named = name.is_some_and(|name| lists(&self.commands, name.as_str()));
                if named || lists(&self.commands, ANY) { Ok(()) } else { Err(NotAllowedBy::Commands) }
            }
            SecretUse::Connector { name, .. } if !lists(&self.connectors, name) => Err(NotAllowedBy::Connectors),
            SecretUse::Connector { to, .. } => {
                let covers = |text: &String| HostRule::parse(text).is_ok_and(|rule| rule.covers(to));
                if self.hosts.iter().any(covers) { Ok(()) } else { Err(NotAllowedBy::Hosts) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{ResourceKind, Spec};

    fn read(value: serde_json::Value) -> Result<Spec, BadSpec> {
        let spec = Spec::from_value(ResourceKind::SecretRef, value)?;
        spec.check()?;
        Ok(spec)
    }

    #[test]
    fn it_says_where_and_for_whom() {
        let spec = read(json!({"ref": "file://stripe", "version": "2026-11", "commands": ["charge"]})).unwrap();
        let text = r#"{"ref":"file://stripe","version":"2026-11","commands":["charge"]}"#;
        assert_eq!(spec.canonical(), text);
        let Spec::SecretRef(spec) = spec else { panic!("another kind") };
        let (charge, refund) = (ResourceName::new("charge").unwrap(), ResourceName::new("refund").unwrap());
        let command = |spec: &SecretRefSpec, name: Option<&ResourceName>| spec.allows(SecretUse::Command(name)).is_ok();
        assert!(command(&spec, Some(&charge)) && !command(&spec, Some(&refund)) && !command(&spec, None));
        let Ok(Spec::SecretRef(spec)) = read(json!({"ref": "env://ACME_KEY", "commands": ["*"]})) else {
            panic!("refused")
        };
        assert!(command(&spec, Some(&refund)) && command(&spec, None));
    }

    /// Security: what does not say where a secret goes sends it nowhere.
    #[test]
    fn it_goes_nowhere_unless_it_says_where() {
        let spec = |value| match read(value) {
            Ok(Spec::SecretRef(spec)) => spec,
            other => panic!("{other:?}"),
        };
        let to = |spec: &SecretRefSpec, name, host| {
            let to = Destination { scheme: "https", host, port: 443 };
            spec.allows(SecretUse::Connector { name, to })
        };
        let silent = spec(json!({"ref": "file://x"}));
        assert_eq!(silent.allows(SecretUse::Command(None)), Err(NotAllowedBy::Commands));
        assert_eq!(to(&silent, HTTP_REQUEST, "api.example"), Err(NotAllowedBy::Connectors));
        let calls = spec(
            json!({"ref": "file://x", "connectors": ["http_request"], "hosts": ["api.example", "*.shop.example", "::1"]}),
        );
        assert_eq!(to(&calls, "orders", "api.example"), Err(NotAllowedBy::Connectors));
        for good in ["api.example", "API.Example.", "a.shop.example", "a.b.shop.example", "[::1]"] {
            assert_eq!(to(&calls, HTTP_REQUEST, good), Ok(()), "{good}");
        }
        for bad in ["shop.example", "evilshop.example", "api.example.evil", "example", "::2", ".shop.example"] {
            assert_eq!(to(&calls, HTTP_REQUEST, bad), Err(NotAllowedBy::Hosts), "{bad}");
        }
        let anywhere = spec(json!({"ref": "file://x", "connectors": ["orders"], "hosts": ["*"]}));
        assert_eq!(to(&anywhere, "orders", "mq.example"), Ok(()));
        for (value, path) in [
            (json!({"ref": "file://x", "connectors": ["http_request"]}), "hosts"),
            (json!({"ref": "file://x", "connectors": ["http_request"], "hosts": ["gopher://a.example"]}), "hosts"),
            (json!({"ref": "file://x", "connectors": ["http_request"], "hosts": ["a.example/path"]}), "hosts"),
            (json!({"ref": "file://x", "connectors": ["a b"], "hosts": ["a"]}), "connectors"),
            (json!({"ref": "file://x", "commands": ["a b"]}), "commands"),
        ] {
            assert_eq!(read(value.clone()).expect_err("it is refused").path, path, "{value}");
        }
    }

    /// B067, B072: no value, in whatever field, and what is refused is named by its place and not repeated.
    #[test]
    fn a_value_has_no_place_in_it() {
        for (value, path) in [
            (json!({}), "spec"),
            (json!({"ref": "env://*"}), "ref"),
            (json!({"ref": "file:///etc/shadow"}), "ref"),
            (json!({"ref": "file://x", "value": "hunter22"}), "value"),
            (json!({"ref": "file://x", "password": "hunter22"}), "password"),
            (json!({"ref": "hunter22"}), "ref"),
            (json!({"ref": ["hunter22"]}), "ref"),
            (json!({"ref": "file://x", "version": ""}), "version"),
            (json!({"ref": "file://x", "version": "a\nb"}), "version"),
            (json!({"ref": "file://x", "description": format!("sk_live_{}", "x".repeat(24))}), "description"),
        ] {
            let error = read(value.clone()).expect_err("it is refused");
            assert_eq!(error.path, path, "{value}: {error}");
            assert!(!error.to_string().contains("hunter22"), "{error}");
        }
    }
}
