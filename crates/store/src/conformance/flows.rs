//! Promises about runs of workflows: a turn is added once, with everything that follows from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_model::audit::{Action, Author};
use bowline_model::fleet::ApprovalRefused;
use bowline_model::job::JobKind;
use bowline_model::person::Person;
use bowline_model::question::{AskRule, question_hash};
use bowline_model::resource::ResourceKind;
use bowline_model::{ErrorClass, EventKind, JobId, JobStatus, Outcome, ResourceName, RunError, TenantId, Timestamp};
use serde_json::json;
use tokio::task::JoinSet;

use super::bench::{Bench, body, has_rung};
use crate::{
    Deleted, Encoding, FlowAnswer, FlowChange, FlowOrder, FlowStanding, FlowVote, InboxItem, InboxMessage, InboxPart,
    JobFilter, JobOrder, KeptDefinition, NewFlow, NewJob, NewQuestion, NewSignal, NewTurn, NewWait, OnceKey,
    OrderAnswer, Origin, OutputRange, PruneMark, RECORDS_BYTES, REMEMBERED_MAX, Remembered, ResourceKey, ResourceOrder,
    ResourcePut, Retention, RetryNeeds, Signaled, StoredFlow, StoredResult, Submitted, TurnAnswer, TurnOrder, WaitKind,
};

/// A turn that says so much and no more.
fn turn(records: &str, status: JobStatus) -> NewTurn {
    NewTurn::standing(records.into(), (0, 1), FlowStanding::of(status))
}

/// A wait for a person.
fn ask(node: &str, visit: u32, expires_at: Option<Timestamp>) -> NewWait {
    let question = Some(NewQuestion { hash: body("Pay?"), rule: AskRule { quorum: 1, four_eyes: false } });
    NewWait { kind: WaitKind::Approval, node: node.into(), visit, name: "Pay?".into(), key: None, expires_at, question }
}

/// A wait for the signal `paid`.
fn event_wait() -> NewWait {
    NewWait {
        kind: WaitKind::Event,
        node: "wait".into(),
        visit: 1,
        name: "paid".into(),
        key: None,
        expires_at: None,
        question: None,
    }
}

async fn flow(bench: &Bench, first: Option<NewTurn>) -> NewJob {
    flow_of(bench, kept(bench, 7, "{}").await, first)
}

/// A definition, kept.
pub(super) async fn kept(bench: &Bench, hash: u8, body: &str) -> KeptDefinition {
    let id = bench.ledger.keep_definition(bench.tenant, [hash; 32], body.into()).await.expect("kept");
    KeptDefinition { id, hash: [hash; 32], body: body.into() }
}

fn flow_of(bench: &Bench, definition: KeptDefinition, first: Option<NewTurn>) -> NewJob {
    let flow =
        NewFlow { definition, workflow: "order".into(), workflow_version: Some(3), forked_from: None, depth: 0, first };
    NewJob { flow: Some(Arc::new(flow)), ..bench.job() }
}

/// An execution that has started these jobs when it is accepted.
pub(super) async fn starting_with(bench: &Bench, children: Vec<NewJob>) -> NewJob {
    flow(bench, Some(NewTurn { children, ..turn("[1]", JobStatus::Running) })).await
}

/// A run that goes on.
pub(super) async fn running(bench: &Bench) -> (JobId, i64) {
    let job = bench.submit(flow(bench, Some(turn("[1]", JobStatus::Running))).await).await;
    (job, number(bench, job).await)
}

async fn number(bench: &Bench, job: JobId) -> i64 {
    bench.ledger.flow_number(bench.tenant, job).await.expect("read").expect("a run")
}

pub(super) async fn inbox(bench: &Bench) -> Vec<InboxItem> {
    bench.ledger.flow_inbox(1_000, InboxPart::all()).await.expect("read").items
}

async fn load(bench: &Bench, flow: i64) -> StoredFlow {
    bench.ledger.load_flows(vec![flow], None).await.expect("read").remove(0)
}

async fn add(bench: &Bench, flow: i64, version: u64, heard: Vec<i64>, turn: NewTurn) -> TurnAnswer {
    let order = TurnOrder { flow, version, heard, turn };
    bench.ledger.turn_flows(vec![order]).await.expect("an answer").remove(0)
}

pub(super) fn order(bench: &Bench, job: JobId, ends: Option<(Arc<str>, u32)>) -> FlowOrder {
    FlowOrder {
        once: None,
        tenant: bench.tenant,
        job,
        message: r#"{"is":"go_on"}"#.into(),
        ends,
        vote: None,
        change: None,
        action: Action::WorkflowSteer,
        about: json!({}),
        by: "ann".into(),
        reason: None,
    }
}

/// A run that waits for a person at the node `ask`, for so long.
pub(super) async fn asking_for(bench: &Bench, for_ms: i64) -> JobId {
    let (job, flow) = running(bench).await;
    let mut asks = turn("[2]", JobStatus::Paused);
    let expires_at = Some(bench.now().plus_millis(for_ms));
    (asks.standing.paused_for, asks.standing.due_at) = (Some("approval".into()), expires_at);
    asks.opened = vec![ask("ask", 1, expires_at)];
    assert_eq!(add(bench, flow, 1, Vec::new(), asks).await, TurnAnswer::Stored);
    job
}

/// A run that goes on, and for which a moment comes: it does not wait for its job any more.
pub(super) async fn calls(bench: &Bench, (flow, version): (i64, u64), heard: Vec<i64>, until: Timestamp) {
    let mut calls = turn(&format!("[{}]", version + 1), JobStatus::Running);
    calls.standing.due_at = Some(until);
    assert_eq!(add(bench, flow, version, heard, calls).await, TurnAnswer::Stored);
}

