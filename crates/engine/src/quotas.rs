//! Quotas of tenants: how many jobs may wait, how much may be stored.
//!
//! Nothing is asked of the ledger when a job is submitted. What each tenant uses is counted in memory: the last count of the
//! ledger, plus what was accepted since. The ledger is counted again now and then, sooner where a tenant has reached a limit, and
//! never for more than a small part of the time. So a quota may be passed by what was accepted on other servers since their last
//! count, and by nothing else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_model::TenantId;
use bowline_model::host::{Inventory, json_bytes};
use bowline_store::{Ledger, NewJob, NewTurn, StoreError, StoreResult, Usage};
use tokio::sync::Notify;
use tokio::time::Instant;

/// What one tenant may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Jobs that wait for a worker or for a moment, and executions that have not ended.
    pub queued_jobs: u64,
    /// Payloads, results, output and reported events of jobs, what executions record and are sent, variables of hosts, and
    /// versions of resources.
    pub stored_bytes: u64,
    /// The largest result of a run that is kept in the ledger; larger ones are kept in the object store.
    pub inline_result_bytes: u64,
    /// The largest result of a run.
    pub result_bytes: u64,
}

impl Default for QuotaLimits {
    fn default() -> Self {
        Self { queued_jobs: 1_000_000, stored_bytes: 10 << 30, inline_result_bytes: 1 << 20, result_bytes: 32 << 20 }
    }
}

/// A quota that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the quota {quota} of this tenant is used up: {used} of {max}")]
pub struct QuotaExceeded {
    pub quota: &'static str,
    pub used: u64,
    pub max: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    /// As the ledger was counted last.
    known: Usage,
    /// Accepted since.
    since: Usage,
}

impl Counted {
    const fn now(&self) -> Usage {
        Usage {
            queued_jobs: self.known.queued_jobs.saturating_add(self.since.queued_jobs),
            stored_bytes: self.known.stored_bytes.saturating_add(self.since.stored_bytes),
        }
    }
}

impl From<QuotaExceeded> for StoreError {
    fn from(QuotaExceeded { quota, used, max }: QuotaExceeded) -> Self {
        Self::Quota { quota, used, max }
    }
}

/// What tenants use, against what they may.
#[derive(Debug)]
pub struct Quotas {
    limits: QuotaLimits,
    counted: Mutex<HashMap<TenantId, Counted>>,
    /// Notified when a limit was reached: perhaps there is room by now.
    reached: Notify,
}

/// Between two counts, at least; and at least so many times as long as a count took.
const PAUSE: Duration = Duration::from_secs(10);
const STORED_PAUSE: Duration = Duration::from_secs(60);
const PART: u32 = 50;
/// The same where a tenant has reached a limit.
const SOON: Duration = Duration::from_secs(1);

impl Quotas {
    pub fn new(limits: QuotaLimits) -> Arc<Self> {
        Arc::new(Self { limits, counted: Mutex::default(), reached: Notify::new() })
    }

    pub const fn limits(&self) -> &QuotaLimits {
        &self.limits
    }

    fn counted(&self) -> MutexGuard<'_, HashMap<TenantId, Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a tenant uses, as far as it is known.
    pub fn usage(&self, tenant: TenantId) -> Usage {
        self.counted().get(&tenant).map_or_else(Usage::default, Counted::now)
    }

    /// Takes room for these jobs, which are of one tenant, with what executions among them have done already; or says which quota
    /// is used up.
    pub fn admit(&self, jobs: &[NewJob]) -> Result<(), QuotaExceeded> {
        let Some(tenant) = jobs.first().map(|job| job.tenant) else { return Ok(()) };
        let mut usage = Usage::default();
        for job in jobs.iter().flat_map(NewJob::with_first_children) {
            usage.queued_jobs += 1;
            usage.stored_bytes = usage.stored_bytes.saturating_add(bytes_of(job));
        }
        self.take(tenant, usage)
    }

    /// Takes room for a job until it is known whether it is stored.
    pub fn reserve_job(self: &Arc<Self>, job: &NewJob) -> Result<Room, QuotaExceeded> {
        let usage = Usage { queued_jobs: 1, stored_bytes: bytes_of(job) };
        self.take(job.tenant, usage)?;
        Ok(Room { quotas: Arc::clone(self), tenant: job.tenant, usage })
    }

    /// Takes room for so many bytes.
    pub fn admit_bytes(&self, tenant: TenantId, bytes: u64) -> Result<(), QuotaExceeded> {
        self.take(tenant, Usage { queued_jobs: 0, stored_bytes: bytes })
    }

    /// Takes off what was counted for what is not there any more.
    pub fn uncount_bytes(&self, tenant: TenantId, bytes: u64) {
        self.give_back(tenant, Usage { queued_jobs: 0, stored_bytes: bytes });
    }

