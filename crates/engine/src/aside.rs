//! Computation for one tenant, away from the threads that serve everybody.
//!
//! There are as many places as the machine has cores (two to eight), and a tenant has half of them at most. Work that finds no
//! place waits; a tenant waits for its own work first, so at most its share stands in the common queue. A blocking thread cannot
//! be ended, so work that is given to this module is bounded by itself; its place is free when it has ended, also if its caller
//! has gone.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use bowline_model::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

static PLACES: LazyLock<Places> = LazyLock::new(|| Places::per_core(1));

/// Places for work, of which a tenant has half at most.
#[derive(Debug)]
pub struct Places {
    all: Arc<Semaphore>,
    per_tenant: usize,
    tenants: Mutex<HashMap<TenantId, Weak<Semaphore>>>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    _own: Option<OwnedSemaphorePermit>,
    _common: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub fn new(total: usize) -> Self {
        let all = Arc::new(Semaphore::new(total));
        Self { all, per_tenant: (total / 2).max(1), tenants: Mutex::default() }
    }

    /// The places of one tenant, as long as it uses any.
    fn of(&self, tenant: TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = tenants.get(&tenant).and_then(Weak::upgrade) {
            return places;
        }
        tenants.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(self.per_tenant));
        tenants.insert(tenant, Arc::downgrade(&places));
        places
    }

    /// As many as the machine has cores, times this.
    pub fn per_core(times: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self::new(cores.clamp(2, 8) * times)
    }

    /// A place for this tenant, as soon as there is one.
    pub async fn enter(&self, tenant: TenantId) -> Place {
        // Neither is ever closed.
        let own = self.of(tenant).acquire_owned().await.ok();
        let common = Arc::clone(&self.all).acquire_owned().await.ok();
        Place { _own: own, _common: common }
    }

    /// Does this on a blocking thread, in a place of the tenant.
    pub async fn run<T: Send + 'static>(&self, tenant: TenantId, work: impl FnOnce() -> T + Send + 'static) -> T {
        let place = self.enter(tenant).await;
        let work = move || {
            let done = work();
            drop(place);
            done
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

/// For work of milliseconds: a range of output, a result. It must not wait behind inventories that are read.
static BRIEF: LazyLock<Places> = LazyLock::new(|| Places::per_core(2));

/// As [`run`], for work that takes some milliseconds.
pub async fn run_briefly<T: Send + 'static>(tenant: TenantId, work: impl FnOnce() -> T + Send + 'static) -> T {
    if STAYS.get() {
        return work();
    }
    BRIEF.run(tenant, work).await
}

thread_local! {
    static STAYS: Cell<bool> = const { Cell::new(false) };
}

/// From now on this thread does everything itself. For the simulation, which has one thread, so that the same seed is the same run.
pub fn stay_on_this_thread() {
    STAYS.set(true);
}

/// Does this on a blocking thread, within the tenant's share of them.
pub async fn run<T: Send + 'static>(tenant: TenantId, work: impl FnOnce() -> T + Send + 'static) -> T {
    if STAYS.get() {
        return work();
    }
    PLACES.run(tenant, work).await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;
    use bowline_model::Timestamp;

    fn tenant(n: u8) -> TenantId {
        TenantId::mint(Timestamp::from_millis(1), [n; 10])
    }

    #[tokio::test]
    async fn one_tenant_has_half_of_the_places_and_gives_them_back() {
        let places = Places::new(4);
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let held = |who: u8| {
            let wait = Arc::clone(&wait);
            Box::pin(places.run(tenant(who), move || wait.lock().expect("alone").recv().is_ok()))
        };
        let mut greedy: Vec<_> = (0..3).map(|_| held(1)).collect();
        for one in &mut greedy {
            assert!(one.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(places.all.available_permits(), 2, "its third waits for its own");
        let other = tokio::time::timeout(Duration::from_secs(20), places.run(tenant(2), || 7));
        assert_eq!(other.await, Ok(7), "another tenant does not wait for the first");
        for _ in 0..3 {
            go.send(()).expect("they wait");
        }
        for one in greedy {
            assert!(one.await);
        }
        assert_eq!(places.all.available_permits(), 4);
    }
}
