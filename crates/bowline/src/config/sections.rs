//! The sections, with their defaults and what they know about themselves.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use bowline_api::{ConnectionLimits, ShareLimits};
use bowline_auth::SecretText;
use bowline_engine::QuotaLimits;
use bowline_model::fleet::MarginRules;
use bowline_model::lane::LaneWeights;
use bowline_model::lease::LeaseTimes;
use bowline_model::worker::Strategy;
use bowline_store_sql::{InvalidTarget, PgTarget};
use serde::Deserialize;

use super::clock::ClockConfig;
use super::commands::CommandsConfig;
use super::egress::EgressConfig;
use super::errors::ConfigErrors;
use super::jobs::JobsConfig;
use super::secrets::SecretsConfig;
use super::tls::TlsConfig;
use crate::log::AccessLog;
use crate::role::Role;

/// Everything that can be set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub server: ServerConfig,
    pub tls: TlsConfig,
    pub database: DatabaseConfig,
    pub lease: LeaseConfig,
    pub dispatch: DispatchConfig,
    pub jobs: JobsConfig,
    pub commands: CommandsConfig,
    pub builtin: BuiltInConfig,
    pub retention: RetentionConfig,
    pub auth: AuthConfig,
    pub limits: LimitsConfig,
    pub quotas: QuotasConfig,
    pub log: LogConfig,
    pub secrets: SecretsConfig,
    pub egress: EgressConfig,
    pub clock: ClockConfig,
}

impl Config {
    /// The sections that say something else, other than `log`, which applies while the server runs. What is not shown
    /// (secrets) is not compared.
    pub fn differs(&self, other: &Self) -> Vec<&'static str> {
        fn text(section: &impl std::fmt::Debug) -> String {
            format!("{section:?}")
        }
        // Without `..`, so that a new section does not compile until it is compared here or left out on purpose.
        let Self {
            server,
            tls,
            database,
            lease,
            dispatch,
            jobs,
            commands,
            builtin,
            retention,
            auth,
            limits,
            quotas,
            log: _,
            secrets,
            egress,
            clock,
        } = self;
        let sections = [
            ("server", text(server), text(&other.server)),
            ("tls", text(tls), text(&other.tls)),
            ("database", text(database), text(&other.database)),
            ("lease", text(lease), text(&other.lease)),
            ("dispatch", text(dispatch), text(&other.dispatch)),
            ("jobs", text(jobs), text(&other.jobs)),
            ("commands", text(commands), text(&other.commands)),
            ("builtin", text(builtin), text(&other.builtin)),
            ("retention", text(retention), text(&other.retention)),
            ("auth", text(auth), text(&other.auth)),
            ("limits", text(limits), text(&other.limits)),
            ("quotas", text(quotas), text(&other.quotas)),
            ("secrets", text(secrets), text(&other.secrets)),
            ("egress", text(egress), text(&other.egress)),
            ("clock", text(clock), text(&other.clock)),
        ];
        sections.into_iter().filter(|(_, one, two)| one != two).map(|(name, ..)| name).collect()
    }
}

/// Where the server listens and keeps its things. (since 0.1)
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    pub listen: SocketAddr,
    /// Which part of the work this server takes: all, api, worker.
    pub role: Role,
    pub data_dir: PathBuf,
    /// Where output is kept; `objects` in `data_dir` unless given. All servers of a ledger share it.
    pub objects_dir: Option<PathBuf>,
    /// How long running work may take to finish when the server is asked to stop.
    pub close_ms: u64,
    /// How long requests are still taken after readiness went off, so that balancers see it first.
    pub farewell_ms: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7420)),
            role: Role::All,
            data_dir: PathBuf::from("bowline-data"),
            objects_dir: None,
            close_ms: 25_000,
            farewell_ms: 500,
        }
    }
}

impl ServerConfig {
    pub fn objects_dir(&self) -> PathBuf {
        self.objects_dir.clone().unwrap_or_else(|| self.data_dir.join("objects"))
    }
}

/// Which ledger. (since 0.1)
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseConfig {
    /// A PostgreSQL URL; the embedded ledger in the data directory unless given.
    pub url: Option<String>,
    pub connect_timeout_ms: u64,
    pub statement_timeout_ms: u64,
    /// What libpq's `PGSSL…` variables say, by the names it has in a URL.
    #[serde(skip)]
    pub ssl_environment: Vec<(&'static str, String)>,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self { url: None, connect_timeout_ms: 2_000, statement_timeout_ms: 5_000, ssl_environment: Vec::new() }
    }
}

