//! Remote workers, good and bad. Each writes down what it really did before it tells anybody.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bowline_model::worker::Abilities;
use bowline_model::{ErrorClass, Outcome, RunError, RunId, TaskType, TenantId, WorkerName};
use bowline_store::{
    BeatAnswer, Claimant, ClaimedRun, Heartbeat, ReportAnswer, RunReport, StoreError, TellAnswer, ToldEvent, ToldEvents,
};
use tokio::task::JoinSet;

use crate::network::{call, pause};
use crate::oracle::Violation;
use crate::server::TIMES;
use crate::world::World;

/// Takes tasks for as long as the simulation lasts.
pub async fn worker(world: Rc<World>, number: usize) {
    let tenant = world.tenants[number % 2];
    let name = WorkerName::new(&format!("w{number}")).expect("a name");
    let types = BTreeSet::from([TaskType::new("work").expect("a name")]);
    let abilities = Arc::new(Abilities { task_types: types, ..Abilities::default() });
    let mut hands = JoinSet::new();
    loop {
        while hands.try_join_next().is_some() {}
        let busy = u32::try_from(hands.len()).unwrap_or(0);
        if busy >= 4 {
            drop(hands.join_next().await);
            continue;
        }
        let claimant = Claimant {
            worker: name.clone(),
            tenant: Some(tenant),
            passes_over: Arc::default(),
            abilities: Arc::clone(&abilities),
            wants: 4 - busy,
            busy,
            slots: 4,
            accepts_at_once: false,
        };
        let tasks =
            call(
                &world,
                |engine| async move { Ok(engine.dispatcher.take(claimant, Duration::from_millis(800)).await) },
            )
            .await;
        match tasks {
            Ok(runs) => {
                for run in runs {
                    hands.spawn_local(work(Rc::clone(&world), run, tenant, name.clone()));
                }
            }
            Err(_) => pause(&world).await,
        }
    }
}

/// One heartbeat about one run. Whether the run is still ours, if that could be learned.
async fn beat(world: &Rc<World>, run: RunId, tenant: TenantId, worker: &WorkerName) -> Option<BeatAnswer> {
    let beat = Heartbeat { worker: worker.clone(), tenant: Some(tenant), runs: vec![run], bare: false };
    let answer = call(world, |engine| async move { engine.ledger.heartbeat(beat).await }).await;
    let answer = answer.ok()?.first().map(|(_, answer)| *answer);
    if matches!(answer, Some(BeatAnswer::Renewed | BeatAnswer::Cancel)) {
        let now = world.now();
        world.notes.borrow_mut().runs.entry(run).or_default().heard_at = Some(now);
    }
    answer
}

async fn work(world: Rc<World>, task: ClaimedRun, tenant: TenantId, worker: WorkerName) {
    if task.tenant != tenant {
        world.violated(Violation::new("T1", format!("run {} was handed to another tenant's worker", task.run)));
        return;
    }
    // Named before it is begun: a hand-out that went stale is not started.
    let named_until = world.now().plus_millis(TIMES.accept_ms);
    loop {
        match beat(&world, task.run, tenant, &worker).await {
            Some(BeatAnswer::Stale) => return,
            Some(_) => break,
            None if world.now() > named_until => return,
            None => pause(&world).await,
        }
    }
    {
        let mut notes = world.notes.borrow_mut();
        let run = notes.runs.entry(task.run).or_default();
        run.starts += 1;
        if run.starts > 1 {
            notes.violations.push(Violation::new("C3", format!("run {} was started twice", task.run)));
        }
    }
    let mut outcome = if world.strikes(world.plan.work_fails) {
        Outcome::Failed(if world.chance() < 0.2 { ErrorClass::Permanent } else { ErrorClass::Transient })
    } else {
        Outcome::Succeeded
    };
    let beats = world.between(0, 8);
    for _ in 0..beats {
        if world.strikes(world.plan.worker_dies / 4.0) {
            return silent(&world, task.run);
        }
        if world.strikes(world.plan.worker_freezes / 4.0) {
            silent(&world, task.run);
            let long = u64::try_from(TIMES.ttl_ms).unwrap_or(3_000) * 3;
            tokio::time::sleep(Duration::from_millis(world.between(100, long))).await;
            // It wakes up and knows nothing of the time that has passed.
        }
        tell(&world, &task, tenant, &worker).await;
        tokio::time::sleep(Duration::from_millis(u64::try_from(TIMES.heartbeat_ms).unwrap_or(500))).await;
        if beat(&world, task.run, tenant, &worker).await == Some(BeatAnswer::Cancel) {
            outcome = Outcome::Canceled;
            break;
        }
    }
    world.notes.borrow_mut().runs.entry(task.run).or_default().outcome = Some(outcome);
    report(&world, &task, tenant, &worker, outcome).await;
    silent(&world, task.run);
}

