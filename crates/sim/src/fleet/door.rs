//! Between a machine's agent and the server: the wire, and the server's side of the agent's requests as its door has them.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::Engine;
use bowline_model::{ErrorClass, Outcome, RunError, RunId};
use bowline_protocol::{HeartbeatAnswer, HostTask, ResultStatus, RunEnd, RunHeard, RunNews, TargetHost, Task};
use bowline_store::{
    BeatAnswer, ClaimedRun, Heartbeat, ReportAnswer, RunReport, StoreError, StoreResult, TellAnswer, ToldEvent,
    ToldEvents,
};

use super::Machine;
use crate::network::call;
use crate::world::World;

/// An agent asks the server something. What is cut does not get through, and who is frozen waits without knowing.
pub async fn ask<T, F: Future<Output = StoreResult<T>>>(
    world: &Rc<World>,
    machine: &Machine,
    question: impl FnOnce(Arc<Engine>) -> F,
) -> StoreResult<T> {
    machine.thaw().await;
    if machine.cut.get().0 {
        tokio::time::sleep(Duration::from_millis(world.between(20, 100))).await;
        return Err(StoreError::Unavailable("the wire is cut".to_owned()));
    }
    let answer = call(world, question).await;
    machine.thaw().await;
    if machine.cut.get().1 {
        return Err(StoreError::Unknown("the wire is cut".to_owned()));
    }
    answer
}

/// A heartbeat that names these runs.
pub async fn beat(world: &Rc<World>, machine: &Machine, runs: Vec<RunId>) -> StoreResult<HeartbeatAnswer> {
    let beat = Heartbeat { worker: machine.agent_name.clone(), tenant: Some(machine.tenant), runs, bare: false };
    let answers = ask(world, machine, |engine| async move { engine.ledger.heartbeat(beat).await }).await?;
    let mut heard = HeartbeatAnswer { renewed: Vec::new(), cancel: Vec::new(), stale: Vec::new(), drain: false };
    let now = world.now();
    for (run, answer) in answers {
        let list = match answer {
            BeatAnswer::Renewed => &mut heard.renewed,
            BeatAnswer::Cancel => &mut heard.cancel,
            BeatAnswer::Stale => &mut heard.stale,
        };
        list.push(run);
        let mut notes = world.notes.borrow_mut();
        if answer == BeatAnswer::Renewed {
            notes.runs.entry(run).or_default().heard_at = Some(now);
        }
        notes.fleet.counts.stale_refused += u64::from(answer == BeatAnswer::Stale);
    }
    Ok(heard)
}

/// A hand-out as the agent reads it.
pub fn read_task(run: &ClaimedRun) -> Option<(Task, HostTask)> {
    let unit = run.unit.as_deref()?;
    let scope = unit.scope.as_deref().map(serde_json::from_str).transpose().ok()?;
    let host = TargetHost {
        id: unit.host_id,
        name: unit.host.clone(),
        connection: unit.connection.clone(),
        lock: unit.lock,
        fence: unit.host_fence,
        scope: scope.unwrap_or_default(),
    };
    let wish = HostTask { unit_id: run.job, command: serde_json::from_str(&run.payload).ok()?, host };
    let task = Task {
        task_id: run.run,
        task_type: run.task_type.clone(),
        params: serde_json::value::RawValue::from_string(run.payload.to_string()).ok()?,
        job_id: unit.command,
        worker_id: run.worker.clone(),
        lane: run.lane,
        attempt: run.attempt,
        fence: run.fence,
        idempotency_key: run.job.to_string(),
        timeout_ms: run.timeout_ms,
        sealed: None,
        created_at: run.created_at,
        trace_id: None,
        traceparent: None,
        correlation_id: None,
    };
    Some((task, wish))
}

/// Brings news of runs. `Err` when it is not known whether they arrived.
pub async fn bring(world: &Rc<World>, machine: &Machine, news: Vec<RunNews>) -> StoreResult<Vec<RunHeard>> {
    let heard = |news: &RunNews| RunHeard { run_id: news.run_id, acknowledged: 0, ended: false, refused: None };
    let mut answers: Vec<RunHeard> = news.iter().map(heard).collect();
    let (mut told, mut reports, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for (n, mut news) in news.into_iter().enumerate() {
        if let Some(end) = news.ended.take() {
            ends.push(n);
            reports.push(report(machine, &news, end));
        }
        told.push(telling(machine, news));
    }
    let brought = ask(world, machine, |engine| async move { engine.ledger.ship(told, reports).await }).await;
    let (held, settled) = brought?;
    for (answer, held) in answers.iter_mut().zip(held) {
        let refused = match held {
            TellAnswer::Held { acked, .. } => {
                answer.acknowledged = acked;
                continue;
            }
            TellAnswer::SeqConflict(_) => "SEQ_CONFLICT",
            TellAnswer::Full => "EVENTS_TOO_LARGE",
            TellAnswer::Stale => "STALE_LEASE",
            TellAnswer::NotYours => "NOT_YOURS",
            TellAnswer::NotFound => "RUN_NOT_FOUND",
        };
        answer.refused = Some(refused.to_owned());
    }
    let mut notes = world.notes.borrow_mut();
    let counts = &mut notes.fleet.counts;
    for (n, settled) in ends.into_iter().zip(settled) {
        answers[n].ended = match settled {
            ReportAnswer::Recorded(_) | ReportAnswer::Duplicate | ReportAnswer::Finished(_) => true,
            ReportAnswer::Corrected(_) => {
                counts.lost_corrected += 1;
                true
            }
            ReportAnswer::Stale { evidence } => {
                counts.stale_refused += 1;
                evidence
            }
            ReportAnswer::NotYours | ReportAnswer::NotFound => false,
        };
    }
    Ok(answers)
}

fn telling(machine: &Machine, news: RunNews) -> ToldEvents {
    let events = news.events.into_iter();
    ToldEvents {
        run: news.run_id,
        worker: machine.agent_name.clone(),
        tenant: Some(machine.tenant),
        fence: Some(news.fence),
        events: events
            .map(|event| ToldEvent { seq: event.seq, at: event.at, detail: Box::<str>::from(event.data).into() })
            .collect(),
    }
}

fn report(machine: &Machine, news: &RunNews, end: RunEnd) -> RunReport {
    let (outcome, error) = match end.status {
        ResultStatus::Success => (Outcome::Succeeded, None),
        ResultStatus::Canceled => (Outcome::Canceled, None),
        ResultStatus::Failure => {
            let error = end.error.unwrap_or_else(|| RunError::new(ErrorClass::Permanent, "the agent gave no reason"));
            (Outcome::Failed(error.class), Some(error))
        }
    };
    RunReport {
        run: news.run_id,
        job: None,
        worker: machine.agent_name.clone(),
        tenant: Some(machine.tenant),
        fence: Some(news.fence),
        outcome,
        error,
        result: None,
        stored_result: None,
        exit_code: end.exit_code,
        last_seq: end.last_seq,
    }
}
