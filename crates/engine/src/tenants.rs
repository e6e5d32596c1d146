//! Work for many tenants, one piece for each at a time, so that none waits for another's.
//!
//! A background service reads what there is to do for tenants of whom nothing is under way, and starts a task for each of them. A
//! tenant whose work takes long, or fails, is passed over until its task has ended, and everybody else goes on.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use bowline_model::TenantId;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

/// Tenants whose work is under way at the same time.
pub(crate) const TENANTS_MAX: usize = 16;
/// While work is under way, others are looked for so often, if that takes no time.
const PAUSE: Duration = Duration::from_millis(5);
/// What has just been started mostly ends within this. Looking for others means passing over what else its tenant has.
const HEAD_START: Duration = Duration::from_millis(20);
/// Looking takes a fifth of the time at most.
const PART: u32 = 4;

/// What is under way, and who rests.
#[derive(Debug)]
pub(crate) struct Tenants<T> {
    tasks: JoinSet<T>,
    busy: HashMap<Id, TenantId>,
    /// Tenants whose last work failed, and until when they are passed over.
    resting: HashMap<TenantId, Instant>,
}

impl<T: Send + 'static> Tenants<T> {
    pub fn new() -> Self {
        Self { tasks: JoinSet::new(), busy: HashMap::new(), resting: HashMap::new() }
    }

    /// Nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }

    /// As much is under way as may be.
    pub fn is_full(&self) -> bool {
        self.busy.len() >= TENANTS_MAX
    }

    /// Those for whom nothing can be started now.
    pub fn passed_over(&mut self) -> Vec<TenantId> {
        let now = Instant::now();
        self.resting.retain(|_, until| *until > now);
        self.busy.values().chain(self.resting.keys()).copied().collect()
    }

    /// Starts something for a tenant of whom nothing is under way, if there is a place.
    pub fn start(&mut self, tenant: TenantId, work: impl Future<Output = T> + Send + 'static) -> bool {
        if self.is_full() || self.busy.values().any(|busy| *busy == tenant) {
            return false;
        }
        let id = self.tasks.spawn(work).id();
        self.busy.insert(id, tenant);
        true
    }

    /// Passes a tenant over for a while.
    pub fn rest(&mut self, tenant: TenantId, pause: Duration) {
        self.resting.insert(tenant, Instant::now() + pause);
    }

    /// What ended, and what came of it: nothing if it panicked. Waits for ever if nothing is under way.
    pub async fn ended(&mut self) -> (TenantId, Option<T>) {
        loop {
            match self.tasks.join_next_with_id().await {
                Some(Ok((id, done))) => {
                    if let Some(tenant) = self.busy.remove(&id) {
                        return (tenant, Some(done));
                    }
                }
                Some(Err(error)) => {
                    if let Some(tenant) = self.busy.remove(&error.id()) {
                        return (tenant, None);
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    /// How long to wait before others are looked for, after a look that took so long. `quiet` if nothing is under way.
    pub fn pause(&self, has_started: bool, took: Duration, quiet: Duration) -> Duration {
        match (self.is_idle(), has_started) {
            (true, _) => self
                .resting
                .values()
                .min()
                .map_or(quiet, |first| quiet.min(first.saturating_duration_since(Instant::now())).max(PAUSE)),
            (false, true) => HEAD_START,
            (false, false) => PAUSE.max(took * PART),
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

    #[tokio::test]
    async fn a_tenant_has_one_piece_of_work_at_a_time_and_others_have_theirs() {
        let mut tenants = Tenants::new();
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        assert!(tenants.start(tenant(1), async move { drop(wait.await) }));
        assert!(!tenants.start(tenant(1), async {}), "its first is under way");
        assert_eq!(tenants.passed_over(), [tenant(1)]);
        assert!(tenants.start(tenant(2), async {}));
        assert_eq!(tenants.ended().await, (tenant(2), Some(())), "the other one did not wait");
        go.send(()).expect("it waits");
        assert_eq!(tenants.ended().await, (tenant(1), Some(())));
        assert!(tenants.is_idle() && tenants.passed_over().is_empty());
    }

    #[tokio::test]
    async fn whose_work_fails_is_passed_over_for_a_while() {
        let mut tenants: Tenants<()> = Tenants::new();
        assert!(tenants.start(tenant(1), async { panic!("a fault") }));
        assert_eq!(tenants.ended().await, (tenant(1), None));
        tenants.rest(tenant(1), Duration::from_secs(3_600));
        assert_eq!(tenants.passed_over(), [tenant(1)]);
        tenants.rest(tenant(1), Duration::ZERO);
        assert!(tenants.passed_over().is_empty(), "its time is over");
    }

    #[tokio::test]
    async fn more_tenants_than_places_wait() {
        let mut tenants = Tenants::new();
        let never = || std::future::pending::<()>();
        let started = (0..100).filter(|n| tenants.start(tenant(*n), never())).count();
        assert_eq!(started, TENANTS_MAX);
        assert!(tenants.is_full());
    }
}
