//! `[egress]`: where calls of `http_request`, and connections to brokers, may lead besides the public network. (since 0.1)

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use bowline_connect::egress::{EgressRules, IpNet, RESPONSE_MAX_BYTES, TenantRules};
use bowline_model::WorkerName;
use serde::Deserialize;

/// For every tenant; and what single tenants get on top.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EgressConfig {
    /// Networks that are not public and may be reached, such as `10.1.0.0/16`.
    pub allow_networks: Vec<IpNet>,
    /// Ports below 1024, besides 80 and 443.
    pub allow_ports: BTreeSet<u16>,
    /// A longer answer is cut off, and the call fails.
    pub response_max_bytes: usize,
    /// By the name of the tenant.
    pub tenants: BTreeMap<String, TenantEgressConfig>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TenantEgressConfig {
    pub allow_networks: Vec<IpNet>,
    pub allow_ports: BTreeSet<u16>,
}

impl Default for EgressConfig {
    fn default() -> Self {
        Self {
            allow_networks: Vec::new(),
            allow_ports: BTreeSet::new(),
            response_max_bytes: RESPONSE_MAX_BYTES,
            tenants: BTreeMap::new(),
        }
    }
}

impl EgressConfig {
    pub fn check(&self) -> anyhow::Result<()> {
        if !(1_024..=RESPONSE_MAX_BYTES).contains(&self.response_max_bytes) {
            bail!("egress.response_max_bytes must be between 1024 and {RESPONSE_MAX_BYTES}");
        }
        check_networks("egress.allow_networks", &self.allow_networks)?;
        for (tenant, config) in &self.tenants {
            if WorkerName::new(tenant).is_err() {
                bail!("egress.tenants has {tenant:?}, which cannot be the name of a tenant");
            }
            check_networks(&format!("egress.tenants.{tenant}.allow_networks"), &config.allow_networks)?;
        }
        Ok(())
    }

    pub fn rules(&self) -> TenantRules {
        let everybody = EgressRules {
            allow_networks: self.allow_networks.clone(),
            allow_ports: self.allow_ports.clone(),
            response_max_bytes: self.response_max_bytes,
        };
        let tenants = self.tenants.iter().map(|(name, more)| {
            let mut rules = everybody.clone();
            rules.allow_networks.extend(&more.allow_networks);
            rules.allow_ports.extend(&more.allow_ports);
            (name.clone(), rules)
        });
        let tenants = tenants.collect();
        TenantRules { everybody, tenants }
    }
}

/// A network is written as what it is. `10.1.2.3/16` may mean one machine or many; nobody should have to guess which.
fn check_networks(place: &str, networks: &[IpNet]) -> anyhow::Result<()> {
    for net in networks {
        if net.prefix_len() == 0 {
            bail!("{place} has {net}, which is every address there is; name the networks that are meant");
        }
        if net.addr() != net.network() {
            bail!("{place} has {net}; did you mean {} or {}/{}?", net.trunc(), net.addr(), net.max_prefix_len());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<EgressConfig, String> {
        let config: EgressConfig = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check().map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn networks_are_named_one_by_one() {
        let config = check("allow_networks = [\"10.1.0.0/16\", \"fd00:1::/32\"]\nallow_ports = [25]\n").unwrap();
        assert_eq!(config.allow_networks.len(), 2);
        assert_eq!(config.rules().everybody.allow_networks, config.allow_networks);
        for (text, why) in [
            ("allow_networks = [\"0.0.0.0/0\"]", "every address"),
            ("allow_networks = [\"::/0\"]", "every address"),
            ("allow_networks = [\"10.1.2.3/16\"]", "did you mean 10.1.0.0/16 or 10.1.2.3/32"),
            ("allow_networks = [\"10.1.2.3\"]", "invalid"),
            ("allow_networks = [\"intranet\"]", "invalid"),
            ("allow_ports = [70000]", "70000"),
            ("allow_network = []", "unknown field"),
            ("response_max_bytes = 0", "egress.response_max_bytes"),
            ("response_max_bytes = 10485761", "egress.response_max_bytes"),
            ("[tenants.\"../x\"]\n", "name of a tenant"),
            ("[tenants.a]\nallow_networks = [\"::/0\"]\n", "egress.tenants.a.allow_networks"),
            ("[tenants.a]\nresponse_max_bytes = 5\n", "unknown field"),
        ] {
            let error = check(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
