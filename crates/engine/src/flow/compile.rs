//! Reading and compiling definitions without holding up anything else.
//!
//! A definition is a tenant's text of up to a mebibyte, with graphs, expressions and regular expressions. A short one without
//! patterns is compiled where it is asked for. The rest goes to a blocking thread within the tenant's share of them, and a request
//! waits for it up to a time limit. While it goes on, it is marked; see [`crate::evaluations`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bowline_model::TenantId;
use bowline_model::blueprint::BlueprintSpec;
use bowline_model::idempotency::RequestHash;
use bowline_model::workflow::WorkflowSpec;
use bowline_workflow::compile::{read_blueprint, read_workflow};
use bowline_workflow::program::{DefinitionMistake, Program};
use serde_json::Value;

use super::definitions::{Definition, DefinitionError};
use crate::{aside, evaluations};

/// How long a request waits until a definition is compiled.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes of a definition that is compiled at once: about a millisecond.
const BYTES_HERE: usize = 16 * 1_024;
/// The one function of expressions whose argument is compiled by itself, and at length.
const COMPILED_FUNCTION: &str = "matches";

/// Reads a workflow. If its shape is wrong, everything else that is wrong with it is said as well.
pub async fn read_workflow_aside(tenant: TenantId, value: Value) -> Result<WorkflowSpec, Vec<DefinitionMistake>> {
    read_aside(tenant, value, read_workflow).await
}

/// The same for a blueprint.
pub async fn read_blueprint_aside(tenant: TenantId, value: Value) -> Result<BlueprintSpec, Vec<DefinitionMistake>> {
    read_aside(tenant, value, read_blueprint).await
}

async fn read_aside<T: Send + 'static>(
    tenant: TenantId,
    value: Value,
    read: fn(Value) -> Result<T, Vec<DefinitionMistake>>,
) -> Result<T, Vec<DefinitionMistake>> {
    let is_little = is_little(&value, &mut { BYTES_HERE });
    let work = move || {
        let open = evaluations::current().enter(tenant, || subject(value.to_string().as_bytes()));
        let open = open.map_err(|aside| refused(aside.to_string()))?;
        let read = read(value);
        drop(open);
        read
    };
    run(tenant, is_little, Some(TIME_MAX), work).await.unwrap_or_else(|what| Err(refused(what)))
}

/// Compiles a definition, given as it was stored. A request waits for it for some seconds, a running execution as long as it takes.
pub(super) async fn compile_text(
    tenant: TenantId,
    text: &Arc<str>,
    is_request: bool,
) -> Result<Program, DefinitionError> {
    let is_little = is_little_text(text, &mut { BYTES_HERE });
    let text = Arc::clone(text);
    let work = move || compile_marked(tenant, &text, || Definition::read(&text));
    let compiled = run(tenant, is_little, is_request.then_some(TIME_MAX), work).await;
    compiled.unwrap_or_else(|what| Err(DefinitionError::Mistakes(refused(what))))
}

/// Compiles a definition that somebody asks for, and says how it is stored.
pub async fn compile(tenant: TenantId, definition: Definition) -> Result<(Program, Arc<str>), DefinitionError> {
    let text: Arc<str> = definition.write()?.into();
    let is_little = is_little_text(&text, &mut { BYTES_HERE });
    let copy = Arc::clone(&text);
    let work = move || compile_marked(tenant, &copy, || Ok(definition));
    let compiled = run(tenant, is_little, Some(TIME_MAX), work).await;
    compiled.unwrap_or_else(|what| Err(DefinitionError::Mistakes(refused(what)))).map(|program| (program, text))
}

fn compile_marked(
    tenant: TenantId,
    text: &str,
    definition: impl FnOnce() -> Result<Definition, bowline_store::StoreError>,
) -> Result<Program, DefinitionError> {
    let open = evaluations::current().enter(tenant, || subject(text.as_bytes()));
    let open = open.map_err(|aside| DefinitionError::Mistakes(refused(aside.to_string())))?;
    let compiled = definition()?.compile().map_err(DefinitionError::Mistakes);
    drop(open);
    compiled
}

/// Does this here or on a blocking thread; otherwise what kept it from being done.
async fn run<T: Send + 'static>(
    tenant: TenantId,
    is_little: bool,
    patience: Option<Duration>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    if is_little {
        return Ok(work());
    }
    let work = aside::run(tenant, move || catch_unwind(AssertUnwindSafe(work)).ok());
    let done = match patience {
        Some(patience) => tokio::time::timeout(patience, work).await,
        None => Ok(work.await),
    };
    match done {
        Ok(Some(done)) => Ok(done),
        Ok(None) => {
            Err("the definition cannot be compiled: an internal error; the log of the server says more".to_owned())
        }
        Err(_) => Err(format!(
            "compiling the definition took longer than {} s; simplify it, split it, or try again",
            TIME_MAX.as_secs()
        )),
    }
}

