//! Commands that are tried again: who must agree, and to what.

use std::sync::Arc;

use bowline_engine::fleet::{CommandChoice, CommandRequest, HostChoice, VoteRequest};
use bowline_model::audit::Author;
use bowline_model::fleet::Decided;
use bowline_model::host::{Connection, Host};
use bowline_model::idempotency::RequestHash;
use bowline_model::resource::ResourceKind;
use bowline_model::{HostName, InventoryName, JobId, JobStatus, Labels, Lane, ResourceName};
use bowline_store::{ApprovalAnswer, InventoryPut, JobOrder, OrderAnswer, Submitted, Unmentioned};
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

async fn submit(house: &House, selector: &str) -> JobId {
    let request = CommandRequest {
        command: CommandChoice::Named { name: ResourceName::new("wipe").expect("a name"), version: None },
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
    };
    let engine = &house.engine;
    let submitted =
        engine.commands.submit(&engine.intake, &engine.inventories, house.tenant, &house.origin(), request).await;
    match submitted.expect("accepted") {
        Submitted::Accepted { id, .. } => id,
        other => panic!("{other:?}"),
    }
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