impl DatabaseConfig {
    /// The URL, and what the environment says of TLS where the URL is silent.
    pub fn full_url(&self) -> Option<String> {
        let said = self.ssl_environment.iter().map(|(name, value)| (*name, value.as_str()));
        self.url.as_ref().map(|url| bowline_store_sql::with_defaults(url, said))
    }

    /// Where that is, and how far the way there is protected.
    pub fn target(&self) -> Option<Result<PgTarget, InvalidTarget>> {
        self.full_url().map(|url| PgTarget::parse(&url))
    }
}

/// How long workers are trusted without a word from them. (since 0.1)
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LeaseConfig {
    /// A run whose worker stays silent this long is given up.
    pub ttl_ms: i64,
    /// A hand-out nobody confirmed in this time goes to somebody else.
    pub accept_ms: i64,
    /// How often a worker renews. Three missed renewals must fit inside `ttl_ms`.
    pub heartbeat_ms: i64,
    /// How long past its time limit a run that does not stop is waited for.
    pub deadline_grace_ms: i64,
    /// A host that several agents reach is kept while a run that went missing there could still go on, but no longer than
    /// this. 0 keeps none.
    pub host_margin_max_ms: i64,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        let times = LeaseTimes::default();
        Self {
            ttl_ms: times.ttl_ms,
            accept_ms: times.accept_ms,
            heartbeat_ms: times.heartbeat_ms,
            deadline_grace_ms: times.deadline_grace_ms,
            host_margin_max_ms: MarginRules::default().max_ms,
        }
    }
}

impl LeaseConfig {
    pub const fn margin(&self) -> MarginRules {
        MarginRules { start_ms: self.ttl_ms, max_ms: self.host_margin_max_ms }
    }

    pub const fn times(&self) -> LeaseTimes {
        LeaseTimes {
            ttl_ms: self.ttl_ms,
            accept_ms: self.accept_ms,
            heartbeat_ms: self.heartbeat_ms,
            deadline_grace_ms: self.deadline_grace_ms,
        }
    }
}

/// Who gets the next run, and how lanes share. (since 0.1)
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DispatchConfig {
    pub strategy: Strategy,
    pub weights: LaneWeights,
}

/// The worker inside the server. (since 0.1)
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BuiltInConfig {
    /// Runs at once; 0 switches it off.
    pub slots: u32,
}

impl Default for BuiltInConfig {
    fn default() -> Self {
        Self { slots: 1_000 }
    }
}

/// How long things are kept. (since 0.1)
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionConfig {
    pub finished_jobs_days: f64,
    pub events_days: f64,
    /// How long a second ask with the same key is the same ask.
    pub idempotency_hours: f64,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self { finished_jobs_days: 14.0, events_days: 30.0, idempotency_hours: 72.0 }
    }
}

/// Who is believed. Tokens always are; service JWTs when an issuer and a key are set. (since 0.1)
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthConfig {
    pub jwt_issuer: Option<String>,
    pub jwt_audience_control: String,
    pub jwt_audience_exec: String,
    /// HS256, at least 32 bytes.
    pub jwt_shared_secret: Option<SecretText>,
    pub jwt_jwks_url: Option<String>,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            jwt_issuer: None,
            jwt_audience_control: "orchestrator-control".to_owned(),
            jwt_audience_exec: "orchestrator-exec".to_owned(),
            jwt_shared_secret: None,
            jwt_jwks_url: None,
        }
    }
}

/// How much a stranger may send. (since 0.1)
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    pub body_bytes: usize,
    pub batch_body_bytes: usize,
    /// Of `PUT /inventories/{name}` and of files that are imported.
    pub inventory_body_bytes: usize,
    pub streams: usize,
    /// Of those, for one tenant and for one credential; half and a quarter unless set.
    pub streams_per_tenant: Option<usize>,
    pub streams_per_token: Option<usize>,
    /// Requests of workers that wait for work at once, in all and for one tenant.
    pub polls: usize,
    pub polls_per_tenant: Option<usize>,
    /// Open connections, in all and from one address.
    pub connections: usize,
    pub connections_per_address: Option<usize>,
    /// Submissions that may wait to be stored before callers are told to come back later.
    pub backlog_jobs: usize,
    /// Other writes of one tenant that may wait to be stored: about one for each event, run, result or resource.
    pub waiting_writes_per_tenant: usize,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            body_bytes: 1 << 20,
            batch_body_bytes: 8 << 20,
            inventory_body_bytes: 32 << 20,
            streams: 500,
            streams_per_tenant: None,
            streams_per_token: None,
            polls: 20_000,
            polls_per_tenant: None,
            connections: 20_000,
            connections_per_address: None,
            backlog_jobs: 50_000,
            waiting_writes_per_tenant: 16_384,
        }
    }
}

