//! Brokers as resources describe them: from a name to where one is and how to get in, with the password and with the rules about
//! where this tenant may go.

use std::sync::Arc;

use bowline_amqp::Broker;
use bowline_connect::egress::{Judge, TenantRules};
use bowline_model::broker::RabbitmqSpec;
use bowline_model::resource::ResourceKind;
use bowline_model::secret::Destination;
use bowline_model::{ErrorClass, ResourceName, RunError, TenantId};
use bowline_store::{Ledger, ResourceKey};

use crate::secrets::Secrets;

/// Finds brokers.
#[derive(Debug)]
pub struct Brokers {
    ledger: Arc<dyn Ledger>,
    secrets: Arc<Secrets>,
    rules: TenantRules,
}

impl Brokers {
    pub const fn new(ledger: Arc<dyn Ledger>, secrets: Arc<Secrets>, rules: TenantRules) -> Self {
        Self { ledger, secrets, rules }
    }

    /// A tenant's broker as it is described now.
    pub async fn find(&self, tenant: TenantId, name: &ResourceName) -> Result<Broker, RunError> {
        let key = ResourceKey { tenant, kind: ResourceKind::Rabbitmq, name: name.clone() };
        let found = self.ledger.find_resource(key, None).await;
        let found = found.map_err(|error| RunError::new(ErrorClass::Transient, format!("broker {name}: {error}")))?;
        let found = found.filter(|record| record.active.is_some()).ok_or_else(|| {
            permanent(format!("there is no resource rabbitmq {name}, or none of its versions is active"))
        })?;
        let spec: RabbitmqSpec = serde_json::from_str(&found.version.spec)
            .map_err(|_| permanent(format!("the resource rabbitmq {name} cannot be read")))?;
        let url = spec.address().map_err(|error| permanent(format!("the resource rabbitmq {name}: url: {error}")))?;
        let scheme = if url.tls { "amqps" } else { "amqp" };
        let to = Destination { scheme, host: &url.host, port: url.port };
        let password = self.secrets.for_connector(tenant, name.as_str(), to, &spec.password.secret_ref).await;
        let password = password.map_err(|error| {
            tracing::warn!(broker.name = %name, error = %error.whole(), "skipping a broker, its password cannot be resolved");
            RunError::new(error.class(), format!("the password of broker {name}: {error}"))
        })?;
        let tenant = self.secrets.tenant_name(tenant).await;
        let tenant = tenant.map_err(|error| RunError::new(ErrorClass::Transient, format!("broker {name}: {error}")))?;
        let judge = Judge::new(self.rules.of(&tenant).clone());
        Ok(Broker { url, username: spec.username, password, ca: spec.ca, judge })
    }
}

fn permanent(message: String) -> RunError {
    RunError::new(ErrorClass::Permanent, message)
}