    /// Gives room back that was taken for what was then not stored. What was counted with the ledger since then is not taken
    /// off again.
    fn give_back(&self, tenant: TenantId, usage: Usage) {
        if let Some(entry) = self.counted().get_mut(&tenant) {
            entry.since.queued_jobs = entry.since.queued_jobs.saturating_sub(usage.queued_jobs);
            entry.since.stored_bytes = entry.since.stored_bytes.saturating_sub(usage.stored_bytes);
        }
    }

    /// Takes room for so many bytes until it is known whether they are stored.
    pub fn reserve(self: &Arc<Self>, tenant: TenantId, bytes: u64) -> Result<Room, QuotaExceeded> {
        self.admit_bytes(tenant, bytes)?;
        Ok(Room { quotas: Arc::clone(self), tenant, usage: Usage { queued_jobs: 0, stored_bytes: bytes } })
    }

    /// The same, whether there is room or not.
    pub fn reserve_anyway(self: &Arc<Self>, tenant: TenantId, bytes: u64) -> Room {
        self.count_bytes(tenant, bytes);
        Room { quotas: Arc::clone(self), tenant, usage: Usage { queued_jobs: 0, stored_bytes: bytes } }
    }

    /// Whether there is room for so many bytes, which are counted when they are stored.
    pub fn has_room(&self, tenant: TenantId, bytes: u64) -> Result<(), QuotaExceeded> {
        let (used, max) = (self.usage(tenant).stored_bytes, self.limits.stored_bytes);
        if bytes == 0 || used.saturating_add(bytes) <= max {
            return Ok(());
        }
        self.reached.notify_one();
        Err(QuotaExceeded { quota: "stored_bytes", used, max })
    }

    /// Takes room for the labels and variables of hosts and groups.
    pub fn admit_inventory(&self, tenant: TenantId, inventory: &Inventory) -> Result<(), QuotaExceeded> {
        let hosts = inventory.hosts.iter().map(|host| json_bytes(&host.vars) + json_bytes(&host.labels));
        let groups = inventory.groups.iter().map(|group| json_bytes(&group.vars));
        self.admit_bytes(tenant, hosts.chain(groups).map(|bytes| bytes as u64).sum())
    }

    /// Counts bytes that are stored whether there is room or not: the result of work that was done already.
    pub fn count_bytes(&self, tenant: TenantId, bytes: u64) {
        let mut counted = self.counted();
        let since = &mut counted.entry(tenant).or_default().since;
        since.stored_bytes = since.stored_bytes.saturating_add(bytes);
    }

    fn take(&self, tenant: TenantId, more: Usage) -> Result<(), QuotaExceeded> {
        let mut counted = self.counted();
        let entry = counted.entry(tenant).or_default();
        let used = entry.now();
        for (quota, used, more, max) in [
            ("queued_jobs", used.queued_jobs, more.queued_jobs, self.limits.queued_jobs),
            ("stored_bytes", used.stored_bytes, more.stored_bytes, self.limits.stored_bytes),
        ] {
            if more > 0 && used.saturating_add(more) > max {
                self.reached.notify_one();
                return Err(QuotaExceeded { quota, used, max });
            }
        }
        entry.since.queued_jobs += more.queued_jobs;
        entry.since.stored_bytes += more.stored_bytes;
        Ok(())
    }

    /// Counts what the ledger has. What is accepted meanwhile may be counted twice until the next time.
    pub async fn recount(&self, ledger: &dyn Ledger, stored_too: bool) -> StoreResult<()> {
        let before = self.accepted();
        let queued = ledger.queued_by_tenant().await?.into_iter().collect();
        let stored = if stored_too { Some(ledger.stored_by_tenant().await?.into_iter().collect()) } else { None };
        self.replace(&before, &queued, stored.as_ref());
        Ok(())
    }

    /// What was accepted since the last count.
    fn accepted(&self) -> HashMap<TenantId, Usage> {
        self.counted().iter().map(|(tenant, entry)| (*tenant, entry.since)).collect()
    }

    /// Takes over a count. What had been accepted before it began is part of it; the rest may not be.
    fn replace(
        &self,
        before: &HashMap<TenantId, Usage>,
        queued: &HashMap<TenantId, u64>,
        stored: Option<&HashMap<TenantId, u64>>,
    ) {
        let mut counted = self.counted();
        for tenant in queued.keys().chain(stored.iter().flat_map(|stored| stored.keys())) {
            counted.entry(*tenant).or_default();
        }
        for (tenant, entry) in counted.iter_mut() {
            let before = before.get(tenant).copied().unwrap_or_default();
            entry.known.queued_jobs = queued.get(tenant).copied().unwrap_or(0);
            entry.since.queued_jobs = entry.since.queued_jobs.saturating_sub(before.queued_jobs);
            if let Some(stored) = stored {
                entry.known.stored_bytes = stored.get(tenant).copied().unwrap_or(0);
                entry.since.stored_bytes = entry.since.stored_bytes.saturating_sub(before.stored_bytes);
            }
        }
        counted.retain(|_, entry| entry.now() != Usage::default());
    }

