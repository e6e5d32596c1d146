//! `GET /agents` and `GET /agents/{name}`: which agents there are, what each was admitted as and by whom, and how it is.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_model::admission::Reach;
use bowline_model::{Labels, Timestamp, WorkerName};
use bowline_store::AgentEntry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actors::ActorView;
use crate::app::App;
use crate::door::Known;
use crate::params::{Nameable, Named, Params};
use crate::problem::Problem;

/// How many are listed unless a limit is given.
const LISTED: u32 = 100;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "AgentListQuery")]
pub struct ListQuery {
    /// At most so many; 100 unless given, 500 at most.
    pub limit: Option<u32>,
    /// Only agents after this one: `next_cursor` of the page before.
    pub cursor: Option<WorkerName>,
}

/// The credential of an agent, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AgentCredential")]
pub struct CredentialView {
    /// The id of the token.
    pub token: String,
    /// The agent renews it after half of its life.
    pub expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// Which join token admitted an agent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AgentAdmission")]
pub struct AdmittedView {
    /// The id of the join token.
    pub join_token: String,
    /// Who made the join token; absent if a service or the server itself did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<ActorView>,
    pub at: Timestamp,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Agent")]
pub struct AgentView {
    pub name: WorkerName,
    /// active, busy (every slot is taken), draining, offline (silent for longer than a lease), enrolled (never registered),
    /// revoked or expired (its credential has ended).
    pub status: &'static str,
    /// What it is handed work by.
    pub labels: Labels,
    /// What else it says about itself. It decides nothing.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub claimed_labels: Labels,
    /// Hosts besides its own that it may reach.
    pub reach: BTreeSet<Reach>,
    /// Commands may run as the agent's own user and read its key and credential.
    pub shares_agent_user: bool,
    /// It gets sealed secrets even if its commands share its user.
    pub secrets_for_shared_user: bool,
    /// The version of its program, as it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub slots: u32,
    /// Runs it has now.
    pub running: u32,
    pub draining: bool,
    pub registered_at: Option<Timestamp>,
    pub seen_at: Option<Timestamp>,
    /// The key it enrolled with: Ed25519, in base64.
    pub public_key: String,
    pub credential: CredentialView,
    /// Absent for an agent that renewed its credential before this was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted: Option<AdmittedView>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AgentPage {
    /// By name.
    pub agents: Vec<AgentView>,
    pub next_cursor: Option<WorkerName>,
}

/// How an agent is, with so many runs. Silence is longer than `silence_ms`.
fn status(entry: &AgentEntry, running: u32, now: Timestamp, silence_ms: i64) -> &'static str {
    match &entry.worker {
        _ if entry.credential_revoked_at.is_some() => "revoked",
        _ if entry.credential_expires_at.is_some_and(|end| end <= now) => "expired",
        None => "enrolled",
        Some(worker) if now.millis_since(worker.seen_at) > silence_ms => "offline",
        Some(worker) if worker.draining => "draining",
        Some(worker) if running >= worker.slots => "busy",
        Some(_) => "active",
    }
}

async fn view(app: &App, entry: AgentEntry, running: u32) -> AgentView {
    let status = status(&entry, running, app.engine.clock.now(), app.engine.settings.lease.ttl_ms);
    let AgentEntry { agent, worker, join_token, join_token_made_by, .. } = entry;
    let by = match join_token_made_by {
        Some(token) => Some(app.actors.view(&format!("token:{token}")).await),
        None => None,
    };
    let admitted = join_token.map(|join_token| AdmittedView { join_token, by, at: agent.enrolled_at });
    let said = worker.as_ref();
    AgentView {
        status,
        labels: said.map_or_else(|| agent.labels.clone(), |worker| worker.labels.clone()),
        claimed_labels: said.map(|worker| worker.claimed_labels.clone()).unwrap_or_default(),
        shares_agent_user: said.is_some_and(|worker| worker.shares_agent_user),
        version: said.map(|worker| worker.version.clone()).filter(|version| !version.is_empty()),
        slots: said.map_or(0, |worker| worker.slots),
        running,
        draining: said.is_some_and(|worker| worker.draining),
        registered_at: said.map(|worker| worker.registered_at),
        seen_at: said.map(|worker| worker.seen_at),
        reach: agent.admission.reach,
        secrets_for_shared_user: agent.admission.secrets_for_shared_user,
        public_key: STANDARD.encode(agent.public_key),
        credential: CredentialView {
            token: agent.token,
            expires_at: entry.credential_expires_at,
            revoked_at: entry.credential_revoked_at,
        },
        admitted,
        name: agent.name,
    }
}

pub async fn list(
    State(app): State<App>,
    known: Known,
    Params(query): Params<ListQuery>,
) -> Result<Json<AgentPage>, Problem> {
    let limit = query.limit.unwrap_or(LISTED);
    if !(1..=app.settings.page_max).contains(&limit) {
        return Err(Problem::validation(format!("limit: between 1 and {}", app.settings.page_max)));
    }
    let tenant = known.tenant()?;
    let running = app.engine.ledger.running_by_worker(tenant).await?;
    let page = app.engine.ledger.list_agents(tenant, query.cursor, limit).await?;
    let mut agents = Vec::with_capacity(page.items.len());
    for entry in page.items {
        let runs = running.get(entry.agent.name.as_str()).copied().unwrap_or(0);
        agents.push(view(&app, entry, runs).await);
    }
    Ok(Json(AgentPage { agents, next_cursor: page.next }))
}

pub async fn get(
    State(app): State<App>,
    known: Known,
    Named(name): Named<WorkerName>,
) -> Result<Json<AgentView>, Problem> {
    let tenant = known.tenant()?;
    let entry = app.engine.ledger.find_agent_entry(tenant, name.clone()).await?.ok_or_else(WorkerName::nothing)?;
    let running = app.engine.ledger.running_by_worker(tenant).await?;
    Ok(Json(view(&app, entry, running.get(name.as_str()).copied().unwrap_or(0)).await))
}

#[cfg(test)]
mod tests {
    use bowline_model::{Admission, TenantId};
    use bowline_store::{AgentRecord, WorkerRecord};

