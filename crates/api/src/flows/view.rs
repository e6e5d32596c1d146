//! How a run of a workflow is shown with its job.

use bowline_model::{JobId, Timestamp};
use bowline_store::{FlowRecord, WaitKind, WaitRecord};
use schemars::JsonSchema;
use serde::Serialize;

use crate::actors::ActorView;
use crate::commands::hex;

#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkflowView {
    pub name: String,
    /// `null` for a definition that was written for this run.
    pub version: Option<u32>,
    /// Who started the execution; for one that a workflow, schedule or trigger started, on whose behalf.
    pub created_by: ActorView,
    /// Steps that are over.
    pub steps: u32,
    /// Where it is; one of several places, if paths have parted.
    pub node: Option<String>,
    /// The node it ended at; for a blueprint the state. Absent while it is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_state: Option<String>,
    /// What a paused run waits for: sleep, approval, event, or debug when somebody steps through it.
    pub paused_for: Option<String>,
    /// When it goes on by itself: at the end of a sleep, or of its patience with what it waits for.
    pub wakes_at: Option<Timestamp>,
    /// Waits that somebody can end.
    pub waits: Vec<WaitView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// The run that began this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<JobId>,
}

/// The run that another goes on from, and after which step of it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ForkedFrom {
    pub job_id: JobId,
    pub step: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct WaitView {
    /// approval or event.
    pub kind: &'static str,
    pub node: String,
    pub visit: u32,
    /// The event's name, or the title of what is to be approved.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub since: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// Of an approval: the hash of what is asked and of what the run knows. Send it back with the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

impl From<WaitRecord> for WaitView {
    fn from(record: WaitRecord) -> Self {
        Self {
            kind: match record.wait.kind {
                WaitKind::Approval => "approval",
                WaitKind::Event => "event",
            },
            node: record.wait.node.to_string(),
            visit: record.wait.visit,
            name: record.wait.name.to_string(),
            key: record.wait.key,
            since: record.since,
            expires_at: record.wait.expires_at,
            hash: record.wait.question.map(|question| hex(question.hash.as_bytes())),
        }
    }
}

impl WorkflowView {
    /// `wakes_at` is a matter of its job.
    pub fn new(record: FlowRecord, created_by: ActorView, wakes_at: Option<Timestamp>) -> Self {
        Self {
            created_by,
            name: record.workflow,
            version: record.workflow_version,
            steps: record.steps,
            node: record.node,
            final_state: None,
            paused_for: record.paused_for,
            wakes_at,
            waits: record.waits.into_iter().map(Into::into).collect(),
            forked_from: record.forked_from.map(|(job_id, step)| ForkedFrom { job_id, step }),
            parent: record.parent,
        }
    }
}