    /// Returns some time after a limit was reached: perhaps there is room by now.
    pub async fn soon(&self, wait: Duration) {
        self.reached.notified().await;
        tokio::time::sleep(SOON.max(wait / 10)).await;
    }
}

/// Bytes that a job adds to what is stored, with what an execution has done already.
fn bytes_of(job: &NewJob) -> u64 {
    let first = job.flow.as_deref().and_then(|flow| flow.first.as_ref());
    job.payload.len() as u64 + first.map_or(0, NewTurn::bytes)
}

/// Room for jobs or bytes that are being stored. It is given back when this is dropped, unless they were.
#[derive(Debug)]
#[must_use]
pub struct Room {
    quotas: Arc<Quotas>,
    tenant: TenantId,
    usage: Usage,
}

impl Room {
    /// The jobs or bytes are stored, or may be.
    pub fn keep(mut self) {
        self.usage = Usage::default();
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.usage != Usage::default() {
            self.quotas.give_back(self.tenant, self.usage);
        }
    }
}

/// When to count what again.
#[derive(Debug, Default)]
pub struct QuotaCounter {
    stored_at: Option<Instant>,
}

impl QuotaCounter {
    /// Counts what is due; how long nothing is.
    pub async fn count(&mut self, quotas: &Quotas, ledger: &dyn Ledger) -> Duration {
        let started = Instant::now();
        let stored_too = self.stored_at.is_none_or(|at| started >= at);
        if let Err(error) = quotas.recount(ledger, stored_too).await {
            tracing::debug!(%error, "cannot count what tenants use, retrying");
            return PAUSE;
        }
        let took = started.elapsed();
        if stored_too {
            self.stored_at = Some(Instant::now() + STORED_PAUSE.max(took * PART));
        }
        PAUSE.max(took * PART)
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;

    use super::*;

    #[test]
    fn a_quota_counts_for_its_tenant_and_names_itself() {
        let quotas = Quotas::new(QuotaLimits { queued_jobs: 10, stored_bytes: 100, ..QuotaLimits::default() });
        let tenant = |n: u8| TenantId::mint(Timestamp::from_millis(1), [n; 10]);
        let take = |who: u8, queued_jobs: u64, stored_bytes: u64| {
            quotas.take(tenant(who), Usage { queued_jobs, stored_bytes })
        };
        assert_eq!(take(1, 10, 50), Ok(()));
        let full = take(1, 1, 0).expect_err("ten wait already");
        assert_eq!(full, QuotaExceeded { quota: "queued_jobs", used: 10, max: 10 });
        assert_eq!(quotas.admit_bytes(tenant(1), 51).expect_err("too much").quota, "stored_bytes");
        assert_eq!(quotas.admit_bytes(tenant(1), 50), Ok(()));

        assert_eq!(take(2, 10, 100), Ok(()), "another tenant has its own");
        assert_eq!(quotas.usage(tenant(1)), Usage { queued_jobs: 10, stored_bytes: 100 });
    }

    /// What is accepted while the ledger is being counted is not forgotten with the count before.
    #[test]
    fn what_is_accepted_during_a_count_still_counts() {
        let quotas = Quotas::new(QuotaLimits { queued_jobs: 10, stored_bytes: 100, ..QuotaLimits::default() });
        let tenant = TenantId::mint(Timestamp::from_millis(1), [1; 10]);
        quotas.take(tenant, Usage { queued_jobs: 3, stored_bytes: 30 }).expect("room");
        let before = quotas.accepted();
        quotas.take(tenant, Usage { queued_jobs: 2, stored_bytes: 20 }).expect("room");
        quotas.replace(&before, &HashMap::from([(tenant, 3)]), None);
        assert_eq!(quotas.usage(tenant), Usage { queued_jobs: 5, stored_bytes: 50 }, "bytes were not counted");
        let before = quotas.accepted();
        quotas.replace(&before, &HashMap::from([(tenant, 5)]), Some(&HashMap::from([(tenant, 50)])));
        assert_eq!(quotas.usage(tenant), Usage { queued_jobs: 5, stored_bytes: 50 });
    }

    #[test]
    fn room_for_what_was_not_stored_is_given_back() {
        let quotas = Quotas::new(QuotaLimits { stored_bytes: 100, ..QuotaLimits::default() });
        let tenant = TenantId::mint(Timestamp::from_millis(1), [1; 10]);
        let used = || quotas.usage(tenant).stored_bytes;
        let (refused, stored) = (quotas.reserve(tenant, 60).expect("room"), quotas.reserve(tenant, 40).expect("room"));
        assert_eq!(quotas.reserve(tenant, 1).expect_err("full").used, 100);
        drop(refused);
        assert_eq!(used(), 40);
        stored.keep();
        assert_eq!(used(), 40);
    }
}
