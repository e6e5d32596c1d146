//! Inventories as selectors see them: a whole one at a time, immutable, kept while it is the newest.
//!
//! *Snapshot*: an inventory at one revision. A job is resolved against one snapshot, so what somebody is shown before a
//! job runs and what it then runs on are the same hosts, or somebody is told.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use bowline_model::host::{Group, GroupTree, GroupVars, HostFacts, Selector, Vars};
use bowline_model::{GroupName, HostName, InventoryName, TenantId};
use bowline_store::{HostRecord, Ledger, StoreError, StoreResult};

/// Hosts that are read at a time.
const BITE: u32 = 5_000;
/// Hosts of all snapshots that are kept.
const KEPT_MAX: usize = 200_000;
/// How often a snapshot is begun anew because the inventory changed under it.
const TRIES_MAX: usize = 5;

/// An inventory at one revision.
#[derive(Debug)]
pub struct Snapshot {
    pub id: i64,
    pub name: InventoryName,
    pub revision: i64,
    /// By name.
    pub hosts: Vec<HostRecord>,
    pub groups: Vec<Group>,
    /// Which groups each host is in, through any number of steps.
    memberships: Vec<BTreeSet<GroupName>>,
    vars: GroupVars,
}

impl Snapshot {
    fn new(id: i64, name: InventoryName, revision: i64, hosts: Vec<HostRecord>, groups: Vec<Group>) -> Self {
        // The ledger refuses circles, so there is none.
        let tree = GroupTree::new(groups.iter().map(|group| (&group.name, &group.groups))).unwrap_or_default();
        let memberships = hosts.iter().map(|record| tree.expand(&record.host.groups)).collect();
        let vars = GroupVars::new(&groups);
        Self { id, name, revision, hosts, groups, memberships, vars }
    }

    /// The hosts that are meant, by name.
    pub fn select<'a>(&'a self, selector: &Selector) -> Vec<&'a HostRecord> {
        self.hosts
            .iter()
            .zip(&self.memberships)
            .filter(|(record, groups)| {
                selector.matches(HostFacts { name: &record.host.name, labels: &record.host.labels, groups })
            })
            .map(|(record, _)| record)
            .collect()
    }

    /// Whether one of these hosts is meant.
    pub fn any(&self, selector: &Selector, names: &BTreeSet<&HostName>) -> bool {
        self.select(selector).iter().any(|record| names.contains(&record.host.name))
    }

    pub fn find(&self, name: &HostName) -> Option<&HostRecord> {
        let at = self.hosts.binary_search_by(|record| record.host.name.as_str().cmp(name.as_str())).ok()?;
        self.hosts.get(at)
    }

    /// All groups of a host.
    pub fn groups_of(&self, name: &HostName) -> Option<&BTreeSet<GroupName>> {
        let at = self.hosts.binary_search_by(|record| record.host.name.as_str().cmp(name.as_str())).ok()?;
        self.memberships.get(at)
    }

    /// A host's variables, with those of its groups.
    pub fn vars_of(&self, record: &HostRecord) -> Vars {
        self.vars.effective(&record.host)
    }
}

type Key = (TenantId, InventoryName);

/// All inventories, newest snapshots kept.
#[derive(Debug)]
pub struct Inventories {
    ledger: Arc<dyn Ledger>,
    kept: Mutex<HashMap<Key, Arc<Snapshot>>>,
}

impl Inventories {
    pub fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger, kept: Mutex::default() }
    }

    /// The inventory as it is now; `None` if the tenant has no such inventory.
    pub async fn snapshot(&self, tenant: TenantId, name: &InventoryName) -> StoreResult<Option<Arc<Snapshot>>> {
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
            let hosts = self.all_hosts(tenant, name).await?;
            let groups = self.ledger.list_groups(tenant, name.clone()).await?;
            let after = self.ledger.find_inventory(tenant, name.clone()).await?;
            if after.is_some_and(|after| after.id == before.id && after.revision == before.revision) {
                let snapshot = Arc::new(Snapshot::new(before.id, name.clone(), before.revision, hosts, groups));
                self.keep(key, Arc::clone(&snapshot));
                return Ok(Some(snapshot));
            }
        }
        Err(StoreError::Conflict("the inventory changes too fast to be read; try again".to_owned()))
    }

    async fn all_hosts(&self, tenant: TenantId, name: &InventoryName) -> StoreResult<Vec<HostRecord>> {
        let (mut hosts, mut after) = (Vec::new(), None);
        loop {
            let page = self.ledger.list_hosts(tenant, name.clone(), after, BITE).await?;
            hosts.extend(page.items);
            after = page.next;
            if after.is_none() {
                return Ok(hosts);
            }
        }
    }

    fn keep(&self, key: Key, snapshot: Arc<Snapshot>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let others: usize = kept.iter().filter(|(other, _)| **other != key).map(|(_, s)| s.hosts.len()).sum();
        if others + snapshot.hosts.len() > KEPT_MAX {
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
            vec![host(1, "db1", &["db"]), host(2, "web1", &["web-fra"])],
            vec![group("all-web", &["web-fra"]), group("prod", &["all-web", "db"]), group("web-fra", &[])],
        )
    }

    #[test]
    fn a_selector_sees_groups_of_groups() {
        let snapshot = snapshot();
        let names = |text: &str| -> Vec<&str> {
            let selector = Selector::parse(text).expect("a selector");
            snapshot.select(&selector).into_iter().map(|record| record.host.name.as_str()).collect()
        };
        assert_eq!(names("@prod"), ["db1", "web1"]);
        assert_eq!(names("@prod & !db*"), ["web1"]);
        assert_eq!(names("@all-web"), ["web1"]);
        assert!(names("@nobody").is_empty());
    }
}
