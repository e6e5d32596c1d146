//! Rights at the moment of an effect: whether the credential behind something that acts later still allows it.
//!
//! *Owner*: who applied a schedule or trigger last, or who started an execution of a workflow; it acts with the rights of that
//! credential. Enters: the owner as the ledger stores it, and the scopes that are needed now. Leaves: yes, or what was lost. A
//! token is looked up each time. A service JWT is not known to the ledger and lives for minutes only, so what a service may do
//! was decided when it asked, as for the server itself.

use bowline_model::Timestamp;
use bowline_model::start::StartSpec;
use bowline_store::{Ledger, StoreResult};

/// To start a job.
pub const JOBS_WRITE: &str = "jobs.write";
/// To say what is executed on hosts.
pub const FLEET_WRITE: &str = "fleet.write";
/// It has every other one.
const ADMIN: &str = "admin";

/// What an owner may no longer do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RightsLost {
    #[error("token {0} does not exist")]
    Unknown(String),
    #[error("token {id} ({name}) was revoked at {at}")]
    Revoked { id: String, name: String, at: Timestamp },
    #[error("token {id} ({name}) expired at {at}")]
    Expired { id: String, name: String, at: Timestamp },
    #[error("token {id} ({name}) does not have the scope {scope}")]
    Scope { id: String, name: String, scope: &'static str },
}

/// The scopes that are needed to start this.
pub fn needed_for(start: &StartSpec) -> &'static [&'static str] {
    if start.has_inline_command() { &[JOBS_WRITE, FLEET_WRITE] } else { &[JOBS_WRITE] }
}

/// Whether the owner has these scopes now.
pub async fn check(
    ledger: &dyn Ledger,
    owner: &str,
    scopes: &[&'static str],
    now: Timestamp,
) -> StoreResult<Result<(), RightsLost>> {
    let Some(id) = owner.strip_prefix("token:") else { return Ok(Ok(())) };
    let Some(token) = ledger.find_token(id.to_owned()).await? else {
        return Ok(Err(RightsLost::Unknown(id.to_owned())));
    };
    let (id, name) = (token.id, token.name);
    if let Some(at) = token.revoked_at {
        return Ok(Err(RightsLost::Revoked { id, name, at }));
    }
    if let Some(at) = token.expires_at.filter(|at| *at <= now) {
        return Ok(Err(RightsLost::Expired { id, name, at }));
    }
    Ok(match missing(&token.scopes, scopes) {
        Some(scope) => Err(RightsLost::Scope { id, name, scope }),
        None => Ok(()),
    })
}

/// The first of these scopes that a credential does not have. `held` are its scopes, with spaces between them.
pub fn missing(held: &str, scopes: &[&'static str]) -> Option<&'static str> {
    let has = |scope: &str| held.split(' ').any(|held| held == scope || held == ADMIN);
    scopes.iter().copied().find(|scope| !has(scope))
}

/// What a schedule or trigger says when its owner has lost what it needs.
pub fn lost_by_owner(lost: &RightsLost) -> String {
    format!("it acts with the rights of the token that applied it last, and {lost}; apply it again to take it over")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_administrator_has_every_scope() {
        assert_eq!(missing("jobs.read jobs.write", &[JOBS_WRITE]), None);
        assert_eq!(missing("jobs.read jobs.write", &[JOBS_WRITE, FLEET_WRITE]), Some(FLEET_WRITE));
        assert_eq!(missing("admin", &[JOBS_WRITE, FLEET_WRITE]), None);
        assert_eq!(missing("", &[JOBS_WRITE]), Some(JOBS_WRITE));
        assert_eq!(missing("jobs.writer", &[JOBS_WRITE]), Some(JOBS_WRITE));
    }
}
