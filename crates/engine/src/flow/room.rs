//! Room for histories that are read: bytes in memory, of which a tenant has a share.
//!
//! A history is held as text while it is added up, and as a state several times that size while it is answered. So room is
//! taken before anything is read, for the text; whoever finds none waits. A tenant waits for its own reads first, so at most
//! its share stands in the common queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bowline_model::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest history of one execution that is read at once.
pub(super) const HISTORY_BYTES_MAX: u64 = 32 << 20;
/// Bytes of histories that are read at the same time: of all tenants, and of one.
const ALL_BYTES: u32 = 128 << 20;
const TENANT_BYTES: u32 = 64 << 20;

/// Who reads how much.
#[derive(Debug)]
pub(super) struct Rooms {
    all: Arc<Semaphore>,
    tenants: Mutex<HashMap<TenantId, Weak<Semaphore>>>,
}

/// Room that was taken, until it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    _own: OwnedSemaphorePermit,
    _common: OwnedSemaphorePermit,
}

impl Default for Rooms {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(ALL_BYTES as usize)), tenants: Mutex::default() }
    }
}

impl Rooms {
    fn of(&self, tenant: TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = tenants.get(&tenant).and_then(Weak::upgrade) {
            return own;
        }
        tenants.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(TENANT_BYTES as usize));
        tenants.insert(tenant, Arc::downgrade(&own));
        own
    }

    /// Waits for room for so many bytes; `None` if the server is closing.
    pub(super) async fn take(&self, tenant: TenantId, bytes: u64) -> Option<Room> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(TENANT_BYTES);
        let own = self.of(tenant).acquire_many_owned(bytes).await.ok()?;
        let common = Arc::clone(&self.all).acquire_many_owned(bytes).await.ok()?;
        Some(Room { _own: own, _common: common })
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use bowline_model::Timestamp;

    use super::*;

    #[tokio::test]
    async fn a_tenant_reads_its_share_and_others_do_not_wait_for_it() {
        let rooms = Rooms::default();
        let tenant = |n: u8| TenantId::mint(Timestamp::from_millis(1), [n; 10]);
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(rooms.take(tenant(1), HISTORY_BYTES_MAX).await.expect("room"));
        }
        let mut third = Box::pin(rooms.take(tenant(1), 1));
        let mut context = Context::from_waker(Waker::noop());
        assert!(third.as_mut().poll(&mut context).is_pending(), "its share is taken");
        assert_eq!(rooms.all.available_permits(), (ALL_BYTES - TENANT_BYTES) as usize);
        let mut other = Box::pin(rooms.take(tenant(2), HISTORY_BYTES_MAX));
        assert!(matches!(other.as_mut().poll(&mut context), Poll::Ready(Some(_))));
        held.pop();
        assert!(matches!(third.as_mut().poll(&mut context), Poll::Ready(Some(_))));
    }
}