impl LimitsConfig {
    pub fn stream_shares(&self) -> ShareLimits {
        let usual = ShareLimits::of(self.streams);
        ShareLimits {
            total: self.streams,
            per_tenant: self.streams_per_tenant.unwrap_or(usual.per_tenant),
            per_token: self.streams_per_token.unwrap_or(usual.per_token),
        }
    }

    /// A fleet has an agent for each host, and each waits with a token of its own.
    pub fn poll_shares(&self) -> ShareLimits {
        let per_tenant = self.polls_per_tenant.unwrap_or_else(|| three_quarters(self.polls));
        ShareLimits { total: self.polls, per_tenant, per_token: POLLS_PER_TOKEN }
    }

    /// What fits into the descriptors that this process may have, with some left for the ledger and for calls.
    pub fn connection_limits(&self, descriptors: u64) -> ConnectionLimits {
        let room = usize::try_from(descriptors.saturating_sub(DESCRIPTORS_KEPT)).unwrap_or(usize::MAX).max(64);
        let total = self.connections.min(room);
        let per_address = self.connections_per_address.unwrap_or_else(|| three_quarters(total)).min(total);
        ConnectionLimits { total, per_address }
    }
}

const POLLS_PER_TOKEN: usize = 64;
/// Descriptors that are not for connections of callers.
const DESCRIPTORS_KEPT: u64 = 256;

const fn three_quarters(whole: usize) -> usize {
    let part = whole / 4 * 3;
    if part == 0 { 1 } else { part }
}

/// What each tenant may have. (since 0.1)
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuotasConfig {
    /// Jobs that wait for a worker or for a moment, and executions that have begun and not ended.
    pub queued_jobs: u64,
    /// Payloads, results and output of jobs, what executions record and are sent, and hosts.
    pub stored_bytes: u64,
    /// The largest result of a run that is kept in the ledger; larger ones are kept in the object store.
    pub inline_result_bytes: u64,
    /// The largest result of a run.
    pub result_bytes: u64,
}

impl Default for QuotasConfig {
    fn default() -> Self {
        let QuotaLimits { queued_jobs, stored_bytes, inline_result_bytes, result_bytes } = QuotaLimits::default();
        Self { queued_jobs, stored_bytes, inline_result_bytes, result_bytes }
    }
}

impl QuotasConfig {
    pub const fn limits(&self) -> QuotaLimits {
        let Self { queued_jobs, stored_bytes, inline_result_bytes, result_bytes } = *self;
        QuotaLimits { queued_jobs, stored_bytes, inline_result_bytes, result_bytes }
    }
}

/// What is logged. (since 0.1)
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// error, warn, info, debug, trace; or a filter such as `info,bowline_engine=debug`.
    pub level: String,
    /// Requests that get a line: auto, all, errors, off.
    pub access: AccessLog,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".to_owned(), access: AccessLog::Auto }
    }
}

impl Config {
    /// Whether everything fits together; if not, which fields are wrong and why.
    pub fn check(&self, errors: &mut ConfigErrors) {
        errors.check("lease", self.lease.times().check().context("the section [lease] does not fit together"));
        errors.check("dispatch", self.dispatch.weights.check().context("the section [dispatch.weights] is wrong"));
        errors.check("builtin", must(self.builtin.slots <= 100_000, "builtin.slots must be at most 100000"));
        for (name, days) in [
            ("retention.finished_jobs_days", self.retention.finished_jobs_days),
            ("retention.events_days", self.retention.events_days),
            ("retention.idempotency_hours", self.retention.idempotency_hours),
        ] {
            let what = format!("{name} must be more than 0 and less than 100000");
            errors.check("retention", must(days > 0.0 && days < 100_000.0, what));
        }
        self.limits.check(errors);
        self.quotas.check(errors);
        self.database.check(errors);
        errors.check("tls", self.tls.check());
        errors.check("clock", self.clock.check());
        errors.check("jobs", self.jobs.check());
        errors.check("commands", self.commands.check());
        errors.check("secrets", self.secrets.check());
        errors.check("egress", self.egress.check());
        errors.check("auth", self.auth.check());
    }
}

