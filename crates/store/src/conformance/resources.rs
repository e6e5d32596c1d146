//! Promises about resources: versions are never lost or changed, and one pointer says which one counts.

use std::sync::Arc;

use bowline_model::event::EventKind;
use bowline_model::resource::ResourceKind;
use bowline_model::{ResourceName, TenantId};
use tokio::task::JoinSet;

use super::bench::{Bench, body, has_rung};
use crate::{
    Activated, Activation, ActiveStamp, Applying, Deleted, EventFilter, OnceKey, PruneMark, ResourceKey, ResourceOrder,
    ResourcePut, ResourceRecord, ResourceStored, Retention,
};

fn key(bench: &Bench, name: &str) -> ResourceKey {
    ResourceKey { tenant: bench.tenant, kind: ResourceKind::Command, name: ResourceName::new(name).expect("a name") }
}

fn wish(bench: &Bench, name: &str, spec: &str) -> ResourcePut {
    ResourcePut {
        key: key(bench, name),
        spec: spec.into(),
        note: None,
        source: None,
        by: "ann".into(),
        activate: true,
        seen: None,
    }
}

async fn put(bench: &Bench, put: ResourcePut) -> ResourceStored {
    bench.ledger.put_resource(put).await.expect("the ledger takes resources")
}

async fn find(bench: &Bench, name: &str, version: Option<u32>) -> Option<ResourceRecord> {
    bench.ledger.find_resource(key(bench, name), version).await.expect("the ledger can be read")
}

fn order(bench: &Bench, name: &str) -> ResourceOrder {
    ResourceOrder { key: key(bench, name), by: "bob".into(), reason: Some("it broke".to_owned()) }
}

pub async fn a_resource_is_stored_and_found_as_it_was_written(bench: &Bench) {
    let spec = r#"{"argv":["echo","\u00e9 \"x\""],"n":1.50}"#;
    let stored = put(bench, ResourcePut { note: Some("first".to_owned()), ..wish(bench, "greet", spec) }).await;
    assert_eq!(stored, ResourceStored::Stored { version: 1, active: Some(1) });
    let found = find(bench, "greet", None).await.expect("it is there");
    assert_eq!((found.active, found.latest), (Some(1), 1));
    assert_eq!(&*found.version.spec, spec);
    assert_eq!((found.version.note.as_deref(), found.version.by.as_str()), (Some("first"), "ann"));
    assert_eq!(found.version.at, bench.now());
    assert_eq!(find(bench, "other", None).await, None);
    assert_eq!(find(bench, "greet", Some(2)).await, None);
}

/// Whoever was told of a change finds it, however often the resource was looked for before.
pub async fn a_change_is_found_by_whoever_was_told_of_it(bench: &Bench) {
    let spec = async |version| {
        let found = find(bench, "greet", version).await;
        assert_eq!(found, find(bench, "greet", version).await);
        found.map(|found| (found.active, found.version.spec.to_string()))
    };
    let is = |active, spec: &str| Some((active, spec.to_owned()));
    assert_eq!(spec(None).await, None);
    put(bench, wish(bench, "greet", "1")).await;
    assert_eq!(spec(None).await, is(Some(1), "1"));
    put(bench, wish(bench, "greet", "2")).await;
    assert_eq!((spec(None).await, spec(Some(1)).await), (is(Some(2), "2"), is(Some(2), "1")));
    bench.ledger.activate_resource(order(bench, "greet"), 1).await.expect("the ledger takes orders");
    assert_eq!((spec(None).await, spec(Some(2)).await), (is(Some(1), "1"), is(Some(1), "2")));
    assert_eq!(bench.ledger.delete_resource(order(bench, "greet")).await, Ok(Deleted::Done));
    assert_eq!((spec(None).await, spec(Some(1)).await), (None, None));
    bench.ledger.apply(vec![Applying::Resource(wish(bench, "greet", "3"))]).await.expect("the ledger takes documents");
    assert_eq!(spec(None).await, is(Some(1), "3"));
}

pub async fn storing_the_same_again_makes_no_version(bench: &Bench) {
    put(bench, wish(bench, "greet", "{}")).await;
    let again = put(bench, wish(bench, "greet", "{}")).await;
    assert_eq!(again, ResourceStored::Unchanged { version: 1, active: Some(1), activated: false });
    assert_eq!(find(bench, "greet", None).await.expect("there").latest, 1);
}

