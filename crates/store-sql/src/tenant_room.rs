//! Whose submissions wait for the committer: no tenant fills the room of all.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_model::TenantId;

/// How much room each tenant takes. A tenant may have three quarters of it; one submission alone always fits.
#[derive(Debug)]
pub struct TenantRoom {
    max: usize,
    taken: Mutex<HashMap<TenantId, usize>>,
}

/// Room of a tenant, until it is dropped.
#[derive(Debug)]
pub struct Taken<'a> {
    room: &'a TenantRoom,
    tenant: TenantId,
    jobs: usize,
}

impl TenantRoom {
    pub fn new(all: usize) -> Self {
        Self { max: all / 4 * 3, taken: Mutex::default() }
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<TenantId, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for so many jobs of this tenant, unless it has its share.
    pub fn take(&self, tenant: TenantId, jobs: usize) -> Option<Taken<'_>> {
        let mut taken = self.taken();
        let has = taken.entry(tenant).or_default();
        if *has > 0 && *has + jobs > self.max {
            return None;
        }
        *has += jobs;
        Some(Taken { room: self, tenant, jobs })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        if let Some(has) = taken.get_mut(&self.tenant) {
            *has = has.saturating_sub(self.jobs);
            if *has == 0 {
                taken.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::*;

    #[test]
    fn a_tenant_takes_three_quarters_and_gives_back() {
        let room = TenantRoom::new(100);
        let tenant = |n: u8| TenantId::mint(Timestamp::from_millis(1), [n; 10]);
        let first = room.take(tenant(1), 70).expect("room");
        assert!(room.take(tenant(1), 10).is_none());
        let small = room.take(tenant(1), 5).expect("up to its share");
        let large = room.take(tenant(2), 90).expect("one submission alone always fits");
        drop((first, small, large));
        assert!(room.taken().is_empty());
    }
}