fn must(holds: bool, what: impl std::fmt::Display) -> anyhow::Result<()> {
    if holds { Ok(()) } else { Err(anyhow::anyhow!("{what}")) }
}

impl LimitsConfig {
    fn check(&self, errors: &mut ConfigErrors) {
        for (name, bytes) in [
            ("limits.body_bytes", self.body_bytes),
            ("limits.batch_body_bytes", self.batch_body_bytes),
            ("limits.inventory_body_bytes", self.inventory_body_bytes),
        ] {
            let what = format!("{name} must be between 1024 and 268435456");
            errors.check("limits", must((1_024..=256 << 20).contains(&bytes), what));
        }
        for (name, count) in [
            ("limits.streams", Some(self.streams)),
            ("limits.streams_per_tenant", self.streams_per_tenant),
            ("limits.streams_per_token", self.streams_per_token),
            ("limits.polls", Some(self.polls)),
            ("limits.polls_per_tenant", self.polls_per_tenant),
            ("limits.connections", Some(self.connections)),
            ("limits.connections_per_address", self.connections_per_address),
            ("limits.waiting_writes_per_tenant", Some(self.waiting_writes_per_tenant)),
        ] {
            errors.check("limits", must(count != Some(0), format!("{name} must be more than 0")));
        }
        let what = "limits.backlog_jobs must be at least 1000, or a full batch would never fit";
        errors.check("limits", must(self.backlog_jobs >= 1_000, what));
    }
}

impl QuotasConfig {
    fn check(&self, errors: &mut ConfigErrors) {
        let what = "quotas.result_bytes must be between 1024 and 268435456";
        errors.check("quotas", must((1_024..=256 << 20).contains(&self.result_bytes), what));
        let what = "quotas.inline_result_bytes must not be more than quotas.result_bytes";
        errors.check("quotas", must(self.inline_result_bytes <= self.result_bytes, what));
    }
}

impl DatabaseConfig {
    fn check(&self, errors: &mut ConfigErrors) {
        let what = "database.connect_timeout_ms and database.statement_timeout_ms must be more than 0";
        errors.check("database", must(self.connect_timeout_ms > 0 && self.statement_timeout_ms > 0, what));
        let postgres = |url: &String| url.starts_with("postgres://") || url.starts_with("postgresql://");
        if !self.url.as_ref().is_none_or(postgres) {
            let what = "database.url (DATABASE_URL) must be a postgres:// address";
            return errors.check("database", must(false, what));
        }
        let target = self.target().transpose().context("database.url (DATABASE_URL, PGSSLMODE) is wrong");
        errors.check("database", target.map(drop));
    }
}

impl AuthConfig {
    fn check(&self) -> anyhow::Result<()> {
        match (&self.jwt_shared_secret, &self.jwt_jwks_url) {
            (Some(_), Some(_)) => {
                bail!(
                    "set either auth.jwt_shared_secret (ORCH_JWT_SHARED_SECRET) or auth.jwt_jwks_url (ORCH_JWT_JWKS_URL)"
                )
            }
            (None, None) => return Ok(()),
            _ => {}
        }
        if self.jwt_issuer.as_ref().is_none_or(String::is_empty) {
            bail!("auth.jwt_issuer (ORCH_JWT_ISSUER) must be set when service tokens are believed");
        }
        if self.jwt_shared_secret.as_ref().is_some_and(|s| s.expose().len() < 32) {
            bail!("auth.jwt_shared_secret (ORCH_JWT_SHARED_SECRET) must have at least 32 bytes");
        }
        if let Some(url) = &self.jwt_jwks_url {
            bowline_http::check_encrypted(url).map_err(|why| {
                anyhow::anyhow!("auth.jwt_jwks_url (ORCH_JWT_JWKS_URL) {why}; who can change the keys on their way can issue identities")
            })?;
        }
        Ok(())
    }
}
