//! Promises about remote workers: who they are, when they were last heard, and whether they should take more.

use bowline_model::EventKind;

use super::bench::{Bench, labels, task_type, worker_name};
use crate::{EventFilter, Heartbeat, WorkerRecord};

/// How a worker of ours registers.
pub(super) fn registration(bench: &Bench, name: &str) -> WorkerRecord {
    WorkerRecord {
        tenant: bench.tenant,
        name: worker_name(name),
        worker_type: "python".to_owned(),
        task_types: vec![task_type("mail.read"), task_type("mail.send")],
        labels: labels(&[("gpu", "a100"), ("zone", "eu")]),
        claimed_labels: labels(&[("dc", "fra")]),
        shares_agent_user: true,
        version: "1.2.3".to_owned(),
        slots: 4,
        registered_at: bench.now(),
        seen_at: bench.now(),
        draining: false,
        names_runs: false,
    }
}

async fn register(bench: &Bench, worker: WorkerRecord) {
    bench.ledger.register_worker(worker).await.expect("the ledger takes workers");
}

async fn find(bench: &Bench, name: &str) -> Option<WorkerRecord> {
    bench.ledger.find_worker(bench.tenant, worker_name(name)).await.expect("the ledger can be read")
}

pub async fn a_worker_registers_and_is_found(bench: &Bench) {
    let (two, one) = (registration(bench, "w2"), registration(bench, "w1"));
    register(bench, two.clone()).await;
    register(bench, one.clone()).await;
    assert_eq!(find(bench, "w1").await.as_ref(), Some(&one));
    assert_eq!(find(bench, "w3").await, None);
    let all = bench.ledger.list_workers(bench.tenant).await.expect("the ledger can be read");
    assert_eq!(all, [one, two], "by name");
}

pub async fn a_registration_is_told_with_the_name_of_the_worker(bench: &Bench) {
    register(bench, registration(bench, "w1")).await;
    let filter = EventFilter { kinds: vec![EventKind::WorkerRegistered], ..EventFilter::default() };
    let told = bench.stream(filter, 1).await;
    assert_eq!(told[0].1.data.worker, Some(worker_name("w1")));
}

pub async fn a_worker_without_labels_or_types_is_one_too(bench: &Bench) {
    let plain = WorkerRecord { task_types: Vec::new(), labels: labels(&[]), ..registration(bench, "w1") };
    register(bench, plain.clone()).await;
    assert_eq!(find(bench, "w1").await, Some(plain));
}

/// A worker that starts again says anew what it can; when it first came is remembered.
pub async fn a_worker_that_registers_again_is_the_same_worker(bench: &Bench) {
    let first = registration(bench, "w1");
    register(bench, first.clone()).await;
    bench.pass_ms(1_000);
    let again = WorkerRecord {
        worker_type: "go".to_owned(),
        task_types: vec![task_type("mail.send")],
        labels: labels(&[]),
        slots: 16,
        ..registration(bench, "w1")
    };
    register(bench, again.clone()).await;
    let wanted = WorkerRecord { registered_at: first.registered_at, seen_at: bench.now(), ..again };
    assert_eq!(find(bench, "w1").await, Some(wanted));
    assert_eq!(bench.ledger.list_workers(bench.tenant).await.expect("the ledger can be read").len(), 1);
}

pub async fn a_heartbeat_says_that_a_worker_is_there(bench: &Bench) {
    register(bench, registration(bench, "w1")).await;
    register(bench, registration(bench, "w2")).await;
    let before = bench.now();
    bench.pass_ms(700);
    let beat = Heartbeat { worker: worker_name("w1"), tenant: Some(bench.tenant), runs: Vec::new(), bare: false };
    let answers = bench.ledger.heartbeat(beat).await.expect("the ledger hears workers");
    assert!(answers.is_empty());
    let seen_at = async |name| find(bench, name).await.map(|worker| worker.seen_at);
    assert_eq!(seen_at("w1").await, Some(bench.now()));
    assert_eq!(seen_at("w2").await, Some(before));
    bench.pass_ms(700);
    let run = bench.running(bench.job()).await;
    assert_eq!(run.worker.as_str(), "w1");
    assert_eq!(seen_at("w1").await, Some(bench.now()));
}

pub async fn a_worker_is_drained_and_taken_back(bench: &Bench) {
    register(bench, registration(bench, "w1")).await;
    let drain = async |name, draining| {
        bench
            .ledger
            .drain_worker(bench.tenant, worker_name(name), draining, "ops".into())
            .await
            .expect("the ledger takes orders")
    };
    let draining = async || find(bench, "w1").await.map(|worker| worker.draining);
    let all = async || bench.ledger.list_draining().await.expect("the ledger can be read");
    assert_eq!(all().await, []);
    assert!(drain("w1", true).await);
    assert_eq!(draining().await, Some(true));
    assert_eq!(all().await, [(bench.tenant, worker_name("w1"))]);
    assert!(drain("w1", true).await, "asking twice is asking once");
    register(bench, registration(bench, "w1")).await;
    assert_eq!(draining().await, Some(true), "a restart does not lift a person's order");
    assert!(drain("w1", false).await);
    assert_eq!(all().await, []);
    assert_eq!(draining().await, Some(false));
    assert!(!drain("nobody", true).await);
}
