//! The caller of one request, once its credential was believed.
//!
//! Enters: what a token's row or a verified JWT says. Leaves: answers to "may they", as `Ok` or a [`Denied`].
//! Never here: anything from the request's body or query. Authority comes from the credential alone.

use std::fmt;

use uuid::Uuid;

use crate::audience::{Audience, Audiences};
use crate::email::Email;
use crate::jwt::ServiceIdentity;
use crate::scope::{Scope, Scopes};
use crate::token::TokenId;

/// Who acts, as the audit log names them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Actor {
    /// Somebody with an API token; `name` is what its maker called it.
    Token { id: TokenId, name: String },
    /// A service with a JWT.
    Service { subject: String },
    /// A worker, and the token it came with.
    Worker { name: String, token: TokenId },
    /// An agent that wants to join with this token.
    Join { token: TokenId },
}

/// One line for logs and the audit: `token:<id>`, `service:<subject>`, `worker:<name>`.
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token { id, .. } => write!(f, "token:{id}"),
            Self::Service { subject } => write!(f, "service:{subject}"),
            Self::Worker { name, .. } => write!(f, "worker:{name}"),
            Self::Join { token } => write!(f, "join:{token}"),
        }
    }
}

/// Somebody we believe, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub actor: Actor,
    /// The tenant the credential is bound to. Absent is absent: there is no default tenant.
    pub tenant: Option<Uuid>,
    pub scopes: Scopes,
    pub audiences: Audiences,
    /// Where to reach them, if the credential says so. It says nothing about what they may do.
    pub email: Option<Email>,
    /// As which person they count where people are counted: `mail:<address>`, `token:<id>` or `service:<subject>`. A token
    /// made by a token counts as its maker.
    pub person: String,
    /// When the credential ends, in Unix milliseconds. `None`: it does not.
    pub expires_at_ms: Option<i64>,
}

impl Actor {
    /// The token they came with; a service has none.
    pub fn token(&self) -> Option<&TokenId> {
        match self {
            Self::Token { id, .. } | Self::Worker { token: id, .. } | Self::Join { token: id } => Some(id),
            Self::Service { .. } => None,
        }
    }

    /// As which person they count, unless their credential says otherwise.
    pub fn person(&self, email: Option<&Email>) -> String {
        email.map_or_else(|| self.to_string(), |email| person_at(email.as_str()))
    }
}

/// The person at an address. Addresses that differ in case only are one person's.
pub fn person_at(email: &str) -> String {
    format!("mail:{}", email.to_lowercase())
}

impl Caller {
    /// As which person a token counts that this caller makes for `email`. It is the caller's own, whatever address it
    /// shows: otherwise one person could be two. Administrators are the exception, because people get their first token
    /// from one: what they make for an address counts as the person there.
    pub fn person_of_made(&self, email: Option<&str>) -> String {
        match email {
            Some(email) if self.scopes.allows(Scope::Admin) => person_at(email),
            _ => self.person.clone(),
        }
    }

    pub fn require(&self, scope: Scope) -> Result<(), Denied> {
        if self.scopes.allows(scope) { Ok(()) } else { Err(Denied::Scope(scope)) }
    }

    pub fn require_audience(&self, audience: Audience) -> Result<(), Denied> {
        if self.audiences.contains(audience) { Ok(()) } else { Err(Denied::Audience(audience)) }
    }

    /// The tenant this caller acts for.
    pub fn tenant(&self) -> Result<Uuid, Denied> {
        self.tenant.ok_or(Denied::NoTenant)
    }

    /// Whether this caller may make a credential for `audiences`.
    pub fn require_audiences(&self, audiences: Audiences) -> Result<(), Denied> {
        if audiences.is_subset_of(self.audiences) { Ok(()) } else { Err(Denied::GrantAudience(self.audiences)) }
    }

    /// Whether this caller may make a credential with `scopes`: nobody hands on more than they have.
    pub fn require_grant(&self, scopes: Scopes) -> Result<(), Denied> {
        if scopes.is_subset_of(self.scopes) {
            return Ok(());
        }
        Err(Denied::Grant(scopes.iter().filter(|scope| !self.scopes.allows(*scope)).collect()))
    }
}

impl From<ServiceIdentity> for Caller {
    fn from(identity: ServiceIdentity) -> Self {
        let actor = Actor::Service { subject: identity.subject };
        Self {
            person: actor.person(identity.email.as_ref()),
            actor,
            tenant: identity.tenant,
            scopes: identity.scopes,
            audiences: identity.audiences,
            email: identity.email,
            expires_at_ms: Some(identity.expires_at.saturating_mul(1_000)),
        }
    }
}

