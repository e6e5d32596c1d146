//! What a question is bound to: a yes to one thing never starts another one.

use std::sync::Arc;

use bowline_engine::fleet::VoteRequest;
use bowline_model::audit::Action;
use bowline_model::idempotency::RequestHash;
use bowline_model::resource::ResourceKind;
use bowline_model::{JobId, JobStatus, ResourceName};
use bowline_store::{FlowAnswer, FlowOrder, FlowVote, JobFilter, ResourceKey, ResourcePut, WaitRecord};
use bowline_testkit::until;
use serde_json::{Value, json};

use crate::{House, node, result_of, row};

pub async fn put(house: &House, kind: ResourceKind, name: &str, spec: Value) {
    let key = ResourceKey { tenant: house.tenant, kind, name: ResourceName::new(name).expect("a name") };
    let (spec, by) = (spec.to_string().into(), house.author());
    let put = ResourcePut { key, spec, source: None, note: None, by, activate: true, seen: None };
    house.engine.ledger.put_resource(put).await.expect("the ledger takes resources");
}

fn says(word: &str) -> Value {
    row(&[node("out", "end", json!({"output": word}))])
}

fn secret(reference: &str, version: &str, description: &str) -> Value {
    json!({"ref": reference, "version": version, "description": description, "connectors": ["http_request"], "hosts": ["*"]})
}

/// Asks, and then runs whatever is active under the name `pay`.
fn paying() -> Value {
    row(&[
        node("before", "workflow", json!({"name": "before"})),
        node("ask", "approval", json!({"title": "Pay?", "four_eyes": false})),
        node("pay", "workflow", json!({"name": "pay"})),
        node("out", "end", json!({"output": "{{steps.pay.output}}"})),
    ])
}

async fn question(house: &House, job: JobId) -> WaitRecord {
    house.until(job, |status| status == JobStatus::Paused).await;
    let record = house.engine.ledger.find_flow(house.tenant, job).await.expect("read").expect("there");
    record.waits.into_iter().next().expect("a question")
}

fn hash_of(wait: &WaitRecord) -> RequestHash {
    wait.wait.question.expect("a question").hash
}

async fn put_again(house: &House, job: JobId, before: RequestHash) -> RequestHash {
    until(std::time::Duration::from_secs(20), "the question is put again", async || {
        let record = house.engine.ledger.find_flow(house.tenant, job).await.expect("read").expect("there");
        let hash = record.waits.first().map(hash_of).filter(|hash| *hash != before);
        hash.ok_or_else(|| format!("{record:?}"))
    })
    .await
}

/// The executions that this one has started.
pub async fn children(house: &House, job: JobId) -> Vec<JobId> {
    let filter = JobFilter { parent: Some(job), ..JobFilter::default() };
    let page = house.engine.ledger.list_jobs(house.tenant, filter, None, 100).await.expect("read");
    page.items.into_iter().map(|record| record.id).collect()
}

async fn yes(house: &House, job: JobId, seen: Option<RequestHash>) -> FlowAnswer {
    let vote = VoteRequest { by: house.author(), yes: true, reason: None, seen };
    house.engine.flows.vote(house.tenant, job, None, vote).await.expect("an answer")
}

#[tokio::test]
async fn a_yes_does_not_start_another_version_than_the_one_that_was_asked_about() {
    let house = House::open().await;
    put(&house, ResourceKind::Workflow, "before", says("before")).await;
    put(&house, ResourceKind::Workflow, "pay", says("seven")).await;
    let job = house.begin(paying(), json!(null)).await;
    let first = hash_of(&question(&house, job).await);
    // What the question is not about can change.
    put(&house, ResourceKind::Workflow, "before", says("something else")).await;
    put(&house, ResourceKind::Workflow, "pay", says("seven thousand")).await;
    assert_eq!(yes(&house, job, Some(first)).await, FlowAnswer::Withdrawn);
    let second = put_again(&house, job, first).await;
    assert!(house.steps(job).await.iter().all(|view| view.step.node.as_str() != "pay"), "nothing was started");
    let old = yes(&house, job, Some(first)).await;
    assert!(matches!(old, FlowAnswer::Refused(_)), "{old:?}");
    assert_eq!(yes(&house, job, Some(second)).await, FlowAnswer::Taken);
    let record = house.until(job, JobStatus::is_terminal).await;
    assert_eq!(result_of(&record), json!("seven thousand"));
    house.check().await;
}

