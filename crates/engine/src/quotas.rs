//! Quotas of tenants: how many jobs may wait, how much may be stored.
//!
//! Nothing is asked of the ledger when a job is submitted. What each tenant uses is counted in memory: the last count of the
//! ledger, plus what was accepted since. The ledger is counted again now and then, sooner where a tenant has reached a limit, and
//! never for more than a small part of the time. So a quota may be passed by what was accepted on other servers since their last
//! count, and by nothing else.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_model::host::{Inventory, json_bytes};
use bowline_model::{GroupName, TenantId};
use bowline_store::{Ledger, NewJob, NewTurn, StoreError, StoreResult, Usage};
use tokio::sync::Notify;
use tokio::time::Instant;

/// What one tenant may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Jobs that wait for a worker or for a moment, and executions that have not ended.
    pub queued_jobs: u64,
    /// Payloads, results, output and reported events of jobs, what executions record and are sent, hosts and groups with
    /// everything that is said of them, and versions of resources.
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
    /// Accepted before the count under way, or the one that failed, began.
    counting: Usage,
    /// Accepted since.
    since: Usage,
}

impl Counted {
    const fn now(&self) -> Usage {
        plus(plus(self.known, self.counting), self.since)
    }
}

const fn plus(one: Usage, other: Usage) -> Usage {
    Usage {
        queued_jobs: one.queued_jobs.saturating_add(other.queued_jobs),
        stored_bytes: one.stored_bytes.saturating_add(other.stored_bytes),
    }
}

/// The tenants, and how often they were counted. Room that is given back is taken off where it was added; what has become part
/// of a count of the ledger is not taken off again.
#[derive(Debug, Default)]
struct Counts {
    tenants: HashMap<TenantId, Counted>,
    /// Counts that were begun.
    begun: u64,
    /// The last of them that is done.
    queued_done: u64,
    stored_done: u64,
}

