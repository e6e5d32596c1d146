//! Who is calling: tokens and service JWTs, turned into a [`Caller`].
//!
//! Tokens are looked up by id and remembered for a moment, so that a revoked one is refused within seconds and a busy
//! one does not cost a question to the ledger each time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bowline_auth::{Actor, Audiences, Caller, JwtVerifier, ReplayCache, Scopes, Sighting, TokenKind, TokenText};
use bowline_model::{TenantId, Timestamp};
use bowline_store::{Clock, Ledger, TokenRecord};
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

use crate::problem::Problem;

/// How the gate judges.
#[derive(Debug)]
pub struct GateSettings {
    /// How long a token is remembered. A revoked one is refused after this at the latest.
    pub remember_ms: i64,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self { remember_ms: 2_000 }
    }
}

/// How much a credential is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// As the ledger knows it, give or take [`GateSettings::remember_ms`].
    Current,
    /// The same; and a service token is good for one such request, as for writes on the control plane.
    Once,
    /// While the ledger is unavailable, as it was known last. For metrics alone, which say what is wrong.
    LastKnown,
}

/// How long the ledger may take where the last known answer would do.
const LAST_KNOWN_WAIT: Duration = Duration::from_millis(500);

#[derive(Debug)]
struct Remembered {
    token: Option<Arc<Credential>>,
    at: Timestamp,
}

/// A token as the ledger has it, and whom it stands for, worked out when it is first used.
#[derive(Debug)]
struct Credential {
    record: Arc<TokenRecord>,
    caller: OnceLock<Arc<Caller>>,
}

/// The gate.
#[derive(Debug)]
pub struct Gate {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    jwt: Option<JwtVerifier>,
    settings: GateSettings,
    remembered: Mutex<HashMap<String, Remembered>>,
    tenants: Mutex<HashMap<TenantId, Timestamp>>,
    replays: Mutex<ReplayCache>,
}

