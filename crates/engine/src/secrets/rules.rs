//! Which places of secrets a tenant may use.

use std::collections::{BTreeMap, BTreeSet};

use bowline_model::secret::{SecretPlace, SecretRef};

/// What one tenant may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRules {
    pub places: BTreeSet<SecretPlace>,
    /// What the names of its variables begin with. Without one it has none.
    pub env_prefix: Option<String>,
}

impl Default for TenantRules {
    /// A file in the tenant's own directory, put there by whoever runs the server, is meant for the tenant.
    fn default() -> Self {
        Self { places: BTreeSet::from([SecretPlace::File]), env_prefix: None }
    }
}

/// Why a tenant may not use a reference. Other tenants' prefixes are not told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    #[error("this tenant may not use {0}:// (secrets.tenants in the server's configuration)")]
    Place(SecretPlace),
    #[error("variables of this tenant begin with {0}, and have a name after it")]
    Prefix(String),
}

/// What each tenant may use, by its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretRules {
    pub tenants: BTreeMap<String, TenantRules>,
}

impl SecretRules {
    pub fn check(&self, tenant: &str, reference: &SecretRef) -> Result<(), NotAllowed> {
        let default = TenantRules::default();
        let rules = self.tenants.get(tenant).unwrap_or(&default);
        let place = reference.place();
        if !rules.places.contains(&place) {
            return Err(NotAllowed::Place(place));
        }
        match (place, &rules.env_prefix) {
            (SecretPlace::File, _) => Ok(()),
            (SecretPlace::Env, None) => Err(NotAllowed::Place(place)),
            (SecretPlace::Env, Some(prefix)) => match reference.name().strip_prefix(prefix.as_str()) {
                Some(rest) if !rest.is_empty() => Ok(()),
                _ => Err(NotAllowed::Prefix(prefix.clone())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> SecretRules {
        let both = BTreeSet::from(SecretPlace::ALL);
        let acme = TenantRules { places: both.clone(), env_prefix: Some("ACME_".to_owned()) };
        let only_env = TenantRules { places: BTreeSet::from([SecretPlace::Env]), env_prefix: Some("X_".to_owned()) };
        let without = TenantRules { places: both, env_prefix: None };
        let tenants = [("acme", acme), ("x", only_env), ("without", without)];
        SecretRules { tenants: tenants.into_iter().map(|(name, rules)| (name.to_owned(), rules)).collect() }
    }

    /// B072: variables of the server, of others, and all of them.
    #[test]
    fn a_tenant_uses_what_it_was_given() {
        let ask = |tenant: &str, text: &str| rules().check(tenant, &text.parse().expect("a reference"));
        for (tenant, text) in
            [("acme", "file://a"), ("acme", "env://ACME_KEY"), ("x", "env://X_1"), ("unknown", "file://a")]
        {
            assert_eq!(ask(tenant, text), Ok(()), "{tenant} {text}");
        }
        for text in ["env://PATH", "env://ORCH_DB_URL", "env://X_1", "env://ACME", "env://ACME_"] {
            assert_eq!(ask("acme", text), Err(NotAllowed::Prefix("ACME_".to_owned())), "{text}");
        }
        assert_eq!(ask("x", "file://a"), Err(NotAllowed::Place(SecretPlace::File)));
        assert_eq!(ask("unknown", "env://PATH"), Err(NotAllowed::Place(SecretPlace::Env)));
        assert_eq!(ask("without", "env://PATH"), Err(NotAllowed::Place(SecretPlace::Env)));
    }
}
