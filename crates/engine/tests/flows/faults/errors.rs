//! An error at a node of any type ends where the edges say.

use std::time::Duration;

use bowline_engine::flow::StepView;
use bowline_model::resource::ResourceKind;
use bowline_model::{JobStatus, ResourceName};
use bowline_store::{JobRecord, ResourceKey, ResourcePut, ResourceStored};
use bowline_workflow::flow::StepStatus;
use serde_json::{Value, json};

use super::Judgement;
use super::table::{Edges, How, Sample, decide_all, inner, pay, samples, until_only_time_helps};
use crate::{House, result_of};

/// Stores a workflow under a name, and says its version.
pub async fn store(house: &House, name: &str, workflow: &Value) -> u32 {
    let key = key(house, name);
    let put = ResourcePut {
        key,
        spec: workflow.to_string().into(),
        note: None,
        source: None,
        by: house.author(),
        activate: true,
        seen: None,
    };
    match house.engine.ledger.put_resource(put).await.expect("stored") {
        ResourceStored::Stored { version, .. } => version,
        other => panic!("{other:?}"),
    }
}

pub fn key(house: &House, name: &str) -> ResourceKey {
    ResourceKey { tenant: house.tenant, kind: ResourceKind::Workflow, name: ResourceName::new(name).expect("a name") }
}

/// The run ended as it must, and the step of the node says why.
pub fn ended(sample: &Sample, edges: Edges, by: u64, record: &JobRecord, steps: &[StepView]) -> Judgement {
    let seen = || format!("{} {edges:?} by {by}: {:?} {:?} {steps:#?}", sample.node_type, record.state, record.error);
    let (status, output) = sample.ends(edges, by);
    if record.state.status != status {
        return Err(format!("not {status}: {}", seen()));
    }
    let result = result_of(record);
    let as_said = match (&output, output["bad"].as_str()) {
        (_, Some(says)) => result["bad"].as_str().is_some_and(|message| message.contains(says)),
        (Value::String(says), _) if status == JobStatus::Failed => {
            let message = record.error.as_ref().map_or("", |error| &error.message);
            message.starts_with("node \"it\": ") && message.contains(says)
        }
        _ => result == output,
    };
    if !as_said {
        return Err(format!("not with {output} but with {result}: {}", seen()));
    }
    let at_it: Vec<_> = steps.iter().filter(|view| view.step.node.as_str() == "it").collect();
    let [it] = at_it[..] else { return Err(format!("the node has not one step: {}", seen())) };
    let error = it.step.error.as_ref().map(|error| error.message.as_str());
    let told = match (it.step.status, error) {
        (StepStatus::Failed, Some(message)) => sample.fails(by) && message.contains(sample.says),
        (StepStatus::Success, None) => !sample.fails(by),
        _ => false,
    };
    if told { Ok(()) } else { Err(format!("the step says something else: {}", seen())) }
}

#[tokio::test]
async fn an_error_at_any_node_ends_where_the_edges_say() {
    let house = House::open().await;
    store(&house, "inner", &inner()).await;
    let _player = super::hosts::play(&house).await;
    let samples = samples();
    let mut begun = Vec::new();
    for sample in &samples {
        for edges in Edges::ALL {
            for by in [0, 2] {
                let job = house.begin(sample.workflow(edges), json!({"by": by})).await;
                begun.push((sample, edges, by, job));
            }
        }
    }
    let asked = begun.iter().filter(|(sample, ..)| sample.how == How::Asks).count();
    assert_eq!(decide_all(&house, asked).await, asked);
    let waiting = begun.iter().filter(|(sample, _, by, _)| sample.how == How::Waits && *by == 2).count();
    assert_eq!(pay(&house, waiting).await, waiting as u64);
    let patience = tokio::time::Instant::now() + Duration::from_secs(60);
    until_only_time_helps(&house, begun.iter().map(|(.., job)| *job), patience).await;
    house.clock.advance_ms(3_600_000);
    let (mut well, mut badly) = (0, 0);
    for (sample, edges, by, job) in &begun {
        let record = house.until(*job, JobStatus::is_terminal).await;
        let steps = house.steps(*job).await;
        ended(sample, *edges, *by, &record, &steps).unwrap_or_else(|wrong| panic!("{wrong}"));
        // The control: the same node without the error is not taken for one with it, nor the other way round.
        if sample.how != How::Never {
            assert!(ended(sample, *edges, 2 - *by, &record, &steps).is_err());
        }
        // Nor is another way, where the edges lead elsewhere.
        let other = if *edges == Edges::Always { Edges::Handler } else { Edges::Always };
        if sample.how != How::Ends && sample.node_type != "parallel" {
            assert!(ended(sample, other, *by, &record, &steps).is_err());
        }
        if sample.fails(*by) { badly += 1 } else { well += 1 }
    }
    // The evidence: so many nodes failed, and so many did not.
    assert_eq!((well, badly), (17 * 4 + 2 * 4 * 2, 17 * 4));
    house.check().await;
}
