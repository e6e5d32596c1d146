//! The secrets of runs that were just handed out: read, sealed to the agent that gets them, and never anywhere else.
//!
//! A run whose secrets cannot be had is not handed over. If they will never be had, it has failed, permanently; if they may be
//! had in a moment, it goes back to the queue, and its attempt does not count.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_engine::aside;
use bowline_engine::secrets::{SecretError, SecretNeeds};
use bowline_model::{ErrorClass, Outcome, RunError, RunId, TenantId, WorkerName};
use bowline_seal::{Addressed, SealingKey, Values, seal};
use bowline_store::{ClaimedRun, RunReport};

use crate::app::App;
use crate::problem::Problem;

/// How long an agent waits for its next answer after a run went back, so that a place that is away is not asked in a circle.
const PAUSE: Duration = Duration::from_secs(1);

/// A run, with what is sealed for it.
pub type Sealed = (ClaimedRun, Option<String>);

pub async fn seal_all(
    app: &App,
    tenant: TenantId,
    worker: &WorkerName,
    credential: &str,
    runs: Vec<ClaimedRun>,
) -> Result<Vec<Sealed>, Problem> {
    // The runs of one command share its text, and so what they need.
    let mut needs: HashMap<usize, Arc<SecretNeeds>> = HashMap::new();
    let mut plain = Vec::with_capacity(runs.len());
    let mut wanting: Vec<(ClaimedRun, Arc<SecretNeeds>)> = Vec::new();
    for run in runs {
        if run.unit.is_none() {
            plain.push((run, None));
            continue;
        }
        let known = needs.entry(run.payload.as_ptr().addr());
        let needs = Arc::clone(known.or_insert_with(|| Arc::new(SecretNeeds::of_payload(&run.payload))));
        if needs.is_empty() { plain.push((run, None)) } else { wanting.push((run, needs)) }
    }
    if wanting.is_empty() {
        return Ok(plain);
    }
    let agent = app.engine.ledger.find_agent(tenant, worker.clone()).await?;
    let agent = agent.filter(|agent| agent.has_credential(credential));
    let key = agent.and_then(|agent| agent.sealing_key).and_then(|key| SealingKey::from_bytes(&key).ok());
    let Some(key) = key else {
        // The claim asks for the label that comes with the key; without one nothing is here to be sealed.
        tracing::error!(agent.id = %worker, "agent {worker} was handed runs with secrets and has no key; they go back");
        give_back(app, wanting.iter().map(|(run, _)| run.run).collect()).await;
        return Ok(plain);
    };
    let mut resolved: HashMap<usize, Result<Arc<Values>, SecretError>> = HashMap::new();
    let (mut ready, mut hopeless, mut later) = (Vec::new(), Vec::new(), Vec::new());
    for (run, needs) in wanting {
        let answer = match resolved.get(&Arc::as_ptr(&needs).addr()) {
            Some(answer) => answer.clone(),
            None => {
                let approved = run.unit.as_ref().and_then(|unit| unit.approved_secrets.as_deref());
                let answer = app.engine.secrets.resolve(tenant, &needs, approved).await.map(Arc::new);
                if let Err(error) = &answer {
                    tracing::warn!(agent.id = %worker, "runs are not handed over: {}", error.whole());
                }
                resolved.insert(Arc::as_ptr(&needs).addr(), answer.clone());
                answer
            }
        };
        match answer {
            Ok(values) => ready.push((run, values)),
            Err(error) if error.class() == ErrorClass::Transient => later.push(run.run),
            Err(error) => hopeless.push((run, error)),
        }
    }
    drop(resolved);
    fail(app, tenant, worker, hopeless).await;
    let must_pause = plain.is_empty() && ready.is_empty() && !later.is_empty();
    if !later.is_empty() {
        give_back(app, later).await;
    }
    // Two multiplications on a curve for each run: not for a thread that serves others meanwhile.
    let sealing = aside::run_briefly(tenant, move || {
        let sealed = ready.into_iter().map(|(run, values)| {
            let addressed = Addressed { run: run.run, fence: run.fence };
            let envelope = seal(&values, &key, addressed).map(|bytes| STANDARD.encode(bytes));
            (run, envelope)
        });
        sealed.collect::<Vec<_>>()
    });
    let mut unsealed = Vec::new();
    for (run, envelope) in sealing.await {
        match envelope {
            Ok(text) => plain.push((run, Some(text))),
            Err(_) => unsealed.push(run.run),
        }
    }
    if !unsealed.is_empty() {
        tracing::error!(agent.id = %worker, "secrets could not be sealed to the key of agent {worker}; its runs go back");
        give_back(app, unsealed).await;
    }
    if must_pause {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(plain)
}

/// Whatever is not given back returns after the accept time.
async fn give_back(app: &App, runs: Vec<RunId>) {
    if let Err(error) = app.engine.ledger.give_back(runs).await {
        tracing::warn!("runs whose secrets cannot be had return later: {error}");
    }
}

/// These never started, and never will.
async fn fail(app: &App, tenant: TenantId, worker: &WorkerName, runs: Vec<(ClaimedRun, SecretError)>) {
    if runs.is_empty() {
        return;
    }
    let report = |(run, error): (ClaimedRun, SecretError)| RunReport {
        run: run.run,
        job: None,
        worker: worker.clone(),
        tenant: Some(tenant),
        fence: Some(run.fence),
        outcome: Outcome::Failed(error.class()),
        error: Some(RunError::new(error.class(), format!("it was not begun: {error}"))),
        result: None,
        stored_result: None,
        exit_code: None,
        last_seq: 0,
    };
    if let Err(error) = app.engine.ledger.report(runs.into_iter().map(report).collect()).await {
        tracing::warn!("runs whose secrets cannot be had fail later: {error}");
    }
}
