//! Promises about what tenants use, and about evaluations that are set aside.

use std::sync::Arc;

use bowline_model::audit::Action;
use bowline_model::host::{Group, Host, Inventory};
use bowline_model::resource::ResourceKind;
use bowline_model::{EventKind, GroupName, HostName, InventoryName, JobStatus, ResourceName, TenantId};
use serde_json::json;

use super::bench::Bench;
use crate::{
    EventFilter, FlowAnswer, FlowOrder, FlowStanding, InventoryPut, NewFlow, NewJob, NewTurn, ResourceKey, ResourcePut,
    ToldEvent, ToldEvents, TurnOrder, Unmentioned,
};

async fn queued(bench: &Bench, tenant: TenantId) -> u64 {
    let all = bench.ledger.queued_by_tenant().await.expect("counted");
    all.iter().find(|(of, _)| *of == tenant).map_or(0, |(_, count)| *count)
}

pub(super) async fn stored(bench: &Bench, tenant: TenantId) -> u64 {
    let all = bench.ledger.stored_by_tenant().await.expect("counted");
    all.iter().find(|(of, _)| *of == tenant).map_or(0, |(_, count)| *count)
}

pub async fn waiting_jobs_are_counted_for_each_tenant(bench: &Bench) {
    bench.submit_many(3).await;
    bench.submit(NewJob { run_at: Some(bench.now().plus_millis(60_000)), ..bench.job() }).await;
    bench.submit(NewJob { tenant: bench.neighbour, ..bench.job() }).await;
    assert_eq!((queued(bench, bench.tenant).await, queued(bench, bench.neighbour).await), (4, 1));
    bench.claim_one().await;
    assert_eq!(queued(bench, bench.tenant).await, 3, "what runs does not wait");
}

/// An execution counts until it has ended, whatever it does or waits for.
pub async fn executions_count_until_they_end(bench: &Bench) {
    let (job, _) = super::flows::running(bench).await;
    assert_eq!(queued(bench, bench.tenant).await, 1, "it runs");
    super::flows::asking_for(bench, 60_000).await;
    assert_eq!(queued(bench, bench.tenant).await, 2, "it waits, until a moment");
    bench.pass_ms(60_001);
    bench.promote().await;
    assert_eq!(queued(bench, bench.tenant).await, 2, "its moment has come, and it has not heard of it");
    let number = bench.ledger.flow_number(bench.tenant, job).await.expect("read").expect("an execution");
    let turn = NewTurn::standing("[2]".into(), (1, 1), FlowStanding::of(JobStatus::Succeeded));
    let turn = TurnOrder { flow: number, version: 1, heard: Vec::new(), turn };
    bench.ledger.turn_flows(vec![turn]).await.expect("stored");
    assert_eq!(queued(bench, bench.tenant).await, 1, "one has ended");
    assert_eq!(queued(bench, bench.neighbour).await, 0);
}

pub async fn stored_bytes_grow_with_payloads_for_their_tenant_alone(bench: &Bench) {
    let before = (stored(bench, bench.tenant).await, stored(bench, bench.neighbour).await);
    // Without a pattern, so that compressing it gains little.
    let noise: String = (0..2_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    bench.submit(NewJob { payload: format!("\"{noise}\"").into(), ..bench.job() }).await;
    let after = stored(bench, bench.tenant).await;
    assert!(after >= before.0 + noise.len() as u64 / 3, "{} to {after}", before.0);
    assert_eq!(stored(bench, bench.neighbour).await, before.1);
}

/// Without a pattern, so that compressing it gains little.
fn noise(seed: u64) -> String {
    (1..2_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_mul(seed | 1))).collect()
}

pub async fn stored_bytes_count_executions_their_messages_and_variables_of_hosts(bench: &Bench) {
    let mut before = stored(bench, bench.tenant).await;
    let grown = async |before: &mut u64, what: &str| {
        let after = stored(bench, bench.tenant).await;
        assert!(after >= *before + noise(1).len() as u64 / 3, "{what}: {before} to {after}");
        *before = after;
    };
    let turn = |records: String| NewTurn::standing(records.into(), (0, 1), FlowStanding::of(JobStatus::Running));
    let definition = super::flows::kept(bench, 31, "{}").await;
    let flow = NewFlow {
        definition,
        workflow: "order".into(),
        workflow_version: None,
        forked_from: None,
        depth: 0,
        first: Some(turn(noise(3))),
    };
    let job = bench.submit(NewJob { flow: Some(Arc::new(flow)), ..bench.job() }).await;
    grown(&mut before, "what it did before it was accepted").await;
    let number = bench.ledger.flow_number(bench.tenant, job).await.expect("read").expect("an execution");
    let snapshot = Some(noise(5).into());
    let turn = TurnOrder { flow: number, version: 1, heard: Vec::new(), turn: NewTurn { snapshot, ..turn(noise(7)) } };
    bench.ledger.turn_flows(vec![turn]).await.expect("stored");
    grown(&mut before, "records and a snapshot").await;
    let order = FlowOrder {
        tenant: bench.tenant,
        job,
        message: format!("\"{}\"", noise(9)).into(),
        ends: None,
        vote: None,
        change: None,
        action: Action::WorkflowSignal,
        about: json!({}),
        by: "ann".into(),
        reason: None,
        once: None,
    };
    assert_eq!(bench.ledger.steer_flow(order).await, Ok(FlowAnswer::Taken));
    grown(&mut before, "a message").await;
    let mut host = Host::named(HostName::new("h1").expect("a name"));
    host.vars.insert("key".to_owned(), json!(noise(11)));
    let put = InventoryPut {
        tenant: bench.tenant,
        inventory: InventoryName::new("main").expect("a name"),
        content: Arc::new(Inventory { hosts: vec![host], groups: Vec::new() }),
        unmentioned: Unmentioned::Keep,
        by: "ann".into(),
        reason: None,
    };
    bench.ledger.put_inventory(put).await.expect("stored");
    grown(&mut before, "variables of a host").await;
    let name =
        |seed: u64, n: usize| GroupName::new(&format!("g{seed}{}", &noise(seed)[n * 20..][..20])).expect("a name");
    let mut host = Host::named(HostName::new("h2").expect("a name"));
    host.groups = (0..1_000).map(|n| name(13, n)).collect();
    let group =
        Group { name: name(15, 0), groups: (1..1_000).map(|n| name(15, n)).collect(), vars: Default::default() };
    let put = |hosts, groups| InventoryPut {
        tenant: bench.tenant,
        inventory: InventoryName::new("main").expect("a name"),
        content: Arc::new(Inventory { hosts, groups }),
        unmentioned: Unmentioned::Keep,
        by: "ann".into(),
        reason: None,
    };
    bench.ledger.put_inventory(put(vec![host], Vec::new())).await.expect("stored");
    grown(&mut before, "groups of a host").await;
    bench.ledger.put_inventory(put(Vec::new(), vec![group])).await.expect("stored");
    grown(&mut before, "members of a group").await;
    let many = (0..4_000).map(|n| Host::named(HostName::new(&format!("host{n:08}")).expect("a name"))).collect();
    bench.ledger.put_inventory(put(many, Vec::new())).await.expect("stored");
    grown(&mut before, "names of hosts").await;
    assert_eq!(stored(bench, bench.neighbour).await, 0);
}

