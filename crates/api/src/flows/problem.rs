//! Why a run cannot begin, be seen or be steered, as callers hear it.

use bowline_engine::flow::{
    Definition, DefinitionError, FlowError, LookError, read_blueprint_aside, read_workflow_aside,
};
use bowline_model::TenantId;
use bowline_store::{FlowAnswer, REMEMBERED_MAX, Remembered};
use bowline_workflow::program::DefinitionMistake;
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::commands::refusal;
use crate::jobs::no_job;
use crate::problem::Problem;
use crate::views::job_word;

/// A definition with mistakes: each with its place, counted from the field that holds the definition.
fn mistakes<'a>(field: &str, all: impl Iterator<Item = (&'a str, &'a str)>) -> Problem {
    let place = |path: &str| match path {
        "" | "spec" => field.to_owned(),
        inside => format!("{field}.{inside}"),
    };
    let list: Vec<Value> = all.map(|(path, what)| json!({"path": place(path), "what": what})).collect();
    let first = list.first().map_or_else(
        || format!("{field}: the definition is wrong"),
        |first| format!("{}: {}", first["path"].as_str().unwrap_or(field), first["what"].as_str().unwrap_or("wrong")),
    );
    let message = if list.len() > 1 { format!("{first} (and {} more)", list.len() - 1) } else { first };
    let path = list.first().map(|first| first["path"].clone());
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", message)
        .with(json!({"path": path, "mistakes": list}))
}

/// A definition that cannot be read, with everything else that is wrong with it.
pub fn unreadable(field: &str, errors: &[DefinitionMistake]) -> Problem {
    mistakes(field, errors.iter().map(|error| (error.path.as_str(), error.what.as_str())))
}

/// Another definition for a run: of a blueprint if it has states, of a workflow otherwise.
pub async fn definition(tenant: TenantId, value: Value) -> Result<Definition, Problem> {
    let read = if value.get("states").is_some() {
        read_blueprint_aside(tenant, value).await.map(|spec| Definition::Blueprint(Box::new(spec)))
    } else {
        read_workflow_aside(tenant, value).await.map(|spec| Definition::Workflow(Box::new(spec)))
    };
    read.map_err(|errors| unreadable("definition", &errors))
}

/// A definition that there is not, or that is wrong.
pub fn bad_definition(field: &str, error: DefinitionError) -> Problem {
    let unprocessable = |code, error: &DefinitionError| {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, error).with(json!({"field": field}))
    };
    match error {
        DefinitionError::NoWorkflow(_) | DefinitionError::NoVersion { .. } => {
            unprocessable("WORKFLOW_NOT_FOUND", &error)
        }
        DefinitionError::NoBlueprint(_) | DefinitionError::NoBlueprintVersion { .. } => {
            unprocessable("BLUEPRINT_NOT_FOUND", &error)
        }
        DefinitionError::NotActive(_) | DefinitionError::BlueprintNotActive(_) => {
            unprocessable("VALIDATION_ERROR", &error)
        }
        DefinitionError::Mistakes(list) => unreadable(field, &list),
        DefinitionError::Store(error) => error.into(),
    }
}

impl From<FlowError> for Problem {
    fn from(error: FlowError) -> Self {
        match error {
            FlowError::Definition(error) => bad_definition("workflow", error),
            FlowError::Bad { ref path, .. } => {
                let field = path.clone();
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", error).with(json!({"field": field}))
            }
            FlowError::Store(error) => error.into(),
        }
    }
}

impl From<LookError> for Problem {
    fn from(error: LookError) -> Self {
        match error {
            LookError::NotFound => {
                Self::new(StatusCode::NOT_FOUND, "JOB_NOT_FOUND", "there is no such run of a workflow")
            }
            LookError::NoStep { asked, has } => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "STEP_NOT_FOUND", error)
                .with(json!({"asked": asked, "steps": has})),
            LookError::Bad(what) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", what),
            LookError::TooLarge { bytes, max } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "EXECUTION_TOO_LARGE", error)
                    .with(json!({"bytes": bytes, "bytes_max": max}))
            }
            LookError::Definition(error) => bad_definition("definition", error),
            LookError::Store(error) => error.into(),
        }
    }
}

/// Too much waits to be taken in by executions.
pub fn inbox_full(has: Remembered, max: Remembered) -> Problem {
    let message = format!(
        "{} messages with {} bytes wait already, of {} and {}; send it again when they have been taken in",
        has.signals, has.bytes, max.signals, max.bytes
    );
    let details =
        json!({"messages": has.signals, "bytes": has.bytes, "messages_max": max.signals, "bytes_max": max.bytes});
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "INBOX_FULL", message).with(details).retry_after(10)
}

/// Why something that was said to a run did not count; nothing if it did.
pub fn not_taken(answer: FlowAnswer) -> Result<(), Problem> {
    match answer {
        FlowAnswer::Taken | FlowAnswer::Replayed | FlowAnswer::Noted { .. } => Ok(()),
        FlowAnswer::Refused(refused) => Err(refusal(refused)),
        FlowAnswer::Withdrawn => {
            let message = "the run was edited, so this question was withdrawn; look at the new one, and answer that";
            Err(Problem::conflict("APPROVAL_SUPERSEDED", message))
        }
        FlowAnswer::DecisionAhead => {
            let message = "somebody has just decided what the run waits for; look at it again before you change it";
            Err(Problem::conflict("JOB_NOT_READY", message))
        }
        FlowAnswer::Approved => {
            let message = "others have approved this run as it is, so it is not changed any more; \
                           fork it from a step before the question, where they are asked again";
            Err(Problem::conflict("APPROVAL_DECIDED", message))
        }
        FlowAnswer::Finished(status) => {
            Err(Problem::conflict("JOB_FINISHED", format!("the run is over: it is {}", job_word(status)))
                .with(json!({"status": job_word(status)})))
        }
        FlowAnswer::NobodyWaits => {
            Err(Problem::conflict("APPROVAL_NOT_NEEDED", "nothing in this run waits for that, or no more"))
        }
        FlowAnswer::NotFound => Err(no_job()),
        FlowAnswer::KeyConflict => {
            Err(Problem::conflict("IDEMPOTENCY_CONFLICT", "this key was used before with another body"))
        }
        FlowAnswer::Full(has) => Err(inbox_full(has, REMEMBERED_MAX)),
    }
}