pub async fn a_version_may_wait_before_it_counts(bench: &Bench) {
    put(bench, wish(bench, "greet", "1")).await;
    let stored = put(bench, ResourcePut { activate: false, ..wish(bench, "greet", "2") }).await;
    assert_eq!(stored, ResourceStored::Stored { version: 2, active: Some(1) });
    assert_eq!(&*find(bench, "greet", None).await.expect("there").version.spec, "1");
    assert_eq!(&*find(bench, "greet", Some(2)).await.expect("there").version.spec, "2");
    // The same wish, now to count: no third version is needed for that.
    let same = put(bench, wish(bench, "greet", "2")).await;
    assert_eq!(same, ResourceStored::Unchanged { version: 2, active: Some(2), activated: true });
}

pub async fn a_resource_that_was_never_activated_shows_its_latest(bench: &Bench) {
    put(bench, ResourcePut { activate: false, ..wish(bench, "greet", "1") }).await;
    put(bench, ResourcePut { activate: false, ..wish(bench, "greet", "2") }).await;
    let found = find(bench, "greet", None).await.expect("there");
    assert_eq!((found.active, &*found.version.spec), (None, "2"));
}

pub async fn going_back_is_moving_the_pointer(bench: &Bench) {
    for spec in ["1", "2", "3"] {
        put(bench, wish(bench, "greet", spec)).await;
    }
    let answer = bench.ledger.activate_resource(order(bench, "greet"), 1).await.expect("the ledger takes orders");
    assert_eq!(answer, Activated::Done { before: Some(3) });
    let again = bench.ledger.activate_resource(order(bench, "greet"), 1).await.expect("the ledger takes orders");
    assert_eq!(again, Activated::Unchanged);
    let found = find(bench, "greet", None).await.expect("there");
    assert_eq!((found.active, found.latest, &*found.version.spec), (Some(1), 3, "1"));
    for version in [0, 4] {
        let answer = bench.ledger.activate_resource(order(bench, "greet"), version).await.expect("orders");
        assert_eq!(answer, Activated::NotFound);
    }
    // A wish that says what the latest version says, while an older one counts.
    let stored = put(bench, wish(bench, "greet", "3")).await;
    assert_eq!(stored, ResourceStored::Unchanged { version: 3, active: Some(3), activated: true });
}

/// Going back twice because an answer was lost goes back once.
pub async fn an_activation_is_carried_out_once_for_its_key(bench: &Bench) {
    for spec in ["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"] {
        put(bench, wish(bench, "one", spec)).await;
    }
    let once = |text: &str| Some(OnceKey { key: "k".to_owned(), hash: body(text) });
    let back = |version, text| Activation { order: order(bench, "one"), version, rollback: true, once: once(text) };
    assert_eq!(bench.ledger.activate(back(2, "a")).await, Ok(Activated::Done { before: Some(3) }));
    let before = Activated::Replayed { version: 2, before: Some(3) };
    assert_eq!(bench.ledger.activate(back(1, "a")).await, Ok(before), "whatever it would be by now");
    assert_eq!(bench.ledger.find_activation(key(bench, "one"), once("a").expect("a key")).await, Ok(Some(before)));
    assert_eq!(bench.ledger.activate(back(1, "b")).await, Ok(Activated::KeyConflict));
    assert_eq!(find(bench, "one", None).await.and_then(|found| found.active), Some(2));
    // After its time a key is new.
    bench.pass_ms(Bench::KEY_TTL_MS);
    let day = Retention { finished_jobs_ms: 86_400_000, events_ms: 86_400_000 };
    bench.ledger.prune(day, PruneMark::default()).await.expect("the ledger can be pruned");
    assert_eq!(bench.ledger.activate(back(1, "a")).await, Ok(Activated::Done { before: Some(2) }));
}