fn silent(world: &World, run: RunId) {
    let now = world.now();
    world.notes.borrow_mut().runs.entry(run).or_default().silent_since.get_or_insert(now);
}

/// Tells the next event of a run, perhaps with the one before, perhaps twice.
async fn tell(world: &Rc<World>, task: &ClaimedRun, tenant: TenantId, worker: &WorkerName) {
    let sent = {
        let mut notes = world.notes.borrow_mut();
        let run = notes.runs.entry(task.run).or_default();
        run.events_sent += 1;
        run.events_sent
    };
    let from = if world.strikes(world.plan.repeated) { 1 } else { sent };
    let events: Vec<ToldEvent> = (from..=sent)
        .rev()
        .map(|seq| ToldEvent { seq, at: None, detail: format!(r#"{{"n":{seq}}}"#).into() })
        .collect();
    let told =
        ToldEvents { run: task.run, worker: worker.clone(), tenant: Some(tenant), fence: Some(task.fence), events };
    let again = told.clone();
    let mut answers = vec![call(world, |engine| async move { engine.ledger.tell(told).await }).await];
    if world.strikes(world.plan.repeated) {
        answers.push(call(world, |engine| async move { engine.ledger.tell(again).await }).await);
    }
    for answer in answers {
        match answer {
            Ok(TellAnswer::Held { added, acked, .. }) => {
                let mut notes = world.notes.borrow_mut();
                let run = notes.runs.entry(task.run).or_default();
                run.events_added += added;
                let (added, sent) = (run.events_added, run.events_sent);
                if added > sent {
                    let text = format!("run {}: {added} events were counted, {sent} were sent", task.run);
                    notes.violations.push(Violation::new("E1", text));
                }
                if acked > sent {
                    let text = format!("run {}: {acked} events were confirmed, {sent} were sent", task.run);
                    notes.violations.push(Violation::new("E6", text));
                }
            }
            Ok(TellAnswer::SeqConflict(seq)) => {
                world.violated(Violation::new("E2", format!("run {}: event {seq} was called another", task.run)));
            }
            Ok(TellAnswer::Full | TellAnswer::Stale | TellAnswer::NotYours | TellAnswer::NotFound) => {
                world.violated(Violation::new("E", format!("run {}: its own worker was refused", task.run)));
            }
            Err(_) => {}
        }
    }
}

async fn report(world: &Rc<World>, task: &ClaimedRun, tenant: TenantId, worker: &WorkerName, outcome: Outcome) {
    let error = match outcome {
        Outcome::Failed(class) => Some(RunError::new(class, "simulated")),
        _ => None,
    };
    let report = RunReport {
        exit_code: None,
        run: task.run,
        job: Some(task.job),
        worker: worker.clone(),
        tenant: Some(tenant),
        fence: Some(task.fence),
        outcome,
        error,
        result: (outcome == Outcome::Succeeded).then(|| format!(r#"{{"run":"{}"}}"#, task.run).into()),
        stored_result: None,
        last_seq: 0,
    };
    let mut repeats = u32::from(world.strikes(world.plan.repeated));
    loop {
        let own = report.clone();
        let answer = call(world, |engine| async move { engine.ledger.report(vec![own]).await }).await;
        let settled = match answer.map(|mut list| list.pop()) {
            Ok(Some(answer)) => {
                let mut notes = world.notes.borrow_mut();
                match answer {
                    ReportAnswer::Stale { .. } => notes.stale_refused += 1,
                    ReportAnswer::Duplicate => notes.duplicates_ignored += 1,
                    ReportAnswer::Corrected(_) => notes.corrected += 1,
                    _ => {}
                }
                true
            }
            Ok(None) => true,
            Err(StoreError::Broken(why)) => {
                world.violated(Violation::new("broken", why));
                true
            }
            Err(_) => false,
        };
        if settled {
            if repeats == 0 {
                return;
            }
            repeats -= 1;
        }
        pause(world).await;
    }
}
