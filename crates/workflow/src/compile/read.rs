//! Definitions out of JSON, with what is wrong in the words of this room.

use bowline_model::blueprint::BlueprintSpec;
use bowline_model::read_all::ReadAll;
use bowline_model::resource::BadSpec;
use bowline_model::workflow::{WorkflowSpec, read_draft};
use serde_json::Value;

use super::MISTAKES_MAX;
use crate::program::{DefinitionMistake, Program};

/// Reads a workflow. If its shape is wrong, everything else that is wrong with it is said as well, but nothing that only
/// follows from its shape.
pub fn read_workflow(value: Value) -> Result<WorkflowSpec, Vec<DefinitionMistake>> {
    let draft = read_draft(value).map_err(|bad| bad.all().map(listed).collect::<Vec<_>>())?;
    if draft.errors.is_empty() {
        return Ok(draft.spec);
    }
    let mut errors: Vec<DefinitionMistake> = draft.errors.iter().map(listed).collect();
    errors.extend(errors_of_workflow(&draft.spec).into_iter().filter(|error| !draft.follows(&error.path)));
    errors.truncate(MISTAKES_MAX);
    Err(errors)
}

/// The same for a blueprint.
pub fn read_blueprint(value: Value) -> Result<BlueprintSpec, Vec<DefinitionMistake>> {
    let (errors, spec) = match BlueprintSpec::read_draft(value) {
        ReadAll { value: Some(spec), errors, .. } if errors.is_empty() => return Ok(spec),
        // Without its actions or its ways out, nothing true can be said about a state.
        ReadAll { value, errors, without_lists } => (errors, value.filter(|_| !without_lists)),
    };
    let below = |path: &str, outer: &str| {
        path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let mut all: Vec<DefinitionMistake> = errors.iter().map(listed).collect();
    let found = spec.iter().flat_map(errors_of_blueprint);
    // What is said of a whole state may follow from what could not be read in it.
    let follows = |found: &str, error: &str| below(found, error) || below(error, found);
    all.extend(found.filter(|found| !errors.iter().any(|error| follows(&found.path, &error.path))));
    all.truncate(MISTAKES_MAX);
    Err(all)
}

/// Everything that is wrong with a workflow, in one list: with its shape, its graph, its expressions and its values.
pub fn check_workflow(value: Value) -> Vec<DefinitionMistake> {
    read_workflow(value).map_or_else(|errors| errors, |spec| errors_of_workflow(&spec))
}

/// The same for a blueprint.
pub fn check_blueprint(value: Value) -> Vec<DefinitionMistake> {
    read_blueprint(value).map_or_else(|errors| errors, |spec| errors_of_blueprint(&spec))
}

fn errors_of_workflow(spec: &WorkflowSpec) -> Vec<DefinitionMistake> {
    let mut errors = Program::compile(spec).err().unwrap_or_default();
    errors.extend(spec.check().err().iter().flat_map(BadSpec::all).map(listed));
    errors
}

fn errors_of_blueprint(spec: &BlueprintSpec) -> Vec<DefinitionMistake> {
    let mut errors = Program::of_blueprint(spec).err().unwrap_or_default();
    errors.extend(spec.check().err().iter().flat_map(BadSpec::all).map(listed));
    errors
}

fn listed(bad: &BadSpec) -> DefinitionMistake {
    DefinitionMistake { path: bad.path.clone(), what: bad.what.clone() }
}
