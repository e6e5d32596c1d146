//! Refused requests (401, 403), for the audit trail.
//!
//! Equal refusals are counted together and written every few seconds, so that a flood of them costs a bounded number of
//! records: at most [`KINDS_MAX`] a round and chain, and one more that says how many requests were left out. So a caller
//! without a credential, whose refusals are in the system's chain, leaves room for those of every tenant.

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

/// Different refusals that one round records in one chain.
const KINDS_MAX: usize = 100;
/// Chains that one round records refusals in; those of others count as left out of the system's.
const CHAINS_MAX: usize = 100;
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

/// The refusals of one chain.
#[derive(Debug, Default)]
struct Counted {
    /// How often, and the id of the first request.
    kinds: HashMap<Kind, (u64, Arc<str>)>,
    left_out: u64,
}

#[derive(Debug, Default)]
struct Round {
    chains: HashMap<Chain, Counted>,
}

impl Round {
    fn add(&mut self, kind: Kind, more: u64, request_id: Arc<str>) {
        let has_room = self.has_room(kind.chain);
        let counted = self.of(kind.chain);
        if let Some((times, _)) = counted.kinds.get_mut(&kind) {
            *times += more;
        } else if has_room && counted.kinds.len() < KINDS_MAX {
            counted.kinds.insert(kind, (more, request_id));
        } else {
            counted.left_out += more;
        }
    }

    fn has_room(&self, chain: Chain) -> bool {
        self.chains.len() < CHAINS_MAX || self.chains.contains_key(&chain)
    }

    /// What is counted for a chain; for one without room, what is counted for the system's.
    fn of(&mut self, chain: Chain) -> &mut Counted {
        let chain = if self.has_room(chain) { chain } else { Chain::System };
        self.chains.entry(chain).or_default()
    }

    /// Takes over what could not be written.
    fn put_back(&mut self, older: Self) {
        for (chain, counted) in older.chains {
            self.of(chain).left_out += counted.left_out;
            for (kind, (times, request_id)) in counted.kinds {
                self.add(kind, times, request_id);
            }
        }
    }
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
        self.round().add(kind, 1, Arc::clone(request_id));
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
        let entries = entries(&round);
        if entries.is_empty() {
            return;
        }
        let refusals = entries.len();
        let Err(error) = self.ledger.record_audit(entries).await else { return };
        tracing::warn!(%error, refusals, "cannot record refused requests, retrying");
        self.round().put_back(round);
    }
}

fn entries(round: &Round) -> Vec<Deed> {
    let mut entries = Vec::new();
    for (chain, counted) in &round.chains {
        entries.extend(counted.kinds.iter().map(|(kind, (times, request_id))| entry(kind, *times, request_id)));
        if counted.left_out > 0 {
            entries.push(left_out(*chain, counted.left_out));
        }
    }
    // One order, whatever the map's: records of one round can be compared.
    entries.sort_by(|a, b| (&a.author.name, &a.resource).cmp(&(&b.author.name, &b.resource)));
    entries
}

fn entry(kind: &Kind, times: u64, request_id: &Arc<str>) -> Deed {
    Deed {
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
    }
}

fn left_out(chain: Chain, times: u64) -> Deed {
    Deed {
        chain,
        author: Author::from("server"),
        action: Action::AccessRefused,
        resource: "route".to_owned(),
        diff: Some(json!({ "times": times }).to_string()),
        reason: None,
        result: "refused: more different requests than are recorded one by one".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::*;

    fn kind(chain: Chain, n: usize) -> Kind {
        Kind {
            chain,
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

    fn tenant(n: u8) -> Chain {
        Chain::Tenant(TenantId::mint(Timestamp::from_millis(1), [n; 10]))
    }

    fn times(entries: &[Deed], chain: Chain, diff: &str) -> usize {
        entries.iter().filter(|entry| entry.chain == chain && entry.diff.as_deref() == Some(diff)).count()
    }

    #[test]
    fn equal_refusals_are_one_entry() {
        let mut round = Round::default();
        for n in 0..21 {
            round.add(kind(Chain::System, n % 3), 1, "r".into());
        }
        let entries = entries(&round);
        assert_eq!(entries.len(), 3);
        assert_eq!(times(&entries, Chain::System, r#"{"code":"AUTH_REQUIRED","times":7}"#), 3);
    }

    #[test]
    fn a_flood_leaves_room_for_other_chains_and_is_counted() {
        let (system, ann) = (Chain::System, tenant(1));
        let mut round = Round::default();
        for n in 0..KINDS_MAX + 41 {
            round.add(kind(system, n), 1, "r".into());
        }
        round.add(kind(ann, 0), 1, "r".into());
        let entries = entries(&round);
        assert_eq!(entries.len(), KINDS_MAX + 1 + 1);
        assert_eq!(times(&entries, system, r#"{"times":41}"#), 1);
        assert_eq!(times(&entries, ann, r#"{"code":"AUTH_REQUIRED","times":1}"#), 1, "a tenant's own chain has room");
    }

    #[test]
    fn chains_beyond_the_bound_are_counted_in_the_systems() {
        let mut round = Round::default();
        round.add(kind(Chain::System, 0), 1, "r".into());
        for n in 0..u8::MAX {
            round.add(kind(tenant(n), 0), 1, "r".into());
        }
        assert_eq!(round.chains.len(), CHAINS_MAX);
        let all: u64 = round.chains.values().flat_map(|c| c.kinds.values()).map(|(times, _)| times).sum();
        let left_out: u64 = round.chains.values().map(|c| c.left_out).sum();
        assert_eq!(all + left_out, 1 + u64::from(u8::MAX), "none is lost");
    }

    #[test]
    fn what_could_not_be_written_is_added_to_what_came_since() {
        let mut older = Round::default();
        for n in 0..KINDS_MAX + 1 {
            older.add(kind(tenant(1), n), 2, "old".into());
        }
        let mut round = Round::default();
        round.add(kind(tenant(1), 0), 1, "new".into());
        round.put_back(older);
        let counted = &round.chains[&tenant(1)];
        assert_eq!((counted.kinds.len(), counted.left_out), (KINDS_MAX, 2));
        assert_eq!(counted.kinds[&kind(tenant(1), 0)].0, 3);
    }
}