pub async fn a_writer_who_has_not_seen_the_latest_is_told(bench: &Bench) {
    put(bench, ResourcePut { seen: Some(0), ..wish(bench, "greet", "1") }).await;
    let second = put(bench, ResourcePut { seen: Some(0), ..wish(bench, "greet", "2") }).await;
    assert_eq!(second, ResourceStored::Overtaken { latest: 1 });
    let third = put(bench, ResourcePut { seen: Some(1), ..wish(bench, "greet", "3") }).await;
    assert_eq!(third, ResourceStored::Stored { version: 2, active: Some(2) });
    let of_nothing = put(bench, ResourcePut { seen: Some(1), ..wish(bench, "nothing", "3") }).await;
    assert_eq!(of_nothing, ResourceStored::Overtaken { latest: 0 });
    assert_eq!(find(bench, "nothing", None).await, None);
}

pub async fn writers_at_once_get_a_version_each(bench: &Bench) {
    let mut writers = JoinSet::new();
    for n in 0..10 {
        let (ledger, put) = (bench.ledger.clone(), wish(bench, "greet", &n.to_string()));
        writers.spawn(async move { ledger.put_resource(put).await.expect("the ledger takes resources") });
    }
    let mut versions: Vec<u32> = writers
        .join_all()
        .await
        .into_iter()
        .map(|stored| match stored {
            ResourceStored::Stored { version, .. } => version,
            other => panic!("{other:?}"),
        })
        .collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=10).collect::<Vec<u32>>());
}