    use super::*;

    #[test]
    fn the_end_of_a_credential_comes_before_everything_else() {
        let (tenant, now) = (TenantId::mint(Timestamp::from_millis(1), [1; 10]), Timestamp::from_millis(100_000));
        let name = WorkerName::new("web1").unwrap();
        let agent = AgentRecord {
            tenant,
            name: name.clone(),
            public_key: [1; 32],
            sealing_key: None,
            labels: Labels::default(),
            admission: Admission::default(),
            token: "t".to_owned(),
            token_before: None,
            enrolled_at: now,
        };
        let worker = WorkerRecord {
            tenant,
            name,
            worker_type: "agent".to_owned(),
            task_types: Vec::new(),
            labels: Labels::default(),
            claimed_labels: Labels::default(),
            shares_agent_user: false,
            version: String::new(),
            slots: 2,
            registered_at: now,
            seen_at: now,
            draining: false,
            names_runs: true,
        };
        let entry = |worker: Option<WorkerRecord>| AgentEntry {
            agent: agent.clone(),
            credential_expires_at: Some(now.plus_millis(1)),
            credential_revoked_at: None,
            join_token: None,
            join_token_made_by: None,
            worker,
        };
        let there = || entry(Some(worker.clone()));
        assert_eq!(status(&entry(None), 0, now, 10), "enrolled");
        assert_eq!((status(&there(), 1, now, 10), status(&there(), 2, now, 10)), ("active", "busy"));
        let drained = entry(Some(WorkerRecord { draining: true, ..worker.clone() }));
        assert_eq!(status(&drained, 2, now, 10), "draining");
        let silent =
            |ms: i64| entry(Some(WorkerRecord { draining: true, seen_at: now.plus_millis(-ms), ..worker.clone() }));
        assert_eq!((status(&silent(10), 2, now, 10), status(&silent(11), 2, now, 10)), ("draining", "offline"));
        assert_eq!(status(&there(), 0, now.plus_millis(1), 10), "expired");
        let revoked = AgentEntry { credential_revoked_at: Some(now), ..there() };
        assert_eq!(status(&revoked, 0, now.plus_millis(1), 10), "revoked");
    }
}
