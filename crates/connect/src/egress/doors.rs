//! One door for everybody, and doors of their own for tenants that may go further.

use std::collections::BTreeMap;

use super::{Egress, EgressError, TenantRules};

/// Doors by the name of the tenant.
#[derive(Debug, Clone)]
pub struct Doors {
    everybody: Egress,
    tenants: BTreeMap<String, Egress>,
}

impl Doors {
    pub fn new(rules: TenantRules) -> Result<Self, EgressError> {
        let tenants = rules.tenants.into_iter().map(|(name, rules)| Ok((name, Egress::new(rules)?)));
        Ok(Self { everybody: Egress::new(rules.everybody)?, tenants: tenants.collect::<Result<_, EgressError>>()? })
    }

    pub fn of(&self, tenant: &str) -> &Egress {
        self.tenants.get(tenant).unwrap_or(&self.everybody)
    }
}
