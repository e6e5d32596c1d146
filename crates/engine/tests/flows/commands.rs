//! Commands on hosts: which version runs where, and who must agree to what; also when one is tried again.

use std::sync::Arc;

use bowline_engine::fleet::{CommandChoice, CommandError, CommandRequest, HostChoice, VoteRequest};
use bowline_model::audit::Author;
use bowline_model::fleet::Decided;
use bowline_model::host::{Connection, Host, HostRef};
use bowline_model::idempotency::RequestHash;
use bowline_model::resource::ResourceKind;
use bowline_model::{HostName, InventoryName, JobId, JobStatus, Labels, Lane, ResourceName};
use bowline_store::{
    ApprovalAnswer, HostRecord, InventoryPut, JobOrder, OrderAnswer, ResourceKey, ResourceOrder, ResourcePut,
    Submitted, Unmentioned,
};
use serde_json::{Value, json};

use crate::House;
use crate::questions::put;

fn inventory() -> InventoryName {
    InventoryName::new("main").expect("a name")
}

async fn put_hosts(house: &House, names: &[&str]) {
    let host = |name: &&str| Host {
        connection: Connection::Simulate { through: Labels::default() },
        ..Host::named(HostName::new(name).expect("a name"))
    };
    let content = bowline_model::host::Inventory { hosts: names.iter().map(host).collect(), groups: Vec::new() };
    let put = InventoryPut {
        tenant: house.tenant,
        inventory: inventory(),
        content: Arc::new(content),
        unmentioned: Unmentioned::Keep,
        by: house.author(),
        reason: None,
    };
    house.engine.ledger.put_inventory(put).await.expect("stored");
}

async fn put_command(house: &House, approval: Value) {
    put(house, ResourceKind::Command, "wipe", json!({"argv": ["true"], "approval": approval})).await;
}

fn request(selector: &str, version: Option<u32>) -> CommandRequest {
    CommandRequest {
        command: CommandChoice::Named { name: ResourceName::new("wipe").expect("a name"), version },
        params: Default::default(),
        inventory: inventory(),
        hosts: HostChoice::Selector(selector.to_owned()),
        rollout: Default::default(),
        deadline_ms: None,
        lane: Lane::Default,
        priority: 0,
        run_at: None,
        idempotency_key: None,
        external_id: None,
    }
}

async fn send(house: &House, request: CommandRequest) -> Result<Submitted, CommandError> {
    let engine = &house.engine;
    engine.commands.submit(&engine.intake, &engine.inventories, house.tenant, &house.origin(), request).await
}

async fn try_submit(house: &House, request: CommandRequest) -> Result<JobId, CommandError> {
    match send(house, request).await? {
        Submitted::Accepted { id, .. } => Ok(id),
        other => panic!("{other:?}"),
    }
}

async fn submit(house: &House, selector: &str) -> JobId {
    try_submit(house, request(selector, None)).await.expect("accepted")
}

fn order(house: &House, job: JobId) -> JobOrder {
    JobOrder { tenant: house.tenant, job, by: house.author(), reason: None }
}

/// Nobody takes it, so it is over as soon as it is canceled.
async fn cancel(house: &House, job: JobId) {
    house.engine.ledger.cancel_job(order(house, job)).await.expect("canceled");
    house.until(job, JobStatus::is_terminal).await;
}

async fn retry(house: &House, job: JobId) -> OrderAnswer {
    house.engine.commands.retry(&house.engine.inventories, order(house, job)).await.expect("an answer")
}

/// The hash of what waits for approval.
async fn question(house: &House, job: JobId) -> RequestHash {
    let fleet = house.engine.ledger.find_fleet(house.tenant, job).await.expect("read").expect("a command");
    fleet.approval.expect("an approval").hash
}

async fn yes(house: &House, job: JobId, seen: RequestHash) -> ApprovalAnswer {
    let vote = VoteRequest { by: Author::from("bob"), yes: true, reason: None, seen: Some(seen) };
    house.engine.commands.decide(&house.engine.inventories, house.tenant, job, vote).await.expect("an answer")
}

#[tokio::test]
async fn a_command_is_tried_again_as_the_active_rule_says() {
    let house = House::open().await;
    put_hosts(&house, &["h1", "h2"]).await;
    put_command(&house, Value::Null).await;
    let (one, two) = (submit(&house, "h1").await, submit(&house, "h*").await);
    for job in [one, two] {
        cancel(&house, job).await;
    }
    put_command(&house, json!({"hosts_over": 1})).await;
    let free = retry(&house, one).await;
    assert!(matches!(free, OrderAnswer::Done(status) if status != JobStatus::AwaitingApproval), "{free:?}");
    assert_eq!(retry(&house, two).await, OrderAnswer::Done(JobStatus::AwaitingApproval));
    house.check().await;
}

