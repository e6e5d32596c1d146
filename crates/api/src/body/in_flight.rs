//! Bytes of bodies that the server holds: from when they arrive until their request is answered.
//!
//! There is so much room in all, and a tenant has half of it at most. A body takes room as it arrives, so who announces a large
//! one and sends nothing takes none. A small part of each body is free: short bodies never wait, and their number is bounded by
//! that of connections. Who finds no room waits a little, and is then told to come back.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bowline_model::TenantId;
use hyper::StatusCode;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::problem::Problem;

/// Room is given out in pieces of this size; so much of each body takes none.
const PIECE: usize = 64 << 10;

/// Pieces of all bodies: 256 MiB.
const PIECES: usize = 4_096;

/// How long a body waits for room. Its sender waits as well, and no memory is used meanwhile.
const WAIT: Duration = Duration::from_secs(3);

static IN_FLIGHT: LazyLock<InFlight> = LazyLock::new(|| InFlight::new(PIECES, WAIT));

#[derive(Debug)]
pub struct InFlight {
    all: Arc<Semaphore>,
    pieces: usize,
    wait: Duration,
    tenants: Mutex<HashMap<TenantId, Weak<Semaphore>>>,
}

impl InFlight {
    fn new(pieces: usize, wait: Duration) -> Self {
        Self { all: Arc::new(Semaphore::new(pieces)), pieces, wait, tenants: Mutex::default() }
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<TenantId, Weak<Semaphore>>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, tenant: TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants();
        if let Some(own) = tenants.get(&tenant).and_then(Weak::upgrade) {
            return own;
        }
        tenants.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.pieces / 2));
        tenants.insert(tenant, Arc::downgrade(&own));
        own
    }
}

/// Room that one body has.
#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    own: Option<OwnedSemaphorePermit>,
    common: Option<OwnedSemaphorePermit>,
    /// As long as there is a permit of the tenant, there is the semaphore it came from.
    of: Option<Arc<Semaphore>>,
}

/// The room of one request, held until the request is answered.
#[derive(Debug, Clone, Default)]
pub struct BodyRoom(Arc<tokio::sync::Mutex<Taken>>);

impl BodyRoom {
    /// Takes room for so many more bytes of this tenant.
    pub async fn take(&self, tenant: Option<TenantId>, bytes: usize) -> Result<(), Problem> {
        self.take_of(&IN_FLIGHT, tenant, bytes).await
    }

    async fn take_of(&self, room: &InFlight, tenant: Option<TenantId>, bytes: usize) -> Result<(), Problem> {
        let mut taken = self.0.lock().await;
        let pieces = |bytes: usize| bytes / PIECE;
        let more = pieces(taken.bytes + bytes) - pieces(taken.bytes);
        taken.bytes += bytes;
        if more == 0 {
            return Ok(());
        }
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let until = Instant::now() + room.wait;
        // First the tenant's own, so that who has used it up does not stand in the others' way.
        if let Some(tenant) = tenant {
            let of = Arc::clone(taken.of.get_or_insert_with(|| room.of(tenant)));
            let own = tokio::time::timeout_at(until, of.acquire_many_owned(more)).await;
            let own = own.ok().and_then(Result::ok).ok_or_else(|| full("tenant", room.pieces / 2))?;
            join(&mut taken.own, own);
        }
        let common = tokio::time::timeout_at(until, Arc::clone(&room.all).acquire_many_owned(more)).await;
        let common = common.ok().and_then(Result::ok).ok_or_else(|| full("server", room.pieces))?;
        join(&mut taken.common, common);
        Ok(())
    }
}

fn join(all: &mut Option<OwnedSemaphorePermit>, more: OwnedSemaphorePermit) {
    match all {
        Some(all) => all.merge(more),
        None => *all = Some(more),
    }
}

fn full(whose: &str, pieces: usize) -> Problem {
    let max = pieces * PIECE;
    let message = format!("the bodies of requests that this server holds have {max} bytes for one {whose}; try again");
    let message = if whose == "server" {
        format!("the bodies of requests that this server holds have {max} bytes; try again")
    } else {
        message
    };
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", message);
    problem.with(json!({"limit": "bodies", "of": whose, "max": max})).retry_after(1)
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::*;

    fn tenant(n: u8) -> Option<TenantId> {
        Some(TenantId::mint(Timestamp::from_millis(1), [n; 10]))
    }

    #[tokio::test]
    async fn a_tenant_has_half_of_the_room_and_gives_it_back_with_its_requests() {
        let room = InFlight::new(8, Duration::ZERO);
        let first = BodyRoom::default();
        first.take_of(&room, tenant(1), 4 * PIECE).await.expect("half");
        let second = BodyRoom::default();
        let refused = second.take_of(&room, tenant(1), PIECE).await.expect_err("it has its half");
        assert_eq!((refused.status.as_u16(), refused.code), (429, "RATE_LIMITED"));
        assert_eq!(refused.details["of"], "tenant");
        let short = BodyRoom::default();
        short.take_of(&room, tenant(1), PIECE - 1).await.expect("short bodies are free");
        let other = BodyRoom::default();
        other.take_of(&room, tenant(2), 4 * PIECE).await.expect("its own half");
        let refused = BodyRoom::default().take_of(&room, tenant(3), PIECE).await.expect_err("all is taken");
        assert_eq!(refused.details["of"], "server");
        drop(first);
        let again = BodyRoom::default();
        again.take_of(&room, tenant(1), 2 * PIECE).await.expect("what the first one had");
        drop((again, other, short, second));
        assert_eq!(room.all.available_permits(), 8);
    }

    #[tokio::test]
    async fn a_body_takes_room_as_it_arrives() {
        let room = InFlight::new(8, Duration::ZERO);
        let body = BodyRoom::default();
        for _ in 0..6 {
            body.take_of(&room, tenant(1), PIECE / 2).await.expect("room");
        }
        assert_eq!(room.all.available_permits(), 5, "three pieces arrived");
        drop(body);
        assert_eq!(room.all.available_permits(), 8);
    }
}
