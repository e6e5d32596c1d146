//! Every wait is told by an event, whatever the run waited for before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_model::event::Event;
use bowline_model::host::{Connection, Host, Inventory};
use bowline_model::resource::Spec;
use bowline_model::{EventKind, HostName, InventoryName, JobId, JobStatus, Labels, ResourceName};
use bowline_store::{FlowAnswer, InventoryPut, Unmentioned};
use serde_json::{Value, json};

use crate::faults::play_hosts;
use crate::{House, node, row};

/// What a run can wait for, and what `workflow_paused` calls it; what is not paused is told by the job that works.
const KINDS: [(&str, Option<&str>); 6] = [
    ("sleep", Some("sleep")),
    ("approval", Some("approval")),
    ("wait_event", Some("event")),
    ("task", None),
    ("command", None),
    ("workflow", None),
];

async fn store(house: &House, name: &str, workflow: Value) {
    let spec = Spec::Workflow(Box::new(serde_json::from_value(workflow).expect("a workflow")));
    let name = ResourceName::new(name).expect("a name");
    house.engine.resources.put(house.tenant, name, &spec, None, house.author(), true, None).await.expect("stored");
}

/// A host that no agent reaches.
async fn add_unreachable_host(house: &House) {
    let through = Labels::new(BTreeMap::from([("site".to_owned(), "moon".to_owned())])).expect("labels");
    let host =
        Host { connection: Connection::Simulate { through }, ..Host::named(HostName::new("moon").expect("a name")) };
    let put = InventoryPut {
        tenant: house.tenant,
        inventory: InventoryName::new("main").expect("a name"),
        content: Arc::new(Inventory { hosts: vec![host], groups: Vec::new() }),
        unmentioned: Unmentioned::Keep,
        by: house.author(),
        reason: None,
    };
    house.engine.ledger.put_inventory(put).await.expect("an inventory");
}

/// A node that waits. One that `ends` is over once somebody does something about it, or at once; another one stays.
fn waits(id: &str, kind: &str, ends: bool, timed: bool) -> Value {
    let mut config = match kind {
        "sleep" => json!({"duration": if ends { "1s" } else { "2h" }}),
        "approval" => json!({"title": "Really?", "four_eyes": false}),
        "wait_event" => json!({"event": format!("{id}-event")}),
        "task" => json!({"type": if ends { "echo" } else { "nobody.takes.this" }}),
        "command" => json!({"command": {"argv": ["true"]}, "hosts": [if ends { "h-2" } else { "moon" }]}),
        "workflow" => json!({"name": if ends { "quick" } else { "slow" }}),
        other => panic!("{other}"),
    };
    match kind {
        "approval" | "wait_event" if timed => config["timeout"] = json!("1h"),
        "task" if timed => config["deadline"] = json!("1h"),
        "command" if timed => config["deadline_ms"] = json!(3_600_000),
        _ => {}
    }
    node(id, kind, config)
}

async fn events_of(house: &House, job: JobId) -> Vec<Event> {
    let page = house.engine.ledger.job_events(house.tenant, job, None, 100).await.expect("read").expect("a job");
    page.items.into_iter().map(|(_, event)| event).collect()
}

async fn until_at(house: &House, job: JobId, wanted: &str) {
    for _ in 0..3_000 {
        let flow = house.engine.ledger.find_flow(house.tenant, job).await.expect("read").expect("a run");
        if flow.node.as_deref() == Some(wanted) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("job {job} did not reach {wanted}: {:?}", house.job(job).await.state);
}

#[tokio::test]
async fn every_wait_is_told_whatever_the_run_waited_for_before() {
    let house = House::open().await;
    let _player = play_hosts(&house).await;
    add_unreachable_host(&house).await;
    store(&house, "quick", row(&[])).await;
    store(&house, "slow", row(&[node("nap", "sleep", json!({"duration": "2h"}))])).await;
    let mut runs = Vec::new();
    for (first, _) in KINDS {
        for (second, reason) in KINDS {
            for (timed_first, timed_second) in [(false, false), (false, true), (true, false), (true, true)] {
                let workflow = row(&[waits("a", first, true, timed_first), waits("b", second, false, timed_second)]);
                let job = house.begin(workflow, json!(null)).await;
                runs.push((first, second, (timed_first, timed_second), reason, job));
            }
        }
    }
    let flows = &house.engine.flows;
    for (first, .., job) in &runs {
        match *first {
            "approval" => {
                until_at(&house, *job, "a").await;
                let answer = flows.decide(house.tenant, *job, None, true, house.author(), None).await;
                assert_eq!(answer.expect("an answer"), FlowAnswer::Taken);
            }
            "wait_event" => {
                let told = flows.tell(house.tenant, *job, "a-event", None, json!(1), house.author()).await;
                assert_eq!(told.expect("an answer"), FlowAnswer::Taken);
            }
            _ => {}
        }
    }
    house.clock.advance_ms(1_000);
    for (first, second, timed, reason, job) in runs {
        until_at(&house, job, "b").await;
        let events = events_of(&house, job).await;
        let said: Vec<String> = events
            .iter()
            .map(|event| format!("{} {:?} {:?}", event.kind, event.data.node, event.data.reason))
            .collect();
        let last = events
            .iter()
            .rev()
            .find(|event| matches!(event.kind, EventKind::FlowOpened | EventKind::FlowPaused | EventKind::FlowResumed));
        let last = last.expect("it began");
        let pair = format!("{first} then {second}, timeouts {timed:?}: {said:?}");
        if let Some(reason) = reason {
            let told = (last.kind, last.data.node.as_deref(), last.data.reason.as_deref());
            assert_eq!(told, (EventKind::FlowPaused, Some("b"), Some(reason)), "{pair}");
            assert_eq!(house.job(job).await.state.status, JobStatus::Paused, "{pair}");
        } else {
            assert_ne!(last.kind, EventKind::FlowPaused, "{pair}");
            assert_eq!(house.job(job).await.state.status, JobStatus::Running, "{pair}");
        }
    }
    house.check().await;
}

#[tokio::test]
async fn a_branch_that_waits_while_another_works_is_told() {
    let house = House::open().await;
    let workflow = json!({
        "nodes": [
            node("start", "start", json!({})),
            node("fork", "parallel", json!({})),
            waits("work", "task", false, false),
            waits("ask", "approval", false, false),
            waits("listen", "wait_event", false, false),
        ],
        "edges": [
            {"source": "start", "target": "fork"},
            {"source": "fork", "target": "work"},
            {"source": "fork", "target": "ask"},
            {"source": "fork", "target": "listen"},
        ],
    });
    let job = house.begin(workflow, json!(null)).await;
    house.until(job, |status| status == JobStatus::Running).await;
    let mut told = Vec::new();
    for _ in 0..500 {
        told = events_of(&house, job).await;
        told.retain(|event| event.kind == EventKind::FlowAwaits);
        if told.len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut told: Vec<_> =
        told.iter().map(|event| (event.data.node.as_deref(), event.data.reason.as_deref())).collect();
    told.sort_unstable();
    assert_eq!(told, [(Some("ask"), Some("approval")), (Some("listen"), Some("event"))]);
    house.check().await;
}
