//! Two engines work out the turns of the same runs at the same time. Every node has one committed result, whoever was
//! first, and whatever it began was begun once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bowline_engine::Engine;
use bowline_engine::flow::{DefinitionKind, StepView};
use bowline_model::{JobId, JobStatus, ResourceName, TaskType};
use bowline_store::{JobRecord, Submitted};
use serde_json::json;
use tokio::task::JoinSet;

use super::Judgement;
use super::errors::{ended, store};
use super::table::{Edges, How, Sample, decide_all, inner, pay, samples, until_only_time_helps};
use crate::{House, postgres};

/// Runs of each type: with nineteen types, about two hundred at once.
const EACH: usize = 11;

/// One run and everything that is known of it.
struct Seen {
    sample: usize,
    by: u64,
    record: JobRecord,
    steps: Vec<StepView>,
}

/// What was seen when all was over, or when patience was.
struct Sight {
    samples: Vec<Sample>,
    runs: Vec<Seen>,
    /// All jobs that runs began.
    children: Vec<JobRecord>,
    handled: BTreeMap<(JobId, u32), u32>,
    faults: Vec<String>,
    /// Turns that were worked out by the racers, and turns that were stored, by whomever.
    worked_out: usize,
    stored: u64,
}

/// Lets two engines race over so many runs of each type, and looks at what came of it.
async fn race(house: &House, neighbour: Arc<Engine>, each: usize, patience: Duration) -> Sight {
    let samples = samples();
    store(house, "inner", &inner()).await;
    let _player = super::hosts::play(house).await;
    let stop = Arc::new(AtomicBool::new(false));
    let worked_out = Arc::new(AtomicUsize::new(0));
    let mut racers = JoinSet::new();
    for _ in 0..2 {
        let (one, other) = (Arc::clone(&house.engine), Arc::clone(&neighbour));
        let (stop, worked_out) = (Arc::clone(&stop), Arc::clone(&worked_out));
        racers.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                // Both read what came in before either stores what follows from it.
                let rounds = tokio::join!(one.flows.round(one.hands()), other.flows.round(other.hands()));
                for round in [rounds.0, rounds.1].into_iter().flatten() {
                    worked_out.fetch_add(round.turned, Ordering::SeqCst);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
    let mut begun = Vec::new();
    for (n, sample) in samples.iter().enumerate() {
        let name = format!("w-{}", sample.node_type.replace('_', "-"));
        store(house, &name, &sample.workflow(Edges::Both)).await;
        let name = ResourceName::new(&name).expect("a name");
        for round in 0..each {
            // As a schedule begins them: stored without a first turn, so that every turn of theirs is raced for.
            let engine = if round % 2 == 0 { &house.engine } else { &neighbour };
            let by = if round % 3 == 0 { 0 } else { 2 };
            let request = engine
                .flows
                .prepare(house.tenant, DefinitionKind::Workflow, &name, None, json!({"by": by}))
                .await
                .expect("a run");
            let answers = engine.intake.submit(house.tenant, &house.origin(), vec![request]).await.expect("stored");
            let [Submitted::Accepted { id, .. }] = answers[..] else { panic!("{answers:?}") };
            begun.push((n, by, id));
        }
    }
    let is = |how: How, by: Option<u64>| {
        begun.iter().filter(|(n, b, _)| samples[*n].how == how && by.is_none_or(|by| by == *b)).count()
    };
    let ends = tokio::time::Instant::now() + patience;
    let waits = async {
        decide_all(house, is(How::Asks, None)).await;
        pay(house, is(How::Waits, Some(2))).await;
    };
    let _ = tokio::time::timeout_at(ends, waits).await;
    until_only_time_helps(house, begun.iter().map(|(.., job)| *job), ends).await;
    house.clock.advance_ms(3_600_000);
    let mut runs = Vec::new();
    for (sample, by, job) in &begun {
        let record = loop {
            let record = house.job(*job).await;
            if record.state.status.is_terminal() || tokio::time::Instant::now() > ends {
                break record;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        runs.push(Seen { sample: *sample, by: *by, record, steps: house.steps(*job).await });
    }
    stop.store(true, Ordering::SeqCst);
    racers.join_all().await;
    let mut stored = 0;
    for (.., job) in &begun {
        let number = house.engine.ledger.flow_number(house.tenant, *job).await.expect("an answer").expect("a run");
        stored += house.engine.ledger.load_flows(vec![number], None).await.expect("an answer")[0].version;
    }
    let mut children = Vec::new();
    let mut after = None;
    loop {
        let page =
            house.engine.ledger.list_jobs(house.tenant, Default::default(), after, 500).await.expect("an answer");
        children.extend(page.items.into_iter().filter(|job| job.begun_by.is_some()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let handled = house.witness.lock().expect("nobody panicked").clone();
    Sight {
        samples,
        runs,
        children,
        handled,
        faults: house.engine.ledger.verify(20).await.expect("verified").faults,
        worked_out: worked_out.load(Ordering::SeqCst),
        stored,
    }
}

/// W1: at most one committed result for each run, node and visit; and nothing that was begun was begun twice.
fn no_doubles(sight: &Sight) -> Judgement {
    for Seen { sample, record, steps, .. } in &sight.runs {
        let sample = &sight.samples[*sample];
        let mut results = BTreeSet::new();
        for (n, view) in steps.iter().enumerate() {
            let step = &view.step;
            if !results.insert((step.node.as_str(), step.visit)) || step.n as usize != n + 1 {
                return Err(format!("{} has two results in run {}: {steps:#?}", step.node.as_str(), record.id));
            }
        }
        let begun = sight.children.iter().filter(|child| child.begun_by == Some(record.id)).count();
        if begun > sample.calls() {
            return Err(format!("run {} of {} began {begun} jobs", record.id, sample.node_type));
        }
    }
    match sight.handled.iter().find(|((_, attempt), times)| *attempt != 1 || **times != 1) {
        Some(((job, attempt), times)) => Err(format!("attempt {attempt} of job {job} was carried out {times} times")),
        None => Ok(()),
    }
}

/// Every run ended as it must, with one result for each node, and everything that was to be begun was begun once.
fn once(sight: &Sight) -> Judgement {
    no_doubles(sight)?;
    for Seen { sample, by, record, steps } in &sight.runs {
        ended(&sight.samples[*sample], Edges::Both, *by, record, steps)?;
    }
    let workflow = TaskType::workflow();
    let mut calls: Vec<JobId> =
        sight.children.iter().filter(|child| child.task_type != workflow).map(|child| child.id).collect();
    calls.sort_unstable();
    let carried_out: Vec<JobId> = sight.handled.keys().map(|(job, _)| *job).collect();
    let wanted: usize = sight.runs.iter().map(|run| sight.samples[run.sample].calls()).sum();
    if calls != carried_out || sight.children.len() != wanted || calls.is_empty() {
        let begun = sight.children.len();
        return Err(format!("of {wanted} jobs {begun} were begun and {} carried out", carried_out.len()));
    }
    if sight.faults.is_empty() { Ok(()) } else { Err(sight.faults.join("; ")) }
}

/// There was a race: more turns were worked out than there was room for.
fn raced(sight: &Sight) -> Judgement {
    if sight.worked_out as u64 > sight.stored {
        Ok(())
    } else {
        Err(format!("{} of {}", sight.worked_out, sight.stored))
    }
}

fn judge(mut sight: Sight) {
    once(&sight).unwrap_or_else(|wrong| panic!("{wrong}"));
    raced(&sight).unwrap_or_else(|wrong| panic!("nobody raced: {wrong}"));
    // The controls: a result too many, a job too many, one missing, one carried out twice, a run that stands still, and
    // nobody who raced.
    let place = sight.runs.iter().position(|run| !run.steps.is_empty()).expect("a step");
    let double = sight.runs[place].steps[0].clone();
    sight.runs[place].steps.push(double);
    assert!(no_doubles(&sight).is_err(), "a node with two results");
    sight.runs[place].steps.pop();
    let child = sight.children[0].clone();
    sight.children.push(child.clone());
    assert!(no_doubles(&sight).is_err() && once(&sight).is_err(), "a job too many");
    sight.children.retain(|other| other.id != child.id);
    assert!(once(&sight).is_err(), "a job is missing");
    sight.children.push(child);
    let job = *sight.handled.keys().next().expect("a job");
    sight.handled.insert(job, 2);
    assert!(no_doubles(&sight).is_err(), "a job carried out twice");
    sight.handled.insert(job, 1);
    once(&sight).expect("all is as it was");
    sight.runs[place].record.state.status = JobStatus::Running;
    assert!(once(&sight).is_err(), "a run that stands still");
    assert!(raced(&Sight { worked_out: 0, ..sight }).is_err());
}

const PATIENCE: Duration = Duration::from_secs(240);

#[tokio::test]
async fn two_engines_commit_one_result_for_each_node() {
    let house = House::open().await;
    let neighbour = house.neighbour(Arc::clone(&house.engine.ledger));
    judge(race(&house, neighbour, EACH, PATIENCE).await);
}

#[tokio::test]
async fn two_engines_commit_one_result_for_each_node_on_postgresql() {
    let database = bowline_testkit::fresh_database();
    let house = House::on_postgres(database.url()).await;
    let neighbour = house.neighbour(postgres(database.url(), &house.clock).await);
    judge(race(&house, neighbour, EACH, PATIENCE).await);
}

/// The control of all: a ledger that adds a turn whoever else has taken one. To be run alone, because the whole process
/// makes the mistake.
#[cfg(feature = "planted")]
#[tokio::test]
async fn planted_a_turn_that_is_added_twice_is_seen() {
    use bowline_model::planted::{Mistake, plant};
    let house = House::open().await;
    let neighbour = house.neighbour(Arc::clone(&house.engine.ledger));
    plant(Some(Mistake::TurnTwice));
    let sight = race(&house, neighbour, 2, Duration::from_secs(5)).await;
    plant(None);
    let wrong = no_doubles(&sight).expect_err("the mistake went unnoticed");
    println!("seen: {}", &wrong[..wrong.len().min(200)]);
}