const REMEMBERED_MAX: usize = 10_000;
/// How often a lasting request is asked whether its credential is still good. With what is remembered, an end counts
/// within five seconds.
const CHECK_EVERY: Duration = Duration::from_secs(2);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    pub fn new(
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        jwt: Option<JwtVerifier>,
        settings: GateSettings,
    ) -> Arc<Self> {
        // By the clock that service tokens are held against.
        let started_at = clock.outside().as_millis() / 1_000;
        Arc::new(Self {
            ledger,
            clock,
            jwt,
            settings,
            remembered: Mutex::default(),
            tenants: Mutex::default(),
            replays: Mutex::new(ReplayCache::new(100_000, started_at)),
        })
    }

    /// The verifier, for whoever refreshes its keys.
    pub fn jwt(&self) -> Option<&JwtVerifier> {
        self.jwt.as_ref()
    }

    /// Finds out who is calling.
    pub async fn admit(&self, headers: &HeaderMap, trust: Trust) -> Result<Arc<Caller>, Problem> {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let (Some(first), None) = (given.next(), given.next()) else {
            return Err(Problem::unauthorized("send one `Authorization: Bearer …` header"));
        };
        let text = first.to_str().ok().and_then(|text| text.split_once(' '));
        let Some((scheme, secret)) = text else { return Err(unknown()) };
        let secret = secret.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || secret.is_empty() {
            return Err(unknown());
        }
        if secret.starts_with(bowline_auth::token::PREFIX) {
            self.by_token(secret, trust).await
        } else {
            self.by_jwt(secret, trust == Trust::Once).await.map(Arc::new)
        }
    }

    async fn by_token(&self, secret: &str, trust: Trust) -> Result<Arc<Caller>, Problem> {
        let token = TokenText::parse(secret).map_err(|_| unknown())?;
        let now = self.clock.now();
        let found = self.find(&token.id().to_string(), now, trust).await?;
        let known = token.verify_found(found.as_ref().map(|found| &found.record.secret_hash));
        let Some(found) = found.filter(|_| known) else { return Err(unknown()) };
        let record = &found.record;
        if record.kind != token.kind().to_string()
            || record.revoked_at.is_some()
            || record.expires_at.is_some_and(|at| at <= now)
        {
            return Err(unknown());
        }
        Ok(Arc::clone(found.caller.get_or_init(|| Arc::new(caller_of(&token, record)))))
    }

    /// Returns when a caller that was let in would not be any more: for whatever lasts longer than an ordinary request.
    pub async fn ended(&self, caller: &Caller) {
        while self.still_good(caller).await {
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }

    /// How long a caller's credential is still good. Our own tokens end by the ledger's time, those of services by the clock of
    /// whoever made them.
    pub fn left_ms(&self, caller: &Caller) -> Option<i64> {
        let now = match &caller.actor {
            Actor::Service { .. } => self.clock.outside(),
            Actor::Token { .. } | Actor::Worker { .. } | Actor::Join { .. } => self.clock.now(),
        };
        // Whole milliseconds that are left of it: what is made with it must not outlive it by a part of one.
        Some(Timestamp::from_millis(caller.expires_at_ms?).millis_since(now))
    }

    /// Whether a caller that was let in a while ago would still be let in. While the ledger is away nobody is sent away,
    /// except those whose credential says itself that it has ended.
    pub async fn still_good(&self, caller: &Caller) -> bool {
        if self.left_ms(caller).is_some_and(|left| left <= 0) {
            return false;
        }
        let id = match &caller.actor {
            Actor::Token { id, .. } | Actor::Worker { token: id, .. } | Actor::Join { token: id } => id.to_string(),
            Actor::Service { .. } => return true,
        };
        let now = self.clock.now();
        match self.find(&id, now, Trust::Current).await {
            Ok(found) => found.is_some_and(|found| {
                let record = &found.record;
                record.revoked_at.is_none() && record.expires_at.is_none_or(|at| at > now)
            }),
            Err(_) => true,
        }
    }

    /// The caller's token, as the ledger knows it, give or take [`GateSettings::remember_ms`]; services have none.
    pub async fn token(&self, caller: &Caller) -> Result<Option<Arc<TokenRecord>>, Problem> {
        match caller.actor.token() {
            Some(id) => {
                let found = self.find(&id.to_string(), self.clock.now(), Trust::Current).await?;
                Ok(found.map(|found| Arc::clone(&found.record)))
            }
            None => Ok(None),
        }
    }

    async fn find(&self, id: &str, now: Timestamp, trust: Trust) -> Result<Option<Arc<Credential>>, Problem> {
        let known = lock(&self.remembered).get(id).map(|known| (known.token.clone(), known.at));
        if let Some((token, at)) = &known
            && now.millis_since(*at).abs() < self.settings.remember_ms
        {
            return Ok(token.clone());
        }
        let asked = self.ledger.find_token(id.to_owned());
        let found = match known.filter(|_| trust == Trust::LastKnown) {
            None => asked.await?,
            Some((last, _)) => match tokio::time::timeout(LAST_KNOWN_WAIT, asked).await {
                Ok(Ok(found)) => found,
                Ok(Err(_)) | Err(_) => return Ok(last),
            },
        };
        let credential = |record| Arc::new(Credential { record: Arc::new(record), caller: OnceLock::new() });
        let found = found.map(credential);
        let mut remembered = lock(&self.remembered);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(id.to_owned(), Remembered { token: found.clone(), at: now });
        Ok(found)
    }

    /// Forgets a token at once, here; other servers forget it within [`GateSettings::remember_ms`].
    pub fn forget(&self, id: &str) {
        lock(&self.remembered).remove(id);
    }

    async fn by_jwt(&self, secret: &str, once: bool) -> Result<Caller, Problem> {
        let Some(jwt) = &self.jwt else { return Err(unknown()) };
        // By the clock of whoever made them.
        let now = self.clock.outside().as_millis() / 1_000;
        let identity = jwt.verify(secret, now).await.map_err(|error| {
            tracing::info!("a service token was refused: {error}");
            if error.is_transient() {
                Problem::retry_later("KEYS_UNAVAILABLE", "the keys of service tokens cannot be read now")
            } else {
                unknown()
            }
        })?;
        if once {
            let Some(jti) = &identity.jti else {
                return Err(Problem::unauthorized("a service token needs a `jti` to change the control plane"));
            };
            match lock(&self.replays).seen(jti, identity.issued_at, identity.expires_at, now) {
                // What was seen before a restart is forgotten, so what is from before it counts as seen.
                Sighting::BeforeStart => {
                    return Err(Problem::unauthorized(
                        "the service token was issued before this server started, so it may have been used already; get a new one",
                    ));
                }
                Sighting::First => {}
                Sighting::Again | Sighting::Expired => return Err(unknown()),
                Sighting::Full => {
                    return Err(Problem::retry_later("KEYS_UNAVAILABLE", "too many service tokens at once"));
                }
            }
        }
        if let Some(tenant) = identity.tenant {
            self.known_tenant(TenantId::from_uuid(tenant)).await?;
        }
        Ok(Caller::from(identity))
    }

    async fn known_tenant(&self, tenant: TenantId) -> Result<(), Problem> {
        let now = self.clock.now();
        if lock(&self.tenants).get(&tenant).is_some_and(|at| now.millis_since(*at).abs() < 60_000) {
            return Ok(());
        }
        if self.ledger.find_tenant(tenant).await?.is_none() {
            return Err(Problem::not_found("TENANT_NOT_FOUND", "tenant"));
        }
        lock(&self.tenants).insert(tenant, now);
        Ok(())
    }
}

/// One answer for every credential that is not good: which part of it was wrong is nobody's business.
fn unknown() -> Problem {
    Problem::unauthorized("the credential is missing, unknown, expired or revoked")
}

