//! Searches for a text: they look at every job in turn, so they may not have all connections that read.
//!
//! One search of a tenant at a time, and at least one connection is left to those who search for nothing. A search cannot be
//! stopped, so its place is free when it has ended, also if its caller has left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bowline_model::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub struct Searches {
    all: Arc<Semaphore>,
    tenants: Mutex<HashMap<TenantId, Weak<Semaphore>>>,
}

/// The place of a search, until it is dropped.
#[derive(Debug)]
pub struct Search {
    _own: OwnedSemaphorePermit,
    _common: OwnedSemaphorePermit,
}

impl Searches {
    /// With so many connections that read.
    pub fn new(readers: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(readers.saturating_sub(1).max(1))), tenants: Mutex::default() }
    }

    fn of(&self, tenant: TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = tenants.get(&tenant).and_then(Weak::upgrade) {
            return own;
        }
        tenants.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(1));
        tenants.insert(tenant, Arc::downgrade(&own));
        own
    }

    /// Waits for a place. A tenant waits for its own searches first, so one of them at most stands in the common queue.
    pub async fn enter(&self, tenant: TenantId) -> Option<Search> {
        // Neither is ever closed.
        let own = self.of(tenant).acquire_owned().await.ok()?;
        let common = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Search { _own: own, _common: common })
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use bowline_model::Timestamp;

    use super::*;

    #[tokio::test]
    async fn searches_of_one_tenant_wait_for_each_other_and_leave_a_connection() {
        let searches = Searches::new(3);
        let tenant = |n: u8| TenantId::mint(Timestamp::from_millis(1), [n; 10]);
        let mut context = Context::from_waker(Waker::noop());
        let first = searches.enter(tenant(1)).await.expect("a place");
        let mut second = Box::pin(searches.enter(tenant(1)));
        assert!(second.as_mut().poll(&mut context).is_pending(), "the tenant searches already");
        assert_eq!(searches.all.available_permits(), 1, "and takes one connection only");
        let mut other = Box::pin(searches.enter(tenant(2)));
        let Poll::Ready(Some(other)) = other.as_mut().poll(&mut context) else { panic!("another tenant has a place") };
        let mut third = Box::pin(searches.enter(tenant(3)));
        assert!(third.as_mut().poll(&mut context).is_pending(), "the last connection is for other reads");
        drop(first);
        assert!(third.as_mut().poll(&mut context).is_ready());
        drop(other);
    }
}
