//! `POST /workers/{id}/evidence`: an agent offers what its journal says it executed.
//! `GET /evidence/unknown-runs`: what agents executed, of jobs that the ledger does not have.

use axum::Json;
use axum::extract::State;
use bowline_model::{HostName, JobId, RunId, Timestamp, WorkerName};
use bowline_protocol::{EvidenceAnswer, EvidenceRequest, RunNews};
use bowline_store::{Evidence, RunEvidence, UnknownRun};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ship::{keep_result, report};
use crate::app::App;
use crate::body::LargeBody;
use crate::door::Known;
use crate::params::{Params, Part};
use crate::problem::Problem;

const RUNS_MAX: usize = 1_000;
const LISTED: u32 = 100;
/// Clocks of agents may differ from ours by this much.
const SKEW_MS: i64 = 3_600_000;

pub async fn offer(
    State(app): State<App>,
    known: Known,
    Part(id): Part,
    LargeBody(body): LargeBody<EvidenceRequest>,
) -> Result<Json<EvidenceAnswer>, Problem> {
    let (tenant, agent) = (known.tenant()?, known.worker(&id)?);
    let credential = known.0.actor.token().map(ToString::to_string).unwrap_or_default();
    let enrolled = app.engine.ledger.find_agent(tenant, agent.clone()).await?;
    if !enrolled.is_some_and(|enrolled| enrolled.has_credential(&credential)) {
        return Err(Problem::forbidden("only an agent offers evidence, with its own credential"));
    }
    if body.runs.is_empty() || body.runs.len() > RUNS_MAX {
        return Err(Problem::validation(format!("runs: between 1 and {RUNS_MAX} at once")));
    }
    let mut runs: Vec<RunEvidence> = body
        .runs
        .into_iter()
        .map(|told| {
            let news = RunNews { run_id: told.run_id, fence: told.fence, events: Vec::new(), ended: None };
            RunEvidence {
                report: report(&news, told.ended, &agent, tenant),
                attempt: told.attempt,
                unit: told.unit_id,
                job: told.job_id,
                host: told.host,
                host_fence: told.host_fence,
                kept: told.kept,
                at: told.at,
            }
        })
        .collect();
    for told in &mut runs {
        // Most runs of evidence are known already: what is stored in vain is swept.
        keep_result(&app, tenant, &mut told.report).await?;
    }
    let since = app.engine.clock.now().plus_millis(SKEW_MS - app.engine.settings.retention.finished_jobs_ms);
    let taken = app.engine.ledger.take_evidence(Evidence { tenant, agent: agent.clone(), runs, since }).await?;
    if taken.taken > 0 {
        let count = taken.taken;
        app.engine.meters.runs_corrected.inc_by(u64::from(count));
        tracing::warn!(agent.id = %agent, runs = count, "took over how runs ended from an agent's journal");
    }
    if taken.new > 0 {
        tracing::warn!(
            agent.id = %agent,
            runs = taken.new,
            "an agent executed runs of jobs that the ledger does not have; `bowline evidence list` names them"
        );
    }
    Ok(Json(EvidenceAnswer { known: taken.known, taken: taken.taken, unknown: taken.unknown }))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListQuery {
    /// At most so many; 100 unless given, 500 at most.
    pub limit: Option<u32>,
    /// Only runs before this one: `next_cursor` of the page before.
    pub cursor: Option<RunId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct UnknownRunView {
    pub run_id: RunId,
    /// The job; absent if the agent's journal does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The part of the job for this host.
    pub unit_id: JobId,
    pub attempt: u32,
    /// Whose journal has it.
    pub agent: WorkerName,
    pub host: HostName,
    /// success, failed.
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// By the agent's clock.
    pub ended_at: Timestamp,
    pub reported_at: Timestamp,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct UnknownRunPage {
    /// The newest first; 10,000 are kept, of each agent the newest.
    pub runs: Vec<UnknownRunView>,
    pub next_cursor: Option<RunId>,
}

impl From<UnknownRun> for UnknownRunView {
    fn from(run: UnknownRun) -> Self {
        Self {
            run_id: run.run,
            job_id: run.job,
            unit_id: run.unit,
            attempt: run.attempt,
            agent: run.agent,
            host: run.host,
            status: if run.succeeded { "success" } else { "failed" },
            exit_code: run.exit_code,
            ended_at: run.ended_at,
            reported_at: run.reported_at,
        }
    }
}

pub async fn list_unknown_runs(
    State(app): State<App>,
    known: Known,
    Params(query): Params<ListQuery>,
) -> Result<Json<UnknownRunPage>, Problem> {
    let limit = query.limit.unwrap_or(LISTED);
    if !(1..=app.settings.page_max).contains(&limit) {
        return Err(Problem::validation(format!("limit: between 1 and {}", app.settings.page_max)));
    }
    let page = app.engine.ledger.list_unknown_runs(known.tenant()?, query.cursor, limit).await?;
    Ok(Json(UnknownRunPage { runs: page.items.into_iter().map(Into::into).collect(), next_cursor: page.next }))
}
