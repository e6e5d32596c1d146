//! Inventories as selectors see them: a whole one at a time, immutable, kept while it is the newest.
//!
//! *Snapshot*: an inventory at one revision. A job is resolved against one snapshot, so what somebody is shown before a
//! job runs and what it then runs on are the same hosts, or somebody is told.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use bowline_model::host::{
    Group, GroupTree, GroupVars, HOSTS_MAX, HostFacts, HostVars, Selector, Steps, TooCostly, Vars, json_bytes,
};
use bowline_model::{GroupName, HostName, InventoryName, TenantId};
use bowline_store::{HostRecord, Ledger, StoreError, StoreResult};

use crate::aside::{self, Places};

/// Hosts that are read at a time.
const BITE: u32 = 5_000;
/// Hosts of all snapshots that are kept, and what is said of them as JSON.
const KEPT_MAX: usize = 200_000;
const KEPT_BYTES_MAX: usize = 256 << 20;
/// What may be said of all hosts of an inventory that is read as a whole, as JSON. In memory it is some times as much.
pub const SNAPSHOT_BYTES_MAX: usize = 256 << 20;
/// Inventories that are read as a whole at once.
const READ_AT_ONCE: usize = 4;
/// Memberships of hosts in groups that are worked out beforehand, for one snapshot.
const MEMBERSHIPS_KEPT_MAX: usize = 1_000_000;
/// How often a snapshot is begun anew because the inventory changed under it.
const TRIES_MAX: usize = 5;

/// Steps that a selection may take: about one for each byte of a name that is looked at, and for each term.
pub const SELECTION_STEPS_MAX: u64 = 200_000_000;
/// Steps of a selection that is made where it is asked for; a larger one goes to another thread.
pub(super) const STEPS_HERE: u64 = 100_000;
/// Hosts of an inventory that is looked through where it is asked for.
pub(super) const HOSTS_HERE: usize = 1_000;

/// An inventory at one revision.
#[derive(Debug)]
pub struct Snapshot {
    pub id: i64,
    pub name: InventoryName,
    pub revision: i64,
    /// By name.
    pub hosts: Vec<HostRecord>,
    pub groups: Vec<Group>,
    tree: GroupTree,
    /// Which groups each host is in, through any number of steps; the same for all hosts that are in the same groups
    /// themselves. Where that would take too much room it is worked out whenever somebody asks.
    memberships: Vec<Option<Arc<BTreeSet<GroupName>>>>,
    vars: GroupVars,
    /// What is said of its hosts, as JSON.
    bytes: usize,
}

impl Snapshot {
    fn new(id: i64, name: InventoryName, revision: i64, (hosts, bytes): ReadHosts, groups: Vec<Group>) -> Self {
        // The ledger refuses circles, so there is none.
        let tree = GroupTree::new(groups.iter().map(|group| (&group.name, &group.groups))).unwrap_or_default();
        let memberships = memberships(&tree, &hosts);
        let vars = GroupVars::new(groups.iter().cloned());
        Self { id, name, revision, hosts, groups, tree, memberships, vars, bytes }
    }

    /// The hosts that are meant, by name, as indexes of [`Self::hosts`]. A large selection is made on another thread.
    pub async fn select(self: &Arc<Self>, tenant: TenantId, selector: Selector) -> Result<Vec<usize>, TooCostly> {
        if self.hosts.len() <= HOSTS_HERE
            && let Ok(meant) = self.select_within(&selector, &mut Steps::up_to(STEPS_HERE))
        {
            return Ok(meant);
        }
        let snapshot = Arc::clone(self);
        let work = move || snapshot.select_within(&selector, &mut Steps::up_to(SELECTION_STEPS_MAX));
        aside::run(tenant, work).await
    }

    /// The same, as long as there are steps left.
    pub(super) fn select_within(&self, selector: &Selector, steps: &mut Steps) -> Result<Vec<usize>, TooCostly> {
        let mut meant = Vec::new();
        for at in 0..self.hosts.len() {
            if self.is_meant(selector, at, steps)? {
                meant.push(at);
            }
        }
        Ok(meant)
    }