#[tokio::test]
async fn a_second_try_is_about_the_hosts_that_were_named_whatever_the_selector_means_by_now() {
    let house = House::open().await;
    put_hosts(&house, &["h1"]).await;
    put_command(&house, json!({})).await;
    let job = submit(&house, "h*").await;
    let first = question(&house, job).await;
    assert!(matches!(yes(&house, job, first).await, ApprovalAnswer::Decided(Decided::Approved, _)));
    cancel(&house, job).await;
    assert_eq!(retry(&house, job).await, OrderAnswer::Done(JobStatus::AwaitingApproval));
    let second = question(&house, job).await;
    put_hosts(&house, &["h1", "h2"]).await;
    let answer = yes(&house, job, second).await;
    assert!(matches!(answer, ApprovalAnswer::Decided(Decided::Approved, _)), "{answer:?}");

    // Before anything ran, what the selector means counts.
    let job = submit(&house, "h*").await;
    let first = question(&house, job).await;
    put_hosts(&house, &["h1", "h2", "h3"]).await;
    let answer = yes(&house, job, first).await;
    assert!(matches!(answer, ApprovalAnswer::Decided(Decided::Superseded, _)), "{answer:?}");
    house.check().await;
}

#[tokio::test]
async fn a_command_waits_for_approval_only_where_its_rule_asks_for_one() {
    let house = House::open_still().await;
    put_hosts(&house, &["h1", "h2"]).await;
    for (rule, selector, waits) in [
        (Value::Null, "h*", false),
        (json!({}), "h1", true),
        (json!({"hosts_over": 1}), "h1", false),
        (json!({"hosts_over": 1}), "h*", true),
        (json!({"selector": "h2"}), "h1", false),
        (json!({"selector": "h2"}), "h*", true),
    ] {
        put_command(&house, rule.clone()).await;
        let job = submit(&house, selector).await;
        let status = house.job(job).await.state.status;
        assert_eq!(status == JobStatus::AwaitingApproval, waits, "{rule} {selector}: {status}");
    }
}

/// A version that does not count yet.
async fn draft(house: &House, spec: Value) {
    let name = ResourceName::new("wipe").expect("a name");
    let key = ResourceKey { tenant: house.tenant, kind: ResourceKind::Command, name };
    let (spec, by) = (spec.to_string().into(), house.author());
    let put = ResourcePut { key, spec, source: None, note: None, by, activate: false, seen: None };
    house.engine.ledger.put_resource(put).await.expect("stored");
}

async fn activate(house: &House, version: u32) {
    let name = ResourceName::new("wipe").expect("a name");
    let key = ResourceKey { tenant: house.tenant, kind: ResourceKind::Command, name };
    let order = ResourceOrder { key, by: house.author(), reason: None };
    house.engine.ledger.activate_resource(order, version).await.expect("activated");
}

#[tokio::test]
async fn a_command_runs_in_its_active_version_or_in_the_one_that_is_named() {
    let house = House::open_still().await;
    put_hosts(&house, &["h1"]).await;
    let refused = async |version| try_submit(&house, request("h1", version)).await.expect_err("it is refused");
    let runs = async |version| {
        let job = try_submit(&house, request("h1", version)).await.expect("accepted");
        let command = house.engine.commands.pinned(house.tenant, job).await.expect("read").expect("a command");
        (command.version, house.job(job).await.state.status == JobStatus::AwaitingApproval)
    };
    for version in [None, Some(1)] {
        let error = refused(version).await;
        assert!(matches!(error, CommandError::NoCommand(_)), "{error:?}");
    }
    draft(&house, json!({"argv": ["true"], "approval": {}})).await;
    let error = refused(None).await;
    assert!(matches!(error, CommandError::NotActive(_)), "{error:?}");
    let error = refused(Some(2)).await;
    assert!(matches!(error, CommandError::NoVersion { version: 2, .. }), "{error:?}");
    assert_eq!(runs(Some(1)).await, (Some(1), true));
    draft(&house, json!({"argv": ["true", "second"]})).await;
    assert_eq!(runs(Some(2)).await, (Some(2), false), "no version is active, so its own rule counts");
    activate(&house, 1).await;
    assert_eq!(runs(None).await, (Some(1), true));
    assert_eq!(runs(Some(2)).await, (Some(2), true), "the rule of the active version counts for all of them");
    activate(&house, 2).await;
    assert_eq!(runs(None).await, (Some(2), false));
    assert_eq!(runs(Some(1)).await, (Some(1), false));
}