#[tokio::test]
async fn what_was_changed_on_the_other_side_of_a_question_is_not_part_of_it() {
    let house = House::open().await;
    put(&house, ResourceKind::Workflow, "before", says("before")).await;
    put(&house, ResourceKind::Workflow, "pay", says("seven")).await;
    let job = house.begin(paying(), json!(null)).await;
    let hash = hash_of(&question(&house, job).await);
    put(&house, ResourceKind::Workflow, "before", says("something else")).await;
    put(&house, ResourceKind::Workflow, "unrelated", says("something else")).await;
    assert_eq!(yes(&house, job, Some(hash)).await, FlowAnswer::Taken);
    assert_eq!(result_of(&house.until(job, JobStatus::is_terminal).await), json!("seven"));
    house.check().await;
}

/// The yes was counted, and before the execution went on with it something else took the name.
#[tokio::test]
async fn a_yes_is_looked_at_again_when_the_execution_goes_on() {
    let house = House::open().await;
    put(&house, ResourceKind::Workflow, "before", says("before")).await;
    put(&house, ResourceKind::Workflow, "pay", says("seven")).await;
    let job = house.begin(paying(), json!(null)).await;
    let wait = question(&house, job).await;
    let hash = hash_of(&wait);
    put(&house, ResourceKind::Workflow, "pay", says("seven thousand")).await;
    // As another server counts it that has not heard of the change.
    let (node, visit) = (Arc::clone(&wait.wait.node), wait.wait.visit);
    let message = json!({"is": "decided", "node": node, "visit": visit, "approved": true, "by": "ada", "reason": null,
        "named": {"workflow/pay": "what it meant"}});
    let order = FlowOrder {
        tenant: house.tenant,
        job,
        message: message.to_string().into(),
        ends: Some((node, visit)),
        vote: Some(FlowVote { yes: true, seen: None, current: hash }),
        change: None,
        action: Action::JobApprove,
        about: json!({}),
        by: house.author(),
        reason: None,
        once: None,
    };
    assert_eq!(house.engine.ledger.steer_flow(order).await.expect("an answer"), FlowAnswer::Taken);
    let second = put_again(&house, job, hash).await;
    assert!(house.steps(job).await.iter().all(|view| view.step.node.as_str() != "pay"), "nothing was started");
    assert_eq!(yes(&house, job, Some(second)).await, FlowAnswer::Taken);
    assert_eq!(result_of(&house.until(job, JobStatus::is_terminal).await), json!("seven thousand"));
    house.check().await;
}

