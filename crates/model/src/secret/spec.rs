//! What a resource of kind `secret_ref` says: where a secret is, and who may have it. Never the secret.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SecretRef, looks_secret};
use crate::name::ResourceName;
use crate::resource::BadSpec;

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
    /// Only these command types get it. Every command of the tenant, unless given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub commands: Vec<ResourceName>,
}

impl SecretRefSpec {
    const VERSION_MAX: usize = 64;
    const COMMANDS_MAX: usize = 1_000;
    const DESCRIPTION_MAX: usize = 1_000;

    pub fn check(&self) -> Result<(), BadSpec> {
        let texts = [
            ("description", self.description.as_deref(), Self::DESCRIPTION_MAX),
            ("version", self.version.as_deref(), Self::VERSION_MAX),
        ];
        for (path, text, max) in texts {
            let Some(text) = text else { continue };
            if text.is_empty() || text.len() > max || text.chars().any(char::is_control) {
                return Err(BadSpec::at(path, format!("between 1 and {max} characters, in one line")));
            }
            if let Some(what) = looks_secret(text) {
                return Err(BadSpec::forbidden(path, format!("this looks like {what}; a value is never kept here")));
            }
        }
        if self.commands.len() > Self::COMMANDS_MAX {
            return Err(BadSpec::at("commands", format!("at most {} command types", Self::COMMANDS_MAX)));
        }
        Ok(())
    }

    /// Whether a command may have it; `None` is one that was written for a single job.
    pub fn is_for(&self, command: Option<&ResourceName>) -> bool {
        self.commands.is_empty() || command.is_some_and(|name| self.commands.contains(name))
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
        assert!(spec.is_for(Some(&ResourceName::new("charge").unwrap())));
        assert!(!spec.is_for(Some(&ResourceName::new("refund").unwrap())) && !spec.is_for(None));
        let Ok(Spec::SecretRef(spec)) = read(json!({"ref": "env://ACME_KEY"})) else { panic!("refused") };
        assert!(spec.is_for(None));
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