fn refused(what: String) -> Vec<DefinitionMistake> {
    vec![DefinitionMistake { path: String::new(), what }]
}

fn subject(text: &[u8]) -> String {
    let hash = RequestHash::of_parts(&[text]);
    let hex: String = hash.as_bytes().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("definition/{hex}")
}

fn is_little_text(text: &str, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(text.len() + 8) else { return false };
    *left = rest;
    !text.contains(COMPILED_FUNCTION)
}

/// Whether compiling this is little work. Looks no further than it has to.
fn is_little(value: &Value, left: &mut usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => is_little_text("", left),
        Value::String(text) => is_little_text(text, left),
        Value::Array(items) => items.iter().all(|item| is_little(item, left)),
        Value::Object(fields) => {
            fields.iter().all(|(name, field)| is_little_text(name, left) && is_little(field, left))
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline_model::Timestamp;
    use serde_json::json;

    use super::*;

    fn tenant() -> TenantId {
        TenantId::mint(Timestamp::from_millis(1), [1; 10])
    }

    /// Conditions with a pattern of their own each, as large as the text allows.
    fn with_patterns(count: usize, pattern: impl Fn(usize) -> String) -> Value {
        let node = |n: usize| match n {
            0 => json!({"id": "n0", "type": "start"}),
            n => json!({"id": format!("n{n}"), "type": "transform", "config": {
                "value": format!("{{{{ 'a' | matches('{}') }}}}", pattern(n)),
            }}),
        };
        let nodes: Vec<_> = (0..=count).map(node).collect();
        let edges: Vec<_> =
            (1..=count).map(|n| json!({"source": format!("n{}", n - 1), "target": format!("n{n}")})).collect();
        json!({"nodes": nodes, "edges": edges})
    }

    #[test]
    fn a_definition_is_compiled_at_once_only_if_that_is_little_work() {
        let little = |value: &Value| is_little(value, &mut { BYTES_HERE });
        assert!(little(&json!({"nodes": [{"id": "a", "type": "start"}], "edges": []})));
        assert!(!little(&with_patterns(1, |_| "a".to_owned())), "a pattern has to be compiled");
        assert!(!little(&json!({"nodes": vec![json!({"id": "a"}); 10_000]})));
        assert!(!little(&json!(["a".repeat(BYTES_HERE)])));
        assert!(!little(&json!(vec![0; BYTES_HERE])));
    }

    /// The guard is one for the process: nothing is left set aside for other tests.
    #[tokio::test]
    async fn a_definition_that_is_set_aside_is_refused_with_the_reason_and_no_other_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let (guard, _) = evaluations::Evaluations::open(directory.path()).expect("opened");
        evaluations::install(guard);
        let workflow = |output: &str| -> WorkflowSpec {
            let nodes = json!([{"id": "a", "type": "start"}, {"id": "b", "type": "end", "config": {"output": output}}]);
            serde_json::from_value(json!({"nodes": nodes, "edges": [{"source": "a", "target": "b"}]}))
                .expect("a workflow")
        };
        let compiled = async |output| compile(tenant(), Definition::Workflow(Box::new(workflow(output)))).await;
        let (_, text) = compiled("one").await.expect("compiled");
        let name = subject(text.as_bytes());
        assert!(name.strip_prefix("definition/").is_some_and(|hash| hash.len() == 16), "{name}");
        evaluations::current().refresh([evaluations::Subject { tenant: tenant(), name: name.clone() }]);
        let refused = compiled("one").await;
        let others = compiled("two").await;
        evaluations::current().refresh([]);
        let Err(DefinitionError::Mistakes(mistakes)) = refused else { panic!("it was compiled") };
        assert_eq!((mistakes.len(), mistakes[0].path.as_str()), (1, ""));
        assert!(mistakes[0].what.contains(&format!("{name} is set aside")), "{mistakes:?}");
        assert!(others.is_ok(), "{others:?}");
    }

    /// Nothing else runs on this thread while a definition is compiled on it, so the other task shows that none is.
    #[tokio::test(flavor = "current_thread")]
    async fn thousands_of_large_patterns_are_refused_and_leave_the_thread_free() {
        let value = with_patterns(3_000, |n| format!("[a-z{n}]{{900}}"));
        let spec: WorkflowSpec = serde_json::from_value(value).expect("a workflow");
        let mut compiled = std::pin::pin!(compile(tenant(), Definition::Workflow(Box::new(spec))));
        let mut others = 0_u64;
        let compiled = loop {
            tokio::select! {
                biased;
                compiled = &mut compiled => break compiled,
                () = tokio::task::yield_now() => others += 1,
            }
        };
        let Err(DefinitionError::Mistakes(mistakes)) = compiled else { panic!("it compiled") };
        assert!(mistakes[0].what.contains("patterns of this definition are too large"), "{mistakes:?}");
        assert!(others > 10, "the thread was held up: {others} turns");
    }
}
