//! Refused requests (401, 403), for the audit trail.
//!
//! Equal refusals are counted together and written every few seconds, so that a flood of them costs a bounded number of
//! records: at most [`KINDS_MAX`] a round, and one more that says how many requests were left out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_auth::Caller;
use bowline_model::TenantId;
use bowline_model::audit::{Action, Author, Chain, Deed};
use bowline_store::Ledger;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::problem::Problem;

/// Different refusals that one round records.
const KINDS_MAX: usize = 100;
/// How long equal refusals are counted together.
const ROUND: Duration = Duration::from_secs(10);
/// How long a stopping server may take to write the last round.
const LAST_ROUND: Duration = Duration::from_secs(2);

/// What makes two refusals equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    chain: Chain,
    actor: String,
    scopes: String,
    ip: Option<IpAddr>,
    route: &'static str,
    method: &'static str,
    status: u16,
    code: &'static str,
    message: String,
}

#[derive(Debug, Default)]
struct Round {
    /// How often, and the id of the first request.
    counted: HashMap<Kind, (u64, Arc<str>)>,
    left_out: u64,
}

/// A request that was refused.
#[derive(Debug)]
pub struct Refusal<'a> {
    /// Who it was, if the credential was good.
    pub caller: Option<&'a Caller>,
    pub ip: Option<IpAddr>,
    pub route: &'static str,
    pub method: &'static str,
    pub problem: &'a Problem,
    pub request_id: &'a Arc<str>,
}

/// The refusals of this server that are not written yet.
#[derive(Debug)]
pub struct Refusals {
    ledger: Arc<dyn Ledger>,
    round: Mutex<Round>,
}

impl Refusals {
    pub fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger, round: Mutex::default() }
    }

    fn round(&self) -> MutexGuard<'_, Round> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, refusal: &Refusal<'_>) {
        let Refusal { caller, ip, route, method, problem, request_id } = *refusal;
        let tenant = caller.and_then(|caller| caller.tenant).map(TenantId::from_uuid);
        let kind = Kind {
            chain: Chain::of(tenant),
            actor: caller.map_or_else(|| "unknown".to_owned(), |caller| caller.actor.to_string()),
            scopes: caller.map_or_else(String::new, |caller| caller.scopes.to_string()),
            ip,
            route,
            method,
            status: problem.status.as_u16(),
            code: problem.code,
            message: problem.message.clone(),
        };
        let mut round = self.round();
        if let Some((times, _)) = round.counted.get_mut(&kind) {
            *times += 1;
        } else if round.counted.len() < KINDS_MAX {
            round.counted.insert(kind, (1, Arc::clone(request_id)));
        } else {
            round.left_out += 1;
        }
    }

    /// Writes a round every few seconds until the server stops.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    let _ = tokio::time::timeout(LAST_ROUND, self.write()).await;
                    return Ok(());
                }
                () = tokio::time::sleep(ROUND) => self.write().await,
            }
        }
    }

    /// Writes what was counted so far. While the ledger is unavailable it is counted on.
    pub async fn write(&self) {
        let round = std::mem::take(&mut *self.round());
        if round.counted.is_empty() {
            return;
        }
        let Err(error) = self.ledger.record_audit(entries(&round)).await else { return };
        tracing::warn!(%error, refusals = round.counted.len(), "cannot record refused requests, retrying");
        let mut newer = self.round();
        newer.left_out += round.left_out;
        for (kind, (times, request_id)) in round.counted {
            if let Some((counted, _)) = newer.counted.get_mut(&kind) {
                *counted += times;
            } else if newer.counted.len() < KINDS_MAX {
                newer.counted.insert(kind, (times, request_id));
            } else {
                newer.left_out += times;
            }
        }
    }
}

fn entries(round: &Round) -> Vec<Deed> {
    let mut entries: Vec<Deed> = round
        .counted
        .iter()
        .map(|(kind, (times, request_id))| Deed {
            chain: kind.chain,
            author: Author {
                name: kind.actor.as_str().into(),
                scopes: kind.scopes.as_str().into(),
                request_id: Some(Arc::clone(request_id)),
                ip: kind.ip.map(|ip| ip.to_string().into()),
                ..Author::default()
            },
            action: Action::AccessRefused,
            resource: format!("route/{} {}", kind.method, kind.route),
            diff: Some(json!({"times": times, "code": kind.code}).to_string()),
            reason: None,
            result: format!("refused: {} {}", kind.status, kind.message),
        })
        .collect();
    // One order, whatever the map's: records of one round can be compared.
    entries.sort_by(|a, b| (&a.author.name, &a.resource).cmp(&(&b.author.name, &b.resource)));
    if round.left_out > 0 {
        entries.push(Deed {
            chain: Chain::of(None),
            author: Author::from("server"),
            action: Action::AccessRefused,
            resource: "route".to_owned(),
            diff: Some(json!({"times": round.left_out}).to_string()),
            reason: None,
            result: "refused: more different requests than are recorded one by one".to_owned(),
        });
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(n: usize) -> Kind {
        Kind {
            chain: Chain::of(None),
            actor: "unknown".to_owned(),
            scopes: String::new(),
            ip: None,
            route: "/jobs",
            method: "GET",
            status: 401,
            code: "AUTH_REQUIRED",
            message: format!("{n}"),
        }
    }

    #[test]
    fn a_round_is_bounded_and_says_what_it_left_out() {
        let mut round = Round::default();
        for n in 0..3 {
            round.counted.insert(kind(n), (7, "r".into()));
        }
        assert_eq!(entries(&round).len(), 3);
        assert!(
            entries(&round).iter().all(|entry| entry.diff.as_deref() == Some(r#"{"code":"AUTH_REQUIRED","times":7}"#))
        );
        round.left_out = 41;
        let entries = entries(&round);
        assert_eq!(entries.len(), 4);
        assert_eq!(entries[3].diff.as_deref(), Some(r#"{"times":41}"#));
    }
}