pub async fn stored_bytes_count_versions_of_resources_and_reported_events(bench: &Bench) {
    let mut before = stored(bench, bench.tenant).await;
    let grown = async |before: &mut u64, by: usize, what: &str| {
        let after = stored(bench, bench.tenant).await;
        assert!(after >= *before + by as u64, "{what}: {before} to {after}");
        *before = after;
    };
    let key = ResourceKey {
        tenant: bench.tenant,
        kind: ResourceKind::Command,
        name: ResourceName::new("c").expect("a name"),
    };
    for version in 1..=2 {
        let spec = json!({"script": noise(version * 2 + 1)}).to_string();
        let put = ResourcePut {
            key: key.clone(),
            spec: spec.into(),
            note: None,
            source: None,
            by: "ann".into(),
            activate: true,
            seen: None,
        };
        bench.ledger.put_resource(put).await.expect("stored");
        grown(&mut before, noise(1).len() / 3, "a version of a resource").await;
    }
    let run = bench.running(bench.job()).await;
    let detail = json!({"output": noise(13)}).to_string();
    let event = |seq: u64| ToldEvent { seq, at: None, detail: detail.as_str().into() };
    let told = ToldEvents { events: vec![event(1), event(2)], ..bench.telling(&run, &[]) };
    bench.tell(told.clone()).await;
    grown(&mut before, 2 * detail.len(), "events of a run").await;
    bench.tell(told).await;
    let again = stored(bench, bench.tenant).await;
    assert!(again < before + detail.len() as u64, "what is known already counts once: {before} to {again}");
    assert_eq!(stored(bench, bench.neighbour).await, 0);
}

pub async fn an_evaluation_is_set_aside_once_and_resumed_by_its_tenant(bench: &Bench) {
    let subjects = || vec![(bench.tenant, "schema/abc".to_owned()), (bench.neighbour, "schema/abc".to_owned())];
    bench.ledger.set_aside(subjects()).await.expect("stored");
    bench.ledger.set_aside(subjects()).await.expect("twice is once");
    let ours = bench.ledger.list_set_aside(Some(bench.tenant)).await.expect("read");
    assert_eq!(ours.iter().map(|one| one.subject.as_str()).collect::<Vec<_>>(), ["schema/abc"]);
    assert_eq!(bench.ledger.list_set_aside(None).await.expect("read").len(), 2);
    let resume = async |subject: &str| {
        bench.ledger.resume_evaluation(bench.tenant, subject.to_owned(), "token:ann".into()).await.expect("stored")
    };
    assert!(!resume("schema/other").await);
    assert!(resume("schema/abc").await);
    assert!(!resume("schema/abc").await, "it goes on already");
    let left = bench.ledger.list_set_aside(None).await.expect("read");
    assert_eq!(left.iter().map(|one| one.tenant).collect::<Vec<_>>(), [bench.neighbour], "the other one stays");
    let kinds = vec![EventKind::EvaluationSetAside, EventKind::EvaluationResumed];
    let filter = EventFilter { tenant: Some(bench.tenant), kinds, ..EventFilter::default() };
    // Readers may be a little behind while others write to the same database.
    bench
        .until("both events", async || {
            let told = bench.ledger.events_after(Default::default(), filter.clone(), 10).await.expect("read");
            let told: Vec<EventKind> = told.events.iter().map(|(_, event)| event.kind).collect();
            if told == [EventKind::EvaluationSetAside, EventKind::EvaluationResumed] { Ok(()) } else { Err(told) }
        })
        .await;
    let told = bench.stream(filter, 2).await;
    let (aside, resumed) = (&told[0].1.data, &told[1].1.data);
    assert_eq!(aside.reason.as_deref(), Some("the server ended twice while schema/abc was evaluated"));
    assert_eq!((resumed.by.as_deref(), resumed.reason.as_deref()), (Some("token:ann"), Some("schema/abc")));
}
