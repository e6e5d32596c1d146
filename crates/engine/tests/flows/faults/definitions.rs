//! F27: a definition is changed, rolled back, deleted and written anew while runs of it sleep. Each run ends by the version
//! that it began with; each new run begins with the one that counts.

use bowline_engine::flow::{DefinitionError, FlowError, FlowRequest, WorkflowChoice};
use bowline_model::{JobId, JobStatus, ResourceName};
use bowline_store::{Activated, Deleted, JobRecord, ResourceOrder};
use serde_json::{Value, json};

use super::Judgement;
use super::errors::{key, store};
use crate::{House, node, result_of, row};

fn says(what: &str) -> Value {
    row(&[
        node("nap", "sleep", json!({"duration": "1h"})),
        node("say", "transform", json!({"value": what})),
        node("out", "end", json!({"output": {"said": "{{steps.say.output}}", "version": "{{execution.version}}"}})),
    ])
}

fn asked(version: Option<u32>) -> FlowRequest {
    let name = ResourceName::new("order").expect("a name");
    let workflow = WorkflowChoice::Named { name, version };
    FlowRequest { workflow, ..crate::ask(row(&[]), json!(null)) }
}

async fn asleep(house: &House) -> JobId {
    let job = crate::id_of(&house.submit(asked(None)).await);
    house.until(job, |status| status == JobStatus::Paused).await;
    job
}

async fn refused(house: &House, version: Option<u32>) -> DefinitionError {
    let engine = &house.engine;
    let answer = engine.flows.submit(engine.hands(), house.tenant, &house.origin(), vec![asked(version)]).await;
    match answer {
        Err(FlowError::Definition(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// The run was one of this version, did what it says, and the ledger says so as well.
async fn by_version(house: &House, record: &JobRecord, said: &str, version: u32) -> Judgement {
    let flow = house.engine.ledger.find_flow(house.tenant, record.id).await.expect("an answer").expect("a run");
    let expected = (JobStatus::Succeeded, json!({"said": said, "version": version}), Some(version));
    let seen = (record.state.status, result_of(record), flow.workflow_version);
    if seen == expected { Ok(()) } else { Err(format!("{seen:?} is not {expected:?}")) }
}

#[tokio::test]
async fn a_run_ends_by_the_version_it_began_with() {
    let house = House::open().await;
    let order = || ResourceOrder { key: key(&house, "order"), by: house.author(), reason: Some("a test".into()) };
    let ledger = &house.engine.ledger;
    assert_eq!(store(&house, "order", &says("one")).await, 1);
    let first = asleep(&house).await;
    assert_eq!(store(&house, "order", &says("two")).await, 2);
    let changed = asleep(&house).await;
    assert_eq!(ledger.activate_resource(order(), 1).await.expect("an answer"), Activated::Done { before: Some(2) });
    let rolled_back = asleep(&house).await;
    assert_eq!(ledger.delete_resource(order()).await.expect("an answer"), Deleted::Done);
    assert!(matches!(refused(&house, None).await, DefinitionError::NoWorkflow(_)));
    assert!(matches!(refused(&house, Some(1)).await, DefinitionError::NoVersion { version: 1, .. }));
    // Another one by the same name, whose versions are counted from the beginning.
    assert_eq!(store(&house, "order", &says("three")).await, 1);
    let anew = asleep(&house).await;
    let house = house.die_and_return().await;
    house.clock.advance_ms(3_600_000);
    for (job, said, version) in [(first, "one", 1), (changed, "two", 2), (rolled_back, "one", 1), (anew, "three", 1)] {
        let record = house.until(job, JobStatus::is_terminal).await;
        by_version(&house, &record, said, version).await.unwrap_or_else(|wrong| panic!("{wrong}"));
        // The control: another version is not taken for this one.
        assert!(by_version(&house, &record, said, 3 - version).await.is_err());
        assert!(by_version(&house, &record, "four", version).await.is_err());
    }
    house.check().await;
}