/// Whom a token stands for.
fn caller_of(token: &TokenText, record: &TokenRecord) -> Caller {
    let id = token.id();
    let actor = match token.kind() {
        TokenKind::Api => Actor::Token { id, name: record.name.clone() },
        TokenKind::Join => Actor::Join { token: id },
        TokenKind::Worker => Actor::Worker { name: record.name.clone(), token: id },
    };
    let email = record.email.as_deref().and_then(|text| text.parse().ok());
    let person = record.person.clone().unwrap_or_else(|| actor.person(email.as_ref()));
    Caller {
        actor,
        tenant: record.tenant.map(|t| *t.as_uuid()),
        scopes: record.scopes.parse().unwrap_or(Scopes::EMPTY),
        audiences: Audiences::from(record.audiences.as_str()),
        email,
        person,
        expires_at_ms: record.expires_at.map(Timestamp::as_millis),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use bowline_auth::{JwtConfig, JwtKeys, SecretBytes};
    use bowline_model::clock::ClockRules;
    use bowline_store::{LedgerClock, ManualClock};
    use bowline_store_sql::{SqlLedger, SqlSettings};
    use hyper::header::HeaderValue;
    use ring::hmac;
    use serde_json::json;

    use super::*;

    const SECRET: [u8; 32] = [7; 32];
    const MINUTE_MS: i64 = 60_000;
    const DAY_MS: i64 = 86_400_000;
    /// How far the machine's clock is from the ledger's last known moment: both are far.
    const FAR: [i64; 2] = [-3 * MINUTE_MS, 400 * DAY_MS];

    struct Held {
        machine: Arc<ManualClock>,
        clock: Arc<LedgerClock>,
        gate: Arc<Gate>,
    }

    /// A server whose clock is held, as it was last written to at one moment and its machine's clock shows another.
    fn held(by_ms: i64) -> Held {
        let known = Timestamp::from_millis(1_800_000_000_000);
        let machine = ManualClock::at(known.plus_millis(by_ms));
        let clock = LedgerClock::new(machine.clone(), Some(ClockRules::default()));
        clock.learn(Some(known), None);
        assert_eq!(clock.now(), known);
        assert!(clock.is_held());
        let ledger = SqlLedger::open_memory_alone(&SqlSettings::new(machine.clone())).expect("a ledger");
        let jwt = JwtVerifier::new(JwtConfig {
            issuer: "ops".to_owned(),
            audience_control: "control".to_owned(),
            audience_exec: "exec".to_owned(),
            lifetime_max_s: 300,
            keys: JwtKeys::SharedSecret(SecretBytes::new(SECRET)),
        });
        let jwt = Some(jwt.expect("a verifier"));
        let gate = Gate::new(Arc::new(ledger), clock.clone(), jwt, GateSettings::default());
        Held { machine, clock, gate }
    }

    impl Held {
        /// The headers of a request with a service token that was issued now, or so many seconds ago.
        fn headers(&self, jti: &str, ago_s: i64) -> HeaderMap {
            let issued_s = self.machine.now().as_millis() / 1_000 - ago_s;
            let claims = json!({
                "iss": "ops", "aud": "control", "sub": "svc:ci", "iat": issued_s, "exp": issued_s + 60, "jti": jti,
                "scopes": ["orchestrator.control.write"],
            });
            let parts = [json!({"alg": "HS256", "typ": "JWT"}), claims];
            let signed = parts.map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
            let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &SECRET), signed.as_bytes());
            let text = format!("Bearer {signed}.{}", URL_SAFE_NO_PAD.encode(signature));
            HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::try_from(text).expect("a header"))])
        }
    }

    #[tokio::test]
    async fn service_tokens_are_held_against_their_own_clock_while_the_ledgers_is_held() {
        for by_ms in FAR {
            let held = held(by_ms);
            let caller = held.gate.admit(&held.headers("first", 0), Trust::Once).await;
            assert!(caller.is_ok(), "{by_ms}: {caller:?}");
            let again = held.gate.admit(&held.headers("first", 0), Trust::Once).await;
            assert!(again.is_err(), "{by_ms}: the same one a second time");
            let before = held.gate.admit(&held.headers("before", 5), Trust::Once).await;
            assert!(before.is_err(), "{by_ms}: one from before the start may have been used already");
        }
    }

    #[tokio::test]
    async fn a_service_token_ends_when_it_says_while_the_ledgers_clock_is_held() {
        for by_ms in FAR {
            let held = held(by_ms);
            let caller = held.gate.admit(&held.headers("first", 0), Trust::Once).await.expect("a good token");
            assert_eq!(held.gate.left_ms(&caller), Some(60_000), "{by_ms}");
            held.machine.advance_ms(59_000);
            assert!(held.gate.still_good(&caller).await, "{by_ms}");
            held.machine.advance_ms(1_000);
            assert!(!held.gate.still_good(&caller).await, "{by_ms}");
        }
    }

    #[tokio::test]
    async fn our_own_tokens_end_by_the_time_of_the_ledger() {
        for by_ms in FAR {
            let held = held(by_ms);
            let service = held.gate.admit(&held.headers("first", 0), Trust::Once).await.expect("a good token");
            let token = TokenText::mint(TokenKind::Api, [1; bowline_auth::token::ENTROPY_BYTES]);
            let actor = Actor::Token { id: token.id(), name: "ci".to_owned() };
            let expires_at_ms = Some(held.clock.now().as_millis() + 60_000);
            let caller = Caller { actor, expires_at_ms, ..(*service).clone() };
            assert_eq!(held.gate.left_ms(&caller), Some(60_000), "{by_ms}");
        }
    }
}
