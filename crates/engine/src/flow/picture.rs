//! A run as a picture: what it is a run of, and how each node of that stands.

use std::sync::Arc;

use bowline_model::workflow::{NodeId, WorkflowSpec};
use bowline_model::{JobId, TenantId};
use bowline_workflow::blueprint::drawing;
use bowline_workflow::draw::{NodeStatus, Statuses};
use bowline_workflow::flow::{Record, StepStatus, Waiting};
use serde_json::Value;

use super::Flows;
use super::definitions::Definition;
use super::look::LookError;
use super::records::Walk;

/// A run, to be drawn.
#[derive(Debug, Clone)]
pub struct FlowPicture {
    pub spec: WorkflowSpec,
    pub statuses: Statuses,
}

impl Flows {
    /// What a run is a run of, and how its nodes stand.
    pub async fn picture(&self, tenant: TenantId, job: JobId) -> Result<FlowPicture, LookError> {
        let room = self.room(tenant, job, None).await?;
        let now = self.look_at(&room, tenant, job, None).await?;
        let number = now.about.number;
        let stored = self.ledger.load_flows(vec![number], Some(0)).await?;
        let definition = stored.first().map(|flow| flow.definition).ok_or(LookError::NotFound)?;
        let definition = self.definitions.definition_of_run(definition).await?;
        let mut statuses = Statuses::new();
        // What a run brought along from the one it goes on from is known by its outputs only.
        if let Some(Value::Object(steps)) = now.flow.context().to_json().get("steps") {
            statuses.extend(steps.keys().map(|node| (NodeId(Arc::from(node.as_str())), NodeStatus::Done)));
        }
        let mut walk = Walk::whole(&*self.ledger, tenant, job);
        while let Some(records) = walk.next().await? {
            for record in records {
                let Record::Step(step) = record else { continue };
                let status = match step.status {
                    StepStatus::Success => NodeStatus::Done,
                    StepStatus::Failed => NodeStatus::Failed,
                };
                statuses.insert(step.node, status);
            }
        }
        for (node, _, wait) in now.flow.places() {
            let status = match wait {
                None | Some(Waiting::Call { .. } | Waiting::Each { .. }) => NodeStatus::Current,
                Some(Waiting::Until(_) | Waiting::Approval { .. } | Waiting::Event { .. }) => NodeStatus::Waiting,
            };
            statuses.insert(node.clone(), status);
        }
        Ok(match definition {
            Definition::Workflow(spec) => FlowPicture { spec: *spec, statuses },
            Definition::Blueprint(blueprint) => {
                FlowPicture { spec: drawing::of(&blueprint), statuses: drawing::of_states(&statuses) }
            }
        })
    }
}