pub async fn resources_are_listed_by_name_and_versions_newest_first(bench: &Bench) {
    for n in 0..12 {
        put(bench, wish(bench, &format!("r{n:02}"), "{}")).await;
    }
    for n in 0..5 {
        put(bench, wish(bench, "r03", &n.to_string())).await;
    }
    let list = |after| bench.ledger.list_resources(bench.tenant, ResourceKind::Command, after, 8);
    let first = list(None).await.expect("read");
    assert_eq!(first.items.len(), 8);
    let second = list(first.next.clone()).await.expect("read");
    assert_eq!((second.items.len(), second.next), (4, None));
    assert!(first.items.iter().chain(&second.items).map(|r| r.name.as_str()).is_sorted());
    let versions = bench.ledger.list_versions(key(bench, "r03"), None, 4).await.expect("read").expect("there");
    assert_eq!(versions.items.iter().map(|v| v.version).collect::<Vec<_>>(), [6, 5, 4, 3]);
    let rest = bench.ledger.list_versions(key(bench, "r03"), versions.next, 4).await.expect("read").expect("there");
    assert_eq!(rest.items.iter().map(|v| v.version).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(bench.ledger.list_versions(key(bench, "nothing"), None, 4).await.expect("read"), None);
}

pub async fn lists_of_resources_are_bounded_in_bytes(bench: &Bench) {
    let long = |mark: &str| format!(r#"{{"{mark}":"{}"}}"#, "x".repeat(3 << 20));
    for name in ["a", "b", "c"] {
        put(bench, wish(bench, name, &long(name))).await;
    }
    put(bench, wish(bench, "a", &long("again"))).await;
    let (mut after, mut pages) = (None, Vec::new());
    loop {
        let page = bench.ledger.list_resources(bench.tenant, ResourceKind::Command, after, 10).await.expect("read");
        pages.push(page.items.iter().map(|found| found.name.to_string()).collect::<Vec<_>>());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [["a"], ["b"], ["c"]], "two of them would be more than a page");
    let versions = async |before| {
        let page = bench.ledger.list_versions(key(bench, "a"), before, 10).await.expect("read").expect("there");
        (page.items.iter().map(|found| found.version).collect::<Vec<_>>(), page.next)
    };
    assert_eq!(versions(None).await, (vec![2], Some(2)));
    assert_eq!(versions(Some(2)).await, (vec![1], None));
}

pub async fn a_version_keeps_the_document_it_was_applied_from(bench: &Bench) {
    let from =
        |spec: &str, source: Option<&str>| ResourcePut { source: source.map(Into::into), ..wish(bench, "greet", spec) };
    let source = async |version| find(bench, "greet", version).await.and_then(|found| found.version.source);
    put(bench, from("1", Some("# one\n1"))).await;
    assert_eq!(source(None).await.as_deref(), Some("# one\n1"));
    // Only the comment is another one: the version stays, and its document is the newer one.
    let unchanged = ResourceStored::Unchanged { version: 1, active: Some(1), activated: false };
    assert_eq!(put(bench, from("1", Some("# uno\n1"))).await, unchanged);
    assert_eq!(source(None).await.as_deref(), Some("# uno\n1"));
    // Without a document, the one that says the same stays.
    assert_eq!(put(bench, from("1", None)).await, unchanged);
    assert_eq!(source(None).await.as_deref(), Some("# uno\n1"));
    put(bench, from("2", None)).await;
    assert_eq!((source(None).await, source(Some(1)).await.as_deref()), (None, Some("# uno\n1")));
    let stored = bench.ledger.apply(vec![Applying::Resource(from("2", Some("# two\n2")))]).await;
    stored.expect("the ledger takes documents");
    assert_eq!(source(None).await.as_deref(), Some("# two\n2"));
    let listed = bench.ledger.list_resources(bench.tenant, ResourceKind::Command, None, 10).await.expect("read");
    assert_eq!(listed.items[0].version.source.as_deref(), Some("# two\n2"));
}

pub async fn a_deleted_resource_is_gone_with_its_versions(bench: &Bench) {
    put(bench, wish(bench, "greet", "1")).await;
    let delete = || bench.ledger.delete_resource(order(bench, "greet"));
    assert_eq!(delete().await.expect("the ledger takes orders"), Deleted::Done);
    assert_eq!(delete().await.expect("the ledger takes orders"), Deleted::NotFound);
    assert_eq!(find(bench, "greet", Some(1)).await, None);
    assert_eq!(put(bench, wish(bench, "greet", "2")).await, ResourceStored::Stored { version: 1, active: Some(1) });
}

/// Nobody takes a secret from under a command that names it. What a command said once, or another one's name like it, counts
/// for nothing.
pub async fn a_secret_that_a_command_names_is_not_deleted(bench: &Bench) {
    let secret = |name: &str| ResourceKey { kind: ResourceKind::SecretRef, ..key(bench, name) };
    let delete = async |name: &str| {
        let order = ResourceOrder { key: secret(name), ..order(bench, name) };
        bench.ledger.delete_resource(order).await.expect("the ledger takes orders")
    };
    for name in ["db", "db2"] {
        put(bench, ResourcePut { key: secret(name), ..wish(bench, name, "{}") }).await;
    }
    put(bench, wish(bench, "dump", r#"{"argv":["dump"],"secrets":{"PASS":"secret://db"}}"#)).await;
    assert_eq!(delete("db").await, Deleted::InUse("the command type dump".to_owned()));
    assert_eq!(delete("db2").await, Deleted::Done, "it is another one");
    put(bench, wish(bench, "dump", r#"{"argv":["dump"]}"#)).await;
    let broker = |secret: &str| ResourcePut {
        key: ResourceKey { kind: ResourceKind::Rabbitmq, ..key(bench, "mq") },
        ..wish(bench, "mq", &format!(r#"{{"url":"amqp://mq","password":{{"secret_ref":"{secret}"}}}}"#))
    };
    put(bench, broker("db")).await;
    assert_eq!(delete("db").await, Deleted::InUse("the broker mq".to_owned()));
    put(bench, broker("db3")).await;
    assert_eq!(delete("db").await, Deleted::Done);
}

pub async fn what_happens_to_resources_is_told_with_who_and_why(bench: &Bench) {
    put(bench, wish(bench, "greet", "1")).await;
    put(bench, wish(bench, "greet", "2")).await;
    bench.ledger.activate_resource(order(bench, "greet"), 1).await.expect("orders");
    bench.ledger.delete_resource(order(bench, "greet")).await.expect("orders");
    let filter = EventFilter { tenant: Some(bench.tenant), ..EventFilter::default() };
    let events = bench.stream(filter, 4).await;
    let told: Vec<_> = events.iter().map(|(_, event)| (event.kind, event.data.by.as_deref().unwrap_or(""))).collect();
    assert_eq!(
        told,
        [
            (EventKind::ResourceStored, "ann"),
            (EventKind::ResourceStored, "ann"),
            (EventKind::ResourceActivated, "bob"),
            (EventKind::ResourceDeleted, "bob"),
        ]
    );
    let why = events[2].1.data.reason.as_deref().unwrap_or("");
    assert!(why.contains("version 1 instead of 2") && why.contains("it broke"), "{why}");
}

pub async fn nobody_sees_or_changes_a_neighbours_resource(bench: &Bench) {
    put(bench, wish(bench, "greet", "1")).await;
    put(bench, wish(bench, "greet", "2")).await;
    let theirs = ResourceKey { tenant: bench.neighbour, ..key(bench, "greet") };
    let ledger = &bench.ledger;
    assert_eq!(ledger.find_resource(theirs.clone(), None).await.expect("read"), None);
    assert_eq!(ledger.list_versions(theirs.clone(), None, 10).await.expect("read"), None);
    assert!(
        ledger.list_resources(bench.neighbour, ResourceKind::Command, None, 10).await.expect("read").items.is_empty()
    );
    let order = ResourceOrder { key: theirs.clone(), by: "eve".into(), reason: None };
    assert_eq!(ledger.activate_resource(order.clone(), 1).await.expect("orders"), Activated::NotFound);
    assert_eq!(ledger.delete_resource(order).await.expect("orders"), Deleted::NotFound);
    let own = ResourcePut { key: theirs, ..wish(bench, "greet", "theirs") };
    assert_eq!(put(bench, own).await, ResourceStored::Stored { version: 1, active: Some(1) });
    assert_eq!(&*find(bench, "greet", None).await.expect("there").version.spec, "2");
}

pub async fn documents_are_applied_together_or_not_at_all(bench: &Bench) {
    use bowline_model::host::{Group, Host, Inventory, Vars};
    use bowline_model::{GroupName, HostName, InventoryName};

    use crate::{Applied, AppliedOne, InventoryPut, NotApplied, PutCounts, Unmentioned};

    let inventory = InventoryName::new("main").expect("a name");
    let group = |name: &str| GroupName::new(name).expect("a name");
    let groups = |name: &str, inside: &str| {
        let inside = if inside.is_empty() { Default::default() } else { [group(inside)].into() };
        let host = Host::named(HostName::new(name).expect("a name"));
        let content = Inventory {
            hosts: vec![host],
            groups: vec![Group { name: group(name), groups: inside, vars: Vars::new() }],
        };
        Applying::Inventory(InventoryPut {
            tenant: bench.tenant,
            inventory: inventory.clone(),
            content: Arc::new(content),
            unmentioned: Unmentioned::Keep,
            by: "ann".into(),
            reason: None,
        })
    };
    let resource = |name: &str, seen: Option<u32>| {
        let key = ResourceKey {
            tenant: bench.tenant,
            kind: ResourceKind::Command,
            name: ResourceName::new(name).expect("a name"),
        };
        Applying::Resource(ResourcePut {
            key,
            spec: "{}".into(),
            note: None,
            source: None,
            by: "ann".into(),
            activate: true,
            seen,
        })
    };
    let apply = |documents: Vec<Applying>| bench.ledger.apply(documents);

    let done = apply(vec![resource("b", None), groups("inner", ""), resource("a", None)]).await.expect("orders");
    let stored = AppliedOne::Resource(ResourceStored::Stored { version: 1, active: Some(1) });
    let made = AppliedOne::Inventory(PutCounts { created: 1, groups: 1, revision: 1, ..PutCounts::default() });
    assert_eq!(done, Applied::Done(vec![stored, made, stored]), "in the order of the documents");

    // The last in line is refused: what came before it is taken back, and what others do is not.
    let refused = apply(vec![resource("c", None), groups("outer", "inner"), resource("a", Some(7))]);
    let (refused, other) = tokio::join!(refused, bench.ledger.apply(vec![resource("d", None)]));
    let why = NotApplied::Overtaken { latest: 1 };
    // Equal content is no conflict; it would be, if it said something else.
    assert!(matches!(&refused, Ok(Applied::Done(_))), "{refused:?}");
    assert_eq!(other.expect("orders"), Applied::Done(vec![stored]));
    let Applying::Resource(changed) = resource("a", Some(7)) else { panic!("a resource") };
    let changed = Applying::Resource(ResourcePut { spec: r#"{"x":1}"#.into(), ..changed });
    let refused = apply(vec![resource("e", None), groups("more", ""), changed]).await.expect("orders");
    assert_eq!(refused, Applied::Refused { document: 2, why });
    let circle = apply(vec![resource("e", None), groups("inner", "outer")]).await.expect("orders");
    assert!(matches!(circle, Applied::Refused { document: 1, why: NotApplied::Circle(_) }), "{circle:?}");
    let key = ResourceKey {
        tenant: bench.tenant,
        kind: ResourceKind::Command,
        name: ResourceName::new("e").expect("a name"),
    };
    assert_eq!(bench.ledger.find_resource(key, None).await.expect("read"), None, "nothing of a refused list is there");
    let hosts = bench.ledger.list_hosts(bench.tenant, inventory, None, 10).await.expect("read").items;
    assert_eq!(hosts.iter().map(|record| record.host.name.as_str()).collect::<Vec<_>>(), ["inner", "outer"]);
}

pub async fn a_broker_that_a_trigger_reads_from_is_not_deleted(bench: &Bench) {
    let of = |kind, name: &str| ResourceKey { kind, ..key(bench, name) };
    let (broker, other) = (of(ResourceKind::Rabbitmq, "mq"), of(ResourceKind::Rabbitmq, "mq-2"));
    for key in [&broker, &other] {
        put(bench, ResourcePut { key: key.clone(), ..wish(bench, "mq", "{}") }).await;
    }
    let reads = r#"{"rabbitmq":{"broker":"mq","queue":"q"}}"#;
    let trigger = of(ResourceKind::Trigger, "orders");
    put(bench, ResourcePut { key: trigger.clone(), ..wish(bench, "orders", reads) }).await;
    let delete = |key: &ResourceKey| {
        let order = ResourceOrder { key: key.clone(), ..order(bench, "mq") };
        bench.ledger.delete_resource(order)
    };
    let in_use = Deleted::InUse("the trigger orders".to_owned());
    assert_eq!(delete(&broker).await.expect("the ledger answers"), in_use);
    assert_eq!(delete(&other).await.expect("the ledger answers"), Deleted::Done);
    assert_eq!(delete(&trigger).await.expect("the ledger answers"), Deleted::Done);
    assert_eq!(delete(&broker).await.expect("the ledger answers"), Deleted::Done);
}

/// Whoever reads from brokers looks again where they are.
pub async fn another_place_of_a_broker_rings(bench: &Bench) {
    let name = ResourceName::new("rabbit").expect("a name");
    let key = ResourceKey { tenant: bench.tenant, kind: ResourceKind::Rabbitmq, name };
    let mut bell = bench.ledger.timer_wake().listen();
    put(bench, ResourcePut { key, ..wish(bench, "rabbit", "1") }).await;
    assert!(has_rung(&mut bell).await);
}

pub async fn what_counts_is_listed_for_all_tenants(bench: &Bench) {
    let kind = ResourceKind::Trigger;
    let of = |tenant, name: &str| ResourceKey { tenant, kind, name: ResourceName::new(name).expect("a name") };
    for (tenant, name, activate) in [
        (bench.tenant, "b", true),
        (bench.neighbour, "a", true),
        (bench.tenant, "waits", false),
        (bench.tenant, "c", true),
    ] {
        put(bench, ResourcePut { key: of(tenant, name), activate, ..wish(bench, name, "1") }).await;
    }
    put(bench, ResourcePut { key: of(bench.tenant, "b"), activate: false, ..wish(bench, "b", "2") }).await;
    put(bench, wish(bench, "another-kind", "1")).await;
    let (mut after, mut listed) = (0, Vec::new());
    loop {
        let page = bench.ledger.list_active(kind, after, 2).await.expect("the ledger can be read");
        assert!(page.items.len() <= 2);
        let stamps = bench.ledger.list_active_stamps(kind, after, 2).await.expect("the ledger can be read");
        let stamp = |(tenant, found): &(TenantId, ResourceRecord)| ActiveStamp {
            id: found.id,
            tenant: *tenant,
            name: found.name.clone(),
            version: found.version.version,
            owner: found.owner.clone().unwrap_or_else(|| found.version.by.clone()),
        };
        assert_eq!(stamps.items, page.items.iter().map(stamp).collect::<Vec<_>>());
        assert_eq!(stamps.next, page.next);
        let ours = page.items.into_iter().filter(|(tenant, _)| [bench.tenant, bench.neighbour].contains(tenant));
        listed.extend(ours.map(|(tenant, found)| (tenant, found.name.to_string(), found.version.spec.to_string())));
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    let expected = [(bench.tenant, "b"), (bench.neighbour, "a"), (bench.tenant, "c")];
    assert_eq!(listed, expected.map(|(tenant, name)| (tenant, name.to_owned(), "1".to_owned())));
}
