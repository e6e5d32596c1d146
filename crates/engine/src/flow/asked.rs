//! What a run was asked for with, as its job keeps it, and what it knows when it begins.

use bowline_model::JobId;
use bowline_store::{StoreError, StoredFlow};
use bowline_workflow::expression::Context;
use bowline_workflow::flow::Breakpoint;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::named::Named;

/// What a run was asked for with. Who asked is known from the job, but for the address.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    pub(super) input: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) email: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) debug: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) breakpoints: Vec<Breakpoint>,
    /// What names meant when people said yes in an execution that this one was started by.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub(super) approved: Named,
}

impl Asked {
    pub(super) fn of(stored: &StoredFlow) -> Result<Self, StoreError> {
        let broken = |e| StoreError::Broken(format!("what job {} was asked for with cannot be read: {e}", stored.job));
        serde_json::from_str(&stored.payload).map_err(broken)
    }

    /// The payload of a job, with what was approved where it was started.
    pub(super) fn with_approved(payload: &str, approved: Named) -> Result<String, StoreError> {
        let broken = |e| StoreError::Broken(format!("the payload of a new execution cannot be read: {e}"));
        let asked: Self = serde_json::from_str(payload).map_err(broken)?;
        Ok(Self { approved, ..asked }.write())
    }

    /// As a job's payload.
    pub(super) fn write(&self) -> String {
        serde_json::to_string(self).expect("it has text keys and finite numbers, so it can be written as JSON")
    }

    /// What the run knows when it begins: the shape is seed 004's. The address is `null` where nobody knows it, so that an
    /// expression can ask for it all the same.
    pub(super) fn context(self, actor: &str, job: JobId, workflow: &str, version: Option<u32>) -> Context {
        let user = json!({"id": actor, "email": self.email});
        let execution = json!({"id": job, "workflow": workflow, "version": version});
        Context::new(json!({"payload": self.input}), user, execution)
    }

    /// The same, of a run that is stored.
    pub(super) fn context_of(self, stored: &StoredFlow) -> Context {
        self.context(&stored.actor, stored.job, &stored.workflow, stored.workflow_version)
    }
}
