//! From a JSON value to the content of a resource. What is wrong with it is said with its place, and is a 422: the body
//! was fine, what it says is not.

use bowline_auth::Scope;
use bowline_engine::fleet::PutError;
use bowline_engine::flow::{read_blueprint_aside, read_workflow_aside};
use bowline_model::resource::{BadSpec, ResourceKind, Spec};
use bowline_workflow::program::DefinitionMistake;
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::app::App;
use crate::door::Known;
use crate::problem::Problem;

/// Bytes of a spec, written with every default in its place.
const SPEC_MAX: usize = 1 << 20;

/// Reads a spec and checks it by itself. What it names may come later.
pub async fn read(app: &App, known: &Known, kind: ResourceKind, value: Value) -> Result<Spec, Problem> {
    if kind.starts_jobs() {
        known.require(Scope::JobsWrite)?;
    }
    // Of a definition, errors in the shape and all others are told together.
    let spec = match kind {
        ResourceKind::Workflow => {
            let read = read_workflow_aside(known.tenant()?, value).await;
            read.map(|spec| Spec::Workflow(Box::new(spec))).map_err(|errors| bad(several(errors)))?
        }
        ResourceKind::Blueprint => {
            let read = read_blueprint_aside(known.tenant()?, value).await;
            read.map(|spec| Spec::Blueprint(Box::new(spec))).map_err(|errors| bad(several(errors)))?
        }
        _ => Spec::from_value(kind, value).map_err(bad)?,
    };
    if spec.has_command() {
        // Whoever says what is executed on hosts must be allowed to, wherever they write it.
        known.require(Scope::FleetWrite)?;
    }
    let bytes = spec.canonical().len();
    if bytes > SPEC_MAX {
        return Err(bad(BadSpec::at("spec", format!("it has {bytes} bytes, and may have {SPEC_MAX}"))));
    }
    app.engine.resources.check_alone(known.tenant()?, &spec).await?;
    Ok(spec)
}

fn several(errors: Vec<DefinitionMistake>) -> BadSpec {
    let errors = errors.into_iter().map(|error| BadSpec::at(error.path, error.what));
    BadSpec::several(errors).err().unwrap_or_else(|| BadSpec::at("spec", "cannot be read"))
}

fn bad(error: BadSpec) -> Problem {
    // Inside, a path begins at the spec; the caller sent the spec as part of something.
    let outside = |path: &str| match path {
        "" | "spec" => "spec".to_owned(),
        inside => format!("spec.{inside}"),
    };
    let path = outside(&error.path);
    let (mut message, mut details) = (format!("{path}: {}", error.what), json!({ "path": path }));
    if !error.others.is_empty() {
        message = format!("{message} (and {} more)", error.others.len());
        details["mistakes"] =
            error.all().map(|mistake| json!({"path": outside(&mistake.path), "what": mistake.what})).collect();
    }
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code(&error), message).with(details)
}

/// What is wrong, or what a rule forbids.
pub fn code(error: &BadSpec) -> &'static str {
    if error.forbidden { "POLICY_VIOLATION" } else { "VALIDATION_ERROR" }
}

impl From<PutError> for Problem {
    fn from(error: PutError) -> Self {
        match error {
            PutError::Bad(error) => bad(error),
            PutError::Overtaken { latest } => {
                let message = match latest {
                    0 => "this resource does not exist (any more)".to_owned(),
                    latest => format!("somebody stored version {latest} meanwhile; look at it, and send yours again"),
                };
                Self::conflict("RESOURCE_OVERTAKEN", message).with(json!({"latest": latest}))
            }
            PutError::Store(error) => error.into(),
        }
    }
}
