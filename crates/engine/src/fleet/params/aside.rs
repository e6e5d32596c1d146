//! Evaluating a tenant's schema without holding up anything else.
//!
//! What is little work is done where it is asked for: little is said by the counts of `size.rs` and `work.rs`, not by the length
//! of the text. The rest goes to a blocking thread within the tenant's share of them, and the caller waits for it up to a time
//! limit. A blocking thread cannot be ended, so the limit is for the caller; that the thread is free again soon follows from
//! the bounds of `size.rs` and `work.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bowline_model::TenantId;
use bowline_model::host::Vars;
use bowline_model::idempotency::RequestHash;
use bowline_model::resource::BadSpec;
use serde_json::Value;

use super::parts::nodes;
use super::{BadParams, check_params_here, check_schema_here, size, with_defaults, work};
use crate::evaluations;

/// How long a caller waits for an evaluation.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Values in a schema and in an instance whose work is counted at once where they are.
const SMALL: u64 = 64;
/// Unfolded size of a schema that is compiled at once.
const SIZE_HERE: u64 = 256;
/// Work that is done at once.
const WORK_HERE: u64 = 2_000;

/// Whether this is the schema of an object, and within its bounds.
pub async fn check_schema(tenant: TenantId, path: &str, schema: &Value) -> Result<(), BadSpec> {
    if is_small_schema(schema) {
        return check_schema_here(path, schema);
    }
    let (at, schema) = (path.to_owned(), schema.clone());
    let late = || Err(BadSpec::at(path, "checking the schema took too long; simplify it or try again"));
    aside(tenant, move || check_schema_here(&at, &schema)).await.unwrap_or_else(late)
}

/// The parameters with the schema's defaults filled in, if they fit it.
pub async fn check_params(tenant: TenantId, schema: Option<&Value>, params: Vars) -> Result<Vars, BadParams> {
    let Some(schema) = schema else {
        return match params.keys().next() {
            None => Ok(params),
            Some(name) => Err(BadParams(vec![format!("params.{name}: this command has no parameters")])),
        };
    };
    if is_small(schema, &params) {
        return evaluate(tenant, schema, params);
    }
    let schema = Arc::new(schema.clone());
    let late = || {
        let what = "params: checking them against their schema took too long; send smaller parameters or try again";
        Err(BadParams(vec![what.to_owned()]))
    };
    aside(tenant, move || evaluate(tenant, &schema, params)).await.unwrap_or_else(late)
}

/// Whether a schema can be compiled at once.
fn is_small_schema(schema: &Value) -> bool {
    nodes(schema) <= SMALL && size::is_at_most(schema, SIZE_HERE)
}

/// Whether these parameters can be checked at once. A few values can be much work, where a schema names itself often.
fn is_small(schema: &Value, params: &Vars) -> bool {
    let given: u64 = params.values().map(nodes).sum();
    if given > SMALL || !is_small_schema(schema) {
        return false;
    }
    let instance = Value::Object(with_defaults(schema, params.clone()));
    work::is_at_most(schema, &instance, WORK_HERE)
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
async fn aside<T: Send + 'static>(tenant: TenantId, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let evaluated = crate::aside::run(tenant, move || catch_unwind(AssertUnwindSafe(work)).ok());
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
        assert!(check_schema(tenant(), "params", &schema).await.is_ok());
        for (last, fits) in [(json!(1), true), (json!("x"), false)] {
            let mut list = vec![json!(0); 500];
            list.push(last);
            let params = json!({"a": list}).as_object().cloned().unwrap_or_default();
            assert_eq!(check_params(tenant(), Some(&schema), params).await.is_ok(), fits);
        }
    }

    /// Each definition asks for its own items by the next one three times over: few values, and much work.
    fn folded(levels: usize) -> Value {
        let mut defs: serde_json::Map<String, Value> = (0..levels)
            .map(|n| {
                let next = json!({"$ref": format!("#/$defs/a{}", n + 1)});
                (format!("a{n}"), json!({"allOf": [next.clone(), next.clone(), next]}))
            })
            .collect();
        defs.insert(format!("a{levels}"), json!({"items": {"type": "integer"}}));
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": defs})
    }

    #[test]
    fn what_is_done_at_once_is_little_work_however_it_is_written() {
        let params = |items: usize| json!({"a": vec![1; items]}).as_object().cloned().expect("an object");
        let little = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}});
        assert!(is_small(&little, &params(60)));
        assert!(!is_small(&little, &params(65)), "more values than are counted at once");
        let named = json!({"type": "object", "properties": {"a": {"items": {"pattern": "^[a-z]+$"}}}});
        assert!(!is_small(&named, &params(1)), "a pattern has to be compiled");
        assert!(is_small(&folded(2), &params(1)));
        // 3^3 times 60 items: few values, more work than is done at once.
        let much = folded(3);
        assert!(nodes(&much) <= SMALL && is_small_schema(&much));
        assert!(!is_small(&much, &params(60)));
        assert!(is_small(&much, &params(0)));
        assert!(!is_small_schema(&folded(5)), "3^5 subschemas to compile");
    }

    /// Nothing else runs on this thread while an evaluation is made on it, so the other task shows that none is.
    #[tokio::test(flavor = "current_thread")]
    async fn a_few_values_that_are_much_work_leave_the_thread_free() {
        let (schema, mut others) = (folded(5), 0);
        assert!(nodes(&schema) <= SMALL);
        let params = json!({"a": vec![1; 20]}).as_object().cloned().expect("an object");
        let mut checked = std::pin::pin!(check_params(tenant(), Some(&schema), params));
        let checked = loop {
            tokio::select! {
                biased;
                checked = &mut checked => break checked,
                () = tokio::task::yield_now() => others += 1,
            }
        };
        assert!(checked.is_ok(), "{checked:?}");
        assert!(others > 10, "the thread was held up: {others} turns");
    }
}
