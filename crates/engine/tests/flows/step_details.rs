//! What a step received, worked out again page by page.

use bowline_engine::flow::{STEP_INPUT_BYTES_MAX, StepInput, StepView};
use bowline_model::{JobId, JobStatus};
use serde_json::{Value, json};

use crate::{House, node, row};

fn input(view: &StepView) -> &Value {
    match &view.input {
        StepInput::Value(value) => value,
        StepInput::TooLarge(bytes) => panic!("{bytes} bytes at {}", view.step.node),
    }
}

/// What is shown of a step beyond its record.
fn shown(view: &StepView) -> (u32, String, StepInput, Vec<String>, Vec<String>) {
    (view.step.n, view.step.node.to_string(), view.input.clone(), view.previous.clone(), view.next.clone())
}

/// One path sleeps while the other goes round, and leaves so much behind that there are several snapshots.
fn long() -> Value {
    let nodes = json!([
        {"id": "start", "type": "start"},
        {"id": "both", "type": "parallel"},
        {"id": "rest", "type": "sleep", "config": {"duration": "{{ variables.n + 1 }}h"}},
        {"id": "add", "type": "math", "config": {"expression": "variables.n + 1", "store_as": "n"}},
        {"id": "say", "type": "task", "config": {
            "type": "echo", "payload": {"n": "{{ variables.n }}", "pad": "x".repeat(4_000)},
        }},
        {"id": "more", "type": "condition", "config": {"expression": "variables.n < webhook.payload.to"}},
        {"id": "again", "type": "log", "config": {"message": "again"}},
        {"id": "meet", "type": "join", "config": {"mode": "all"}},
        {"id": "never", "type": "log", "config": {"message": "never"}},
        {"id": "end", "type": "end", "config": {"output": "{{ variables.n }}"}},
    ]);
    let edges = [
        ("start", "both", "success"),
        ("both", "rest", "success"),
        ("both", "add", "success"),
        ("add", "say", "success"),
        ("say", "more", "success"),
        ("say", "never", "failure"),
        ("more", "again", "true"),
        ("again", "add", "success"),
        ("more", "meet", "false"),
        ("rest", "meet", "success"),
        ("meet", "end", "success"),
    ];
    let edges: Vec<Value> = edges.iter().map(|(a, b, on)| json!({"source": a, "target": b, "on": on})).collect();
    json!({"variables": {"n": 0}, "nodes": nodes, "edges": edges})
}

async fn read_in_pages(house: &House, job: JobId, size: u32) -> Vec<StepView> {
    let (mut steps, mut from) = (Vec::new(), Some(1));
    while let Some(first) = from {
        let page = house.engine.flows.steps(house.tenant, job, first, size).await.expect("a page");
        assert_eq!(page.skipped.is_empty(), page.next.is_some(), "skipped nodes come with the last page");
        steps.extend(page.steps);
        from = page.next;
    }
    steps
}

#[tokio::test]
async fn a_step_shows_what_its_node_received_wherever_a_page_starts() {
    let house = House::open().await;
    let job = house.begin(long(), json!({"to": 40})).await;
    house.until(job, |status| status == JobStatus::Paused).await;
    let early = house.engine.flows.steps(house.tenant, job, 1, 1_000).await.expect("steps");
    assert_eq!((early.skipped.len(), early.skipped_count), (0, 0), "it has not ended");
    house.clock.advance_ms(3_700_000);
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!(record.state.status, JobStatus::Succeeded, "{:?}", record.error);
    let steps = house.steps(job).await;
    for step in &steps {
        match step.step.node.as_str() {
            // An echo gives back what it was given.
            "say" => assert_eq!(input(step), &step.step.output),
            "add" => assert_eq!(input(step), &json!({"variables.n": step.step.visit - 1})),
            "more" => assert_eq!(input(step), &json!({"variables.n": step.step.visit, "webhook.payload.to": 40})),
            "start" => assert_eq!(input(step), &json!({"to": 40})),
            "meet" => assert_eq!(input(step), &json!({"arrived": 2})),
            "end" => assert_eq!(input(step), &json!({"variables.n": 40})),
            "rest" => {
                assert!(input(step)["until"].is_string(), "{:?}", step.input);
                assert_eq!((&step.previous[..], &step.next[..]), (&["both".to_owned()][..], &["meet".to_owned()][..]));
            }
            _ => assert_eq!(input(step), &json!({})),
        }
    }
    let whole: Vec<_> = steps.iter().map(shown).collect();
    for size in [1, 7, 60] {
        let paged: Vec<_> = read_in_pages(&house, job, size).await.iter().map(shown).collect();
        assert_eq!(paged, whole, "in pages of {size}");
    }
    let last = house.engine.flows.steps(house.tenant, job, 1, 1_000).await.expect("steps");
    let skipped: Vec<_> = last.skipped.iter().map(|node| (node.node.as_str(), node.node_type.as_deref())).collect();
    assert_eq!((skipped, last.skipped_count), (vec![("never", Some("log"))], 1));
    house.check().await;
}

#[tokio::test]
async fn an_input_that_is_too_large_is_counted_and_not_shown() {
    let house = House::open().await;
    let copy = json!({"name": "copy", "value": "{{ webhook.payload.text }}"});
    let record =
        house.run(row(&[node("set", "variable_set", copy)]), json!({"text": "x".repeat(STEP_INPUT_BYTES_MAX)})).await;
    let steps = house.steps(record.id).await;
    assert!(
        matches!(steps[1].input, StepInput::TooLarge(bytes) if bytes > STEP_INPUT_BYTES_MAX),
        "{:?}",
        steps[1].input
    );
    assert_eq!(steps[2].input, StepInput::Value(json!({})));
}
