//! Promises about inventories: a description is made true, whole or not at all, and nobody else sees it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_model::event::EventKind;
use bowline_model::host::{Connection, GROUPS_MAX, Group, HOST_GROUPS_MAX, Host, Inventory, NESTED_MAX, Vars};
use bowline_model::{GroupName, HostName, InventoryName};
use serde_json::json;
use tokio::task::JoinSet;

use super::bench::{Bench, labels};
use crate::{EventFilter, HostRecord, InventoryPut, PutAnswer, PutCounts, StoreError, Unmentioned};

fn inventory() -> InventoryName {
    InventoryName::new("main").expect("a name")
}

fn host_name(text: &str) -> HostName {
    HostName::new(text).expect("a name")
}

fn groups(names: &[&str]) -> BTreeSet<GroupName> {
    names.iter().map(|name| GroupName::new(name).expect("a name")).collect()
}

fn host(name: &str) -> Host {
    Host::named(host_name(name))
}

fn group(name: &str, members: &[&str]) -> Group {
    Group { name: GroupName::new(name).expect("a name"), groups: groups(members), vars: Vars::new() }
}

/// A host about which everything is said.
fn full(name: &str) -> Host {
    let vars = json!({"deep": {"list": [1, 2.5, "x", null, true]}, "кириллица": "да"});
    Host {
        labels: labels(&[("role", "web"), ("site", "fra")]),
        groups: groups(&["a", "b"]),
        vars: vars.as_object().cloned().expect("an object"),
        connection: Connection::Ssh {
            address: Some("10.0.0.1".to_owned()),
            port: Some(2222),
            user: Some("deploy".to_owned()),
            through: labels(&[("dc", "fra")]),
        },
        ..host(name)
    }
}

fn wish(bench: &Bench, hosts: Vec<Host>, groups: Vec<Group>, unmentioned: Unmentioned) -> InventoryPut {
    let content = Arc::new(Inventory { hosts, groups });
    InventoryPut { tenant: bench.tenant, inventory: inventory(), content, unmentioned, by: "ops".into(), reason: None }
}

async fn put(bench: &Bench, hosts: Vec<Host>, groups: Vec<Group>, unmentioned: Unmentioned) -> PutAnswer {
    bench.ledger.put_inventory(wish(bench, hosts, groups, unmentioned)).await.expect("the ledger takes inventories")
}

async fn counts(bench: &Bench, hosts: Vec<Host>, groups: Vec<Group>, unmentioned: Unmentioned) -> PutCounts {
    match put(bench, hosts, groups, unmentioned).await {
        PutAnswer::Done(counts) => counts,
        PutAnswer::Circle(group) => panic!("{group} is in no circle"),
    }
}

async fn all(bench: &Bench) -> Vec<HostRecord> {
    let page = bench.ledger.list_hosts(bench.tenant, inventory(), None, 10_000).await.expect("the ledger can be read");
    assert_eq!(page.next, None);
    page.items
}

pub async fn a_described_host_is_found_as_it_was_described(bench: &Bench) {
    let wanted = full("web1");
    let done = counts(bench, vec![wanted.clone(), host("web2")], vec![], Unmentioned::Keep).await;
    assert_eq!(done, PutCounts { created: 2, revision: 1, ..PutCounts::default() });
    let found = bench.ledger.find_host(bench.tenant, inventory(), host_name("web1")).await.expect("read");
    let found = found.expect("it is there");
    assert_eq!(found.host, wanted);
    assert_eq!((found.created_at, found.updated_at), (bench.now(), bench.now()));
    let nobody = bench.ledger.find_host(bench.tenant, inventory(), host_name("web3")).await.expect("read");
    assert_eq!(nobody, None);
}