/// What is started long after the yes is still what was approved, and what others did meanwhile holds up nobody else.
#[tokio::test]
async fn what_starts_later_is_what_was_approved_or_is_not_started() {
    let house = House::open().await;
    for name in ["first", "second"] {
        put(&house, ResourceKind::Workflow, name, says(name)).await;
    }
    let workflow = row(&[
        node("ask", "approval", json!({"title": "Go?", "four_eyes": false})),
        node("one", "workflow", json!({"name": "first"})),
        node("nap", "sleep", json!({"duration": "1h"})),
        node("two", "workflow", json!({"name": "second"})),
        node("out", "end", json!({"output": "{{steps.two.output}}"})),
    ]);
    for (changed, status) in [("first", JobStatus::Succeeded), ("second", JobStatus::Failed)] {
        let job = house.begin(workflow.clone(), json!(null)).await;
        let hash = hash_of(&question(&house, job).await);
        assert_eq!(yes(&house, job, Some(hash)).await, FlowAnswer::Taken);
        house.until_record(job, |record| record.state.due_at.is_some()).await;
        put(&house, ResourceKind::Workflow, changed, says("something else")).await;
        // Also for an execution that is read again.
        let before = house.engine.ledger.find_flow(house.tenant, job).await.expect("read").expect("there");
        assert_eq!(before.paused_for.as_deref(), Some("sleep"));
        house.clock.advance_ms(3_600_000);
        let record = house.until(job, JobStatus::is_terminal).await;
        assert_eq!(record.state.status, status, "{changed}: {record:?}");
        if status == JobStatus::Succeeded {
            assert_eq!(result_of(&record), json!("second"));
        } else {
            let why = record.error.expect("a reason").message;
            assert!(why.contains("workflow/second") && why.contains("fork"), "{why}");
        }
    }
    house.check().await;
}

/// Names are followed: from a step to the definition that it runs, from there to a command or a broker, and to their secrets.
#[tokio::test]
async fn a_question_is_bound_to_everything_that_is_named_behind_it() {
    let house = House::open().await;
    let put_secret = async |reference: &str, version: &str, about: &str| {
        put(&house, ResourceKind::SecretRef, "token", secret(reference, version, about)).await;
    };
    let broker = |host: &str| {
        let password = json!({"secret_ref": "token"});
        json!({"url": format!("amqp://{host}:5672"), "username": "bowline", "password": password})
    };
    let command = |word: &str| json!({"argv": ["echo", word], "secrets": {"TOKEN": "secret://token"}});
    put_secret("file://stripe", "1", "").await;
    put(&house, ResourceKind::Rabbitmq, "main", broker("one")).await;
    put(&house, ResourceKind::Command, "deploy", command("one")).await;
    let calls = row(&[
        node("deploy", "command", json!({"command": "deploy", "selector": "all"})),
        node("out", "end", json!({"output": 1})),
    ]);
    put(&house, ResourceKind::Workflow, "calls", calls).await;
    let header = json!({"Authorization": {"secret_ref": "token", "prefix": "Bearer "}});
    let behind = [
        node("step", "workflow", json!({"name": "calls"})),
        node("step", "http_request", json!({"url": "https://example.com", "headers": header})),
        node("step", "rabbitmq_publish", json!({"broker": "main", "routing_key": "q", "body": 1})),
        node("step", "command", json!({"command": command("inline"), "selector": "all"})),
        node(
            "step",
            "foreach",
            json!({"items": "{{ [1] }}", "node": {"type": "http_request",
            "config": {"url": "https://example.com", "headers": header}}}),
        ),
    ];
    let ask = async |step: &Value| {
        let asks = node("ask", "approval", json!({"title": "Go?", "four_eyes": false}));
        let workflow = row(&[asks, step.clone(), node("out", "end", json!({"output": 1}))]);
        let job = house.begin(workflow, json!(null)).await;
        (job, hash_of(&question(&house, job).await))
    };
    let mut open = Vec::new();
    for step in &behind {
        open.push(ask(step).await);
    }
    // The same secret, in other words: nobody is asked again.
    put_secret("file://stripe", "1", "what it is for").await;
    let vote = async |job, hash| {
        let no = VoteRequest { by: house.author(), yes: false, reason: None, seen: Some(hash) };
        let yes = yes(&house, job, Some(hash)).await;
        // Whoever was asked in vain must not go on.
        drop(house.engine.flows.vote(house.tenant, job, None, no).await);
        yes
    };
    for (reference, version) in [("file://stripe", "2"), ("file://other", "2")] {
        put_secret(reference, version, "").await;
        for (job, hash) in &mut open {
            assert_eq!(yes(&house, *job, Some(*hash)).await, FlowAnswer::Withdrawn, "{reference} {version}");
            *hash = put_again(&house, *job, *hash).await;
        }
    }
    put(&house, ResourceKind::Rabbitmq, "main", broker("two")).await;
    put(&house, ResourceKind::Command, "deploy", command("two")).await;
    let mut answers = Vec::new();
    for (job, hash) in open {
        answers.push(vote(job, hash).await);
    }
    let (withdrawn, taken) = (FlowAnswer::Withdrawn, FlowAnswer::Taken);
    assert_eq!(answers, [withdrawn, taken, withdrawn, taken, taken], "only what names them");
    drop(house);
}