/// Why a believed caller may not do this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("this needs the scope {0}")]
    Scope(Scope),
    /// Answered like a bad credential (401): it is a good one, but not for this door.
    #[error("this credential was not made for the {0} audience")]
    Audience(Audience),
    #[error("this credential is bound to no tenant")]
    NoTenant,
    #[error("scopes cannot be granted by somebody who does not hold them: {0}")]
    Grant(Scopes),
    #[error("a token is good for no audience that its maker's credential is not good for, which is: {0}")]
    GrantAudience(Audiences),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(scopes: Scopes) -> Caller {
        Caller {
            actor: Actor::Token { id: TokenId::from_bytes([0; 10]), name: "ci".to_owned() },
            tenant: None,
            scopes,
            audiences: Audiences::of(Audience::Exec),
            email: None,
            person: "token:0000000000000000".to_owned(),
            expires_at_ms: None,
        }
    }

    #[test]
    fn a_made_token_counts_as_its_maker() {
        let maker = caller(Scopes::of(Scope::TokensWrite));
        assert_eq!(maker.person_of_made(None), maker.person);
        assert_eq!(maker.person_of_made(Some("bob@example.com")), maker.person, "an address makes nobody else of it");
        let admin = caller(Scopes::of(Scope::Admin));
        assert_eq!(admin.person_of_made(None), admin.person);
        assert_eq!(admin.person_of_made(Some("Bob@example.com")), "mail:bob@example.com");
    }

    #[test]
    fn people_are_known_by_their_address() {
        let actor = Actor::Service { subject: "ann".to_owned() };
        assert_eq!(actor.person(None), "service:ann");
        let email: Email = "Ann@Example.com".parse().expect("an address");
        assert_eq!(actor.person(Some(&email)), "mail:ann@example.com");
        assert_eq!(actor.token(), None);
    }

    #[test]
    fn a_missing_scope_is_named() {
        let caller = caller(Scopes::of(Scope::JobsRead));
        assert_eq!(caller.require(Scope::JobsRead), Ok(()));
        let denied = caller.require(Scope::DlqWrite).unwrap_err();
        assert_eq!(denied, Denied::Scope(Scope::DlqWrite));
        assert_eq!(denied.to_string(), "this needs the scope dlq.write");
    }

    #[test]
    fn scopes_do_not_open_another_door() {
        let admin = caller(Scopes::of(Scope::Admin));
        assert_eq!(admin.require_audience(Audience::Exec), Ok(()));
        let denied = admin.require_audience(Audience::Control).unwrap_err();
        assert_eq!(denied.to_string(), "this credential was not made for the control audience");
    }

    /// B008: no tenant means none, for an admin too.
    #[test]
    fn there_is_no_default_tenant() {
        let mut admin = caller(Scopes::of(Scope::Admin));
        assert_eq!(admin.tenant(), Err(Denied::NoTenant));
        admin.tenant = Some(Uuid::from_u128(7));
        assert_eq!(admin.tenant(), Ok(Uuid::from_u128(7)));
    }

    /// B105: scopes wider than the creator's.
    #[test]
    fn nobody_grants_what_they_do_not_hold() {
        let caller = caller(Scopes::of(Scope::TokensWrite).with(Scope::JobsRead));
        assert_eq!(caller.require_grant(Scopes::of(Scope::JobsRead)), Ok(()));
        let denied = caller.require_grant(Scopes::of(Scope::JobsRead).with(Scope::Admin).with(Scope::DlqRead));
        assert_eq!(
            denied.unwrap_err().to_string(),
            "scopes cannot be granted by somebody who does not hold them: dlq.read admin"
        );
    }

    #[test]
    fn nobody_opens_a_door_that_is_closed_to_them() {
        let exec = caller(Scopes::of(Scope::TokensWrite));
        assert_eq!(exec.require_audiences(Audiences::of(Audience::Exec)), Ok(()));
        let denied = exec.require_audiences(Audiences::ALL).unwrap_err().to_string();
        assert!(denied.ends_with("which is: exec"), "{denied}");
    }

    #[test]
    fn actors_have_one_line_each() {
        let id = TokenId::from_bytes([0; 10]);
        let actors = [
            Actor::Token { id, name: "ci".to_owned() },
            Actor::Service { subject: "svc:console".to_owned() },
            Actor::Worker { name: "w1".to_owned(), token: id },
        ];
        let lines: Vec<_> = actors.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["token:0000000000000000", "service:svc:console", "worker:w1"]);
    }

    #[test]
    fn a_service_identity_becomes_a_caller() {
        let caller = Caller::from(ServiceIdentity {
            subject: "svc:console".to_owned(),
            audiences: Audiences::of(Audience::Control),
            scopes: Scopes::of(Scope::ControlRead),
            tenant: Some(Uuid::from_u128(7)),
            jti: None,
            email: "ann@example.com".parse().ok(),
            issued_at: 0,
            expires_at: 7,
        });
        assert_eq!(caller.expires_at_ms, Some(7_000));
        assert_eq!(caller.actor.to_string(), "service:svc:console");
        assert_eq!(caller.tenant(), Ok(Uuid::from_u128(7)));
        assert_eq!(caller.require(Scope::ControlRead), Ok(()));
        assert_eq!(caller.require_audience(Audience::Control), Ok(()));
        assert_eq!(caller.email.as_ref().map(Email::as_str), Some("ann@example.com"));
    }
}
