//! Evaluating a tenant's schema without holding up anything else.
//!
//! What is small is evaluated where it is asked for. The rest goes to a blocking thread, a few at a time, and the caller waits
//! for it up to a time limit. A blocking thread cannot be ended, so the limit is for the caller; that the thread is free again
//! soon follows from the bounds of `size.rs` and `work.rs`.

use std::sync::Arc;
use std::time::Duration;

use bowline_model::TenantId;
use bowline_model::host::Vars;
use bowline_model::idempotency::RequestHash;
use bowline_model::resource::BadSpec;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::parts::nodes;
use super::{BadParams, check_params_here, check_schema_here};
use crate::evaluations;

/// How long a caller waits for an evaluation.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Evaluations at once.
const AT_ONCE: usize = 4;
/// Values in a schema and in an instance that are evaluated at once where they are.
const SMALL: u64 = 64;

static SLOTS: Semaphore = Semaphore::const_new(AT_ONCE);

/// Whether this is the schema of an object, and within its bounds.
pub async fn check_schema(path: &str, schema: &Value) -> Result<(), BadSpec> {
    if nodes(schema) <= SMALL {
        return check_schema_here(path, schema);
    }
    let (at, schema) = (path.to_owned(), schema.clone());
    let late = || Err(BadSpec::at(path, "checking the schema took too long; simplify it or try again"));
    aside(move || check_schema_here(&at, &schema)).await.unwrap_or_else(late)
}

/// The parameters with the schema's defaults filled in, if they fit it.
pub async fn check_params(tenant: TenantId, schema: Option<&Value>, params: Vars) -> Result<Vars, BadParams> {
    let Some(schema) = schema else {
        return match params.keys().next() {
            None => Ok(params),
            Some(name) => Err(BadParams(vec![format!("params.{name}: this command has no parameters")])),
        };
    };
    let given: u64 = params.values().map(nodes).sum();
    if nodes(schema) <= SMALL && given <= SMALL {
        return evaluate(tenant, schema, params);
    }
    let schema = Arc::new(schema.clone());
    let late = || {
        let what = "params: checking them against their schema took too long; send smaller parameters or try again";
        Err(BadParams(vec![what.to_owned()]))
    };
    aside(move || evaluate(tenant, &schema, params)).await.unwrap_or_else(late)
}

/// Marked while it goes on; see [`crate::evaluations`].
fn evaluate(tenant: TenantId, schema: &Value, params: Vars) -> Result<Vars, BadParams> {
    let name = || {
        let hash = RequestHash::of_parts(&[schema.to_string().as_bytes()]);
        let hex: String = hash.as_bytes().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("schema/{hex}")
    };
    let open =
        evaluations::current().enter(tenant, name).map_err(|aside| BadParams(vec![format!("params: {aside}")]))?;
    let checked = check_params_here(schema, params);
    drop(open);
    checked
}

/// Nothing if it took too long, or fell.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let evaluated = async {
        let slot = SLOTS.acquire().await.ok()?;
        let work = move || {
            let done = work();
            drop(slot);
            done
        };
        tokio::task::spawn_blocking(work).await.ok()
    };
    tokio::time::timeout(TIME_MAX, evaluated).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tenant() -> TenantId {
        TenantId::mint(bowline_model::Timestamp::from_millis(1), [1; 10])
    }

    #[tokio::test]
    async fn a_command_without_a_schema_has_no_parameters() {
        assert!(check_params(tenant(), None, Vars::new()).await.is_ok());
        let some = json!({"a": 1}).as_object().cloned().unwrap_or_default();
        assert!(check_params(tenant(), None, some).await.is_err());
    }

    #[tokio::test]
    async fn large_parameters_are_checked_on_another_thread() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}});
        assert!(check_schema("params", &schema).await.is_ok());
        for (last, fits) in [(json!(1), true), (json!("x"), false)] {
            let mut list = vec![json!(0); 500];
            list.push(last);
            let params = json!({"a": list}).as_object().cloned().unwrap_or_default();
            assert_eq!(check_params(tenant(), Some(&schema), params).await.is_ok(), fits);
        }
        assert_eq!(SLOTS.available_permits(), AT_ONCE);
    }
}
