//! `workflow`: another workflow, as one step of this one.

use bowline_model::{JobPolicy, ResourceName, RunError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Building;
use super::calling::{Caller, CallerType};
use super::fields::Tree;
use crate::node::{Call, CallWhat, Visit};

#[derive(Debug)]
pub(super) struct Workflow {
    name: ResourceName,
    version: Option<u32>,
    input: Tree,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// What the other workflow is called.
    name: ResourceName,
    /// The active version unless given.
    #[serde(default)]
    version: Option<u32>,
    /// What it is given, as a trigger would: any JSON, with places in its texts.
    #[serde(default)]
    input: Value,
}

impl CallerType for Workflow {
    const TYPE: &'static str = "workflow";
    const ABOUT: &'static str = "Runs another workflow. The output is the output of that run.";
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Self {
        if config.version == Some(0) {
            building.mistake("/version", "versions are counted from 1");
        }
        Self { name: config.name, version: config.version, input: building.tree("/input", &config.input) }
    }
}

impl Caller for Workflow {
    fn call(&self, visit: Visit<'_>) -> Result<Call, RunError> {
        let input = self.input.value(visit.context)?.into_owned();
        Ok(Call {
            what: CallWhat::Workflow { name: self.name.to_string(), version: self.version, input },
            policy: visit.policy.clone(),
            timeout_ms: JobPolicy::TIMEOUT_MAX_MS,
            deadline_ms: None,
        })
    }
}
