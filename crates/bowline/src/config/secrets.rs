//! `[secrets]`: which places each tenant may take secrets from. (since 0.1)

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use bowline_engine::secrets::{SecretRules, TenantRules};
use bowline_model::WorkerName;
use bowline_model::secret::SecretPlace;
use serde::Deserialize;

/// By the name of the tenant. A tenant that is not named here may use files of its own directory.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecretsConfig {
    pub tenants: BTreeMap<String, TenantSecretsConfig>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TenantSecretsConfig {
    /// `file`, `env`.
    pub places: BTreeSet<SecretPlace>,
    /// What the names of the tenant's variables begin with, such as `ACME_`.
    pub env_prefix: Option<String>,
}

impl Default for TenantSecretsConfig {
    fn default() -> Self {
        let TenantRules { places, env_prefix } = TenantRules::default();
        Self { places, env_prefix }
    }
}

/// Variables of ours, and of everybody.
const NOBODYS: [&str; 4] = ["BOWLINE_", "ORCH_", "DATABASE_", "LD_"];

impl SecretsConfig {
    pub fn check(&self) -> anyhow::Result<()> {
        for (tenant, config) in &self.tenants {
            if WorkerName::new(tenant).is_err() {
                bail!("secrets.tenants has {tenant:?}, which cannot be the name of a tenant");
            }
            match (&config.env_prefix, config.places.contains(&SecretPlace::Env)) {
                (None, true) => bail!("secrets.tenants.{tenant} allows env, so it needs env_prefix"),
                (Some(_), false) => bail!("secrets.tenants.{tenant} has env_prefix, but its places do not name env"),
                (Some(prefix), true) => check_prefix(tenant, prefix)?,
                (None, false) => {}
            }
        }
        let prefixes = || self.tenants.iter().filter_map(|(name, config)| Some((name, config.env_prefix.as_ref()?)));
        for (tenant, prefix) in prefixes() {
            if let Some((other, _)) = prefixes().find(|(name, p)| *name != tenant && p.starts_with(prefix.as_str())) {
                bail!("secrets.tenants.{tenant}.env_prefix would let it use the variables of {other}");
            }
        }
        Ok(())
    }

    pub fn rules(&self) -> SecretRules {
        let rules = |config: &TenantSecretsConfig| TenantRules {
            places: config.places.clone(),
            env_prefix: config.env_prefix.clone(),
        };
        SecretRules { tenants: self.tenants.iter().map(|(name, config)| (name.clone(), rules(config))).collect() }
    }
}

/// No wildcard, and not so short that it means half of the environment.
fn check_prefix(tenant: &str, prefix: &str) -> anyhow::Result<()> {
    let plain = prefix.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let begins = prefix.bytes().next().is_some_and(|b| b.is_ascii_uppercase());
    if !plain || !begins || prefix.len() < 3 || prefix.len() > 64 || !prefix.ends_with('_') {
        bail!(
            "secrets.tenants.{tenant}.env_prefix has 3 to 64 upper-case letters, digits and _, and ends with _, such as ACME_"
        );
    }
    if let Some(taken) = NOBODYS.iter().find(|taken| prefix.starts_with(*taken)) {
        bail!("secrets.tenants.{tenant}.env_prefix begins with {taken}, which belongs to no tenant");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<SecretsConfig, String> {
        let config: SecretsConfig = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check().map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn a_prefix_is_one_tenants_and_never_everybodys() {
        let both = "[tenants.acme]\nplaces = [\"file\", \"env\"]\nenv_prefix = \"ACME_\"\n[tenants.b]\nplaces = []\n";
        let rules = check(both).unwrap().rules();
        assert_eq!(rules.tenants["acme"].env_prefix.as_deref(), Some("ACME_"));
        assert!(rules.tenants["b"].places.is_empty());
        let env = |prefix: &str| format!("[tenants.acme]\nplaces = [\"env\"]\nenv_prefix = \"{prefix}\"\n");
        for (text, why) in [
            ("[tenants.acme]\nplaces = [\"env\"]\n".to_owned(), "needs env_prefix"),
            ("[tenants.acme]\nenv_prefix = \"ACME_\"\n".to_owned(), "do not name env"),
            ("[tenants.acme]\nplaces = [\"vault\"]\n".to_owned(), "unknown variant"),
            ("[tenants.acme]\nprefix = \"A\"\n".to_owned(), "unknown field"),
            ("[tenants.\"../x\"]\n".to_owned(), "name of a tenant"),
            (env(""), "3 to 64"),
            (env("*"), "3 to 64"),
            (env("A_"), "3 to 64"),
            (env("ACME"), "3 to 64"),
            (env("acme_"), "3 to 64"),
            (env("ORCH_"), "belongs to no tenant"),
            (env("BOWLINE_X_"), "belongs to no tenant"),
            (env("ACME_") + "[tenants.b]\nplaces = [\"env\"]\nenv_prefix = \"ACME_B_\"\n", "variables of b"),
            (env("ACME_") + "[tenants.b]\nplaces = [\"env\"]\nenv_prefix = \"ACME_\"\n", "variables of"),
        ] {
            let error = check(&text).expect_err(&text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
