//! `POST /workers/register`: a worker says who it is and what it takes.

use axum::Json;
use axum::extract::State;
use bowline_engine::builtin::NAME_PREFIX;
use bowline_model::Timestamp;
use bowline_protocol::{RegisterAnswer, RegisterRequest, VERSION};
use bowline_store::WorkerRecord;

use super::resources::{amounts, bad};
use crate::agents::{Bearer, Said, admit, offered_key, renew_after_s};
use crate::app::App;
use crate::body::Body;
use crate::door::Known;
use crate::problem::Problem;

const TYPES_MAX: usize = 1_000;
/// Of what a worker says about its version, so many characters are stored.
const VERSION_MAX: usize = 64;

fn ms(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// What a worker says about the version of its program. It is shown, and decides nothing.
fn version(resources: Option<&serde_json::Value>) -> String {
    let said = resources.and_then(|facts| facts.get("version")).and_then(serde_json::Value::as_str).unwrap_or_default();
    said.chars().filter(|c| !c.is_control()).take(VERSION_MAX).collect()
}

pub async fn register(
    State(app): State<App>,
    known: Known,
    Body(body): Body<RegisterRequest>,
) -> Result<Json<RegisterAnswer>, Problem> {
    let tenant = known.tenant()?;
    let name = known.worker(body.worker_id.as_str())?;
    if name.as_str().starts_with(NAME_PREFIX) {
        return Err(Problem::validation(format!("names that begin with {NAME_PREFIX} belong to the server")));
    }
    if body.task_types.is_empty() || body.task_types.len() > TYPES_MAX {
        return Err(Problem::validation(format!("a worker takes between 1 and {TYPES_MAX} task types")));
    }
    if body.slots == 0 || body.slots > 100_000 {
        return Err(Problem::validation("slots must be between 1 and 100000"));
    }
    let worker_type = body.worker_type.unwrap_or_else(|| "worker".to_owned());
    if worker_type.len() > 64 {
        return Err(Problem::validation("worker_type has at most 64 characters"));
    }
    let token = known.0.actor.token().map(ToString::to_string).unwrap_or_default();
    let mut agent = app.engine.ledger.find_agent(tenant, name.clone()).await?;
    if agent.as_ref().is_some_and(|agent| !agent.has_credential(&token)) {
        return Err(Problem::forbidden(format!("{name} is an agent, and this token is not its credential")));
    }
    if let Some(offer) = &body.sealing {
        let key = offered_key(agent.as_ref(), &name, offer)?;
        if let Some(agent) = agent.as_mut().filter(|agent| agent.sealing_key != Some(key)) {
            app.engine.ledger.set_sealing_key(tenant, name.clone(), key, known.author()).await?;
            agent.sealing_key = Some(key);
        }
    }
    let credential = app.engine.ledger.find_token(token).await?;
    let (given, admission) =
        credential.as_ref().map(|token| (token.labels.clone(), token.admission.clone())).unwrap_or_default();
    let bearer = agent.as_ref().map_or(Bearer::Worker(&given, &admission), Bearer::Agent);
    let said =
        Said { name: &name, labels: &body.labels, types: &body.task_types, shares_agent_user: body.shares_agent_user };
    let admitted = admit(&bearer, &said, &app.engine.builtin.abilities().task_types)?;
    let renew_after_s = agent
        .is_some()
        .then(|| renew_after_s(credential.and_then(|token| token.expires_at), app.engine.clock.now()))
        .flatten();
    // Agents are given work by what an administrator says of them, not by what they say.
    let resources = if agent.is_some() { Default::default() } else { amounts(body.resources.as_ref())? };
    let (labels, claimed_labels) = (admitted.labels.clone(), admitted.claimed.clone());
    let abilities = admitted.labels.with_resources(&resources).map_err(bad)?;
    let now = Timestamp::default();
    let record = WorkerRecord {
        tenant,
        name: name.clone(),
        worker_type,
        task_types: body.task_types,
        labels: abilities,
        claimed_labels: admitted.claimed,
        shares_agent_user: admitted.shares_agent_user,
        version: version(body.resources.as_ref()),
        slots: body.slots,
        registered_at: now,
        seen_at: now,
        draining: false,
        names_runs: false,
    };
    app.engine.ledger.register_worker(record).await?;
    let lease = &app.engine.settings.lease;
    Ok(Json(RegisterAnswer {
        worker_id: name,
        protocol: VERSION,
        heartbeat_ms: ms(lease.heartbeat_ms),
        lease_ms: ms(lease.ttl_ms),
        accept_ms: ms(lease.accept_ms),
        renew_after_s,
        labels,
        claimed_labels,
    }))
}
