//! Tenants whose evaluations take as long as they may, or who store as much as they can, and others.

use bowline_engine::QuotaLimits;
use bowline_engine::fleet::PutError;
use bowline_model::resource::{ResourceKind, Spec};
use bowline_model::{EventKind, JobId, JobStatus, ResourceName, TenantId};
use bowline_store::Position;
use serde_json::{Value, json};

use crate::{House, ask, id_of, node, row};

fn other() -> TenantId {
    TenantId::from_uuid(uuid::Uuid::from_u128(2))
}

/// So many cases, each of which looks through a long list; 110 are nearly what one step may do. Then the run ends.
fn costly(before: &[Value], cases: usize) -> Value {
    let looks = ["(-1 in input.list)"; 3].join(" or ");
    let cases: Vec<Value> = (0..cases).map(|n| json!({"name": format!("c{n}"), "when": looks})).collect();
    let mut nodes = before.to_vec();
    nodes.push(node("costly", "switch", json!({"cases": cases, "default": "none"})));
    let mut workflow = row(&nodes);
    let edges = workflow["edges"].as_array_mut().expect("edges");
    edges.last_mut().expect("an edge")["on"] = json!("none");
    workflow
}

async fn begin(house: &House, tenant: TenantId, workflow: Value, input: Value) -> JobId {
    let (engine, origin) = (&house.engine, house.origin());
    let begun = engine.flows.submit(engine.hands(), tenant, &origin, vec![ask(workflow, input)]).await;
    id_of(&begun.expect("accepted").remove(0))
}

async fn until_over(house: &House, tenant: TenantId, job: JobId) -> JobStatus {
    loop {
        let (record, _) = house.engine.ledger.find_job(tenant, job).await.expect("read").expect("a job");
        if record.state.status.is_terminal() {
            return record.state.status;
        }
        tokio::task::yield_now().await;
    }
}

/// The number of the event that says that a job has succeeded.
async fn end_of(house: &House, tenant: TenantId, job: JobId) -> Position {
    let events = house.engine.ledger.job_events(tenant, job, None, 1_000).await.expect("read").expect("a job");
    let end = events.items.iter().find(|(_, event)| event.kind == EventKind::JobSucceeded);
    end.expect("it succeeded").0
}

#[tokio::test]
async fn executions_go_on_while_every_evaluation_of_another_tenant_takes_as_long_as_it_may() {
    let house = House::open().await;
    let nap = || node("nap", "sleep", json!({"duration_ms": 1}));
    let input = json!({"list": vec![0; 3_000]});
    let mut slow = Vec::new();
    for _ in 0..6 {
        slow.push(begin(&house, other(), costly(&[nap()], 110), input.clone()).await);
    }
    // Many turns, each of which begins a job that the next one waits for.
    let echo = |n: usize| node(&format!("echo{n}"), "task", json!({"type": "echo", "payload": {"n": n}}));
    let quick = begin(&house, house.tenant, row(&[nap(), echo(1), echo(2), echo(3)]), json!(null)).await;
    house.clock.advance_ms(1);
    assert_eq!(until_over(&house, house.tenant, quick).await, JobStatus::Succeeded);
    let quick = end_of(&house, house.tenant, quick).await;
    let mut last = quick;
    for job in slow {
        assert_eq!(until_over(&house, other(), job).await, JobStatus::Succeeded);
        last = last.max(end_of(&house, other(), job).await);
    }
    assert!(quick < last, "one tenant waited until another had had all its turns");
    house.check().await;
}

#[tokio::test]
async fn a_step_whose_evaluations_are_too_much_together_fails_and_says_so() {
    let house = House::open().await;
    let record = house.run(costly(&[], 400), json!({"list": vec![0; 3_000]})).await;
    assert_eq!(record.state.status, JobStatus::Failed);
    let error = record.error.expect("an error").message;
    assert!(error.contains("together than one step may cost"), "{error}");
}

#[tokio::test]
async fn definitions_of_executions_that_are_refused_find_room_or_are_not_stored() {
    let limits = QuotaLimits { queued_jobs: 1, stored_bytes: 60_000, ..QuotaLimits::default() };
    let house = House::open_with_quotas(limits);
    house.begin(row(&[node("wait", "wait_event", json!({"event": "never"}))]), json!(null)).await;
    house.engine.quotas.recount(&*house.engine.ledger, true).await.expect("counted");
    let mut why = Vec::new();
    for n in 0..20 {
        let mut workflow = row(&[node("wait", "wait_event", json!({"event": "never"}))]);
        workflow["description"] = json!(format!("{n}{}", "x".repeat(10_000)));
        let (engine, origin) = (&house.engine, house.origin());
        let request = vec![ask(workflow, json!(null))];
        let error = engine.flows.submit(engine.hands(), house.tenant, &origin, request).await.expect_err("refused");
        why.push(error.to_string());
    }
    assert!(why[0].contains("queued_jobs"), "{why:?}");
    assert!(why[19].contains("stored_bytes"), "{why:?}");
    let stored = house.engine.ledger.stored_by_tenant().await.expect("counted");
    let bytes = stored.iter().find(|(tenant, _)| *tenant == house.tenant).map_or(0, |(_, bytes)| *bytes);
    assert!((10_000..=60_000).contains(&bytes), "{bytes} bytes are stored");
}

#[tokio::test]
async fn the_same_definition_is_counted_once() {
    let house = House::open_with_quotas(QuotaLimits { stored_bytes: 60_000, ..QuotaLimits::default() });
    let mut workflow = row(&[]);
    workflow["description"] = json!("x".repeat(10_000));
    for _ in 0..20 {
        assert_eq!(house.run(workflow.clone(), json!(null)).await.state.status, JobStatus::Succeeded);
    }
    assert!(house.engine.ledger.flow_inbox(10, bowline_store::InboxPart::all()).await.expect("read").items.is_empty());
}

async fn put(house: &House, kind: ResourceKind, name: &str, spec: Value) -> Result<(), PutError> {
    let (name, spec) = (ResourceName::new(name).expect("a name"), Spec::from_value(kind, spec).expect("a spec"));
    let by = house.author();
    house.engine.resources.put(house.tenant, name, &spec, None, by, true, None).await.map(drop)
}

#[tokio::test]
async fn a_tenant_has_so_many_triggers_and_can_change_those_it_has() {
    let house = House::open_still().await;
    let broker = json!({"url": "amqp://mq.example.com", "username": "u", "password": {"secret_ref": "mq"}});
    put(&house, ResourceKind::Rabbitmq, "mq", broker).await.expect("stored");
    let trigger = |queue: &str| json!({"rabbitmq": {"broker": "mq", "queue": queue}, "start": {"type": "echo"}, "enabled": false});
    for n in 0..200 {
        put(&house, ResourceKind::Trigger, &format!("t{n}"), trigger("q")).await.expect("stored");
    }
    let Err(PutError::Bad(bad)) = put(&house, ResourceKind::Trigger, "one-more", trigger("q")).await else {
        panic!("it was stored");
    };
    assert!(bad.what.contains("at most 200 triggers"), "{bad}");
    put(&house, ResourceKind::Trigger, "t7", trigger("another")).await.expect("one that is there can be changed");
}