pub async fn describing_again_changes_only_what_differs(bench: &Bench) {
    counts(bench, vec![full("web1"), host("web2")], vec![group("prod", &["a"])], Unmentioned::Keep).await;
    let before = all(bench).await;
    let again = counts(bench, vec![full("web1"), host("web2")], vec![group("prod", &["a"])], Unmentioned::Keep).await;
    assert_eq!(again, PutCounts { unchanged: 2, revision: 1, ..PutCounts::default() }, "nothing to do, nothing done");
    bench.pass_ms(1_000);
    let changed = counts(bench, vec![host("web1")], vec![], Unmentioned::Keep).await;
    assert_eq!(changed, PutCounts { changed: 1, revision: 2, ..PutCounts::default() });
    let after = all(bench).await;
    assert_eq!(after[0].host, host("web1"));
    assert_eq!(after[0].id, before[0].id, "it is the same host");
    assert_eq!((after[0].created_at, after[0].updated_at), (before[0].created_at, bench.now()));
    assert_eq!(after[1], before[1]);
}

pub async fn what_is_not_mentioned_stays_or_goes_as_wanted(bench: &Bench) {
    counts(bench, vec![host("a"), host("b"), host("c")], vec![group("g", &[]), group("h", &[])], Unmentioned::Keep)
        .await;
    let kept = counts(bench, vec![host("b")], vec![group("h", &[])], Unmentioned::Keep).await;
    assert_eq!((kept.removed, kept.groups), (0, 0));
    let replaced = counts(bench, vec![host("b"), host("d")], vec![group("h", &[])], Unmentioned::Remove).await;
    assert_eq!(
        replaced,
        PutCounts { created: 1, unchanged: 1, removed: 2, groups: 1, revision: 2, ..PutCounts::default() }
    );
    let names: Vec<String> = all(bench).await.iter().map(|record| record.host.name.to_string()).collect();
    assert_eq!(names, ["b", "d"]);
    let left = bench.ledger.list_groups(bench.tenant, inventory()).await.expect("read");
    assert_eq!(left, [group("h", &[])]);
}

pub async fn a_host_that_comes_back_is_another_host(bench: &Bench) {
    counts(bench, vec![host("a")], vec![], Unmentioned::Keep).await;
    let first = all(bench).await[0].id;
    let gone =
        bench.ledger.remove_hosts(bench.tenant, inventory(), vec![host_name("a"), host_name("x")], "ops".into(), None);
    assert_eq!(gone.await.expect("the ledger takes orders"), 1);
    let again = bench.ledger.remove_hosts(bench.tenant, inventory(), vec![host_name("a")], "ops".into(), None);
    assert_eq!(again.await.expect("the ledger takes orders"), 0);
    assert!(all(bench).await.is_empty());
    counts(bench, vec![host("a")], vec![], Unmentioned::Keep).await;
    assert_ne!(all(bench).await[0].id, first);
}

pub async fn a_circle_of_groups_is_refused_and_nothing_changes(bench: &Bench) {
    counts(bench, vec![host("a")], vec![group("x", &["y"]), group("y", &[])], Unmentioned::Keep).await;
    let refused = put(bench, vec![host("b")], vec![group("y", &["x"])], Unmentioned::Keep).await;
    assert!(matches!(refused, PutAnswer::Circle(_)), "{refused:?}");
    assert_eq!(all(bench).await.len(), 1, "the host of the refused description is not there");
    // Without the old groups there is no circle.
    counts(bench, vec![host("a")], vec![group("y", &["x"])], Unmentioned::Remove).await;
}

/// Each description may fit by itself; what counts is what is there afterwards.
pub async fn variables_of_all_groups_together_are_bounded(bench: &Bench) {
    let large = |n: usize| {
        let vars = json!({"v": "x".repeat(250_000)});
        Group { vars: vars.as_object().cloned().expect("an object"), ..group(&format!("g{n:02}"), &[]) }
    };
    counts(bench, vec![], (0..8).map(large).collect(), Unmentioned::Keep).await;
    counts(bench, vec![], (8..16).map(large).collect(), Unmentioned::Keep).await;
    let refused = bench.ledger.put_inventory(wish(bench, vec![], vec![large(16)], Unmentioned::Keep)).await;
    assert!(matches!(refused, Err(StoreError::Quota { quota: "group_variables", .. })), "{refused:?}");
    assert_eq!(bench.ledger.list_groups(bench.tenant, inventory()).await.expect("read").len(), 16);
    counts(bench, vec![], vec![large(16)], Unmentioned::Remove).await;
}