impl Counts {
    fn give_back(&mut self, tenant: TenantId, usage: Usage, taken_in: u64) {
        let Some(entry) = self.tenants.get_mut(&tenant) else { return };
        let taken = if taken_in >= self.begun { &mut entry.since } else { &mut entry.counting };
        if taken_in >= self.queued_done {
            taken.queued_jobs = taken.queued_jobs.saturating_sub(usage.queued_jobs);
        }
        if taken_in >= self.stored_done {
            taken.stored_bytes = taken.stored_bytes.saturating_sub(usage.stored_bytes);
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
    counted: Mutex<Counts>,
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

    fn counted(&self) -> MutexGuard<'_, Counts> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a tenant uses, as far as it is known.
    pub fn usage(&self, tenant: TenantId) -> Usage {
        self.counted().tenants.get(&tenant).map_or_else(Usage::default, Counted::now)
    }

    /// Takes room for so much until it is known whether it is stored; or says which quota is used up.
    pub fn reserve_usage(self: &Arc<Self>, tenant: TenantId, usage: Usage) -> Result<Room, QuotaExceeded> {
        let taken_in = self.take(tenant, usage)?;
        Ok(Room { quotas: Arc::clone(self), tenant, usage, taken_in })
    }

    /// Takes room for a job until it is known whether it is stored.
    pub fn reserve_job(self: &Arc<Self>, job: &NewJob) -> Result<Room, QuotaExceeded> {
        self.reserve_usage(job.tenant, Usage { queued_jobs: 1, stored_bytes: bytes_of(job) })
    }

    /// Takes off what was counted for what is not there any more.
    pub fn uncount_bytes(&self, tenant: TenantId, bytes: u64) {
        let mut counted = self.counted();
        let now = counted.begun;
        counted.give_back(tenant, Usage { queued_jobs: 0, stored_bytes: bytes }, now);
    }

    /// Takes room for so many bytes until it is known whether they are stored.
    pub fn reserve(self: &Arc<Self>, tenant: TenantId, bytes: u64) -> Result<Room, QuotaExceeded> {
        self.reserve_usage(tenant, Usage { queued_jobs: 0, stored_bytes: bytes })
    }

    /// The same, whether there is room or not.
    pub fn reserve_anyway(self: &Arc<Self>, tenant: TenantId, bytes: u64) -> Room {
        let usage = Usage { queued_jobs: 0, stored_bytes: bytes };
        let mut counted = self.counted();
        let taken_in = counted.begun;
        let since = &mut counted.tenants.entry(tenant).or_default().since;
        *since = plus(*since, usage);
        drop(counted);
        Room { quotas: Arc::clone(self), tenant, usage, taken_in }
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

    /// Takes room for hosts and groups, with everything that is said of them, until it is known whether they are stored.
    pub fn reserve_inventory(self: &Arc<Self>, tenant: TenantId, inventory: &Inventory) -> Result<Room, QuotaExceeded> {
        let names = |groups: &BTreeSet<GroupName>| groups.iter().map(|name| name.as_str().len() + 1).sum::<usize>();
        let hosts = inventory.hosts.iter().map(|host| {
            let said = json_bytes(&host.vars) + json_bytes(&host.labels) + json_bytes(&host.connection);
            host.name.as_str().len() + names(&host.groups) + said
        });
        let groups = inventory.groups.iter();
        let groups = groups.map(|group| group.name.as_str().len() + names(&group.groups) + json_bytes(&group.vars));
        self.reserve(tenant, hosts.chain(groups).map(|bytes| bytes as u64).sum())
    }

    /// Counts bytes that are stored whether there is room or not: the result of work that was done already.
    pub fn count_bytes(&self, tenant: TenantId, bytes: u64) {
        let mut counted = self.counted();
        let since = &mut counted.tenants.entry(tenant).or_default().since;
        since.stored_bytes = since.stored_bytes.saturating_add(bytes);
    }

    /// In which count this is taken.
    fn take(&self, tenant: TenantId, more: Usage) -> Result<u64, QuotaExceeded> {
        let mut counted = self.counted();
        let taken_in = counted.begun;
        let entry = counted.tenants.entry(tenant).or_default();
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
        entry.since = plus(entry.since, more);
        Ok(taken_in)
    }

    /// Counts what the ledger has. What is accepted meanwhile may be counted twice until the next time.
    pub async fn recount(&self, ledger: &dyn Ledger, stored_too: bool) -> StoreResult<()> {
        self.begin_count();
        let queued = ledger.queued_by_tenant().await?.into_iter().collect();
        let stored = if stored_too { Some(ledger.stored_by_tenant().await?.into_iter().collect()) } else { None };
        self.end_count(&queued, stored.as_ref());
        Ok(())
    }

    /// From now on a count is under way. What was accepted before it is part of it.
    fn begin_count(&self) {
        let mut counted = self.counted();
        counted.begun += 1;
        for entry in counted.tenants.values_mut() {
            entry.counting = plus(entry.counting, std::mem::take(&mut entry.since));
        }
    }

    /// Takes over a count. What was accepted since it began may not be part of it.
    fn end_count(&self, queued: &HashMap<TenantId, u64>, stored: Option<&HashMap<TenantId, u64>>) {
        let mut counted = self.counted();
        counted.queued_done = counted.begun;
        if stored.is_some() {
            counted.stored_done = counted.begun;
        }
        for tenant in queued.keys().chain(stored.iter().flat_map(|stored| stored.keys())) {
            counted.tenants.entry(*tenant).or_default();
        }
        for (tenant, entry) in &mut counted.tenants {
            entry.known.queued_jobs = queued.get(tenant).copied().unwrap_or(0);
            entry.counting.queued_jobs = 0;
            if let Some(stored) = stored {
                entry.known.stored_bytes = stored.get(tenant).copied().unwrap_or(0);
                entry.counting.stored_bytes = 0;
            }
        }
        counted.tenants.retain(|_, entry| entry.now() != Usage::default());
    }

    /// Returns some time after a limit was reached: perhaps there is room by now.
    pub async fn soon(&self, wait: Duration) {
        self.reached.notified().await;
        tokio::time::sleep(SOON.max(wait / 10)).await;
    }
}

/// What a job takes, with the jobs that an execution has started already.
pub fn usage_of(job: &NewJob) -> Usage {
    job.with_first_children()
        .fold(Usage::default(), |usage, job| plus(usage, Usage { queued_jobs: 1, stored_bytes: bytes_of(job) }))
}

/// What the ledger keeps of each host of a command, about: how far its number is from the one before.
const TARGET_BYTES: u64 = 2;

/// Bytes that a job adds to what is stored, with what an execution has done already.
fn bytes_of(job: &NewJob) -> u64 {
    let first = job.flow.as_deref().and_then(|flow| flow.first.as_ref());
    let targets = job.fleet.as_deref().map_or(0, |fleet| fleet.hosts.len() as u64 * TARGET_BYTES);
    job.payload.len() as u64 + first.map_or(0, NewTurn::bytes) + targets
}

/// Room for jobs or bytes that are being stored. It is given back when this is dropped, unless they were.
#[derive(Debug)]
#[must_use]
pub struct Room {
    quotas: Arc<Quotas>,
    tenant: TenantId,
    usage: Usage,
    taken_in: u64,
}

impl Room {
    /// The jobs or bytes are stored, or may be.
    pub fn keep(mut self) {
        self.usage = Usage::default();
    }

    /// From now on they may be stored, whatever becomes of the caller.
    pub fn pending(mut self) -> PendingRoom {
        let usage = std::mem::take(&mut self.usage);
        PendingRoom { quotas: Arc::clone(&self.quotas), tenant: self.tenant, usage, taken_in: self.taken_in }
    }

    /// Stores what the room is for. Where the answer says that nothing was added, the room is given back; where there is none,
    /// or the caller stops waiting for it, the next count of the ledger tells.
    pub async fn storing<T>(
        self,
        write: impl Future<Output = StoreResult<T>>,
        is_added: impl FnOnce(&T) -> bool,
    ) -> StoreResult<T> {
        let pending = self.pending();
        let answer = write.await;
        let added = match &answer {
            Ok(answer) => is_added(answer),
            Err(error) => matches!(error, StoreError::Unknown(_)),
        };
        if !added {
            pending.give_back_all();
        }
        answer
    }
}

/// Room for what may be stored already. It is kept when this is dropped.
#[derive(Debug)]
pub struct PendingRoom {
    quotas: Arc<Quotas>,
    tenant: TenantId,
    usage: Usage,
    taken_in: u64,
}

impl PendingRoom {
    /// Nothing was stored.
    pub fn give_back_all(self) {
        let usage = self.usage;
        self.give_back(usage);
    }

    /// This part of it was not stored.
    pub fn give_back(self, usage: Usage) {
        self.quotas.counted().give_back(self.tenant, usage, self.taken_in);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.usage != Usage::default() {
            self.quotas.counted().give_back(self.tenant, self.usage, self.taken_in);
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
            self.stored_at = Some(Instant::now() + pause_after(took, STORED_PAUSE));
        }
        pause_after(took, PAUSE)
    }
}

/// Counting must not be what the ledger is busy with.
fn pause_after(took: Duration, least: Duration) -> Duration {
    least.max(took * PART)
}

#[cfg(test)]
mod tests {
    use bowline_model::fleet::{HostLock, Rollout};
    use bowline_model::{JobStatus, Timestamp};
    use bowline_store::{FlowStanding, KeptDefinition, NewFleet, NewFlow};

    use super::*;
    use crate::fixture;

    #[test]
    fn a_job_takes_room_for_its_payload_its_hosts_and_what_its_execution_has_done() {
        let plain = fixture::job(fixture::tenant(1), 1, r#"{"a":1}"#);
        assert_eq!(usage_of(&plain), Usage { queued_jobs: 1, stored_bytes: 7 });
        let fleet = NewFleet {
            inventory: 1,
            hosts: vec![1, 2, 3],
            command: "uptime".into(),
            resource: None,
            lock: HostLock::default(),
            rollout: Rollout::default(),
            selector: None,
            deadline_ms: None,
            approval: None,
        };
        let command = NewJob { fleet: Some(Arc::new(fleet)), ..plain.clone() };
        assert_eq!(usage_of(&command), Usage { queued_jobs: 1, stored_bytes: 7 + 3 * TARGET_BYTES });
        let first = NewTurn {
            snapshot: Some("{}".into()),
            children: vec![plain.clone()],
            ..NewTurn::standing("[1,2,3,4,5]".into(), (0, 1), FlowStanding::of(JobStatus::Running))
        };
        let flow = NewFlow {
            definition: KeptDefinition { id: 1, hash: [0; 32], body: "{}".into() },
            workflow: "w".into(),
            workflow_version: None,
            forked_from: None,
            depth: 0,
            first: Some(first),
        };
        let execution = NewJob { flow: Some(Arc::new(flow)), ..plain };
        let (records, snapshot, child) = (11, 2, 7);
        let stored_bytes = 7 + records + snapshot + child;
        assert_eq!(usage_of(&execution), Usage { queued_jobs: 2, stored_bytes }, "the job that it has started counts");
    }

    #[test]
    fn whoever_has_more_than_the_quota_may_still_do_what_takes_nothing_of_it() {
        let quotas = Quotas::new(QuotaLimits { stored_bytes: 100, ..QuotaLimits::default() });
        let tenant = fixture::tenant(1);
        assert_eq!(quotas.has_room(tenant, 100), Ok(()));
        let exceeded = QuotaExceeded { quota: "stored_bytes", used: 0, max: 100 };
        assert_eq!(quotas.has_room(tenant, 101), Err(exceeded));
        quotas.count_bytes(tenant, 101);
        assert_eq!(quotas.has_room(tenant, 0), Ok(()));
        assert_eq!(quotas.has_room(tenant, 1), Err(QuotaExceeded { used: 101, ..exceeded }));
        let take = |queued_jobs: u64, stored_bytes: u64| quotas.take(tenant, Usage { queued_jobs, stored_bytes });
        assert!(take(1, 0).is_ok() && take(1, 1).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_stored_is_counted_less_often_than_what_waits() {
        let (ledger, quotas, tenant) = (fixture::ledger(), Quotas::new(QuotaLimits::default()), fixture::tenant(1));
        let submit = async |n: u8| {
            ledger.submit(vec![fixture::job(tenant, n, "1234567890")]).await.expect("stored");
        };
        let mut counter = QuotaCounter::default();
        submit(1).await;
        assert_eq!(counter.count(&quotas, &*ledger).await, PAUSE);
        let first = quotas.usage(tenant);
        assert_eq!(first, Usage { queued_jobs: 1, stored_bytes: 10 });
        submit(2).await;
        tokio::time::advance(PAUSE).await;
        counter.count(&quotas, &*ledger).await;
        assert_eq!(quotas.usage(tenant), Usage { queued_jobs: 2, ..first });
        tokio::time::advance(STORED_PAUSE - PAUSE).await;
        counter.count(&quotas, &*ledger).await;
        assert_eq!(quotas.usage(tenant), Usage { queued_jobs: 2, stored_bytes: 20 });
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_was_reached_is_a_reason_to_count_again_soon() {
        let quotas = Quotas::new(QuotaLimits { stored_bytes: 10, ..QuotaLimits::default() });
        let hour = Duration::from_secs(3_600);
        assert!(tokio::time::timeout(hour, quotas.soon(PAUSE)).await.is_err(), "no limit was reached");
        for (pause, seconds) in [(60, 6), (5, 1)] {
            assert!(quotas.reserve(fixture::tenant(1), 11).is_err());
            let begun = Instant::now();
            quotas.soon(Duration::from_secs(pause)).await;
            assert_eq!(begun.elapsed().as_secs(), seconds);
        }
    }

    #[test]
    fn everything_that_is_said_of_a_host_or_group_takes_room() {
        let bytes = |inventory: serde_json::Value| {
            let quotas = Quotas::new(QuotaLimits::default());
            let tenant = TenantId::mint(Timestamp::from_millis(1), [1; 10]);
            let inventory = serde_json::from_value(inventory).expect("an inventory");
            quotas.reserve_inventory(tenant, &inventory).expect("room").keep();
            quotas.usage(tenant).stored_bytes
        };
        let host = |more: serde_json::Value| {
            let mut host = serde_json::json!({"name": "web1", "connection": {"via": "agent"}});
            host.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
            bytes(serde_json::json!({"hosts": [host]}))
        };
        let plain = host(serde_json::json!({}));
        assert_eq!(host(serde_json::json!({"groups": ["prod"]})) - plain, "prod,".len() as u64);
        assert_eq!(host(serde_json::json!({"labels": {"a": "b"}})) - plain, r#""a":"b""#.len() as u64);
        assert_eq!(host(serde_json::json!({"vars": {"port": 80}})) - plain, r#""port":80"#.len() as u64);
        let group = |vars: serde_json::Value| bytes(serde_json::json!({"groups": [{"name": "prod", "vars": vars}]}));
        assert_eq!(group(serde_json::json!({"port": 80})) - group(serde_json::json!({})), r#""port":80"#.len() as u64);
    }

    #[test]
    fn a_count_that_takes_long_is_followed_by_a_longer_pause() {
        assert_eq!(pause_after(Duration::from_millis(1), PAUSE), PAUSE);
        assert_eq!(pause_after(Duration::from_secs(1), PAUSE), Duration::from_secs(50));
        assert_eq!(pause_after(Duration::from_secs(2), STORED_PAUSE), Duration::from_secs(100));
    }

    #[test]
    fn a_quota_counts_for_its_tenant_and_names_itself() {
        let quotas = Quotas::new(QuotaLimits { queued_jobs: 10, stored_bytes: 100, ..QuotaLimits::default() });
        let tenant = |n: u8| TenantId::mint(Timestamp::from_millis(1), [n; 10]);
        let take = |who: u8, queued_jobs: u64, stored_bytes: u64| {
            quotas.take(tenant(who), Usage { queued_jobs, stored_bytes }).map(drop)
        };
        assert_eq!(take(1, 10, 50), Ok(()));
        let full = take(1, 1, 0).expect_err("ten wait already");
        assert_eq!(full, QuotaExceeded { quota: "queued_jobs", used: 10, max: 10 });
        assert_eq!(take(1, 0, 51).expect_err("too much").quota, "stored_bytes");
        assert_eq!(take(1, 0, 50), Ok(()));

        assert_eq!(take(2, 10, 100), Ok(()), "another tenant has its own");
        assert_eq!(quotas.usage(tenant(1)), Usage { queued_jobs: 10, stored_bytes: 100 });
    }

    /// What is accepted while the ledger is being counted is not forgotten with the count before.
    #[test]
    fn what_is_accepted_during_a_count_still_counts() {
        let quotas = Quotas::new(QuotaLimits { queued_jobs: 10, stored_bytes: 100, ..QuotaLimits::default() });
        let tenant = TenantId::mint(Timestamp::from_millis(1), [1; 10]);
        quotas.take(tenant, Usage { queued_jobs: 3, stored_bytes: 30 }).expect("room");
        quotas.begin_count();
        quotas.take(tenant, Usage { queued_jobs: 2, stored_bytes: 20 }).expect("room");
        quotas.end_count(&HashMap::from([(tenant, 3)]), None);
        assert_eq!(quotas.usage(tenant), Usage { queued_jobs: 5, stored_bytes: 50 }, "bytes were not counted");
        quotas.begin_count();
        quotas.end_count(&HashMap::from([(tenant, 5)]), Some(&HashMap::from([(tenant, 50)])));
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

    /// Whenever it is given back: before a count, during one, or after it.
    #[test]
    fn room_is_given_back_once_and_takes_nothing_from_what_others_took() {
        for (counts_before, counts_after) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let quotas = Quotas::new(QuotaLimits { stored_bytes: 100, ..QuotaLimits::default() });
            let tenant = TenantId::mint(Timestamp::from_millis(1), [1; 10]);
            let count = |stored: u64| quotas.end_count(&HashMap::new(), Some(&HashMap::from([(tenant, stored)])));
            let refused = quotas.reserve(tenant, 60).expect("room");
            quotas.begin_count();
            quotas.reserve(tenant, 30).expect("room").keep();
            if counts_before == 1 {
                count(0);
            }
            drop(refused);
            if counts_before == 0 {
                assert_eq!(quotas.usage(tenant).stored_bytes, 30);
                count(0);
            }
            assert_eq!(quotas.usage(tenant).stored_bytes, 30, "{counts_before} {counts_after}");
            if counts_after == 1 {
                quotas.begin_count();
                count(30);
                assert_eq!(quotas.usage(tenant).stored_bytes, 30);
            }
        }
    }

    #[tokio::test]
    async fn room_is_kept_where_it_is_not_known_whether_it_is_used() {
        let quotas = Quotas::new(QuotaLimits { stored_bytes: 100, ..QuotaLimits::default() });
        let tenant = TenantId::mint(Timestamp::from_millis(1), [1; 10]);
        let why = || "why".to_owned();
        for (answer, kept) in [
            (Ok(true), 10),
            (Ok(false), 0),
            (Err(StoreError::Unknown(why())), 10),
            (Err(StoreError::Unavailable(why())), 0),
            (Err(StoreError::Conflict(why())), 0),
        ] {
            let before = quotas.usage(tenant).stored_bytes;
            let room = quotas.reserve(tenant, 10).expect("room");
            drop(room.storing(std::future::ready(answer.clone()), |added| *added).await);
            assert_eq!(quotas.usage(tenant).stored_bytes - before, kept, "{answer:?}");
        }
        let before = quotas.usage(tenant).stored_bytes;
        let mut left = Box::pin(
            quotas.reserve(tenant, 10).expect("room").storing(std::future::pending::<StoreResult<()>>(), |()| true),
        );
        assert!(left.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending());
        drop(left);
        assert_eq!(quotas.usage(tenant).stored_bytes - before, 10, "it may be stored for all the caller knows");
    }
}