#[tokio::test]
async fn hosts_are_meant_once_each_in_the_order_they_are_named_in_and_must_be_there() {
    let house = House::open_still().await;
    put_hosts(&house, &["h1", "h2"]).await;
    put_command(&house, Value::Null).await;
    let resolve = async |request: CommandRequest| -> Result<Vec<HostRecord>, CommandError> {
        let engine = &house.engine;
        engine.commands.resolve(&engine.inventories, house.tenant, &request).await.map(|resolved| resolved.hosts)
    };
    let on = |hosts: HostChoice| CommandRequest { hosts, ..request("all", None) };
    let host = |text: &str| HostRef::Name(HostName::new(text).expect("a name"));
    let names = |hosts: &[HostRecord]| hosts.iter().map(|record| record.host.name.to_string()).collect::<Vec<_>>();
    let all = resolve(request("all", None)).await.expect("hosts");
    assert_eq!(names(&all), ["h1", "h2"]);
    let twice = HostChoice::Named(vec![host("h2"), host("h1"), HostRef::Number(all[1].id)]);
    assert_eq!(names(&resolve(on(twice)).await.expect("hosts")), ["h2", "h1"]);
    for (hosts, why) in [
        (HostChoice::Named(vec![host("h1"), host("h3")]), "there is no host h3"),
        (HostChoice::Named(Vec::new()), "no host is meant by \"an empty list\""),
        (HostChoice::Selector("h3".to_owned()), "no host is meant by \"h3\""),
    ] {
        let error = resolve(on(hosts)).await.expect_err("it is refused");
        assert_eq!(error.to_string(), why);
    }
    let elsewhere = InventoryName::new("elsewhere").expect("a name");
    let error = resolve(CommandRequest { inventory: elsewhere, ..request("all", None) }).await.expect_err("refused");
    assert!(matches!(error, CommandError::NoInventory(_)), "{error:?}");
}

#[tokio::test]
async fn the_deadline_of_a_command_is_between_a_second_and_thirty_days() {
    let house = House::open_still().await;
    put_hosts(&house, &["h1"]).await;
    put_command(&house, Value::Null).await;
    let max = 30 * 24 * 60 * 60 * 1_000;
    for (deadline_ms, fits) in [(999, false), (1_000, true), (max, true), (max + 1, false)] {
        let sent = try_submit(&house, CommandRequest { deadline_ms: Some(deadline_ms), ..request("h1", None) }).await;
        match sent {
            Ok(_) => assert!(fits, "{deadline_ms}"),
            Err(error) => assert!(!fits && matches!(error, CommandError::Deadline), "{deadline_ms}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn a_command_that_was_sent_before_is_the_same_job_whatever_its_command_is_by_now() {
    let house = House::open_still().await;
    put_hosts(&house, &["h1", "h2"]).await;
    put_command(&house, Value::Null).await;
    let keyed = |selector| CommandRequest { idempotency_key: Some("once".to_owned()), ..request(selector, None) };
    let job = try_submit(&house, keyed("h1")).await.expect("accepted");
    let is_replayed = |sent: &Submitted| matches!(sent, Submitted::Replayed { id, .. } if *id == job);
    // Also after it takes parameters that were not given then.
    for params in [None, Some(json!({"type": "object", "required": ["days"]}))] {
        if let Some(params) = params {
            put(&house, ResourceKind::Command, "wipe", json!({"argv": ["true"], "params": params})).await;
            let error = try_submit(&house, request("h1", None)).await.expect_err("the parameters do not fit");
            assert!(matches!(error, CommandError::Params(_)), "{error:?}");
        }
        let again = send(&house, keyed("h1")).await.expect("an answer");
        assert!(is_replayed(&again), "{again:?}");
        let found = house.engine.commands.find_sent(house.tenant, &keyed("h1")).await.expect("read");
        assert!(found.as_ref().is_some_and(is_replayed), "{found:?}");
        let error = send(&house, keyed("h2")).await.expect_err("the key is taken");
        assert!(matches!(error, CommandError::Key { .. }), "{error:?}");
    }
}