    /// Whether one of these hosts is meant.
    pub(super) fn any(&self, selector: &Selector, hosts: &[HostRecord], steps: &mut Steps) -> Result<bool, TooCostly> {
        for record in hosts {
            if let Some(at) = self.index_of(&record.host.name)
                && self.is_meant(selector, at, steps)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_meant(&self, selector: &Selector, at: usize, steps: &mut Steps) -> Result<bool, TooCostly> {
        let (Some(record), Some(known)) = (self.hosts.get(at), self.memberships.get(at)) else { return Ok(false) };
        let groups = match known {
            Some(known) => Arc::clone(known),
            None => Arc::new(self.tree.expand_within(&record.host.groups, steps)?),
        };
        selector.matches(HostFacts { name: &record.host.name, labels: &record.host.labels, groups: &groups }, steps)
    }

    fn index_of(&self, name: &HostName) -> Option<usize> {
        self.hosts.binary_search_by(|record| record.host.name.as_str().cmp(name.as_str())).ok()
    }

    pub fn find(&self, name: &HostName) -> Option<&HostRecord> {
        self.hosts.get(self.index_of(name)?)
    }

    /// All groups of a host.
    pub fn groups_of(&self, name: &HostName) -> Option<Arc<BTreeSet<GroupName>>> {
        let at = self.index_of(name)?;
        match self.memberships.get(at)? {
            Some(known) => Some(Arc::clone(known)),
            None => Some(Arc::new(self.tree.expand(&self.hosts.get(at)?.host.groups))),
        }
    }

    /// How many hosts each group has, through any number of steps; as long as there are steps left.
    pub fn hosts_by_group(&self, steps: &mut Steps) -> Result<HashMap<GroupName, usize>, TooCostly> {
        // Hosts that are in the same groups themselves are counted together.
        let mut alike: HashMap<&BTreeSet<GroupName>, (usize, Option<&BTreeSet<GroupName>>)> = HashMap::new();
        for (record, known) in self.hosts.iter().zip(&self.memberships) {
            alike.entry(&record.host.groups).or_insert((0, known.as_deref())).0 += 1;
        }
        let mut counts: HashMap<GroupName, usize> = HashMap::new();
        for (own, (hosts, known)) in alike {
            let walked;
            let groups = match known {
                Some(known) => known,
                None => {
                    walked = self.tree.expand_within(own, steps)?;
                    &walked
                }
            };
            steps.take(groups.len())?;
            for group in groups {
                match counts.get_mut(group) {
                    Some(count) => *count += hosts,
                    None => drop(counts.insert(group.clone(), hosts)),
                }
            }
        }
        Ok(counts)
    }

    /// A host's variables and those of its groups, to look up by name.
    pub(super) fn host_vars<'a>(&'a self, record: &'a HostRecord) -> HostVars<'a> {
        self.vars.of(&record.host)
    }

    /// All variables of a host, with those of its groups.
    pub fn vars_of(&self, record: &HostRecord) -> Vars {
        self.vars.effective(&record.host)
    }
}

/// The groups of each host, through any number of steps, as far as there is room for them.
fn memberships(tree: &GroupTree, hosts: &[HostRecord]) -> Vec<Option<Arc<BTreeSet<GroupName>>>> {
    let mut left = MEMBERSHIPS_KEPT_MAX;
    let mut alike: HashMap<&BTreeSet<GroupName>, Option<Arc<BTreeSet<GroupName>>>> = HashMap::new();
    let known = hosts.iter().map(|record| {
        let known = alike.entry(&record.host.groups).or_insert_with_key(|own| {
            let all = if left == 0 { None } else { Some(tree.expand(own)) };
            left = left.saturating_sub(all.as_ref().map_or(0, BTreeSet::len));
            all.map(Arc::new)
        });
        known.clone()
    });
    known.collect()
}

type Key = (TenantId, InventoryName);

/// All inventories, newest snapshots kept.
#[derive(Debug)]
pub struct Inventories {
    ledger: Arc<dyn Ledger>,
    kept: Mutex<HashMap<Key, Arc<Snapshot>>>,
    reading: Places,
}

/// Hosts, and what is said of them as JSON.
type ReadHosts = (Vec<HostRecord>, usize);

impl Inventories {
    pub fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger, kept: Mutex::default(), reading: Places::new(READ_AT_ONCE) }
    }

    /// The inventory as it is now; `None` if the tenant has no such inventory.
    pub async fn snapshot(&self, tenant: TenantId, name: &InventoryName) -> StoreResult<Option<Arc<Snapshot>>> {
        let mut place = None;
        for _ in 0..TRIES_MAX {
            let Some(before) = self.ledger.find_inventory(tenant, name.clone()).await? else { return Ok(None) };
            let key = (tenant, name.clone());
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
            if let Some(kept) = kept
                && kept.id == before.id
                && kept.revision == before.revision
            {
                return Ok(Some(kept));
            }
            if place.is_none() {
                // Who waited for somebody who read the same finds it now.
                place = Some(self.reading.enter(tenant).await);
                let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
                if let Some(kept) = kept.filter(|kept| kept.id == before.id && kept.revision >= before.revision) {
                    return Ok(Some(kept));
                }
            }
            let hosts = self.all_hosts(tenant, name).await?;
            let groups = self.ledger.list_groups(tenant, name.clone()).await?;
            let after = self.ledger.find_inventory(tenant, name.clone()).await?;
            if after.is_some_and(|after| after.id == before.id && after.revision == before.revision) {
                let (id, revision, own) = (before.id, before.revision, name.clone());
                let snapshot = if hosts.0.len() <= HOSTS_HERE {
                    Snapshot::new(id, own, revision, hosts, groups)
                } else {
                    aside::run(tenant, move || Snapshot::new(id, own, revision, hosts, groups)).await
                };
                let snapshot = Arc::new(snapshot);
                self.keep(key, Arc::clone(&snapshot));
                return Ok(Some(snapshot));
            }
        }
        Err(StoreError::Conflict("the inventory changes too fast to be read; try again".to_owned()))
    }

