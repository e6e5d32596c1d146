//! `POST /workers/{id}/events`: an agent brings the news of many runs at once, and how some of them ended.

use axum::Json;
use axum::extract::State;
use bowline_model::{ErrorClass, Outcome, RunError, TenantId, WorkerName};
use bowline_protocol::{ResultStatus, RunEnd, RunHeard, RunNews, ShipAnswer, ShipRequest};
use bowline_store::{ReportAnswer, RunReport, TellAnswer, ToldEvent, ToldEvents};
use hyper::StatusCode;

use super::result::{discard_unless_taken, fell, store_result};
use super::tell::{EVENTS_TOO_LARGE, SEQ_MAX};
use crate::app::App;
use crate::body::LargeBody;
use crate::door::Known;
use crate::params::Part;
use crate::problem::Problem;

const RUNS_MAX: usize = 1_000;
const EVENTS_MAX: usize = 10_000;

pub async fn ship(
    State(app): State<App>,
    known: Known,
    Part(id): Part,
    LargeBody(body): LargeBody<ShipRequest>,
) -> Result<Json<ShipAnswer>, Problem> {
    let tenant = known.tenant()?;
    let worker = known.worker(&id)?;
    check(&body)?;
    let mut answers: Vec<RunHeard> = body
        .runs
        .iter()
        .map(|news| RunHeard { run_id: news.run_id, acknowledged: 0, ended: false, refused: None })
        .collect();
    let (mut told, mut reports, mut ends) = (Vec::with_capacity(body.runs.len()), Vec::new(), Vec::new());
    for (n, mut news) in body.runs.into_iter().enumerate() {
        if let Some(end) = news.ended.take() {
            ends.push(n);
            reports.push(report(&news, end, &worker, tenant));
        }
        told.push(telling(news, &worker, tenant));
    }
    let results = &app.engine.results;
    let is_large = |report: &RunReport| {
        report.result.as_ref().is_some_and(|result| !results.is_inline(result) || results.check(result).is_err())
    };
    let (heard, settled) = if reports.iter().any(is_large) {
        let shipping = store_and_ship(app.clone(), tenant, told, reports);
        app.uploads.run(shipping).await.ok_or_else(fell)??
    } else {
        app.engine.ledger.ship(told, reports).await?
    };
    let meters = &app.engine.meters;
    for (answer, heard) in answers.iter_mut().zip(heard) {
        let refused = match heard {
            TellAnswer::Held { acked, .. } => {
                answer.acknowledged = acked;
                continue;
            }
            TellAnswer::SeqConflict(_) => {
                meters.seq_conflicts.inc();
                "SEQ_CONFLICT"
            }
            TellAnswer::Full => EVENTS_TOO_LARGE,
            TellAnswer::Stale => {
                meters.stale_writes_refused.inc();
                "STALE_LEASE"
            }
            TellAnswer::NotYours => "NOT_YOURS",
            TellAnswer::NotFound => "RUN_NOT_FOUND",
        };
        answer.refused = Some(refused.to_owned());
    }
    for (n, settled) in ends.into_iter().zip(settled) {
        match settled {
            ReportAnswer::Recorded(_) | ReportAnswer::Duplicate => answers[n].ended = true,
            ReportAnswer::Corrected(_) => {
                meters.runs_corrected.inc();
                answers[n].ended = true;
            }
            // Kept with its attempt, and without a say in the job. There is nothing more to tell.
            ReportAnswer::Stale { evidence: true } => {
                meters.stale_writes_refused.inc();
                answers[n].ended = true;
            }
            // It was said before, in another way.
            ReportAnswer::Finished(_) => answers[n].ended = true,
            // What was told was refused for the same reason.
            ReportAnswer::Stale { evidence: false } | ReportAnswer::NotYours | ReportAnswer::NotFound => {}
        }
    }
    Ok(Json(ShipAnswer { runs: answers }))
}

