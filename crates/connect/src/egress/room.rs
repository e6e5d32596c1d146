//! Bytes of answers that this process holds: from when they arrive until they are dropped.
//!
//! There is so much room in all, and each tenant has half of it at most. The beginning of an answer takes none, so short answers
//! never wait. What a long one may come to is taken at once: calls that each held a part and waited for more would all wait for
//! each other. Who finds no room waits within the time of its call, and so does the server that answers.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So much of each answer takes no room.
pub(super) const FREE: usize = 64 << 10;
/// Room of all answers together.
const ALL: usize = 256 << 20;
/// Room is given out in pieces of this size.
const PIECE: usize = 64 << 10;

static ROOM: LazyLock<Room> = LazyLock::new(|| Room::new(ALL));

/// Room for answers.
#[derive(Debug)]
pub(super) struct Room {
    all: Arc<Semaphore>,
    pieces: usize,
    tenants: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// The room of one answer, until it is dropped.
#[derive(Debug)]
pub struct AnswerRoom {
    // The semaphore of the tenant lives in its permit.
    _own: Option<OwnedSemaphorePermit>,
    _common: Option<OwnedSemaphorePermit>,
}

impl Room {
    fn new(bytes: usize) -> Self {
        let pieces = bytes / PIECE;
        Self { all: Arc::new(Semaphore::new(pieces)), pieces, tenants: Mutex::default() }
    }

    /// Of this process.
    pub fn of_process() -> &'static Self {
        &ROOM
    }

    fn of(&self, tenant: &str) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = tenants.get(tenant).and_then(Weak::upgrade) {
            return own;
        }
        tenants.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.pieces / 2));
        tenants.insert(tenant.to_owned(), Arc::downgrade(&own));
        own
    }

    /// Room for an answer of so many bytes, as soon as there is some. One that is larger than a tenant's half takes the half.
    pub async fn take(&self, tenant: &str, bytes: usize) -> AnswerRoom {
        let pieces = bytes.div_ceil(PIECE).min(self.pieces / 2);
        let pieces = u32::try_from(pieces).unwrap_or(u32::MAX);
        // First the tenant's own, so that who has used it up does not stand in the others' way. Neither is ever closed.
        let own = self.of(tenant).acquire_many_owned(pieces).await.ok();
        let common = Arc::clone(&self.all).acquire_many_owned(pieces).await.ok();
        AnswerRoom { _own: own, _common: common }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn a_tenant_has_half_of_the_room_and_waits_for_its_own() {
        let room = Room::new(8 * PIECE);
        let first = room.take("one", 3 * PIECE).await;
        let mut second = pin!(room.take("one", 2 * PIECE));
        let mut now = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut now).is_pending(), "its half has room for one piece");
        let other = room.take("two", 100 * PIECE).await;
        assert_eq!(room.all.available_permits(), 1, "the largest answer takes the half of its tenant");
        drop(first);
        assert!(second.as_mut().poll(&mut now).is_ready(), "there is room again");
        drop(other);
        assert_eq!(room.all.available_permits(), 8);
    }
}