    async fn all_hosts(&self, tenant: TenantId, name: &InventoryName) -> StoreResult<ReadHosts> {
        let (mut hosts, mut bytes, mut after) = (Vec::new(), 0, None);
        loop {
            let page = self.ledger.list_hosts(tenant, name.clone(), after, BITE).await?;
            bytes += page.items.iter().map(|record| json_bytes(&record.host)).sum::<usize>();
            hosts.extend(page.items);
            for (quota, used, max) in
                [("hosts", hosts.len(), HOSTS_MAX), ("inventory_bytes", bytes, SNAPSHOT_BYTES_MAX)]
            {
                if used > max {
                    return Err(StoreError::Quota { quota, used: used as u64, max: max as u64 });
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok((hosts, bytes));
            }
        }
    }

    fn keep(&self, key: Key, snapshot: Arc<Snapshot>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut hosts, mut bytes) = (snapshot.hosts.len(), snapshot.bytes);
        for (_, other) in kept.iter().filter(|(other, _)| **other != key) {
            hosts += other.hosts.len();
            bytes += other.bytes;
        }
        if hosts > KEPT_MAX || bytes > KEPT_BYTES_MAX {
            kept.clear();
        }
        kept.insert(key, snapshot);
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;
    use bowline_model::host::Host;

    use super::*;

    fn set(names: &[&str]) -> BTreeSet<GroupName> {
        names.iter().map(|name| GroupName::new(name).expect("a name")).collect()
    }

    fn group(name: &str, members: &[&str]) -> Group {
        Group { name: GroupName::new(name).expect("a name"), groups: set(members), vars: Vars::new() }
    }

    fn snapshot() -> Snapshot {
        let host = |id, name: &str, groups: &[&str]| HostRecord {
            id,
            host: Host { groups: set(groups), ..Host::named(HostName::new(name).expect("a name")) },
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        };
        Snapshot::new(
            1,
            InventoryName::new("main").expect("a name"),
            7,
            (vec![host(1, "db1", &["db"]), host(2, "web1", &["web-fra"])], 0),
            vec![group("all-web", &["web-fra"]), group("prod", &["all-web", "db"]), group("web-fra", &[])],
        )
    }

    #[test]
    fn a_selector_sees_groups_of_groups() {
        let snapshot = snapshot();
        let names = |text: &str| -> Vec<&str> {
            let selector = Selector::parse(text).expect("a selector");
            let meant = snapshot.select_within(&selector, &mut Steps::up_to(1_000)).expect("enough steps");
            meant.into_iter().map(|at| snapshot.hosts[at].host.name.as_str()).collect()
        };
        assert_eq!(names("@prod"), ["db1", "web1"]);
        assert_eq!(names("@prod & !db*"), ["web1"]);
        assert_eq!(names("@all-web"), ["web1"]);
        assert!(names("@none").is_empty());
    }

    fn long_names(count: i64) -> Arc<Snapshot> {
        let host = |id: i64| HostRecord {
            id,
            host: Host::named(HostName::new(&format!("{}{id:04}", "a".repeat(240))).expect("a name")),
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        };
        let name = InventoryName::new("main").expect("a name");
        Arc::new(Snapshot::new(1, name, 1, ((0..count).map(host).collect(), 0), Vec::new()))
    }

    /// Nothing else runs on this thread while a selection is made on it, so the other task shows that none is.
    #[tokio::test(flavor = "current_thread")]
    async fn a_large_selection_leaves_the_thread_free_and_ends_when_its_steps_are_used_up() {
        let snapshot = long_names(400);
        let tenant = TenantId::mint(Timestamp::from_millis(1), [1; 10]);
        let cheap = Selector::parse("*a*a*a*a*a*a*a*a*7").expect("a selector");
        assert_eq!(snapshot.select(tenant, cheap).await.map(|meant| meant.len()), Ok(40));
        let costly = Selector::parse("*b*|".repeat(4_000).trim_end_matches('|')).expect("a selector");
        let mut selection = std::pin::pin!(snapshot.select(tenant, costly));
        let mut others = 0;
        let chosen = loop {
            tokio::select! {
                biased;
                chosen = &mut selection => break chosen,
                () = tokio::task::yield_now() => others += 1,
            }
        };
        assert_eq!(chosen, Err(TooCostly));
        assert!(others > 10, "the thread was held up: {others} turns");
    }
}
