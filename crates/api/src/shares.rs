//! Places that callers hold for a while: streams, and polls that wait for work.
//!
//! There are so many of each in all, and of those a tenant and a single credential have a part at most. So whoever takes what
//! they can get leaves the rest to the others.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_model::TenantId;
use hyper::StatusCode;
use serde_json::json;

use crate::door::Known;
use crate::problem::Problem;

/// How many places there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareLimits {
    pub total: usize,
    pub per_tenant: usize,
    pub per_token: usize,
}

impl ShareLimits {
    /// Half of them for a tenant, a quarter for a credential.
    pub fn of(total: usize) -> Self {
        Self { total, per_tenant: (total / 2).max(1), per_token: (total / 4).max(1) }
    }
}

#[derive(Debug, Default)]
struct Held {
    total: usize,
    tenants: HashMap<TenantId, usize>,
    tokens: HashMap<String, usize>,
}

/// Places of one sort.
#[derive(Debug)]
pub struct Shares {
    /// What a place is called in a refusal: "streams".
    what: &'static str,
    limits: ShareLimits,
    held: Mutex<Held>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    tenant: TenantId,
    token: String,
}

impl Shares {
    pub fn new(what: &'static str, limits: ShareLimits) -> Arc<Self> {
        Arc::new(Self { what, limits, held: Mutex::default() })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many places are taken.
    pub fn count(&self) -> usize {
        self.held().total
    }

    /// A place for this caller, or the refusal that says whose part is used up.
    pub fn take(self: &Arc<Self>, known: &Known) -> Result<Share, Problem> {
        let tenant = known.tenant()?;
        self.take_for(tenant, format!("{tenant}/{}", known.0.actor)).map_err(|(whose, max)| {
            let what = self.what;
            let message = match whose {
                "server" => format!("all {max} {what} of this server are in use"),
                whose => format!("at most {max} {what} at once for one {whose}"),
            };
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", message);
            problem.with(json!({"limit": what, "of": whose, "max": max})).retry_after(5)
        })
    }

    fn take_for(self: &Arc<Self>, tenant: TenantId, token: String) -> Result<Share, (&'static str, usize)> {
        let (mut held, limits) = (self.held(), self.limits);
        let has = |map: &HashMap<TenantId, usize>| map.get(&tenant).copied().unwrap_or(0);
        if held.tokens.get(&token).copied().unwrap_or(0) >= limits.per_token {
            return Err(("token", limits.per_token));
        }
        if has(&held.tenants) >= limits.per_tenant {
            return Err(("tenant", limits.per_tenant));
        }
        if held.total >= limits.total {
            return Err(("server", limits.total));
        }
        held.total += 1;
        *held.tenants.entry(tenant).or_default() += 1;
        *held.tokens.entry(token.clone()).or_default() += 1;
        drop(held);
        Ok(Share { shares: Arc::clone(self), tenant, token })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.shares.held();
        held.total = held.total.saturating_sub(1);
        give_back(&mut held.tenants, &self.tenant);
        give_back(&mut held.tokens, &self.token);
    }
}

fn give_back<K: Hash + Eq>(map: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = map.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            map.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::*;

    fn tenant(n: u8) -> TenantId {
        TenantId::mint(Timestamp::from_millis(1), [n; 10])
    }

    #[test]
    fn nobody_takes_more_than_their_part_and_what_is_given_back_is_free() {
        let shares = Shares::new("streams", ShareLimits::of(8));
        let take = |who: u8, token: &str| shares.take_for(tenant(who), token.to_owned());
        let first = [take(1, "a").expect("free"), take(1, "a").expect("free")];
        assert_eq!(take(1, "a").map(drop), Err(("token", 2)));
        let second = [take(1, "b").expect("free"), take(1, "b").expect("free")];
        assert_eq!(take(1, "c").map(drop), Err(("tenant", 4)));
        let others = [take(2, "d").expect("free"), take(2, "e").expect("free"), take(3, "f").expect("free")];
        let last = take(3, "g").expect("free");
        assert_eq!(take(4, "h").map(drop), Err(("server", 8)));
        drop(first);
        assert!(take(1, "c").is_ok(), "its place is free again at once");
        drop((second, others, last));
        let held = shares.held();
        assert_eq!((held.total, held.tenants.len(), held.tokens.len()), (0, 0, 0));
    }
}