pub async fn a_definition_is_kept_once(bench: &Bench) {
    let ledger = &bench.ledger;
    let first = ledger.keep_definition(bench.tenant, [1; 32], r#"{"a":1}"#.into()).await.expect("kept");
    let again = ledger.keep_definition(bench.tenant, [1; 32], r#"{"a":1}"#.into()).await.expect("kept");
    let other = ledger.keep_definition(bench.tenant, [2; 32], r#"{"a":2}"#.into()).await.expect("kept");
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert_eq!(ledger.find_definition(first).await.expect("read").as_deref(), Some(r#"{"a":1}"#));
    assert_eq!(ledger.find_definition(i64::MAX).await.expect("read"), None);
}

pub async fn what_was_done_before_is_stored_with_the_job(bench: &Bench) {
    let mut first = turn("[1]", JobStatus::Succeeded);
    first.standing.result = Some(r#"{"ok":true}"#.into());
    let job = bench.submit(flow(bench, Some(first)).await).await;
    let (record, runs) = bench.find(job).await;
    assert_eq!((record.state.kind, record.state.status, runs.len()), (JobKind::Workflow, JobStatus::Succeeded, 0));
    assert_eq!(record.result.as_deref(), Some(r#"{"ok":true}"#));
    assert!(record.finished_at.is_some());
    let stored = load(bench, number(bench, job).await).await;
    assert_eq!((stored.version, stored.records, stored.job), (1, vec!["[1]".to_owned()], job));
    assert_eq!(bench.kinds(job).await, [EventKind::FlowOpened, EventKind::JobSucceeded]);
    assert!(inbox(bench).await.is_empty());
}

pub async fn a_run_that_has_done_nothing_hears_that_it_should(bench: &Bench) {
    let job = bench.submit(flow(bench, None).await).await;
    assert_eq!(bench.status(job).await, JobStatus::Running);
    let items = inbox(bench).await;
    assert_eq!((items.len(), items[0].flow), (1, number(bench, job).await));
    let heard = vec![items[0].id];
    assert_eq!(add(bench, items[0].flow, 0, heard, turn("[1]", JobStatus::Succeeded)).await, TurnAnswer::Stored);
    assert!(inbox(bench).await.is_empty());
}

pub async fn a_run_for_later_waits_for_its_moment(bench: &Bench) {
    let mut wish = flow(bench, None).await;
    wish.run_at = Some(bench.now().plus_millis(5_000));
    let job = bench.submit(wish).await;
    assert_eq!((bench.status(job).await, inbox(bench).await.len()), (JobStatus::Pending, 0));
    bench.pass_ms(5_000);
    assert_eq!(bench.promote().await, 1);
    assert_eq!((bench.status(job).await, inbox(bench).await.len()), (JobStatus::Running, 1));
}

pub async fn what_is_said_to_a_run_for_later_waits_with_it(bench: &Bench) {
    let mut jobs = Vec::new();
    for _ in 0..2 {
        let mut wish = flow(bench, None).await;
        wish.run_at = Some(bench.now().plus_millis(5_000));
        let job = bench.submit(wish).await;
        assert_eq!(bench.ledger.steer_flow(order(bench, job, None)).await.expect("an answer"), FlowAnswer::Taken);
        jobs.push(job);
    }
    assert!(inbox(bench).await.is_empty());
    assert_eq!(bench.cancel(jobs[0]).await, OrderAnswer::Done(JobStatus::Canceled));
    bench.pass_ms(5_000);
    assert_eq!(bench.promote().await, 1);
    let (items, begun) = (inbox(bench).await, number(bench, jobs[1]).await);
    assert_eq!(items.iter().map(|item| item.flow).collect::<Vec<_>>(), [begun, begun], "the word, and that it is time");
}

/// W1: whoever was first.
pub async fn a_turn_is_added_once_whoever_else_takes_it(bench: &Bench) {
    let (job, flow) = running(bench).await;
    let mut takers = JoinSet::new();
    for n in 0..8 {
        let ledger = Arc::clone(&bench.ledger);
        let child = NewJob { payload: format!("{n}").into(), ..bench.job() };
        takers.spawn(async move {
            let turn = NewTurn { children: vec![child], ..turn(&format!("[{n}]"), JobStatus::Running) };
            let order = TurnOrder { flow, version: 1, heard: Vec::new(), turn };
            ledger.turn_flows(vec![order]).await.expect("an answer").remove(0)
        });
    }
    let answers = takers.join_all().await;
    assert_eq!(answers.iter().filter(|answer| **answer == TurnAnswer::Stored).count(), 1);
    let stored = load(bench, flow).await;
    assert_eq!((stored.version, stored.records.len()), (2, 2));
    // Nor is there a job of those who came second.
    let jobs = bench.ledger.list_jobs(bench.tenant, Default::default(), None, 100).await.expect("read").items;
    assert_eq!(jobs.len(), 2);
    assert_eq!(jobs.iter().filter(|other| other.begun_by == Some(job)).count(), 1);
}

pub async fn what_a_stale_turn_heard_is_heard_again(bench: &Bench) {
    let (job, flow) = running(bench).await;
    bench.ledger.steer_flow(order(bench, job, None)).await.expect("taken");
    let heard: Vec<i64> = inbox(bench).await.iter().map(|item| item.id).collect();
    assert_eq!(add(bench, flow, 9, heard.clone(), turn("[]", JobStatus::Running)).await, TurnAnswer::Stale);
    assert_eq!(inbox(bench).await.len(), 1);
    assert_eq!(add(bench, flow, 1, heard, turn("[]", JobStatus::Running)).await, TurnAnswer::Stored);
    assert!(inbox(bench).await.is_empty());
}

pub async fn a_message_is_heard_once_whatever_version_the_listener_knows(bench: &Bench) {
    let (job, flow) = running(bench).await;
    bench.ledger.steer_flow(order(bench, job, None)).await.expect("taken");
    let heard: Vec<i64> = inbox(bench).await.iter().map(|item| item.id).collect();
    assert_eq!(add(bench, flow, 1, heard.clone(), turn("[]", JobStatus::Running)).await, TurnAnswer::Stored);
    // Somebody read the same message, and the run after the first one had heard it.
    assert_eq!(add(bench, flow, 2, heard, turn("[]", JobStatus::Running)).await, TurnAnswer::Stale);
    assert_eq!(load(bench, flow).await.version, 2);
    assert_eq!(add(bench, flow, 2, Vec::new(), turn("[]", JobStatus::Running)).await, TurnAnswer::Stored);
}

pub async fn messages_of_tenants_that_are_passed_over_do_not_stand_in_the_way_of_others(bench: &Bench) {
    let other = TenantId::mint(Bench::START, [2; 10]);
    let (job, first) = running(bench).await;
    for _ in 0..3 {
        bench.ledger.steer_flow(order(bench, job, None)).await.expect("taken");
    }
    let id = bench.ledger.keep_definition(other, [7; 32], "{}".into()).await.expect("kept");
    let definition = KeptDefinition { id, hash: [7; 32], body: "{}".into() };
    let theirs = NewJob { tenant: other, ..flow_of(bench, definition, Some(turn("[1]", JobStatus::Running))) };
    let job = bench.submit(theirs).await;
    let second = bench.ledger.flow_number(other, job).await.expect("read").expect("a run");
    bench.ledger.steer_flow(FlowOrder { tenant: other, ..order(bench, job, None) }).await.expect("taken");
    let read = async |limit: u32, part: InboxPart| {
        let inbox = bench.ledger.flow_inbox(limit, part).await.expect("read");
        (inbox.items.iter().map(|item| (item.flow, item.tenant)).collect::<Vec<_>>(), inbox.next.is_some())
    };
    let (ours, theirs) = ((first, bench.tenant), (second, other));
    assert_eq!(read(10, InboxPart::all()).await, (vec![ours, ours, ours, theirs], false));
    let after = |id, except: &[TenantId]| InboxPart::After { id, except: except.to_vec() };
    assert_eq!(read(10, after(0, &[bench.tenant])).await, (vec![theirs], false));
    assert_eq!(read(10, after(0, &[other])).await, (vec![ours, ours, ours], false));
    assert_eq!(read(10, after(0, &[bench.tenant, other])).await, (vec![], false));
    assert_eq!(read(10, InboxPart::Of(second)).await, (vec![theirs], false));
    // What is cut off is behind the last that was read.
    let inbox = bench.ledger.flow_inbox(2, InboxPart::all()).await.expect("read");
    let next = inbox.next.expect("there is more");
    assert_eq!(next, inbox.items[1].id);
    assert_eq!(read(10, after(next, &[])).await, (vec![ours, theirs], false));
}

pub async fn the_end_of_a_job_comes_to_the_run_that_began_it(bench: &Bench) {
    let (job, flow) = running(bench).await;
    let child = bench.job();
    let id = child.id;
    let turn = NewTurn { children: vec![child], ..turn("[2]", JobStatus::Running) };
    add(bench, flow, 1, Vec::new(), turn).await;
    assert_eq!(bench.find(id).await.0.begun_by, Some(job));
    let run = bench.claim_one().await;
    assert!(inbox(bench).await.is_empty());
    let mut report = bench.report_of(&run, Outcome::Succeeded);
    report.result = Some(r#"{"n":1}"#.into());
    bench.report(report).await;
    let items = inbox(bench).await;
    let InboxMessage::Ended { job: ended, status, result, error, .. } = &items[0].message else { panic!("{items:?}") };
    assert_eq!((items.len(), items[0].flow, *ended, *status), (1, flow, id, JobStatus::Succeeded));
    assert_eq!((result.as_deref(), error), (Some(r#"{"n":1}"#), &None));
}

pub async fn a_large_result_of_a_job_is_heard_of_by_its_length(bench: &Bench) {
    let (_, flow) = running(bench).await;
    let turn = NewTurn { children: vec![bench.job()], ..turn("[2]", JobStatus::Running) };
    add(bench, flow, 1, Vec::new(), turn).await;
    let run = bench.claim_one().await;
    let piece = OutputRange { begins: 0, bytes: 77, sha256: [1; 32], encoding: Encoding::Plain, key: "runs/x".into() };
    let mut report = bench.report_of(&run, Outcome::Succeeded);
    report.stored_result = Some(StoredResult { ranges: vec![piece].into() });
    bench.report(report).await;
    let items = inbox(bench).await;
    let InboxMessage::Ended { result, result_bytes, .. } = &items[0].message else { panic!("{items:?}") };
    assert_eq!((result, result_bytes), (&None, &Some(77)));
}

pub async fn jobs_that_a_run_no_longer_wants_are_stopped(bench: &Bench) {
    let execution = flow(bench, Some(turn("[1]", JobStatus::Running))).await;
    let (_, flow) = running(bench).await;
    let (queued, out) = (bench.job(), NewJob { priority: 10, ..bench.job() });
    let ids = (queued.id, out.id, execution.id);
    let children = vec![queued, out, execution];
    add(bench, flow, 1, Vec::new(), NewTurn { children, ..turn("[2]", JobStatus::Running) }).await;
    bench.claim_one().await;
    let mut last = turn("[3]", JobStatus::Failed);
    last.cancels = vec![ids.0, ids.1, ids.2];
    last.standing.error = Some(RunError::new(ErrorClass::Permanent, "no"));
    add(bench, flow, 2, Vec::new(), last).await;
    assert_eq!(bench.status(ids.0).await, JobStatus::Canceled);
    assert_eq!(bench.status(ids.1).await, JobStatus::Canceling);
    assert_eq!(bench.status(ids.2).await, JobStatus::Canceling);
}

pub async fn a_paused_run_is_woken_at_its_moment(bench: &Bench) {
    let (job, flow) = running(bench).await;
    let mut nap = turn("[2]", JobStatus::Paused);
    nap.standing.due_at = Some(bench.now().plus_millis(60_000));
    nap.standing.paused_for = Some("sleep".into());
    add(bench, flow, 1, Vec::new(), nap).await;
    assert_eq!(bench.status(job).await, JobStatus::Paused);
    assert_eq!(bench.promote().await, 0);
    bench.pass_ms(60_000);
    assert_eq!((bench.promote().await, bench.promote().await), (1, 0));
    let items = inbox(bench).await;
    assert_eq!((items.len(), items[0].flow), (1, flow));
    add(bench, flow, 2, vec![items[0].id], turn("[3]", JobStatus::Running)).await;
    assert_eq!(bench.status(job).await, JobStatus::Running);
}

pub async fn a_canceled_run_hears_of_it_and_ends_when_it_says_so(bench: &Bench) {
    let (job, flow) = running(bench).await;
    assert_eq!(bench.cancel(job).await, OrderAnswer::Done(JobStatus::Canceling));
    assert_eq!(bench.cancel(job).await, OrderAnswer::Unchanged(JobStatus::Canceling));
    // A turn that was worked out before does not bring it back.
    add(bench, flow, 1, Vec::new(), turn("[2]", JobStatus::Running)).await;
    assert_eq!(bench.status(job).await, JobStatus::Canceling);
    let heard = inbox(bench).await.iter().map(|item| item.id).collect::<Vec<_>>();
    assert_eq!(heard.len(), 1);
    assert_eq!(bench.ledger.steer_flow(order(bench, job, None)).await, Ok(FlowAnswer::Taken));
    add(bench, flow, 2, heard, turn("[3]", JobStatus::Canceled)).await;
    assert_eq!(bench.status(job).await, JobStatus::Canceled);
    assert_eq!(inbox(bench).await.len(), 1, "what it has not heard yet is still there");
    assert_eq!(bench.retry(job).await, OrderAnswer::Done(JobStatus::Running));
    assert_eq!(inbox(bench).await.len(), 2);
}

/// Whoever advances executions sleeps until there is something to hear.
pub async fn what_an_execution_is_to_hear_rings(bench: &Bench) {
    let (job, flow) = running(bench).await;
    let wait = event_wait();
    let next = NewTurn { children: vec![bench.job()], opened: vec![wait], ..turn("[2]", JobStatus::Running) };
    assert_eq!(add(bench, flow, 1, Vec::new(), next).await, TurnAnswer::Stored);
    let run = bench.claim_one().await;
    let mut bell = bench.ledger.flow_wake().listen();
    bench.succeed(&run).await;
    assert!(has_rung(&mut bell).await, "a job that it started has ended");
    assert_eq!(bench.ledger.steer_flow(order(bench, job, None)).await, Ok(FlowAnswer::Taken));
    assert!(has_rung(&mut bell).await, "somebody says something to it");
    let (tenant, name, by) = (bench.tenant, "paid".into(), "ann".into());
    let signal = NewSignal { once: None, tenant, name, key: None, message: "{}".into(), by };
    assert_eq!(bench.ledger.signal_flows(signal).await, Ok(Signaled::Told(1)));
    assert!(has_rung(&mut bell).await, "what it waits for has come");
    bench.cancel(job).await;
    assert!(has_rung(&mut bell).await, "it is to end");
}

/// Whoever heard something after the end, and is slow, does not undo what somebody wanted meanwhile.
pub async fn a_run_that_was_over_says_nothing_about_its_job(bench: &Bench) {
    let job = bench.submit(flow(bench, Some(turn("[1]", JobStatus::Failed))).await).await;
    let flow = number(bench, job).await;
    assert_eq!(bench.retry(job).await, OrderAnswer::Done(JobStatus::Running));
    let late = NewTurn { after_end: true, ..turn("[]", JobStatus::Failed) };
    assert_eq!(add(bench, flow, 1, Vec::new(), late).await, TurnAnswer::Stored);
    assert_eq!(bench.status(job).await, JobStatus::Running);
    let heard = inbox(bench).await.iter().map(|item| item.id).collect();
    assert_eq!(add(bench, flow, 2, heard, turn("[2]", JobStatus::Succeeded)).await, TurnAnswer::Stored);
    assert_eq!(bench.status(job).await, JobStatus::Succeeded);
}

pub async fn a_run_that_is_given_up_leaves_nothing_behind(bench: &Bench) {
    let (job, flow) = running(bench).await;
    let mut begins = turn("[2]", JobStatus::Running);
    begins.steps = (1, 4);
    let (child, other) = (bench.job(), running(bench).await.0);
    let child_id = child.id;
    begins.children = vec![child];
    let wait = ask("ask", 1, None);
    begins.opened = vec![wait];
    assert_eq!(add(bench, flow, 1, Vec::new(), begins).await, TurnAnswer::Stored);
    assert_eq!(bench.status(child_id).await, JobStatus::Queued);
    let gives_up = NewTurn { gives_up: true, steps: (0, 0), ..turn("[]", JobStatus::Error) };
    assert_eq!(add(bench, flow, 2, Vec::new(), gives_up).await, TurnAnswer::Stored);
    assert_eq!((bench.status(job).await, bench.status(child_id).await), (JobStatus::Error, JobStatus::Canceled));
    assert_eq!(bench.status(other).await, JobStatus::Running);
    let waits = bench.ledger.list_waits(bench.tenant, WaitKind::Approval, None, 10).await.expect("read").items;
    assert_eq!(waits.len(), 0);
    let record = bench.ledger.find_flow(bench.tenant, job).await.expect("read").expect("a run");
    assert_eq!(record.steps, 4, "what it did before is not forgotten");
}

/// Each in pages of one, so that every place where a page may end is tried.
pub async fn runs_are_listed_by_workflow_by_parent_and_without_children(bench: &Bench) {
    let (job, flow) = running(bench).await;
    let (other, _) = running(bench).await;
    let children = [bench.job(), bench.job()];
    let ids = [children[1].id, children[0].id];
    let mut works = turn("[2]", JobStatus::Running);
    works.children = children.to_vec();
    add(bench, flow, 1, Vec::new(), works).await;
    let name = bench.find(job).await.0.workflow.expect("a name");
    let list = async |filter: JobFilter| {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = bench.ledger.list_jobs(bench.tenant, filter.clone(), before, 1).await.expect("read");
            found.extend(page.items.iter().map(|job| job.id));
            match page.next {
                Some(next) => before = Some(next),
                None => return found,
            }
        }
    };
    let mut runs = list(JobFilter { workflow: Some(name.clone()), ..JobFilter::default() }).await;
    assert_eq!(runs.len(), 2, "{runs:?}");
    runs.retain(|run| *run != job && *run != other);
    assert_eq!(runs, []);
    assert_eq!(list(JobFilter { workflow: Some("nothing".to_owned()), ..JobFilter::default() }).await, []);
    let mut of_parent = list(JobFilter { parent: Some(job), ..JobFilter::default() }).await;
    of_parent.sort_unstable();
    let mut wanted = ids.to_vec();
    wanted.sort_unstable();
    assert_eq!(of_parent, wanted);
    assert_eq!(list(JobFilter { parent: Some(other), ..JobFilter::default() }).await, []);
    let mut without = list(JobFilter { no_children: true, ..JobFilter::default() }).await;
    without.sort_unstable();
    let mut runs = vec![job, other];
    runs.sort_unstable();
    assert_eq!(without, runs);
    // Paused runs are found by what they wait for.
    let mut asks = turn("[3]", JobStatus::Paused);
    asks.standing.paused_for = Some("approval".into());
    asks.opened = vec![ask("ask", 1, None)];
    add(bench, flow, 2, Vec::new(), asks).await;
    let paused = |what| JobFilter { paused_for: Some(what), ..JobFilter::default() };
    assert_eq!(list(paused("approval")).await, [job]);
    assert_eq!(list(paused("sleep")).await, []);
    let both = JobFilter { status: Some(JobStatus::Queued), ..paused("approval") };
    assert_eq!(list(both).await.len(), 3, "either is enough");
    assert_eq!(bench.find(job).await.0.paused_for.as_deref(), Some("approval"));
}

/// What an advance brings about is told with what people need to understand it.
pub async fn what_an_advance_does_is_told(bench: &Bench) {
    let (job, flow) = running(bench).await;
    let expires_at = Some(bench.now().plus_millis(60_000));
    let child = bench.job();
    let unwanted = child.id;
    let mut asks = NewTurn { children: vec![child], steps: (1, 3), ..turn("[2]", JobStatus::Paused) };
    (asks.standing.node, asks.standing.paused_for) = (Some("ask".into()), Some("approval".into()));
    asks.logs = vec![("note".into(), "all is well".to_owned())];
    asks.steered = vec![("ann".to_owned(), "skip".to_owned())];
    asks.opened = vec![ask("ask", 1, None), ask("other", 1, expires_at)];
    assert_eq!(add(bench, flow, 1, Vec::new(), asks).await, TurnAnswer::Stored);
    let goes_on = NewTurn { cancels: vec![unwanted], ..turn("[3]", JobStatus::Running) };
    assert_eq!(add(bench, flow, 2, Vec::new(), goes_on).await, TurnAnswer::Stored);
    let told: Vec<_> = bench.history(job).await.into_iter().map(|(_, event)| (event.kind, event.data)).collect();
    let of = |kind: EventKind| {
        let found: Vec<_> = told.iter().filter(|(of, _)| *of == kind).map(|(_, data)| data.clone()).collect();
        assert_eq!(found.len(), 1, "{kind:?} in {told:?}");
        found[0].clone()
    };
    let logged = of(EventKind::FlowLogged);
    assert_eq!((logged.node.as_deref(), logged.reason.as_deref()), (Some("note"), Some("all is well")));
    let steered = of(EventKind::FlowSteered);
    assert_eq!((steered.by.as_deref(), steered.reason.as_deref()), (Some("ann"), Some("skip")));
    let paused = of(EventKind::FlowPaused);
    assert_eq!((paused.node.as_deref(), paused.reason.as_deref()), (Some("ask"), Some("approval")));
    assert_eq!(paused.steps, Some(3));
    let awaits = of(EventKind::FlowAwaits);
    assert_eq!((awaits.node.as_deref(), awaits.due_at), (Some("other"), expires_at));
    assert_eq!(awaits.reason.as_deref(), Some(WaitKind::Approval.as_str()));
    let (_, canceled) = bench.history(unwanted).await.pop().expect("its end is told");
    assert_eq!(canceled.kind, EventKind::JobCanceled);
    assert_eq!(canceled.data.reason.as_deref(), Some("the workflow no longer wants it"));
}

/// Nothing changes but what is waited for; and where another branch works, not even the status tells.
pub async fn a_wait_that_follows_a_wait_is_told(bench: &Bench) {
    let (job, flow) = running(bench).await;
    let mut nap = turn("[2]", JobStatus::Paused);
    nap.standing.due_at = Some(bench.now().plus_millis(1_000));
    nap.standing.node = Some("nap".into());
    add(bench, flow, 1, Vec::new(), nap).await;
    bench.pass_ms(1_000);
    assert_eq!(bench.promote().await, 1);
    let heard = inbox(bench).await.iter().map(|item| item.id).collect();
    let mut asks = turn("[3]", JobStatus::Paused);
    asks.standing.node = Some("ask".into());
    asks.opened = vec![ask("ask", 1, None)];
    add(bench, flow, 2, heard, asks).await;
    let mut works = turn("[4]", JobStatus::Running);
    works.standing.node = Some("work".into());
    works.closed = vec![("ask".into(), 1)];
    works.opened = vec![ask("other", 1, None)];
    add(bench, flow, 3, Vec::new(), works).await;
    let page = bench.ledger.job_events(bench.tenant, job, None, 100).await.expect("read").expect("a job");
    let told: Vec<_> = page.items.iter().map(|(_, event)| (event.kind, event.data.node.as_deref())).collect();
    assert_eq!(
        told[told.len() - 5..],
        [
            (EventKind::FlowPaused, Some("nap")),
            (EventKind::FlowWoken, None),
            (EventKind::FlowPaused, Some("ask")),
            (EventKind::FlowResumed, Some("work")),
            (EventKind::FlowAwaits, Some("other")),
        ]
    );
}

pub async fn a_wait_is_ended_by_one(bench: &Bench) {
    let (job, flow) = running(bench).await;
    let mut asks = turn("[2]", JobStatus::Paused);
    asks.standing.paused_for = Some("approval".into());
    let wait = ask("ask", 1, None);
    asks.opened = vec![wait.clone()];
    add(bench, flow, 1, Vec::new(), asks).await;
    let waits = bench.ledger.list_waits(bench.tenant, WaitKind::Approval, None, 10).await.expect("read").items;
    assert_eq!((waits.len(), waits[0].job, &waits[0].wait), (1, job, &wait));
    let mut voters = JoinSet::new();
    for _ in 0..6 {
        let (ledger, order) = (Arc::clone(&bench.ledger), order(bench, job, Some(("ask".into(), 1))));
        voters.spawn(async move { ledger.steer_flow(order).await.expect("an answer") });
    }
    let answers = voters.join_all().await;
    assert_eq!(answers.iter().filter(|answer| **answer == FlowAnswer::Taken).count(), 1);
    assert_eq!(answers.iter().filter(|answer| **answer == FlowAnswer::NobodyWaits).count(), 5);
    assert_eq!(inbox(bench).await.len(), 1);
    let other = bench.neighbour;
    let foreign = FlowOrder { tenant: other, ..order(bench, job, None) };
    assert_eq!(bench.ledger.steer_flow(foreign).await.expect("an answer"), FlowAnswer::NotFound);
}

pub async fn a_decision_that_was_taken_is_heard(bench: &Bench) {
    let (job, flow) = running(bench).await;
    let asks = NewTurn {
        opened: vec![
            ask("now", 1, Some(bench.now().plus_millis(60_000))),
            ask("late", 1, Some(bench.now().plus_millis(1_000))),
            ask("ever", 1, None),
        ],
        ..turn("[2]", JobStatus::Paused)
    };
    assert_eq!(add(bench, flow, 1, Vec::new(), asks).await, TurnAnswer::Stored);
    bench.pass_ms(1_000);
    let decide = async |node: &str| {
        let order = order(bench, job, Some((node.into(), 1)));
        bench.ledger.steer_flow(order).await.expect("an answer")
    };
    assert_eq!(decide("late").await, FlowAnswer::NobodyWaits, "its time is over, whether the run has heard so or not");
    assert_eq!(decide("now").await, FlowAnswer::Taken);
    // Whoever has not heard of it cannot end the wait in another way any more.
    let expires = NewTurn { closed: vec![("now".into(), 1)], ..turn("[3]", JobStatus::Failed) };
    assert_eq!(add(bench, flow, 2, Vec::new(), expires).await, TurnAnswer::Stale);
    let (version, heard) = (load(bench, flow).await.version, inbox(bench).await);
    let hears = NewTurn { closed: vec![("now".into(), 1)], ..turn("[3]", JobStatus::Paused) };
    let heard = heard.iter().map(|item| item.id).collect();
    assert_eq!(add(bench, flow, version, heard, hears).await, TurnAnswer::Stored);
    assert_eq!(load(bench, flow).await.records.last().map(String::as_str), Some("[3]"));
    bench.cancel(job).await;
    assert_eq!(decide("ever").await, FlowAnswer::NobodyWaits, "it is about to end");
}

pub async fn waits_are_walked_page_by_page_oldest_first(bench: &Bench) {
    let ask = |node: &str, visit| ask(node, visit, None);
    // Several at one moment, in one run and in many; and the younger run waits for longer.
    let (_, old) = running(bench).await;
    let mut expected = Vec::new();
    for _ in 0..3 {
        let (job, flow) = running(bench).await;
        let opened = vec![ask("a", 1), ask("a", 2), ask("b", 1)];
        expected.extend(opened.iter().map(|wait| (job, wait.node.to_string(), wait.visit)));
        add(bench, flow, 1, Vec::new(), NewTurn { opened, ..turn("[2]", JobStatus::Paused) }).await;
    }
    bench.pass_ms(1_000);
    let opened = vec![ask("z", 1)];
    add(bench, old, 1, Vec::new(), NewTurn { opened, ..turn("[2]", JobStatus::Paused) }).await;
    let ledger = &bench.ledger;
    let oldest = ledger.load_flows(vec![old], None).await.expect("read").remove(0).job;
    expected.push((oldest, "z".to_owned(), 1));
    for size in [1, 2, 3, 10, 100] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = ledger.list_waits(bench.tenant, WaitKind::Approval, after, size).await.expect("read");
            assert!(page.items.len() <= size as usize);
            for wait in &page.items {
                let job = bench.find(wait.job).await.0;
                assert_eq!(wait.actor, &*job.origin.actor, "a wait names who started its execution");
            }
            seen.extend(page.items.into_iter().map(|wait| (wait.job, wait.wait.node.to_string(), wait.wait.visit)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, expected, "in pages of {size}");
    }
    // Whoever is in the middle of the list is not thrown off when what was there is over.
    let page = ledger.list_waits(bench.tenant, WaitKind::Approval, None, 4).await.expect("read");
    let answer = ledger.steer_flow(order(bench, expected[3].0, Some((expected[3].1.as_str().into(), 1)))).await;
    assert_eq!(answer.expect("an answer"), FlowAnswer::Taken);
    let rest = ledger.list_waits(bench.tenant, WaitKind::Approval, page.next, 100).await.expect("read");
    let rest: Vec<_> =
        rest.items.into_iter().map(|wait| (wait.job, wait.wait.node.to_string(), wait.wait.visit)).collect();
    assert_eq!(rest, expected[4..]);
    let foreign = ledger.list_waits(bench.neighbour, WaitKind::Approval, None, 10).await.expect("read");
    assert!(foreign.items.is_empty());
}

pub async fn an_event_comes_to_those_who_wait_for_it(bench: &Bench) {
    let mut jobs = Vec::new();
    for key in [None, Some("1"), Some("2")] {
        let (job, flow) = running(bench).await;
        let wait = NewWait { key: key.map(ToOwned::to_owned), ..event_wait() };
        add(bench, flow, 1, Vec::new(), NewTurn { opened: vec![wait], ..turn("[2]", JobStatus::Paused) }).await;
        jobs.push((job, flow));
    }
    let signal = |name: &str, key: Option<&str>| NewSignal {
        once: None,
        tenant: bench.tenant,
        name: name.into(),
        key: key.map(ToOwned::to_owned),
        message: "{}".into(),
        by: "ann".into(),
    };
    assert_eq!(bench.ledger.signal_flows(signal("other", None)).await, Ok(Signaled::Told(0)));
    let once = |text: &str| Some(OnceKey { key: "k".to_owned(), hash: body(text) });
    let paid = |text: &str| NewSignal { once: once(text), ..signal("paid", Some("2")) };
    assert_eq!(bench.ledger.signal_flows(paid("one")).await, Ok(Signaled::Told(2)));
    assert_eq!(bench.ledger.signal_flows(paid("one")).await, Ok(Signaled::Replayed(2)), "told once for its key");
    assert_eq!(bench.ledger.signal_flows(paid("two")).await, Ok(Signaled::KeyConflict));
    let told: Vec<i64> = inbox(bench).await.iter().map(|item| item.flow).collect();
    assert_eq!(told, [jobs[0].1, jobs[2].1]);
}

pub async fn a_signal_is_stored_once_and_comes_to_each_of_many_once(bench: &Bench) {
    const MANY: usize = 1_203;
    let mut jobs = Vec::with_capacity(MANY);
    for _ in 0..MANY {
        jobs.push(flow(bench, Some(NewTurn { opened: vec![event_wait()], ..turn("[1]", JobStatus::Paused) })).await);
    }
    bench.ledger.submit(jobs).await.expect("stored");
    let before = super::bounds::stored(bench, bench.tenant).await;
    let signal = |n: u32| NewSignal {
        once: None,
        tenant: bench.tenant,
        name: "paid".into(),
        key: None,
        message: format!("{{\"n\":{n},\"x\":\"{}\"}}", "x".repeat(100_000)).into(),
        by: "ann".into(),
    };
    assert_eq!(bench.ledger.count_waiting(bench.tenant, "paid".into(), None).await, Ok(MANY as u64));
    assert_eq!(bench.ledger.signal_flows(signal(1)).await, Ok(Signaled::Told(MANY as u64)));
    assert_eq!(bench.ledger.signal_flows(signal(2)).await, Ok(Signaled::Told(MANY as u64)));
    let grown = super::bounds::stored(bench, bench.tenant).await - before;
    assert!(grown < 3 * 100_000, "{grown} bytes for two signals");
    // As many servers continue them at once as like to, and each of them may stop after any of its transactions.
    let mut told: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
    for round in 0..100 {
        let more = tokio::join!(bench.ledger.spread_signals(), bench.ledger.spread_signals());
        let more = more.0.expect("stored") | more.1.expect("stored");
        loop {
            let items: Vec<InboxItem> = inbox(bench).await;
            if items.is_empty() {
                break;
            }
            let mut heard: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
            for item in items {
                let InboxMessage::Told(text) = item.message else { panic!("a signal") };
                let n = serde_json::from_str::<serde_json::Value>(&text).expect("as it was sent")["n"].as_u64();
                told.entry(item.flow).or_default().push(n.expect("a number"));
                heard.entry(item.flow).or_default().push(item.id);
            }
            // They go on waiting.
            let flows: Vec<i64> = heard.keys().copied().collect();
            let versions = bench.ledger.load_flows(flows, None).await.expect("read");
            let turns = versions.iter().map(|stored| TurnOrder {
                flow: stored.number,
                version: stored.version,
                heard: heard.remove(&stored.number).unwrap_or_default(),
                turn: turn("[]", JobStatus::Paused),
            });
            bench.ledger.turn_flows(turns.collect()).await.expect("stored");
        }
        if !more && round > 0 {
            break;
        }
    }
    assert_eq!(told.len(), MANY);
    assert!(told.values().all(|signals| *signals == [1, 2]), "each execution gets each signal once, in order");
    assert_eq!(bench.ledger.spread_signals().await, Ok(false), "nothing is left of them");
}

pub async fn signals_that_are_not_taken_in_are_bounded(bench: &Bench) {
    let (_, flow) = running(bench).await;
    let wait = event_wait();
    add(bench, flow, 1, Vec::new(), NewTurn { opened: vec![wait], ..turn("[2]", JobStatus::Paused) }).await;
    let message: Arc<str> = format!("\"{}\"", "x".repeat(10 << 20)).into();
    let send = async || {
        let (message, by) = (Arc::clone(&message), "ann".into());
        let signal = NewSignal { once: None, tenant: bench.tenant, name: "paid".into(), key: None, message, by };
        bench.ledger.signal_flows(signal).await.expect("an answer")
    };
    for _ in 0..3 {
        assert_eq!(send().await, Signaled::Told(1));
    }
    assert!(matches!(send().await, Signaled::Full(has) if has.signals == 3));
    bench.ledger.spread_signals().await.expect("stored");
    assert!(matches!(send().await, Signaled::Full(_)), "they are spread, and nobody has taken them in");
    // They are not read all at once.
    for version in 2..5 {
        let heard: Vec<i64> = inbox(bench).await.iter().map(|item| item.id).collect();
        assert_eq!(heard.len(), 1);
        assert_eq!(add(bench, flow, version, heard, turn("[3]", JobStatus::Paused)).await, TurnAnswer::Stored);
    }
    assert!(inbox(bench).await.is_empty());
    bench.ledger.spread_signals().await.expect("stored");
    assert_eq!(send().await, Signaled::Told(1));
}

pub async fn an_execution_takes_so_many_messages_and_no_more(bench: &Bench) {
    let (job, flow) = running(bench).await;
    let say = async |text: String| {
        let order = FlowOrder { message: text.into(), ..order(bench, job, None) };
        bench.ledger.steer_flow(order).await.expect("an answer")
    };
    let large = || format!("\"{}\"", "x".repeat(9 << 20));
    assert_eq!(say(large()).await, FlowAnswer::Taken, "one message is always taken");
    let FlowAnswer::Full(has) = say(r#"{"is":"go_on"}"#.to_owned()).await else { panic!("it is full") };
    assert_eq!((has.signals, has.bytes), (1, large().len() as u64));
    let heard = async |turn: NewTurn, version: u64| {
        let ids = inbox(bench).await.iter().filter(|item| item.flow == flow).map(|item| item.id).collect();
        assert_eq!(add(bench, flow, version, ids, turn).await, TurnAnswer::Stored);
    };
    heard(turn("[2]", JobStatus::Running), 1).await;
    assert_eq!(say(r#"{"is":"go_on"}"#.to_owned()).await, FlowAnswer::Taken, "it has heard the other one");
    // What it remembers counts as well.
    let remembered = Remembered { signals: REMEMBERED_MAX.signals - 1, bytes: 10 };
    let opened = vec![ask("ask", 1, None)];
    heard(NewTurn { remembered, opened, ..turn("[3]", JobStatus::Paused) }, 2).await;
    assert_eq!(say(r#"{"is":"go_on"}"#.to_owned()).await, FlowAnswer::Taken);
    assert!(matches!(say(r#"{"is":"go_on"}"#.to_owned()).await, FlowAnswer::Full(_)), "there are as many as it takes");
    // What ends a wait is always taken.
    let ends = order(bench, job, Some(("ask".into(), 1)));
    assert_eq!(bench.ledger.steer_flow(ends).await, Ok(FlowAnswer::Taken));
}

pub async fn what_is_read_of_executions_is_known_before_and_comes_in_pages(bench: &Bench) {
    let (job, flow) = running(bench).await;
    let large = format!("[\"{}\"]", "x".repeat(1 << 20));
    for version in 1..=6u32 {
        let snapshot = (version == 2).then(|| Arc::from(large.as_str()));
        let next = NewTurn { steps: (version, version + 1), snapshot, ..turn(&large, JobStatus::Running) };
        assert_eq!(add(bench, flow, u64::from(version), Vec::new(), next).await, TurnAnswer::Stored);
    }
    for until in [None, Some(0), Some(2), Some(4), Some(9)] {
        let stored = bench.ledger.load_flows(vec![flow], until).await.expect("read").remove(0);
        let read = stored.records.iter().chain(&stored.snapshot).map(String::len).sum::<usize>() + stored.payload.len();
        let sizes = bench.ledger.flow_sizes(vec![flow], until).await.expect("read");
        assert_eq!(sizes, [(flow, read as u64)], "until {until:?}");
    }
    let (mut pages, mut seen, mut after) = (0, 0, 0);
    loop {
        let page = bench.ledger.flow_records(bench.tenant, job, 0, after, 100).await.expect("read");
        let bytes: usize = page.items.iter().map(String::len).sum();
        assert!(bytes as u64 <= RECORDS_BYTES, "{bytes}");
        (pages, seen) = (pages + 1, seen + page.items.len());
        let Some(next) = page.next else { break };
        after = next;
    }
    assert_eq!((pages, seen), (2, 7), "three turns of a MiB at a time");
    // Messages, too: whoever sent them, they are held in memory.
    let mut jobs = Vec::new();
    for _ in 0..5 {
        let (job, flow) = running(bench).await;
        let message = format!("\"{}\"", "x".repeat(10 << 20)).into();
        let order = FlowOrder { message, ..order(bench, job, None) };
        assert_eq!(bench.ledger.steer_flow(order).await, Ok(FlowAnswer::Taken));
        jobs.push(flow);
    }
    let first: Vec<i64> = inbox(bench).await.iter().map(|item| item.flow).filter(|flow| jobs.contains(flow)).collect();
    assert!(!first.is_empty() && first.len() <= 3 && jobs.starts_with(&first), "{first:?} of {jobs:?}");
}

pub async fn a_run_is_read_from_its_last_snapshot_or_from_a_past_one(bench: &Bench) {
    let (_, flow) = running(bench).await;
    for version in 1..=6u32 {
        let snapshot = version.is_multiple_of(2).then(|| Arc::from(format!("{{\"after\":{version}}}")));
        let steps = (version, version + 1);
        let next = NewTurn { steps, snapshot, ..turn(&format!("[{version}]"), JobStatus::Running) };
        assert_eq!(add(bench, flow, u64::from(version), Vec::new(), next).await, TurnAnswer::Stored);
    }
    let now = load(bench, flow).await;
    assert_eq!((now.snapshot.as_deref(), now.records.len(), now.version), (Some("{\"after\":6}"), 0, 7));
    let past = bench.ledger.load_flows(vec![flow], Some(4)).await.expect("read").remove(0);
    assert_eq!(past.snapshot.as_deref(), Some("{\"after\":2}"));
    assert_eq!(past.records, ["[3]", "[4]"]);
    // A snapshot after the very step may know of what was said to the run later.
    let past = bench.ledger.load_flows(vec![flow], Some(5)).await.expect("read").remove(0);
    assert_eq!(past.snapshot.as_deref(), Some("{\"after\":2}"));
    assert_eq!(past.records, ["[3]", "[4]", "[5]"]);
    let records = bench.ledger.flow_records(bench.tenant, now.job, 6, 0, 10).await.expect("read");
    assert_eq!(records.items, ["[5]", "[6]"]);
}

pub async fn records_are_read_page_by_page_also_where_no_step_was_made(bench: &Bench) {
    let (job, flow) = running(bench).await;
    for version in 1..=6u32 {
        let next = NewTurn { steps: (1, 1), ..turn(&format!("[{version}]"), JobStatus::Running) };
        assert_eq!(add(bench, flow, u64::from(version), Vec::new(), next).await, TurnAnswer::Stored);
    }
    for (from_step, limit) in [(0, 1), (0, 2), (1, 3), (0, 7), (0, 100)] {
        let (mut seen, mut after) = (Vec::new(), 0);
        loop {
            let page = bench.ledger.flow_records(bench.tenant, job, from_step, after, limit).await.expect("read");
            assert!(page.items.len() <= limit as usize);
            seen.extend(page.items);
            let Some(next) = page.next else { break };
            assert!(next > after, "{next} after {after}");
            after = next;
        }
        assert_eq!(seen[1..], ["[1]", "[2]", "[3]", "[4]", "[5]", "[6]"], "{limit} at a time");
    }
}

pub async fn runs_go_when_their_time_is_over_with_all_that_was_kept_of_them(bench: &Bench) {
    let job = bench.submit(flow(bench, Some(turn("[1]", JobStatus::Succeeded))).await).await;
    let gone = number(bench, job).await;
    let (_, kept) = running(bench).await;
    bench.pass_ms(10_000);
    let retention = Retention { finished_jobs_ms: 1_000, events_ms: 1_000 };
    bench.ledger.prune(retention, PruneMark::default()).await.expect("pruned");
    assert!(bench.ledger.load_flows(vec![gone], None).await.expect("read").is_empty());
    assert_eq!(load(bench, kept).await.version, 1);
}

const SOON: Retention = Retention { finished_jobs_ms: 1_000, events_ms: 1_000 };

async fn is_kept(bench: &Bench, definition: &KeptDefinition) -> bool {
    let found = bench.ledger.find_definition(definition.id).await.expect("read");
    assert!(found.as_deref().is_none_or(|body| body == &*definition.body), "{definition:?} is {found:?}");
    found.is_some()
}

pub async fn definitions_go_when_no_run_needs_them(bench: &Bench) {
    let ledger = &bench.ledger;
    let over = kept(bench, 1, r#"{"over":1}"#).await;
    let living = kept(bench, 2, r#"{"living":1}"#).await;
    let current = kept(bench, 3, r#"{"current":1}"#).await;
    let former = kept(bench, 4, r#"{"former":1}"#).await;
    let unused = kept(bench, 5, r#"{"unused":1}"#).await;
    for (definition, status) in [
        (&over, JobStatus::Succeeded),
        (&over, JobStatus::Succeeded),
        (&living, JobStatus::Succeeded),
        (&living, JobStatus::Running),
        (&current, JobStatus::Succeeded),
        (&former, JobStatus::Succeeded),
    ] {
        bench.submit(flow_of(bench, definition.clone(), Some(turn("[1]", status)))).await;
    }
    let name = ResourceName::new("order").expect("a name");
    let key = ResourceKey { tenant: bench.tenant, kind: ResourceKind::Workflow, name };
    for spec in [&former.body, &current.body] {
        let (key, spec, by) = (key.clone(), Arc::clone(spec), "ann".into());
        let put = ResourcePut { key, spec, note: None, source: None, by, activate: true, seen: None };
        ledger.put_resource(put).await.expect("stored");
    }
    // The newest one may stay for its name; here it has a better reason.
    let newest = kept(bench, 6, r#"{"newest":1}"#).await;
    bench.submit(flow_of(bench, newest, Some(turn("[1]", JobStatus::Running)))).await;
    // Nobody is too young yet.
    assert_eq!(
        ledger.prune(SOON, PruneMark::default()).await.expect("pruned").definitions,
        1,
        "nobody uses {unused:?}"
    );
    for definition in [&over, &living, &current, &former] {
        assert!(is_kept(bench, definition).await, "{definition:?}");
    }
    bench.pass_ms(10_000);
    assert_eq!(ledger.prune(SOON, PruneMark::default()).await.expect("pruned").definitions, 2);
    assert!(!is_kept(bench, &over).await && !is_kept(bench, &former).await && !is_kept(bench, &unused).await);
    assert!(is_kept(bench, &living).await && is_kept(bench, &current).await);
    // Another tenant's resource is nobody's reason, and one that is deleted is no longer one.
    let order = ResourceOrder { key, by: "ann".into(), reason: None };
    assert_eq!(ledger.delete_resource(order).await.expect("an answer"), Deleted::Done);
    assert_eq!(ledger.prune(SOON, PruneMark::default()).await.expect("pruned").definitions, 1);
    assert!(!is_kept(bench, &current).await && is_kept(bench, &living).await);
}

pub async fn a_run_can_begin_with_a_definition_that_is_gone(bench: &Bench) {
    let ledger = &bench.ledger;
    let gone = kept(bench, 1, r#"{"gone":1}"#).await;
    let newer = kept(bench, 2, r#"{"newer":1}"#).await;
    bench.submit(flow_of(bench, newer.clone(), Some(turn("[1]", JobStatus::Running)))).await;
    assert_eq!(ledger.prune(SOON, PruneMark::default()).await.expect("pruned").definitions, 1);
    assert!(!is_kept(bench, &gone).await);
    // Whoever kept it before still knows it by its old name.
    let wishes: Vec<NewJob> =
        (0..3).map(|_| flow_of(bench, gone.clone(), Some(turn("[1]", JobStatus::Running)))).collect();
    let jobs: Vec<JobId> = wishes.iter().map(|wish| wish.id).collect();
    bench.ask_all(wishes).await;
    let mut names = Vec::new();
    for job in jobs {
        let definition = load(bench, number(bench, job).await).await.definition;
        let body = ledger.find_definition(definition).await.expect("read");
        assert_eq!(body.as_deref(), Some(&*gone.body));
        names.push(definition);
    }
    names.dedup();
    assert_eq!(names.len(), 1, "it is kept once");
    assert!(names[0] != gone.id && names[0] != newer.id, "no name is given twice");
    assert_eq!(kept(bench, 1, &gone.body).await.id, names[0]);
    // While they live it stays, also if retention comes at the same moment as the next one.
    for n in 10..30 {
        let wish = flow_of(bench, kept(bench, n, &n.to_string()).await, Some(turn("[1]", JobStatus::Running)));
        let job = wish.id;
        let submit = ledger.submit(vec![wish]);
        let (stored, pruned) = tokio::join!(submit, ledger.prune(SOON, PruneMark::default()));
        stored.expect("stored");
        pruned.expect("pruned");
        let definition = load(bench, number(bench, job).await).await.definition;
        assert!(ledger.find_definition(definition).await.expect("read").is_some());
    }
}

pub async fn the_same_ask_begins_one_run(bench: &Bench) {
    let mut wish = flow(bench, Some(NewTurn { children: vec![bench.job()], ..turn("[1]", JobStatus::Running) })).await;
    wish.keys = vec![super::bench::idempotency_key("k")];
    let first = bench.submit(wish.clone()).await;
    let mut again = wish.clone();
    again.id = bench.job_id();
    assert!(matches!(bench.ask(again).await, Submitted::Replayed { id, .. } if id == first));
    // The answer to a commit was lost, and it is asked for again under the same name.
    assert!(
        matches!(bench.ask(wish).await, Submitted::Accepted { id, .. } | Submitted::Replayed { id, .. } if id == first)
    );
    let jobs = bench.ledger.list_jobs(bench.tenant, Default::default(), None, 100).await.expect("read").items;
    assert_eq!(jobs.len(), 2);
}

/// A run that ann began, and that asks two people at once.
async fn asking(bench: &Bench, rule: AskRule) -> (JobId, i64) {
    let (job, flow) = running(bench).await;
    let opened = vec![NewWait { question: Some(NewQuestion { hash: body("first"), rule }), ..ask("ask", 1, None) }];
    add(bench, flow, 1, Vec::new(), NewTurn { opened, ..turn("[2]", JobStatus::Paused) }).await;
    (job, flow)
}

async fn say(bench: &Bench, job: JobId, by: &str, people: &[&str], seen: Option<&str>) -> FlowAnswer {
    let person = Person::named(people.iter().copied());
    let order = FlowOrder {
        by: Author { person, ..Author::from(by) },
        vote: Some(FlowVote { yes: true, seen: seen.map(body), current: body(seen.unwrap_or("first")) }),
        message: r#"{"is":"decided","node":"ask","visit":1}"#.into(),
        reason: Some(format!("says {by}")),
        ..order(bench, job, Some(("ask".into(), 1)))
    };
    bench.ledger.steer_flow(order).await.expect("an answer")
}

pub async fn a_question_is_answered_by_as_many_people_as_it_asks(bench: &Bench) {
    let (job, _) = asking(bench, AskRule { quorum: 2, four_eyes: true }).await;
    let (record, _) = bench.find(job).await;
    let requester = record.origin.actor.to_string();
    let own = say(bench, job, "token:x", &["token:x", &requester], None).await;
    assert_eq!(own, FlowAnswer::Refused(ApprovalRefused::OwnJob));
    assert_eq!(say(bench, job, "bob", &[], Some("other")).await, FlowAnswer::Refused(ApprovalRefused::OtherHash));
    assert_eq!(say(bench, job, "bob", &[], Some("first")).await, FlowAnswer::Noted { missing: 1 });
    assert_eq!(say(bench, job, "b2", &["b2", "bob"], None).await, FlowAnswer::Refused(ApprovalRefused::Twice));
    let waits = bench.ledger.find_flow(bench.tenant, job).await.expect("read").expect("there").waits;
    assert_eq!((waits[0].given, waits[0].wait.question.map(|q| q.hash)), (1, Some(body("first"))));
    let history = bench.history(job).await;
    let (_, noted) =
        history.iter().find(|(_, event)| event.kind == EventKind::JobApprovalNoted).expect("a vote is an event");
    assert_eq!((noted.data.by.as_deref(), noted.data.node.as_deref()), (Some("bob"), Some("ask")));
    assert_eq!(noted.data.reason.as_deref(), Some("says bob"));
    assert!(inbox(bench).await.is_empty(), "the run hears of it when the matter is decided");
    assert_eq!(say(bench, job, "eve", &[], None).await, FlowAnswer::Taken);
    assert_eq!(inbox(bench).await.len(), 1);
}

/// Nobody says yes to one thing while another one follows.
pub async fn an_edit_withdraws_open_questions(bench: &Bench) {
    let rule = AskRule { quorum: 2, four_eyes: false };
    let (job, flow) = asking(bench, rule).await;
    assert_eq!(say(bench, job, "bob", &[], None).await, FlowAnswer::Noted { missing: 1 });
    let edit = || FlowOrder { change: Some(FlowChange { decisions: 0 }), ..order(bench, job, None) };
    assert_eq!(bench.ledger.steer_flow(edit()).await.expect("an answer"), FlowAnswer::Taken);
    assert_eq!(say(bench, job, "eve", &[], None).await, FlowAnswer::Withdrawn, "it is not put again yet");
    let heard: Vec<i64> = inbox(bench).await.iter().map(|item| item.id).collect();
    let question = Some(NewQuestion { hash: body("second"), rule });
    let again = NewWait { name: "Pay more?".into(), question, ..ask("ask", 1, None) };
    let version = load(bench, flow).await.version;
    let answer = add(bench, flow, version, heard, NewTurn { opened: vec![again], ..turn("[3]", JobStatus::Paused) });
    assert_eq!(answer.await, TurnAnswer::Stored);
    let waits = bench.ledger.find_flow(bench.tenant, job).await.expect("read").expect("there").waits;
    assert_eq!((waits.len(), &*waits[0].wait.name, waits[0].given), (1, "Pay more?", 0), "earlier votes are gone");
    let old = say(bench, job, "eve", &[], Some("first")).await;
    assert_eq!(old, FlowAnswer::Refused(ApprovalRefused::OtherHash));
    assert_eq!(say(bench, job, "bob", &[], Some("second")).await, FlowAnswer::Noted { missing: 1 });
    assert_eq!(say(bench, job, "eve", &[], Some("second")).await, FlowAnswer::Taken);
    let late = bench.ledger.steer_flow(edit()).await.expect("an answer");
    assert_eq!(late, FlowAnswer::DecisionAhead, "the run has not heard the decision yet");
}

/// What is named behind a question means something else by now: the yes does not count, the votes so far are void, and the
/// execution is told to put the question again.
pub async fn a_yes_does_not_count_when_the_names_behind_it_have_changed(bench: &Bench) {
    let (job, _) = asking(bench, AskRule { quorum: 2, four_eyes: false }).await;
    assert_eq!(say(bench, job, "bob", &[], None).await, FlowAnswer::Noted { missing: 1 });
    let current = question_hash(body("first"), body("another version"));
    let vote = Some(FlowVote { yes: true, seen: Some(body("first")), current });
    let late = FlowOrder { vote, by: "eve".into(), ..order(bench, job, Some(("ask".into(), 1))) };
    let mut bell = bench.ledger.flow_wake().listen();
    assert_eq!(bench.ledger.steer_flow(late).await.expect("an answer"), FlowAnswer::Withdrawn);
    assert!(has_rung(&mut bell).await, "it is told so");
    let told = inbox(bench).await;
    let asks_again = |message: &InboxMessage| matches!(message, InboxMessage::Told(text) if text.contains("ask_again"));
    assert!(told.len() == 1 && asks_again(&told[0].message), "{told:?}");
    assert_eq!(say(bench, job, "eve", &[], None).await, FlowAnswer::Withdrawn, "until it is put again");
    let flow = bench.ledger.find_flow(bench.tenant, job).await.expect("read").expect("there");
    assert_eq!((flow.decisions, flow.waits[0].given), (0, 0), "nothing was decided");
}

/// Four eyes: a person who changed an execution, one that it started or one that it was forked from has asked for it, too.
pub async fn an_editor_counts_as_a_requester(bench: &Bench) {
    let by = |name: &str| Author { person: Person::named([format!("mail:{name}")]), ..Author::from(name) };
    let edit = async |job, name: &str| {
        let change = Some(FlowChange { decisions: 0 });
        let order = FlowOrder { change, by: by(name), ..order(bench, job, None) };
        assert_eq!(bench.ledger.steer_flow(order).await.expect("an answer"), FlowAnswer::Taken);
    };
    let put_again = async |flow, rule| {
        let heard = inbox(bench).await.iter().filter(|item| item.flow == flow).map(|item| item.id).collect();
        let again = NewWait { question: Some(NewQuestion { hash: body("first"), rule }), ..ask("ask", 1, None) };
        let version = load(bench, flow).await.version;
        let next = NewTurn { opened: vec![again], ..turn("[3]", JobStatus::Paused) };
        assert_eq!(add(bench, flow, version, heard, next).await, TurnAnswer::Stored);
    };
    let four_eyes = AskRule { quorum: 1, four_eyes: true };
    let refused = FlowAnswer::Refused(ApprovalRefused::OwnChange);
    let (job, flow) = asking(bench, four_eyes).await;
    edit(job, "kim").await;
    put_again(flow, four_eyes).await;
    assert_eq!(say(bench, job, "kim", &[], None).await, refused);
    assert_eq!(say(bench, job, "token:9", &["mail:kim"], None).await, refused, "another token of the same person");
    assert_eq!(say(bench, job, "bob", &["mail:bob"], None).await, FlowAnswer::Taken);

    let (job, flow) = asking(bench, AskRule { quorum: 1, four_eyes: false }).await;
    edit(job, "kim").await;
    put_again(flow, AskRule { quorum: 1, four_eyes: false }).await;
    assert_eq!(say(bench, job, "kim", &["mail:kim"], None).await, FlowAnswer::Taken, "one person is enough here");

    // In a child: its parent continues with what the child gives, and a question of another child may be about that.
    let (parent, parent_flow) = asking(bench, four_eyes).await;
    let children = [bench.job_id(), bench.job_id()];
    let mut jobs = Vec::new();
    for id in children {
        let opened = vec![NewWait {
            question: Some(NewQuestion { hash: body("first"), rule: four_eyes }),
            ..ask("ask", 1, None)
        }];
        let first = NewTurn { opened, ..turn("[1]", JobStatus::Paused) };
        jobs.push(NewJob { id, ..flow_of(bench, kept(bench, 7, "{}").await, Some(first)) });
    }
    let version = load(bench, parent_flow).await.version;
    let next = NewTurn { children: jobs, ..turn("[3]", JobStatus::Paused) };
    assert_eq!(add(bench, parent_flow, version, Vec::new(), next).await, TurnAnswer::Stored);
    edit(children[0], "eve").await;
    assert_eq!(say(bench, parent, "eve", &["mail:eve"], None).await, refused);
    assert_eq!(say(bench, children[1], "eve", &["mail:eve"], None).await, refused);

    // A fork continues with what was started and changed there.
    let opened =
        vec![NewWait { question: Some(NewQuestion { hash: body("first"), rule: four_eyes }), ..ask("ask", 1, None) }];
    let first = NewTurn { opened, ..turn("[1]", JobStatus::Paused) };
    let fork = flow_of(bench, kept(bench, 7, "{}").await, Some(first));
    let mut new = Arc::unwrap_or_clone(fork.flow.clone().expect("an execution"));
    new.forked_from = Some((children[0], 1));
    let origin = Origin { actor: "token:forker".into(), ..fork.origin.clone() };
    let fork = bench.submit(NewJob { flow: Some(Arc::new(new)), origin, ..fork }).await;
    assert_eq!(say(bench, fork, "eve", &["mail:eve"], None).await, refused);
    let (starter, _) = bench.find(children[0]).await;
    assert_eq!(say(bench, fork, &starter.origin.actor, &[], None).await, refused);
    let own = FlowAnswer::Refused(ApprovalRefused::OwnJob);
    assert_eq!(say(bench, fork, "token:forker", &[], None).await, own);
    assert_eq!(say(bench, fork, "bob", &["mail:bob"], None).await, FlowAnswer::Taken);
}

/// Whoever started an execution is also known by the address that they started it with, whatever token they come with later.
pub async fn whoever_started_an_execution_is_known_by_their_address(bench: &Bench) {
    let rule = AskRule { quorum: 1, four_eyes: true };
    let asks = || {
        let question = Some(NewQuestion { hash: body("first"), rule });
        NewTurn { opened: vec![NewWait { question, ..ask("ask", 1, None) }], ..turn("[1]", JobStatus::Paused) }
    };
    let wish = flow(bench, Some(asks())).await;
    let job = bench.submit(NewJob { payload: r#"{"email":"Ann@Example.com"}"#.into(), ..wish }).await;
    let own = say(bench, job, "token:other", &["mail:ann@example.com"], None).await;
    assert_eq!(own, FlowAnswer::Refused(ApprovalRefused::OwnJob));
    // What goes on from it goes on from what they started.
    let wish = flow(bench, Some(asks())).await;
    let mut fork = Arc::unwrap_or_clone(wish.flow.clone().expect("an execution"));
    fork.forked_from = Some((job, 1));
    let origin = Origin { actor: "token:forker".into(), ..wish.origin.clone() };
    let fork = bench.submit(NewJob { flow: Some(Arc::new(fork)), origin, ..wish }).await;
    let source = say(bench, fork, "token:other", &["mail:ann@example.com"], None).await;
    assert_eq!(source, FlowAnswer::Refused(ApprovalRefused::OwnChange));
    assert_eq!(say(bench, fork, "bob", &["mail:bob@example.com"], None).await, FlowAnswer::Taken);
    // A second try needs somebody else, too.
    assert_eq!(say(bench, job, "bob", &["mail:bob@example.com"], None).await, FlowAnswer::Taken);
    let number = number(bench, job).await;
    let heard = inbox(bench).await.iter().filter(|item| item.flow == number).map(|item| item.id).collect();
    let mut last = NewTurn { closed: vec![("ask".into(), 1)], ..turn("[2]", JobStatus::Failed) };
    last.standing.error = Some(RunError::new(ErrorClass::Permanent, "no"));
    let version = load(bench, number).await.version;
    assert_eq!(add(bench, number, version, heard, last).await, TurnAnswer::Stored);
    let tried = async |person: &str| {
        let by = Author { person: Person::named([person]), ..Author::from("token:other") };
        bench.ledger.retry_job(JobOrder { by, ..bench.order(job) }).await.expect("an answer")
    };
    assert_eq!(tried("mail:ann@example.com").await, OrderAnswer::NeedsApproval(RetryNeeds::OtherPerson));
    assert_eq!(tried("mail:bob@example.com").await, OrderAnswer::Done(JobStatus::Running));
}

/// What was approved covers what follows from it, so it covers the executions that an approved one starts.
pub async fn an_approval_covers_the_executions_that_follow_it(bench: &Bench) {
    let (parent, flow) = asking(bench, AskRule { quorum: 1, four_eyes: true }).await;
    assert_eq!(say(bench, parent, "bob", &[], None).await, FlowAnswer::Taken);
    let (failed, running) = (bench.job_id(), bench.job_id());
    let mut children = Vec::new();
    for (id, status) in [(failed, JobStatus::Failed), (running, JobStatus::Running)] {
        children.push(NewJob { id, ..flow_of(bench, kept(bench, 7, "{}").await, Some(turn("[1]", status))) });
    }
    let heard = inbox(bench).await.iter().map(|item| item.id).collect();
    let next = NewTurn { children, closed: vec![("ask".into(), 1)], ..turn("[3]", JobStatus::Running) };
    let version = load(bench, flow).await.version;
    assert_eq!(add(bench, flow, version, heard, next).await, TurnAnswer::Stored);
    // A change of one is a change of what was approved.
    let change = FlowOrder { change: Some(FlowChange { decisions: 0 }), ..order(bench, running, None) };
    assert_eq!(bench.ledger.steer_flow(change).await, Ok(FlowAnswer::Approved));
    // A second try of one repeats what was approved.
    let starter = bench.find(failed).await.0.origin.actor.to_string();
    let tried = async |by: &str| {
        let order = JobOrder { by: Author { person: Person::named([by]), ..by.into() }, ..bench.order(failed) };
        bench.ledger.retry_job(order).await.expect("an answer")
    };
    assert_eq!(tried(&starter).await, OrderAnswer::NeedsApproval(RetryNeeds::OtherPerson));
    assert_eq!(tried("kim").await, OrderAnswer::Done(JobStatus::Running));
}

/// A yes is for what stood there when it was given, and nothing changes under it: whichever of a vote and a change comes first,
/// the other one does not count.
pub async fn a_vote_and_a_change_exclude_each_other(bench: &Bench) {
    let change = |job, decisions| FlowOrder { change: Some(FlowChange { decisions }), ..order(bench, job, None) };
    let steer = async |order: FlowOrder| bench.ledger.steer_flow(order).await.expect("an answer");
    let heard = async || -> Vec<i64> { inbox(bench).await.iter().map(|item| item.id).collect() };
    for (four_eyes, quorum, behind) in
        [(true, 1, FlowAnswer::Approved), (false, 1, FlowAnswer::Taken), (false, 2, FlowAnswer::Approved)]
    {
        let rule = AskRule { quorum, four_eyes };
        // The change first: the question that was voted on is not there any more, also once it is put again.
        let (job, flow) = asking(bench, rule).await;
        assert_eq!(steer(change(job, 0)).await, FlowAnswer::Taken);
        let question = Some(NewQuestion { hash: body("second"), rule });
        let again =
            NewTurn { opened: vec![NewWait { question, ..ask("ask", 1, None) }], ..turn("[3]", JobStatus::Paused) };
        let version = load(bench, flow).await.version;
        assert_eq!(add(bench, flow, version, heard().await, again).await, TurnAnswer::Stored);
        assert_eq!(say(bench, job, "bob", &[], None).await, FlowAnswer::Withdrawn);
        assert_eq!(steer(change(job, 0)).await, FlowAnswer::Taken, "nothing is approved yet");
        let taken: Vec<i64> = heard().await;
        let version = load(bench, flow).await.version;
        add(bench, flow, version, taken, turn("[4]", JobStatus::Succeeded)).await;
        // The vote first: also when the run has heard it, a change that did not know of it comes too late.
        let (job, flow) = asking(bench, rule).await;
        for others in (1..quorum).rev() {
            let voter = format!("voter{others}");
            assert_eq!(say(bench, job, &voter, &[], None).await, FlowAnswer::Noted { missing: others });
        }
        assert_eq!(say(bench, job, "bob", &[], None).await, FlowAnswer::Taken);
        assert_eq!(steer(change(job, 0)).await, FlowAnswer::DecisionAhead);
        let version = load(bench, flow).await.version;
        let next = NewTurn { closed: vec![("ask".into(), 1)], ..turn("[3]", JobStatus::Paused) };
        assert_eq!(add(bench, flow, version, heard().await, next).await, TurnAnswer::Stored);
        let record = bench.ledger.find_flow(bench.tenant, job).await.expect("read").expect("there");
        assert_eq!(record.decisions, 1);
        assert_eq!(steer(change(job, 0)).await, FlowAnswer::DecisionAhead);
        assert_eq!(steer(change(job, 1)).await, behind, "four eyes: {four_eyes}, quorum: {quorum}");
        let version = load(bench, flow).await.version;
        add(bench, flow, version, heard().await, turn("[4]", JobStatus::Succeeded)).await;
    }
    // Both at once.
    for _ in 0..20 {
        let (job, flow) = asking(bench, AskRule { quorum: 1, four_eyes: true }).await;
        let (vote, changed) = tokio::join!(say(bench, job, "bob", &[], None), steer(change(job, 0)));
        let fits = matches!(
            (vote, changed),
            (FlowAnswer::Taken, FlowAnswer::DecisionAhead) | (FlowAnswer::Withdrawn, FlowAnswer::Taken)
        );
        assert!(fits, "{vote:?} {changed:?}");
        let version = load(bench, flow).await.version;
        add(bench, flow, version, heard().await, turn("[4]", JobStatus::Succeeded)).await;
    }
}

/// A second try repeats what was approved, so it needs a person who could have approved it.
pub async fn a_second_try_of_an_approved_run_repeats_the_approval(bench: &Bench) {
    let tried = async |job, by: &str| {
        let order = JobOrder { by: Author { person: Person::named([by]), ..by.into() }, ..bench.order(job) };
        bench.ledger.retry_job(order).await.expect("an answer")
    };
    let failed = async |rule: AskRule, voters: &[&str]| {
        let (job, flow) = asking(bench, rule).await;
        for voter in voters {
            say(bench, job, voter, &[], None).await;
        }
        let heard = inbox(bench).await.iter().filter(|item| item.flow == flow).map(|item| item.id).collect();
        let mut last = NewTurn { closed: vec![("ask".into(), 1)], ..turn("[3]", JobStatus::Failed) };
        last.standing.error = Some(RunError::new(ErrorClass::Permanent, "no"));
        let version = load(bench, flow).await.version;
        assert_eq!(add(bench, flow, version, heard, last).await, TurnAnswer::Stored);
        job
    };
    let again = OrderAnswer::Done(JobStatus::Running);
    let job = failed(AskRule { quorum: 1, four_eyes: true }, &["bob"]).await;
    let (record, _) = bench.find(job).await;
    let starter = record.origin.actor.to_string();
    assert_eq!(tried(job, &starter).await, OrderAnswer::NeedsApproval(RetryNeeds::OtherPerson));
    assert_eq!(tried(job, "kim").await, again);
    // One person is enough there, or nobody has said anything.
    let job = failed(AskRule { quorum: 1, four_eyes: false }, &["bob"]).await;
    assert_eq!(tried(job, &starter).await, again);
    let job = failed(AskRule { quorum: 1, four_eyes: true }, &[]).await;
    assert_eq!(tried(job, &starter).await, again);
    // Several people are asked in a fork.
    let job = failed(AskRule { quorum: 2, four_eyes: false }, &["bob", "eve"]).await;
    assert_eq!(tried(job, "kim").await, OrderAnswer::NeedsApproval(RetryNeeds::People(2)));
}

/// A job that follows an approval does what was approved, so retrying it alone needs what retrying its execution needs.
pub async fn a_job_behind_an_approval_is_retried_as_its_execution_is(bench: &Bench) {
    let canceled = async |rule: AskRule, voters: &[&str]| {
        let (job, flow) = asking(bench, rule).await;
        for voter in voters {
            say(bench, job, voter, &[], None).await;
        }
        let heard = inbox(bench).await.iter().filter(|item| item.flow == flow).map(|item| item.id).collect();
        let child = bench.job();
        let child_id = child.id;
        let next =
            NewTurn { children: vec![child], closed: vec![("ask".into(), 1)], ..turn("[3]", JobStatus::Running) };
        let version = load(bench, flow).await.version;
        assert_eq!(add(bench, flow, version, heard, next).await, TurnAnswer::Stored);
        let answer = bench.ledger.cancel_job(bench.order(child_id)).await.expect("an answer");
        assert_eq!(answer, OrderAnswer::Done(JobStatus::Canceled));
        (job, child_id)
    };
    let retried = async |job, by: &str| {
        let order = JobOrder { by: Author { person: Person::named([by]), ..by.into() }, ..bench.order(job) };
        bench.ledger.retry_job(order).await.expect("an answer")
    };
    let (job, child) = canceled(AskRule { quorum: 1, four_eyes: true }, &["bob"]).await;
    let (record, _) = bench.find(job).await;
    let starter = record.origin.actor.to_string();
    assert_eq!(retried(child, &starter).await, OrderAnswer::NeedsApproval(RetryNeeds::OtherPerson));
    assert_eq!(retried(child, "kim").await, OrderAnswer::Done(JobStatus::Queued));
    let (_, child) = canceled(AskRule { quorum: 2, four_eyes: false }, &["bob", "eve"]).await;
    assert_eq!(retried(child, "kim").await, OrderAnswer::NeedsApproval(RetryNeeds::People(2)));
    // Where no approval was given, nothing more is needed.
    let (_, child) = canceled(AskRule { quorum: 1, four_eyes: true }, &[]).await;
    assert_eq!(retried(child, &starter).await, OrderAnswer::Done(JobStatus::Queued));
}
