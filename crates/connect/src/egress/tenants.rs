//! Rules for everybody, and rules of their own for tenants that may go further.

use std::collections::BTreeMap;

use super::rules::EgressRules;

/// Rules by the name of the tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantRules {
    pub everybody: EgressRules,
    /// Instead of everybody's, not besides them.
    pub tenants: BTreeMap<String, EgressRules>,
}

impl TenantRules {
    pub fn of(&self, tenant: &str) -> &EgressRules {
        self.tenants.get(tenant).unwrap_or(&self.everybody)
    }
}