/// Reports runs of which some have results for the object store. Results that no report names in the end are removed again.
async fn store_and_ship(
    app: App,
    tenant: TenantId,
    told: Vec<ToldEvents>,
    mut reports: Vec<RunReport>,
) -> Result<(Vec<TellAnswer>, Vec<ReportAnswer>), Problem> {
    let mut kept = Ok(());
    for report in &mut reports {
        kept = keep_result(&app, tenant, report).await;
        if kept.is_err() {
            break;
        }
    }
    let stored: Vec<_> = reports.iter().map(|report| report.stored_result.clone()).collect();
    let shipped = match kept {
        Ok(()) => app.engine.ledger.ship(told, reports).await,
        Err(problem) => {
            for stored in stored.iter().flatten() {
                app.engine.results.discard(tenant, stored).await;
            }
            return Err(problem);
        }
    };
    for (n, stored) in stored.iter().enumerate() {
        let Some(stored) = stored else { continue };
        discard_unless_taken(&app, tenant, stored, shipped.as_ref().map(|(_, settled)| settled.get(n))).await;
    }
    Ok(shipped?)
}

fn check(body: &ShipRequest) -> Result<(), Problem> {
    if body.runs.is_empty() || body.runs.len() > RUNS_MAX {
        return Err(Problem::validation(format!("between 1 and {RUNS_MAX} runs at once")));
    }
    if body.runs.iter().map(|news| news.events.len()).sum::<usize>() > EVENTS_MAX {
        return Err(Problem::validation(format!("at most {EVENTS_MAX} events at once")));
    }
    let seqs = body.runs.iter().flat_map(|news| news.events.iter().map(|event| event.seq));
    if let Some(bad) = seqs.into_iter().find(|seq| *seq == 0 || *seq > SEQ_MAX) {
        return Err(Problem::validation(format!("seq {bad} is not between 1 and {SEQ_MAX}")));
    }
    let ends = body.runs.iter().filter_map(|news| news.ended.as_ref());
    if ends.into_iter().any(|end| end.last_seq > SEQ_MAX) {
        return Err(Problem::validation(format!("last_seq must be at most {SEQ_MAX}")));
    }
    Ok(())
}

fn telling(news: RunNews, worker: &WorkerName, tenant: TenantId) -> ToldEvents {
    let events = news.events.into_iter();
    ToldEvents {
        run: news.run_id,
        worker: worker.clone(),
        tenant: Some(tenant),
        fence: Some(news.fence),
        events: events
            .map(|event| ToldEvent { seq: event.seq, at: event.at, detail: Box::<str>::from(event.data).into() })
            .collect(),
    }
}

/// Moves a result that is too large for the ledger to the object store. One that is too large for any server fails its run, and
/// nothing else of what came with it.
pub(super) async fn keep_result(app: &App, tenant: TenantId, report: &mut RunReport) -> Result<(), Problem> {
    let results = &app.engine.results;
    if let Some(Err(error)) = report.result.as_ref().map(|result| results.check(result)) {
        report.result = None;
        report.outcome = Outcome::Failed(ErrorClass::Permanent);
        report.error = Some(RunError::new(ErrorClass::Permanent, error.to_string()));
        return Ok(());
    }
    match store_result(app, tenant, report).await {
        // Its report is refused for the same reason, and so are its events.
        Err(problem) if matches!(problem.status, StatusCode::NOT_FOUND | StatusCode::FORBIDDEN) => {
            report.result = None;
            Ok(())
        }
        stored => stored,
    }
}

pub(super) fn report(news: &RunNews, end: RunEnd, worker: &WorkerName, tenant: TenantId) -> RunReport {
    let (outcome, error) = match end.status {
        ResultStatus::Success => (Outcome::Succeeded, None),
        ResultStatus::Canceled => (Outcome::Canceled, None),
        ResultStatus::Failure => {
            let error = end.error.unwrap_or_else(|| RunError::new(ErrorClass::Permanent, "the agent gave no reason"));
            let error = RunError::new(error.class, error.message);
            (Outcome::Failed(error.class), Some(error))
        }
    };
    RunReport {
        run: news.run_id,
        job: None,
        worker: worker.clone(),
        tenant: Some(tenant),
        fence: Some(news.fence),
        outcome,
        error,
        result: end.result.filter(|_| outcome == Outcome::Succeeded).map(|raw| Box::<str>::from(raw).into()),
        stored_result: None,
        exit_code: end.exit_code,
        last_seq: end.last_seq,
    }
}