pub async fn pages_of_hosts_are_bounded_in_bytes(bench: &Bench) {
    let large = |n: usize| {
        let vars = json!({"v": "x".repeat(250_000)});
        Host { vars: vars.as_object().cloned().expect("an object"), ..host(&format!("h{n:02}")) }
    };
    counts(bench, (0..40).map(large).collect(), vec![], Unmentioned::Keep).await;
    let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = bench.ledger.list_hosts(bench.tenant, inventory(), after, 100).await.expect("read");
        assert!((1..=16).contains(&page.items.len()), "{} hosts of 250 kB", page.items.len());
        seen.extend(page.items.into_iter().map(|record| record.host.name.to_string()));
        (after, pages) = (page.next, pages + 1);
        if after.is_none() {
            break;
        }
    }
    assert_eq!((seen.len(), pages), (40, 3));
    assert!(seen.is_sorted());
}

/// Each description may fit by itself; what counts is what is there afterwards.
pub async fn groups_and_groups_in_groups_are_bounded(bench: &Bench) {
    let name = |n: usize| GroupName::new(&format!("g{n}")).expect("a name");
    let some = |from: usize, to: usize| (from..to).map(|n| Group { name: name(n), ..group("g", &[]) }).collect();
    let refused = async |hosts: Vec<Host>, groups: Vec<Group>| match bench
        .ledger
        .put_inventory(wish(bench, hosts, groups, Unmentioned::Keep))
        .await
    {
        Err(StoreError::Quota { quota, .. }) => quota,
        other => panic!("{other:?}"),
    };
    counts(bench, vec![], some(0, GROUPS_MAX / 2), Unmentioned::Keep).await;
    counts(bench, vec![], some(GROUPS_MAX / 2, GROUPS_MAX), Unmentioned::Keep).await;
    assert_eq!(refused(vec![], some(GROUPS_MAX, GROUPS_MAX + 1)).await, "groups");
    counts(bench, vec![host("a")], vec![], Unmentioned::Keep).await;
    // Members that no group of their own is described for count, too.
    let members =
        |n: usize, count: usize| Group { groups: (10..10 + count).map(name).collect(), ..group(&format!("g{n}"), &[]) };
    counts(bench, vec![], (0..9).map(|n| members(n, GROUPS_MAX)).collect(), Unmentioned::Remove).await;
    assert_eq!(refused(vec![], vec![members(9, NESTED_MAX - 9 * GROUPS_MAX + 1)]).await, "nested_groups");
    counts(bench, vec![], vec![members(9, NESTED_MAX - 9 * GROUPS_MAX)], Unmentioned::Keep).await;
    let crowded = Host { groups: (0..=HOST_GROUPS_MAX).map(name).collect(), ..host("b") };
    assert_eq!(refused(vec![crowded], vec![]).await, "host_groups");
    assert!(all(bench).await.is_empty(), "it was taken out, and nothing of what was refused is there");
}

