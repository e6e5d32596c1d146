//! Why a command cannot run, as callers hear it.

use bowline_engine::fleet::{CommandError, SELECTION_STEPS_MAX};
use hyper::StatusCode;
use serde_json::json;

use crate::jobs::key_conflict;
use crate::problem::Problem;
use crate::resources::spec_code;

/// A selector that would take too long to evaluate.
fn too_costly(error: &CommandError, field: &str) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "SELECTOR_TOO_COSTLY", error)
        .with(json!({"field": field, "max_steps": SELECTION_STEPS_MAX}))
}

impl From<CommandError> for Problem {
    fn from(error: CommandError) -> Self {
        let unprocessable = |field: &str| {
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", &error).with(json!({"field": field}))
        };
        match &error {
            CommandError::NoCommand(_) | CommandError::NoVersion { .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "COMMAND_NOT_FOUND", &error)
                    .with(json!({"field": "command"}))
            }
            CommandError::NotActive(_) => unprocessable("command"),
            CommandError::NoInventory(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "INVENTORY_NOT_FOUND", &error)
                .with(json!({"field": "inventory"})),
            CommandError::NoHost(host) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "HOST_NOT_FOUND", &error)
                .with(json!({"field": "hosts", "host": host})),
            CommandError::Selector(bad) => {
                Self::validation(&error).with(json!({"field": "selector", "character": bad.at}))
            }
            CommandError::TooCostly { field } => too_costly(&error, field),
            CommandError::TooMuchOfHost { host } => {
                unprocessable("command").with(json!({"field": "command", "host": host}))
            }
            CommandError::TooMuchOfHosts => unprocessable("command"),
            CommandError::NoHosts(_) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "NO_HOSTS", &error).with(json!({"field": "hosts"}))
            }
            CommandError::TooManyHosts { .. } => unprocessable("hosts"),
            CommandError::Spec(bad) => {
                let field = format!("command.{}", bad.path);
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, spec_code(bad), format!("command.{error}"))
                    .with(json!({"field": field}))
            }
            CommandError::Params(_) => unprocessable("params"),
            CommandError::Rollout(_) => unprocessable("rollout"),
            CommandError::Place { path, host, .. } => {
                unprocessable("command").with(json!({"field": format!("command.{path}"), "host": host}))
            }
            CommandError::Secret { variable, source } => {
                let field = format!("command.secrets.{variable}");
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "SECRET_NOT_USABLE", &error)
                    .with(json!({"field": field, "problem": source.code()}))
            }
            CommandError::Deadline => unprocessable("deadline_ms"),
            CommandError::Key { key } => key_conflict(key),
            CommandError::Store(store) => store.clone().into(),
        }
    }
}