#[tokio::test]
async fn an_execution_counts_as_approved_once_it_or_the_one_that_started_it_was() {
    let house = House::open().await;
    let flows = &house.engine.flows;
    put(&house, ResourceKind::Workflow, "before", says("before")).await;
    put(&house, ResourceKind::Workflow, "pay", says("seven")).await;
    let job = house.begin(paying(), json!(null)).await;
    question(&house, job).await;
    assert!(!flows.was_approved(house.tenant, job).await.expect("read"), "nobody has decided yet");
    assert_eq!(yes(&house, job, None).await, FlowAnswer::Taken);
    house.until(job, JobStatus::is_terminal).await;
    assert!(flows.was_approved(house.tenant, job).await.expect("read"));
    let started = children(&house, job).await;
    assert_eq!(started.len(), 2, "one before the question and one behind it");
    for child in started {
        assert!(flows.was_approved(house.tenant, child).await.expect("read"));
    }
    let plain = house.run(says("hello"), json!(null)).await;
    assert!(!flows.was_approved(house.tenant, plain.id).await.expect("read"));
}

/// Asks, and then starts an execution that waits before it runs whatever is active under the name `pay`.
fn paying_later() -> Value {
    row(&[
        node("ask", "approval", json!({"title": "Pay?", "four_eyes": false})),
        node("later", "workflow", json!({"name": "later"})),
        node("out", "end", json!({"output": "{{steps.later.output}}"})),
    ])
}

#[tokio::test]
async fn what_a_child_execution_starts_later_is_compared_with_what_its_parent_was_approved_for() {
    let house = House::open().await;
    let wait = node("wait", "wait_event", json!({"event": "go"}));
    let pay = node("pay", "workflow", json!({"name": "pay"}));
    let out = node("out", "end", json!({"output": "{{steps.pay.output}}"}));
    put(&house, ResourceKind::Workflow, "later", row(&[wait, pay, out])).await;
    for (changed, wanted) in
        [(None, Ok(json!("seven"))), (Some("seven thousand"), Err("workflow/pay is not what it was"))]
    {
        put(&house, ResourceKind::Workflow, "pay", says("seven")).await;
        let job = house.begin(paying_later(), json!(null)).await;
        question(&house, job).await;
        assert_eq!(yes(&house, job, None).await, FlowAnswer::Taken);
        let child = until(std::time::Duration::from_secs(20), "the child waits for its event", async || {
            let child = *children(&house, job).await.first().ok_or("no child yet")?;
            let waits = house.engine.ledger.find_flow(house.tenant, child).await.expect("read").map(|flow| flow.waits);
            if waits.is_some_and(|waits| !waits.is_empty()) { Ok(child) } else { Err("it does not wait yet") }
        })
        .await;
        if let Some(text) = changed {
            put(&house, ResourceKind::Workflow, "pay", says(text)).await;
        }
        let told = house.engine.flows.tell(house.tenant, child, "go", None, json!(1), house.author()).await;
        assert_eq!(told.expect("an answer"), FlowAnswer::Taken);
        let record = house.until(job, JobStatus::is_terminal).await;
        match wanted {
            Ok(result) => assert_eq!(result_of(&record), result),
            Err(why) => {
                let error = record.error.expect("it failed").message;
                assert!(error.contains(why), "{error}");
            }
        }
    }
    house.check().await;
}
