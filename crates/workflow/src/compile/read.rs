//! A definition out of JSON, with what is wrong in the words of this room.

use bowline_model::workflow::WorkflowSpec;
use serde_json::Value;

use crate::program::DefinitionMistake;

/// Reads a workflow. Unknown fields are named with their path.
pub fn read_workflow(value: Value) -> Result<WorkflowSpec, Vec<DefinitionMistake>> {
    bowline_model::workflow::read_workflow(value).map_err(|bad| {
        bad.all().map(|bad| DefinitionMistake { path: bad.path.clone(), what: bad.what.clone() }).collect()
    })
}
