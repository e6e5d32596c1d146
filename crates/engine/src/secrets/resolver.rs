//! From names to values.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_model::fleet::{CommandSpec, SecretIdentity};
use bowline_model::resource::{BadSpec, ResourceKind};
use bowline_model::secret::{Destination, NamedSecret, NotAllowedBy, SecretPlace, SecretRefSpec, SecretUse};
use bowline_model::{ResourceName, TenantId};
use bowline_seal::{SecretValue, Values};
use bowline_store::{Clock, Ledger, ResourceKey, StoreError};
use serde::Deserialize;

use super::cache::{Cache, Entry};
use super::{NoValue, SecretError, SecretRules, SecretSource};

/// A place that does not answer in this time is unavailable. A hand-out waits for it, and must be accepted in time.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a command needs, read from the command as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretNeeds {
    /// `None` for a command that was written for a single job.
    pub command: Option<ResourceName>,
    pub names: BTreeSet<ResourceName>,
}

impl SecretNeeds {
    /// Of a stored command; nothing else of it is read.
    pub fn of_payload(payload: &str) -> Self {
        #[derive(Deserialize)]
        struct Stored {
            name: Option<ResourceName>,
            spec: StoredSpec,
        }
        #[derive(Deserialize)]
        struct StoredSpec {
            #[serde(default)]
            secrets: BTreeMap<String, String>,
        }
        // Most commands need nothing, and are handed out by the thousand.
        if !payload.contains("secret://") {
            return Self::default();
        }
        let Ok(Stored { name, spec }) = serde_json::from_str(payload) else { return Self::default() };
        let names = spec.secrets.values().filter_map(|text| match NamedSecret::parse(text) {
            Ok(NamedSecret::Server(name)) => Some(name),
            _ => None,
        });
        Self { command: name, names: names.collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// The door for secrets.
#[derive(Debug)]
pub struct Secrets {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    rules: SecretRules,
    sources: BTreeMap<SecretPlace, Arc<dyn SecretSource>>,
    cache: Cache,
    /// A tenant keeps its name for good.
    tenants: Mutex<HashMap<TenantId, Arc<str>>>,
}

impl Secrets {
    pub fn new(
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        rules: SecretRules,
        sources: BTreeMap<SecretPlace, Arc<dyn SecretSource>>,
    ) -> Arc<Self> {
        Arc::new(Self { ledger, clock, rules, sources, cache: Cache::default(), tenants: Mutex::default() })
    }

    pub(super) fn forget_old(&self) {
        self.cache.forget_old(self.clock.now());
    }

    pub(super) fn forget_all(&self) {
        self.cache.forget_old(bowline_model::Timestamp::from_micros(i64::MAX));
    }

    pub(crate) async fn tenant_name(&self, tenant: TenantId) -> Result<Arc<str>, StoreError> {
        let known = self.tenants.lock().unwrap_or_else(PoisonError::into_inner).get(&tenant).cloned();
        if let Some(name) = known {
            return Ok(name);
        }
        let found = self.ledger.find_tenant(tenant).await?;
        let found = found.ok_or_else(|| StoreError::Broken("there is no such tenant".to_owned()))?;
        let name: Arc<str> = found.name.into();
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).insert(tenant, Arc::clone(&name));
        Ok(name)
    }

    /// Whether a tenant may store a resource that says this.
    pub async fn check_ref(&self, tenant: TenantId, spec: &SecretRefSpec) -> Result<Result<(), BadSpec>, StoreError> {
        let name = self.tenant_name(tenant).await?;
        Ok(self.rules.check(&name, &spec.reference).map_err(|error| BadSpec::at("ref", error.to_string())))
    }

    /// Whether a command may name the secrets it names; the variable of the first that it may not. Whether they have values
    /// is seen when it runs.
    pub async fn check_command(
        &self,
        tenant: TenantId,
        command: Option<&ResourceName>,
        spec: &CommandSpec,
    ) -> Result<(), (String, SecretError)> {
        for (variable, name) in spec.server_secrets() {
            let found = self.find(tenant, SecretUse::Command(command), &name).await;
            found.map_err(|error| (variable.to_owned(), error))?;
        }
        Ok(())
    }

    /// What the secrets of the server are that a command names, apart from their values; `None` for one that is not there.
    pub async fn identities(
        &self,
        tenant: TenantId,
        spec: &CommandSpec,
    ) -> Result<BTreeMap<String, Option<SecretIdentity>>, StoreError> {
        let mut identities = BTreeMap::new();
        for (_, name) in spec.server_secrets() {
            let key = ResourceKey { tenant, kind: ResourceKind::SecretRef, name: name.clone() };
            let found = self.ledger.find_resource(key, None).await?.filter(|record| record.active.is_some());
            let spec: Option<SecretRefSpec> = found.and_then(|record| serde_json::from_str(&record.version.spec).ok());
            identities.insert(name.to_string(), spec.as_ref().map(SecretIdentity::of));
        }
        Ok(identities)
    }

    /// The `secret_ref` of this name, if what it refers to may be used so.
    async fn find(
        &self,
        tenant: TenantId,
        wanted: SecretUse<'_>,
        name: &ResourceName,
    ) -> Result<SecretRefSpec, SecretError> {
        let spec = self.find_ref(tenant, name).await?;
        let (connector, to) = match wanted {
            SecretUse::Command(_) => ("", String::new()),
            SecretUse::Connector { name, to } => (name, to.to_string()),
        };
        match spec.allows(wanted) {
            Ok(()) => Ok(spec),
            Err(NotAllowedBy::Commands) => Err(SecretError::NotFor(name.clone())),
            Err(NotAllowedBy::Connectors) => {
                Err(SecretError::NotForConnector { name: name.clone(), connector: connector.to_owned() })
            }
            Err(NotAllowedBy::Hosts) => Err(SecretError::NotForHost { name: name.clone(), host: to }),
        }
    }

    async fn find_ref(&self, tenant: TenantId, name: &ResourceName) -> Result<SecretRefSpec, SecretError> {
        let key = ResourceKey { tenant, kind: ResourceKind::SecretRef, name: name.clone() };
        let found = self.ledger.find_resource(key, None).await.map_err(SecretError::Store)?;
        let found = found.filter(|record| record.active.is_some());
        let found = found.ok_or_else(|| SecretError::NoRef(name.clone()))?;
        let spec: SecretRefSpec = serde_json::from_str(&found.version.spec)
            .map_err(|_| SecretError::Store(StoreError::Broken(format!("secret_ref {name} cannot be read"))))?;
        let tenant = self.tenant_name(tenant).await.map_err(SecretError::Store)?;
        match self.rules.check(&tenant, &spec.reference) {
            Ok(()) => Ok(spec),
            Err(source) => Err(SecretError::NotAllowed { name: name.clone(), source }),
        }
    }

    /// The values of everything a command needs, by the text it names them with; or the first that cannot be had.
    /// `approved` are their identities as somebody approved them: a reference that points elsewhere by now is not read.
    pub async fn resolve(
        &self,
        tenant: TenantId,
        needs: &SecretNeeds,
        approved: Option<&BTreeMap<String, Option<SecretIdentity>>>,
    ) -> Result<Values, SecretError> {
        let mut values = Values::new();
        for name in &needs.names {
            let spec = self.find(tenant, SecretUse::Command(needs.command.as_ref()), name).await?;
            if !approved.is_none_or(|approved| is_approved(approved, name, &spec)) {
                return Err(SecretError::Superseded(name.clone()));
            }
            let value = self.value(tenant, name, &spec, true).await?;
            values.insert(format!("secret://{name}"), value);
        }
        Ok(values)
    }

    /// Whether the server may send a secret there in a tenant's name, as far as its `secret_ref` says now. One that is not there
    /// may come later.
    pub async fn check_connector(
        &self,
        tenant: TenantId,
        connector: &str,
        to: Destination<'_>,
        name: &ResourceName,
    ) -> Result<(), SecretError> {
        match self.find(tenant, SecretUse::Connector { name: connector, to }, name).await {
            Ok(_) | Err(SecretError::NoRef(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A value that the server itself sends somewhere in a tenant's name: by a call, or to a broker.
    pub async fn for_connector(
        &self,
        tenant: TenantId,
        connector: &str,
        to: Destination<'_>,
        name: &ResourceName,
    ) -> Result<SecretValue, SecretError> {
        let spec = self.find(tenant, SecretUse::Connector { name: connector, to }, name).await?;
        self.value(tenant, name, &spec, true).await
    }

    /// Whether a secret can be had now, read anew. The value is thrown away; what comes back is where it was looked for.
    pub async fn try_out(
        &self,
        tenant: TenantId,
        name: &ResourceName,
    ) -> Result<(SecretRefSpec, Result<(), SecretError>), SecretError> {
        let spec = self.find_ref(tenant, name).await?;
        let tried = self.value(tenant, name, &spec, false).await.map(drop);
        Ok((spec, tried))
    }

    async fn value(
        &self,
        tenant: TenantId,
        name: &ResourceName,
        spec: &SecretRefSpec,
        kept_will_do: bool,
    ) -> Result<SecretValue, SecretError> {
        let entry = Entry { tenant, reference: spec.reference.clone(), version: spec.version.clone() };
        if kept_will_do && let Some(value) = self.cache.find(&entry, self.clock.now()) {
            return Ok(value);
        }
        let tenant_name = self.tenant_name(tenant).await.map_err(SecretError::Store)?;
        let no_value = |source: NoValue| match source {
            NoValue::Unavailable(_) => SecretError::Unavailable { name: name.clone(), source },
            _ => SecretError::NoValue { name: name.clone(), source },
        };
        let source = self.sources.get(&spec.reference.place());
        let source = Arc::clone(source.ok_or_else(|| no_value(NoValue::Unfit("this server has no such place")))?);
        let wanted = spec.reference.clone();
        let reading = tokio::task::spawn_blocking(move || source.read(&tenant_name, wanted.name()));
        let read = match tokio::time::timeout(PATIENCE, reading).await {
            Ok(Ok(read)) => read,
            Ok(Err(_)) => Err(NoValue::Unavailable("the reader broke".to_owned())),
            Err(_) => Err(NoValue::Unavailable("it took too long".to_owned())),
        };
        let value = read.map_err(no_value)?;
        // Whoever only tries it out needs it no longer than that.
        if kept_will_do {
            self.cache.keep(entry, value.clone(), self.clock.now());
        }
        Ok(value)
    }
}

/// Whether a reference is still the one that was approved under this name.
fn is_approved(approved: &BTreeMap<String, Option<SecretIdentity>>, name: &ResourceName, spec: &SecretRefSpec) -> bool {
    approved.get(name.as_str()) == Some(&Some(SecretIdentity::of(spec)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stored_command_needs_is_read_from_it() {
        let needs = |text: &str| SecretNeeds::of_payload(text);
        assert!(needs(r#"{"spec":{"argv":["a"]}}"#).is_empty());
        assert!(
            needs(r#"{"spec":{"argv":["secret://not-a-secret"],"secrets":{"A":"key","B":"agent://key"}}}"#).is_empty()
        );
        assert!(needs("secret://").is_empty());
        let found = needs(
            r#"{"name":"pay","version":1,"spec":{"argv":["a"],"secrets":{"A":"secret://x","B":"secret://x","C":"secret://y","D":"z"}}}"#,
        );
        let name = |text| ResourceName::new(text).expect("a name");
        assert_eq!(found, SecretNeeds { command: Some(name("pay")), names: [name("x"), name("y")].into() });
    }

    #[test]
    fn a_secret_that_points_elsewhere_is_not_the_approved_one() {
        let spec = |text: &str| serde_json::from_str::<SecretRefSpec>(text).expect("a secret_ref");
        let name = ResourceName::new("stripe").expect("a name");
        let first = spec(r#"{"ref":"file://stripe","version":"1"}"#);
        let approved = BTreeMap::from([("stripe".to_owned(), Some(SecretIdentity::of(&first)))]);
        assert!(is_approved(&approved, &name, &first));
        assert!(is_approved(&approved, &name, &spec(r#"{"ref":"file://stripe","version":"1","description":"x"}"#)));
        assert!(!is_approved(&approved, &name, &spec(r#"{"ref":"file://stripe","version":"2"}"#)));
        assert!(!is_approved(&approved, &name, &spec(r#"{"ref":"file://other","version":"1"}"#)));
        assert!(!is_approved(&BTreeMap::new(), &name, &first), "it was not among what was approved");
        assert!(!is_approved(&BTreeMap::from([("stripe".to_owned(), None)]), &name, &first), "it was not there then");
    }
}
