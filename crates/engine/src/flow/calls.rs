//! What a run wishes for, as jobs.

use std::sync::Arc;

use bowline_model::idempotency::RequestHash;
use bowline_model::start::StartSpec;
use bowline_model::{ErrorClass, JobPolicy, Labels, Lane, ResourceName, RunError, TaskType};
use bowline_store::{NewFlow, NewJob, Origin, StoreError};
use bowline_workflow::flow::Launch;
use bowline_workflow::node::CallWhat;

use super::asked::Asked;
use super::definitions::{DefinitionError, DefinitionKind};
use super::memory::About;
use super::{Flows, Hands};
use crate::intake::JobRequest;
use crate::quotas::{QuotaExceeded, Room};
use crate::rights;

/// Runs that may be nested in one another.
pub const DEPTH_MAX: u32 = 16;

/// What kept a job from being made.
#[derive(Debug)]
pub enum NotMade {
    /// It will never be: the node fails.
    Failed(RunError),
    /// The tenant has no room for it now. The node's policy says whether it is tried again.
    NoRoom(RunError),
    /// The ledger did not answer; somebody tries again.
    Later(StoreError),
}

impl From<StoreError> for NotMade {
    fn from(error: StoreError) -> Self {
        Self::Later(error)
    }
}

fn failed(message: impl Into<String>) -> NotMade {
    NotMade::Failed(RunError::new(ErrorClass::Permanent, message))
}

/// What an execution fails with for which its tenant has no room.
pub(super) fn no_room(full: &QuotaExceeded) -> RunError {
    RunError::new(ErrorClass::Transient, format!("QUOTA_EXCEEDED: {full}"))
}

impl Flows {
    /// A job for what a node wishes for, and room for it.
    pub(super) async fn make_within_quota(
        &self,
        hands: Hands<'_>,
        about: &About,
        launch: &Launch,
    ) -> Result<(NewJob, Room), NotMade> {
        let job = self.make(hands, about, launch).await?;
        let room = self.quotas.reserve_job(&job).map_err(|full| NotMade::NoRoom(no_room(&full)))?;
        Ok((job, room))
    }

    /// A job for what a node wishes for.
    pub(super) async fn make(&self, hands: Hands<'_>, about: &About, launch: &Launch) -> Result<NewJob, NotMade> {
        let policy = JobPolicy {
            retry: launch.call.policy.retry.clone().unwrap_or_default(),
            timeout_ms: launch
                .call
                .policy
                .timeout_ms
                .unwrap_or(launch.call.timeout_ms)
                .clamp(1, JobPolicy::TIMEOUT_MAX_MS),
            // The run hears of it, and says what follows.
            dead_letter: false,
            ..JobPolicy::default()
        };
        let origin = Origin {
            actor: Arc::clone(&about.actor),
            email: about.email.clone(),
            request_id: format!("{}/{}", launch.node, launch.visit).into(),
            trace_id: about.trace_id.clone(),
            correlation_id: about.correlation_id.clone(),
            author: None,
        };
        let blank = |task_type, payload: String| NewJob {
            id: launch.job,
            tenant: about.tenant,
            lane: Lane::Default,
            task_type,
            requires: Labels::default(),
            priority: 0,
            payload: payload.into(),
            policy: None,
            run_at: None,
            keys: Vec::new(),
            hash: RequestHash::from_bytes([0; 32]),
            origin: origin.clone(),
            replay_of: None,
            fleet: None,
            flow: None,
        };
        match &launch.call.what {
            CallWhat::Task { task_type, payload, lane, labels, priority } => {
                if task_type.is_reserved() {
                    return Err(failed(format!("task types that begin with {:?} are ours", TaskType::RESERVED)));
                }
                Ok(NewJob {
                    lane: lane.unwrap_or(Lane::Default),
                    requires: labels.clone(),
                    priority: priority.unwrap_or(0),
                    policy: Some(Arc::new(policy)),
                    ..blank(task_type.clone(), payload.to_string())
                })
            }
            CallWhat::Command(body) => {
                let start: StartSpec = serde_json::from_value(body.clone())
                    .map_err(|e| failed(format!("the command cannot be read: {e}")))?;
                if !matches!(start, StartSpec::Command(_)) {
                    return Err(failed("this is no command on hosts"));
                }
                // The execution lends no rights that the one who started it lacks or has lost since.
                let (needed, now) = (rights::needed_for(&start), self.clock.now());
                if let Err(lost) = rights::check(&*self.ledger, &about.actor, needed, now).await? {
                    return Err(failed(format!("the execution has the rights of the one who started it, and {lost}")));
                }
                let prepared = hands.starter.prepare(about.tenant, &start, None).await;
                let request = prepared.map_err(|error| match error.store() {
                    Some(error) if error.is_transient() => NotMade::Later(error.clone()),
                    _ => failed(error.to_string()),
                })?;
                Ok(hands.intake.name_one(about.tenant, &origin, JobRequest { id: Some(launch.job), ..request }))
            }
            CallWhat::Workflow { .. } | CallWhat::Blueprint { .. } => {
                let (kind, name, version, input) = match &launch.call.what {
                    CallWhat::Blueprint { name, version, data } => (DefinitionKind::Blueprint, name, version, data),
                    CallWhat::Workflow { name, version, input } => (DefinitionKind::Workflow, name, version, input),
                    CallWhat::Task { .. } | CallWhat::Command(_) => return Err(failed("this is no run")),
                };
                if about.depth >= DEPTH_MAX {
                    return Err(failed(format!("runs are nested at most {DEPTH_MAX} levels deep")));
                }
                let name = ResourceName::new(name).map_err(|e| failed(e.to_string()))?;
                let pinned =
                    self.definitions.named(about.tenant, kind, &name, *version).await.map_err(|error| match error {
                        // What is stored and makes no sense will make none later.
                        DefinitionError::Store(error) if error.is_transient() => NotMade::Later(error),
                        DefinitionError::Store(StoreError::Quota { quota, used, max }) => {
                            NotMade::NoRoom(no_room(&QuotaExceeded { quota, used, max }))
                        }
                        other => failed(other.to_string()),
                    })?;
                let flow = NewFlow {
                    definition: pinned.kept,
                    workflow: pinned.name,
                    workflow_version: pinned.version,
                    forked_from: None,
                    depth: about.depth + 1,
                    first: None,
                };
                let email = about.email.as_deref().map(ToOwned::to_owned);
                let payload = Asked { input: input.clone(), email, ..Asked::default() }.write();
                Ok(NewJob { flow: Some(Arc::new(flow)), ..blank(TaskType::workflow(), payload) })
            }
        }
    }
}
