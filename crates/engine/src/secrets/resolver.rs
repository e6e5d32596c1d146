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
    use bowline_model::Timestamp;
    use bowline_model::secret::HTTP_REQUEST;
    use bowline_store::{ManualClock, ResourcePut};
    use bowline_store_sql::{SqlLedger, SqlSettings};
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::secrets::{TenantRules, forget_forever};

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

    /// Values in memory, and how often they were read.
    #[derive(Debug, Default)]
    struct CountingSource {
        values: Mutex<BTreeMap<(String, String), Result<String, NoValue>>>,
        reads: Mutex<Vec<(String, String)>>,
    }

    impl CountingSource {
        fn put(&self, tenant: &str, name: &str, value: Result<&str, NoValue>) {
            let key = (tenant.to_owned(), name.to_owned());
            self.values.lock().expect("nobody panicked").insert(key, value.map(ToOwned::to_owned));
        }

        fn reads(&self) -> usize {
            self.reads.lock().expect("nobody panicked").len()
        }
    }

    impl SecretSource for CountingSource {
        fn read(&self, tenant: &str, name: &str) -> Result<SecretValue, NoValue> {
            let key = (tenant.to_owned(), name.to_owned());
            self.reads.lock().expect("nobody panicked").push(key.clone());
            let found = self.values.lock().expect("nobody panicked").get(&key).cloned();
            found.unwrap_or(Err(NoValue::Missing)).map(SecretValue::new)
        }
    }

    struct Bench {
        ledger: Arc<dyn Ledger>,
        clock: Arc<ManualClock>,
        files: Arc<CountingSource>,
        secrets: Arc<Secrets>,
    }

    const ACME: u8 = 1;
    const GLOBEX: u8 = 2;

    fn tenant(n: u8) -> TenantId {
        TenantId::mint(Timestamp::from_millis(1), [n; 10])
    }

    fn name(text: &str) -> ResourceName {
        ResourceName::new(text).expect("a name")
    }

    fn spec(spec: Value) -> SecretRefSpec {
        serde_json::from_value(spec).expect("a secret_ref")
    }

    fn command(secret: &str) -> CommandSpec {
        serde_json::from_value(json!({"argv": ["true"], "secrets": {"TOKEN": secret}})).expect("a command")
    }

    impl Bench {
        /// Two tenants, of which one may use variables, too. The server has a source for files only.
        async fn open() -> Self {
            let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
            let as_clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
            let ledger = SqlLedger::open_memory_alone(&SqlSettings::new(Arc::clone(&as_clock))).expect("a ledger");
            let ledger: Arc<dyn Ledger> = Arc::new(ledger);
            for (n, name) in [(ACME, "acme"), (GLOBEX, "globex")] {
                let made = ledger.create_tenant(tenant(n), name.to_owned(), "ada".into()).await;
                made.expect("stored").expect("a tenant");
            }
            let places = SecretPlace::ALL.into_iter().collect();
            let acme = TenantRules { places, env_prefix: Some("ACME_".to_owned()) };
            let rules = SecretRules { tenants: BTreeMap::from([("acme".to_owned(), acme)]) };
            let files = Arc::<CountingSource>::default();
            let source: Arc<dyn SecretSource> = Arc::<CountingSource>::clone(&files);
            let sources = BTreeMap::from([(SecretPlace::File, source)]);
            let secrets = Secrets::new(Arc::clone(&ledger), as_clock, rules, sources);
            Self { ledger, clock, files, secrets }
        }

        async fn put(&self, n: u8, text: &str, spec: Value, activate: bool) {
            let key = ResourceKey { tenant: tenant(n), kind: ResourceKind::SecretRef, name: name(text) };
            let spec = spec.to_string().into();
            let put = ResourcePut { key, spec, source: None, note: None, by: "ada".into(), activate, seen: None };
            self.ledger.put_resource(put).await.expect("stored");
        }

        /// What a command that was written for one job gets under this name.
        async fn resolve(&self, n: u8, text: &str) -> Result<String, SecretError> {
            let needs = SecretNeeds { command: None, names: [name(text)].into() };
            let values = self.secrets.resolve(tenant(n), &needs, None).await?;
            Ok(values[&format!("secret://{text}")].reveal().to_owned())
        }
    }

    #[tokio::test]
    async fn a_tenant_stores_only_references_that_it_may_use() {
        let bench = Bench::open().await;
        let check = async |n: u8, reference: &str| {
            let checked = bench.secrets.check_ref(tenant(n), &spec(json!({"ref": reference}))).await;
            checked.map(|checked| checked.map_err(|bad| bad.path))
        };
        let refused = Err("ref".to_owned());
        assert_eq!(check(ACME, "file://key").await, Ok(Ok(())));
        assert_eq!(check(ACME, "env://ACME_KEY").await, Ok(Ok(())));
        assert_eq!(check(ACME, "env://PATH").await, Ok(refused.clone()));
        assert_eq!(check(GLOBEX, "file://key").await, Ok(Ok(())));
        assert_eq!(check(GLOBEX, "env://ACME_KEY").await, Ok(refused));
        let nobody = check(3, "file://key").await;
        assert!(matches!(nobody, Err(StoreError::Broken(_))), "{nobody:?}");
    }

    #[tokio::test]
    async fn a_connector_sends_a_secret_only_where_its_reference_allows_it() {
        let bench = Bench::open().await;
        let reference = |place: &str| json!({"ref": place, "connectors": [HTTP_REQUEST], "hosts": ["api.example.com"]});
        bench.put(ACME, "key", reference("file://key"), true).await;
        bench.put(ACME, "path", reference("env://PATH"), true).await;
        bench.put(ACME, "draft", reference("file://key"), false).await;
        bench.files.put("acme", "key", Ok("s3cret"));
        let secrets = &bench.secrets;
        // A secret that is not there may come later. Until then nothing is sent.
        for (connector, host, secret, checked, sent) in [
            (HTTP_REQUEST, "api.example.com", "key", Ok(()), Ok("s3cret")),
            ("mq", "api.example.com", "key", Err("NOT_FOR_THIS_CONNECTOR"), Err("NOT_FOR_THIS_CONNECTOR")),
            (HTTP_REQUEST, "example.com", "key", Err("NOT_FOR_THIS_HOST"), Err("NOT_FOR_THIS_HOST")),
            (HTTP_REQUEST, "api.example.com", "path", Err("PLACE_NOT_ALLOWED"), Err("PLACE_NOT_ALLOWED")),
            (HTTP_REQUEST, "api.example.com", "draft", Ok(()), Err("NO_SECRET_REF")),
            (HTTP_REQUEST, "api.example.com", "nowhere", Ok(()), Err("NO_SECRET_REF")),
        ] {
            let to = Destination { scheme: "https", host, port: 443 };
            let found = secrets.check_connector(tenant(ACME), connector, to, &name(secret)).await;
            assert_eq!(found.map_err(|error| error.code()), checked, "{connector} {host} {secret}");
            let found = secrets.for_connector(tenant(ACME), connector, to, &name(secret)).await;
            let found = found.as_ref().map(SecretValue::reveal).map_err(SecretError::code);
            assert_eq!(found, sent, "{connector} {host} {secret}");
        }
    }

    #[tokio::test]
    async fn a_command_names_only_secrets_that_are_meant_for_it() {
        let bench = Bench::open().await;
        bench.put(ACME, "key", json!({"ref": "file://key", "commands": ["pay"]}), true).await;
        let check = async |by: Option<&str>, secret: &str| {
            let by = by.map(name);
            let checked = bench.secrets.check_command(tenant(ACME), by.as_ref(), &command(secret)).await;
            checked.map_err(|(variable, error)| (variable, error.code()))
        };
        let refused = |code: &'static str| Err::<(), _>(("TOKEN".to_owned(), code));
        assert_eq!(check(Some("pay"), "secret://key").await, Ok(()));
        assert_eq!(check(Some("wipe"), "secret://key").await, refused("NOT_FOR_THIS_COMMAND"));
        assert_eq!(check(None, "secret://key").await, refused("NOT_FOR_THIS_COMMAND"));
        assert_eq!(check(Some("pay"), "secret://nowhere").await, refused("NO_SECRET_REF"));
        assert_eq!(check(Some("wipe"), "agent://key").await, Ok(()), "the agent's own secrets are not ours");
        let identities = bench.secrets.identities(tenant(ACME), &command("secret://key")).await.expect("read");
        let key = SecretIdentity { reference: "file://key".to_owned(), version: None };
        assert_eq!(identities, BTreeMap::from([("key".to_owned(), Some(key))]));
        let identities = bench.secrets.identities(tenant(ACME), &command("secret://nowhere")).await.expect("read");
        assert_eq!(identities, BTreeMap::from([("nowhere".to_owned(), None)]));
    }

    #[tokio::test]
    async fn a_value_is_the_tenants_own_and_is_read_anew_after_a_while() {
        let bench = Bench::open().await;
        for (n, tenant) in [(ACME, "acme"), (GLOBEX, "globex")] {
            bench.put(n, "key", json!({"ref": "file://key", "commands": ["*"]}), true).await;
            bench.files.put(tenant, "key", Ok(tenant));
        }
        for _ in 0..3 {
            assert_eq!(bench.resolve(ACME, "key").await.expect("a value"), "acme");
            assert_eq!(bench.resolve(GLOBEX, "key").await.expect("a value"), "globex");
        }
        assert_eq!(bench.files.reads(), 2, "once for each tenant");
        bench.files.put("acme", "key", Ok("changed"));
        bench.clock.advance_ms(60_000);
        assert_eq!(bench.resolve(ACME, "key").await.expect("a value"), "changed");
        // A server that stops forgets everything.
        let stop = CancellationToken::new();
        stop.cancel();
        forget_forever(Arc::clone(&bench.secrets), stop).await.expect("stopped");
        bench.resolve(ACME, "key").await.expect("a value");
        assert_eq!(bench.files.reads(), 4);
    }

    #[tokio::test]
    async fn a_secret_that_is_tried_out_is_read_and_not_kept() {
        let bench = Bench::open().await;
        bench.put(ACME, "key", json!({"ref": "file://key", "commands": ["*"]}), true).await;
        bench.put(ACME, "variable", json!({"ref": "env://ACME_KEY", "commands": ["*"]}), true).await;
        bench.files.put("acme", "key", Ok("s3cret"));
        let try_out = async |text: &str| {
            let (_, tried) = bench.secrets.try_out(tenant(ACME), &name(text)).await.expect("a secret_ref");
            tried.map_err(|error| error.code())
        };
        for reads in 1..=2 {
            assert_eq!(try_out("key").await, Ok(()));
            assert_eq!(bench.files.reads(), reads);
        }
        bench.resolve(ACME, "key").await.expect("a value");
        assert_eq!(bench.files.reads(), 3);
        for (found, code) in [
            (NoValue::Missing, "NO_VALUE"),
            (NoValue::Unfit("it is empty"), "NO_VALUE"),
            (NoValue::Unavailable("it is locked".to_owned()), "UNAVAILABLE"),
        ] {
            bench.files.put("acme", "key", Err(found));
            assert_eq!(try_out("key").await, Err(code));
        }
        assert_eq!(try_out("variable").await, Err("NO_VALUE"), "this server has no such place");
    }

    #[tokio::test]
    async fn a_secret_that_points_elsewhere_since_its_approval_is_not_read() {
        let bench = Bench::open().await;
        let reference = |version: &str| json!({"ref": "file://key", "version": version, "commands": ["*"]});
        bench.put(ACME, "key", reference("1"), true).await;
        bench.files.put("acme", "key", Ok("s3cret"));
        let approved = bench.secrets.identities(tenant(ACME), &command("secret://key")).await.expect("read");
        let needs = SecretNeeds { command: None, names: [name("key")].into() };
        let values = bench.secrets.resolve(tenant(ACME), &needs, Some(&approved)).await.expect("values");
        assert_eq!(values["secret://key"].reveal(), "s3cret");
        bench.put(ACME, "key", reference("2"), true).await;
        let refused = bench.secrets.resolve(tenant(ACME), &needs, Some(&approved)).await.expect_err("refused");
        assert_eq!(refused.code(), "SUPERSEDED");
        assert_eq!(bench.files.reads(), 1);
        assert_eq!(bench.resolve(ACME, "key").await.expect("a value"), "s3cret", "where nothing was approved");
    }
}
