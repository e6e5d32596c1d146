//! `GET /workers`: who works here, and when they were last heard.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use bowline_model::{Labels, TaskType, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::door::Known;
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkerView {
    pub worker_id: String,
    pub worker_type: String,
    pub task_types: Vec<TaskType>,
    /// What it is handed work by.
    pub labels: Labels,
    /// How much it has of what jobs may require amounts of.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, f64>,
    /// What an agent says about itself besides. It decides nothing.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub claimed_labels: Labels,
    /// Commands of this agent may run as its own user and read its key and credential.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shares_agent_user: bool,
    pub slots: u32,
    /// Runs it has now.
    pub running: u32,
    /// active, busy (every slot is taken) or offline (silent for longer than a lease).
    pub status: &'static str,
    pub registered_at: Option<Timestamp>,
    pub seen_at: Option<Timestamp>,
    pub draining: bool,
    /// Lives inside this server.
    pub builtin: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkerList {
    pub workers: Vec<WorkerView>,
}

/// How a worker is with so many slots taken. The one inside this server is never silent: it has no `silent_ms`.
fn status(taken: u32, slots: u32, silent_ms: Option<i64>, silent_max_ms: i64) -> &'static str {
    if silent_ms.is_some_and(|ms| ms > silent_max_ms) {
        "offline"
    } else if taken >= slots {
        "busy"
    } else {
        "active"
    }
}

pub async fn list(State(app): State<App>, known: Known) -> Result<Json<WorkerList>, Problem> {
    let tenant = known.tenant()?;
    let runs = app.engine.ledger.running_by_worker(tenant).await?;
    let running = |name: &str| runs.get(name).copied().unwrap_or(0);
    let (now, silent_max_ms) = (app.engine.clock.now(), app.engine.settings.lease.ttl_ms);
    let own = &app.engine.builtin;
    let mut workers = Vec::new();
    if own.slots() > 0 {
        workers.push(WorkerView {
            worker_id: own.name().to_string(),
            worker_type: "builtin".to_owned(),
            task_types: own.abilities().task_types.iter().cloned().collect(),
            labels: Labels::default(),
            resources: BTreeMap::new(),
            claimed_labels: Labels::default(),
            shares_agent_user: false,
            slots: own.slots(),
            running: running(own.name().as_str()),
            // Its slots are for all tenants, and what only waits takes none.
            status: status(own.busy(), own.slots(), None, silent_max_ms),
            registered_at: None,
            seen_at: Some(now),
            draining: false,
            builtin: true,
        });
    }
    let remote = app.engine.ledger.list_workers(tenant).await?;
    workers.extend(remote.into_iter().map(|w| {
        let (labels, resources) = w.labels.split_resources();
        let running = running(w.name.as_str());
        WorkerView {
            running,
            status: status(running, w.slots, Some(now.millis_since(w.seen_at)), silent_max_ms),
            worker_id: w.name.to_string(),
            worker_type: w.worker_type,
            task_types: w.task_types,
            labels,
            resources,
            claimed_labels: w.claimed_labels,
            shares_agent_user: w.shares_agent_user,
            slots: w.slots,
            registered_at: Some(w.registered_at),
            seen_at: Some(w.seen_at),
            draining: w.draining,
            builtin: false,
        }
    }));
    Ok(Json(WorkerList { workers }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_active_busy_or_offline() {
        let remote = |running, silent_ms| status(running, 2, Some(silent_ms), 10);
        assert_eq!((remote(0, 0), remote(1, 10), remote(2, 10), remote(3, 0)), ("active", "active", "busy", "busy"));
        assert_eq!((remote(0, 11), remote(2, 11)), ("offline", "offline"), "silence counts more than its runs");
        // Clocks of several servers differ: seen a moment after now is not silent.
        assert_eq!(remote(0, -5), "active");
        let builtin = |running| status(running, 2, None, 10);
        assert_eq!((builtin(0), builtin(1), builtin(2)), ("active", "active", "busy"));
    }
}