pub async fn hosts_are_listed_by_name_in_pages(bench: &Bench) {
    let hosts: Vec<Host> = (0..25).rev().map(|n| host(&format!("web{n:02}"))).chain([host("Zed")]).collect();
    counts(bench, hosts, vec![], Unmentioned::Keep).await;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = bench.ledger.list_hosts(bench.tenant, inventory(), after, 10).await.expect("read");
        assert!(page.items.len() <= 10);
        seen.extend(page.items.into_iter().map(|record| record.host.name.to_string()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let mut wanted = seen.clone();
    wanted.sort();
    assert_eq!(seen, wanted, "capitals first, on every engine");
    assert_eq!(seen.len(), 26);
}

pub async fn ten_thousand_hosts_come_in_one_go(bench: &Bench) {
    let hosts: Vec<Host> =
        (0..10_000).map(|n| Host { groups: groups(&["all-of-them"]), ..host(&format!("h{n:05}")) }).collect();
    let made = counts(bench, hosts.clone(), vec![], Unmentioned::Remove).await;
    assert_eq!(made.created, 10_000);
    let again = counts(bench, hosts, vec![], Unmentioned::Remove).await;
    assert_eq!((again.created, again.unchanged, again.removed), (0, 10_000, 0));
    let found = bench.ledger.find_inventory(bench.tenant, inventory()).await.expect("read").expect("it is there");
    assert_eq!((found.hosts, found.groups, found.revision), (10_000, 0, 1));
}

pub async fn whoever_stands_twice_in_a_description_is_what_the_last_line_says(bench: &Bench) {
    let done = counts(bench, vec![full("a"), host("a")], vec![], Unmentioned::Keep).await;
    assert_eq!(done.created, 1);
    assert_eq!(all(bench).await[0].host, host("a"));
}

pub async fn descriptions_at_once_are_made_true_one_after_the_other(bench: &Bench) {
    let mut writers = JoinSet::new();
    for n in 0..8 {
        let labels = labels(&[("by", &n.to_string())]);
        let hosts = (0..50).map(|m| Host { labels: labels.clone(), ..host(&format!("h{m}")) }).collect();
        let (ledger, put) = (bench.ledger.clone(), wish(bench, hosts, vec![], Unmentioned::Remove));
        writers.spawn(async move { ledger.put_inventory(put).await.expect("the ledger takes inventories") });
    }
    writers.join_all().await;
    let hosts = all(bench).await;
    assert_eq!(hosts.len(), 50);
    assert!(hosts.iter().all(|record| record.host.labels == hosts[0].host.labels), "one of them was the last");
}

pub async fn a_change_of_an_inventory_is_told_with_who_and_what(bench: &Bench) {
    counts(bench, vec![host("a")], vec![], Unmentioned::Keep).await;
    counts(bench, vec![host("a")], vec![], Unmentioned::Keep).await;
    let filter = EventFilter { kinds: vec![EventKind::InventoryChanged], ..EventFilter::default() };
    let told = bench.stream(filter.clone(), 1).await;
    assert_eq!(told.len(), 1, "nothing is told of nothing");
    let data = &told[0].1.data;
    assert_eq!(data.by.as_deref(), Some("ops"));
    assert_eq!(data.reason.as_deref(), Some("main: 1 hosts added, 0 changed, 0 removed, 0 groups changed"));
    let (gone, why) = (vec![host_name("a"), host_name("x")], Some("broken".to_owned()));
    assert_eq!(bench.ledger.remove_hosts(bench.tenant, inventory(), gone, "eve".into(), why).await, Ok(1));
    let told = bench.stream(filter, 2).await;
    let data = &told[1].1.data;
    let reason = "main: 0 hosts added, 0 changed, 1 removed, 0 groups changed: broken";
    assert_eq!((data.by.as_deref(), data.reason.as_deref()), (Some("eve"), Some(reason)));
}

pub async fn nobody_sees_or_changes_a_neighbours_inventory(bench: &Bench) {
    counts(bench, vec![host("a")], vec![group("g", &[])], Unmentioned::Keep).await;
    let (ledger, stranger) = (&bench.ledger, bench.neighbour);
    assert_eq!(ledger.find_inventory(stranger, inventory()).await.expect("read"), None);
    assert!(ledger.list_inventories(stranger).await.expect("read").is_empty());
    assert!(ledger.list_groups(stranger, inventory()).await.expect("read").is_empty());
    assert!(ledger.list_hosts(stranger, inventory(), None, 10).await.expect("read").items.is_empty());
    assert_eq!(ledger.find_host(stranger, inventory(), host_name("a")).await.expect("read"), None);
    let gone = ledger.remove_hosts(stranger, inventory(), vec![host_name("a")], "eve".into(), None).await;
    assert_eq!(gone.expect("the ledger takes orders"), 0);
    let own = InventoryPut {
        tenant: stranger,
        inventory: inventory(),
        content: Arc::new(Inventory::default()),
        unmentioned: Unmentioned::Remove,
        by: "eve".into(),
        reason: None,
    };
    ledger.put_inventory(own).await.expect("it is an inventory of their own");
    assert_eq!(all(bench).await.len(), 1);
}
