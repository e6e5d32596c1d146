//! What the expressions of one execution can see.
//!
//! A context grows by one output with every step, and is copied whenever somebody looks at it or keeps it. So everything
//! in it is shared: a copy costs a few counters, and a change costs the same for the ten thousandth step as for the tenth.

use std::{fmt, sync::Arc};

use immutable_chunkmap::map::Map as SharedMap;
use serde_json::{Map, Value, json};

use super::{
    budget::Allowance,
    error::{ErrorCode, ExpressionError, Fault},
    limits::{DEPTH_MAX, RESULT_BYTES_MAX, VARIABLE_NAME_BYTES_MAX},
    parse::is_keyword,
    references::Reference,
    scope::Root,
    token::{is_name_part, is_name_start},
    value::{Measure, Oversize, Val},
};

/// Entries that lie together. Small, because a change copies as many when somebody else holds the table, too.
const CHUNK: usize = 32;

/// JSON values under names, shared with everybody who holds a copy.
#[derive(Clone, Default)]
pub(super) struct Table(SharedMap<Arc<str>, Arc<Value>, CHUNK>);

impl Table {
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).map(Arc::as_ref)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.into_iter().map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    pub fn to_json(&self) -> Value {
        Value::Object(self.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect())
    }

    fn insert(&mut self, key: &str, value: Arc<Value>) {
        self.0.insert_cow(Arc::from(key), value);
    }

    fn of(object: Map<String, Value>) -> Self {
        Self(object.into_iter().map(|(key, value)| (Arc::from(key), Arc::new(value))).collect())
    }
}

/// Names only: the values are other people's.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|(key, _)| key)).finish()
    }
}

/// What the expressions of one execution can see. Cheap to copy.
#[derive(Clone)]
pub struct Context {
    webhook: Arc<Value>,
    user: Arc<Value>,
    execution: Arc<Value>,
    steps: Table,
    variables: Table,
    current: Option<Current>,
    /// What the visit of a node may still do that looks at it. Whoever looks at it otherwise may do what each expression may.
    allowance: Option<Arc<Allowance>>,
}

/// Where a loop is.
#[derive(Clone)]
struct Current {
    item: Arc<Value>,
    index: Value,
}

impl Context {
    pub fn new(webhook: Value, user: Value, execution: Value) -> Self {
        Self {
            webhook: Arc::new(webhook),
            user: Arc::new(user),
            execution: Arc::new(execution),
            steps: Table::default(),
            variables: Table::default(),
            current: None,
            allowance: None,
        }
    }

    /// The same context for one visit of a node: all that it evaluates has a budget together.
    #[must_use]
    pub fn for_visit(&self) -> Self {
        Self { allowance: Some(Allowance::of_visit()), ..self.clone() }
    }

    pub(super) const fn allowance(&self) -> Option<&Arc<Allowance>> {
        self.allowance.as_ref()
    }

    /// Steps that were taken in a visit.
    pub fn spent(&self) -> u32 {
        self.allowance.as_ref().map_or(0, |allowance| allowance.spent())
    }

    /// Notes what a step left behind, under its id. An earlier output of the same step is gone.
    pub fn set_output(&mut self, step: &str, output: Value) {
        self.steps.insert(step, Arc::new(json!({ "output": output })));
    }

    /// Sets a variable, if the name can be one and the value is not too large.
    pub fn set_variable(&mut self, name: &str, value: Value) -> Result<(), ExpressionError> {
        check_variable_name(name)?;
        let refused = |code, message: String| Err(Fault::new(code, 0, message).in_text(""));
        match (Measure { left: RESULT_BYTES_MAX }).value(&value, 0) {
            Ok(()) => {}
            Err(Oversize::Bytes) => {
                let message = format!("a variable has at most {RESULT_BYTES_MAX} bytes");
                return refused(ErrorCode::ResultTooLarge, message);
            }
            Err(Oversize::Depth) => {
                return refused(ErrorCode::TooDeep, format!("a variable is nested at most {DEPTH_MAX} levels deep"));
            }
        }
        self.variables.insert(name, Arc::new(value));
        Ok(())
    }

    /// The same context, seen from one turn of a loop.
    #[must_use]
    pub fn at_item(&self, item: Arc<Value>, index: u64) -> Self {
        Self { current: Some(Current { item, index: index.into() }), ..self.clone() }
    }

    /// What it was when nothing had happened yet: without outputs, variables, and what failed.
    #[must_use]
    pub fn afresh(&self) -> Self {
        let mut execution = Arc::clone(&self.execution);
        if let Value::Object(known) = Arc::make_mut(&mut execution) {
            known.retain(|key, _| key != "error" && key != "undoing");
        }
        Self { execution, steps: Table::default(), variables: Table::default(), current: None, ..self.clone() }
    }

    /// Adds to what is known of the execution itself.
    pub fn set_execution(&mut self, key: &str, value: Value) {
        if let Value::Object(known) = Arc::make_mut(&mut self.execution) {
            known.insert(key.to_owned(), value);
        }
    }

    /// What the trigger brought.
    pub fn webhook(&self) -> &Value {
        &self.webhook
    }

    /// All variables, by name.
    pub fn variables(&self) -> Map<String, Value> {
        self.variables.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
    }

    /// Who began it.
    pub fn user(&self) -> &Value {
        &self.user
    }

    pub fn execution(&self) -> &Value {
        &self.execution
    }

    pub fn output(&self, step: &str) -> Option<&Value> {
        self.steps.get(step)?.get("output")
    }

    pub fn variable(&self, name: &str) -> Option<&Value> {
        self.variables.get(name)
    }

    /// What a path leads to, as far as the path is written down; nothing if it is missing.
    pub fn named(&self, reference: &Reference) -> Option<Value> {
        let (first, rest) = match reference.root {
            Root::Webhook => (&*self.webhook, reference.keys.as_slice()),
            Root::Input => (self.webhook.get("payload")?, reference.keys.as_slice()),
            Root::User => (&*self.user, reference.keys.as_slice()),
            Root::Execution => (&*self.execution, reference.keys.as_slice()),
            Root::Steps | Root::Variables => {
                let table = if reference.root == Root::Steps { &self.steps } else { &self.variables };
                let Some((name, rest)) = reference.keys.split_first() else { return Some(table.to_json()) };
                (table.get(name)?, rest)
            }
            Root::Item => (&*self.current.as_ref()?.item, reference.keys.as_slice()),
            Root::Index => (&self.current.as_ref()?.index, reference.keys.as_slice()),
        };
        rest.iter().try_fold(first, |value, key| inner(value, key)).cloned()
    }

    /// The whole of it, in the shape in which it is stored and shown. Where a loop is, is not part of it.
    pub fn to_json(&self) -> Value {
        json!({
            "webhook": *self.webhook,
            "user": *self.user,
            "execution": *self.execution,
            "steps": self.steps.to_json(),
            "variables": self.variables.to_json(),
        })
    }

    /// What [`to_json`](Self::to_json) gave. `None` if it is anything else.
    pub fn from_json(json: Value) -> Option<Self> {
        let Value::Object(mut object) = json else { return None };
        let mut take = |root: Root| object.remove(root.name());
        let (webhook, user, execution) = (take(Root::Webhook)?, take(Root::User)?, take(Root::Execution)?);
        let (Value::Object(steps), Value::Object(variables)) = (take(Root::Steps)?, take(Root::Variables)?) else {
            return None;
        };
        let context =
            Self { steps: Table::of(steps), variables: Table::of(variables), ..Self::new(webhook, user, execution) };
        object.is_empty().then_some(context)
    }

    pub(super) fn root(&self, root: Root) -> Option<Val<'_>> {
        Some(match root {
            Root::Webhook => Val::borrowed(&self.webhook),
            Root::Input => Val::borrowed(self.webhook.get("payload")?),
            Root::User => Val::borrowed(&self.user),
            Root::Execution => Val::borrowed(&self.execution),
            Root::Steps => Val::Table(&self.steps),
            Root::Variables => Val::Table(&self.variables),
            Root::Item => Val::borrowed(&self.current.as_ref()?.item),
            Root::Index => Val::borrowed(&self.current.as_ref()?.index),
        })
    }
}

/// What a written key leads to. Lists are counted from both ends.
fn inner<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    let Value::Array(list) = value else { return value.get(key) };
    let index: i64 = key.parse().ok()?;
    let from_end = || list.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
    list.get(if index < 0 { from_end()? } else { usize::try_from(index).ok()? })
}

/// Names only: the values are other people's.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("steps", &self.steps)
            .field("variables", &self.variables)
            .finish_non_exhaustive()
    }
}

/// Whether a variable can be called so: as expressions write names, and not as anything else that has a meaning.
pub fn check_variable_name(name: &str) -> Result<(), ExpressionError> {
    let message = if name.is_empty() {
        "a variable needs a name"
    } else if name.len() > VARIABLE_NAME_BYTES_MAX {
        "this name is too long for a variable"
    } else if !name.starts_with(is_name_start) || !name.chars().all(is_name_part) {
        "a variable's name has letters, digits and underscores, and does not begin with a digit"
    } else if name.starts_with("__") {
        "a variable's name does not begin with two underscores"
    } else if is_keyword(name) || Root::of(name).is_some_and(|root| root != Root::Input) {
        // `input` came later than variables with that name; they are always written `variables.input`.
        "this word has a meaning of its own in expressions"
    } else {
        return Ok(());
    };
    Err(Fault::new(ErrorCode::BadVariableName, 0, message).in_text(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed() -> Value {
        json!({
            "webhook": {"payload": {"test": 1}},
            "user": {"id": 2, "email": "user@example.com"},
            "execution": {"id": "f237bcb0-0b59-48e5-a2a2-85e668748c8b"},
            "steps": {
                "start_1": {"output": {}},
                "http_1": {"output": {"status_code": 200, "body": {"userId": 123, "balance": 500}}}
            },
            "variables": {"user_age": 25, "final_price": 100}
        })
    }

    #[test]
    fn a_context_has_the_shape_of_the_seed() {
        let mut context = Context::new(
            json!({"payload": {"test": 1}}),
            json!({"id": 2, "email": "user@example.com"}),
            json!({"id": "f237bcb0-0b59-48e5-a2a2-85e668748c8b"}),
        );
        context.set_output("start_1", json!({}));
        context.set_output("http_1", json!({"status_code": 200, "body": {"userId": 123, "balance": 500}}));
        context.set_variable("user_age", json!(25)).unwrap();
        context.set_variable("final_price", json!(100)).unwrap();
        assert_eq!(context.to_json(), seed());
        assert_eq!(Context::from_json(seed()).unwrap().to_json(), seed());
    }

    #[test]
    fn a_context_with_anything_else_in_it_is_refused() {
        let mut json = seed();
        json["secrets"] = json!({});
        assert!(Context::from_json(json).is_none());
        let mut json = seed();
        json["steps"] = json!([]);
        assert!(Context::from_json(json).is_none());
        assert!(Context::from_json(json!(null)).is_none());
    }

    #[test]
    fn a_copy_does_not_see_later_changes() {
        let mut context = Context::from_json(seed()).unwrap();
        let before = context.clone();
        context.set_output("http_1", json!("new"));
        context.set_variable("later", json!(1)).unwrap();
        assert_eq!(before.to_json(), seed());
        assert_eq!(context.output("http_1"), Some(&json!("new")));
        assert_eq!(before.variable("later"), None);
    }

    /// Counted in what is still shared, because time would be a poor witness.
    #[test]
    fn one_more_output_copies_few_of_ten_thousand() {
        let mut context = Context::new(json!({}), json!({}), json!({}));
        for step in 0..10_000 {
            context.set_output(&format!("step_{step}"), json!(step));
        }
        let before = context.clone();
        context.set_output("one_more", json!(1));
        let entries = |context: &Context| context.steps.0.into_iter().map(|(key, _)| std::ptr::from_ref(key)).collect();
        let (old, new): (std::collections::HashSet<_>, std::collections::HashSet<_>) =
            (entries(&before), entries(&context));
        let copied = new.difference(&old).count();
        assert!(copied < 1_000, "{copied} of {} entries were copied", new.len());
    }

    #[test]
    fn b081_names_of_variables() {
        for bad in ["__proto__", "steps", "webhook", "item", "", "not", "a b", "1a", "a.b", "a-b", &"a".repeat(129)] {
            let error = check_variable_name(bad).unwrap_err();
            assert_eq!(error.code(), ErrorCode::BadVariableName, "{bad}");
        }
        for good in ["a", "user_age", "_x", "имя", "proto", "input"] {
            check_variable_name(good).unwrap();
        }
    }

    #[test]
    fn b081_values_of_variables() {
        let mut context = Context::new(json!({}), json!({}), json!({}));
        let large = context.set_variable("x", json!("a".repeat(1024 * 1024))).unwrap_err();
        assert_eq!(large.code(), ErrorCode::ResultTooLarge);
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        assert_eq!(context.set_variable("x", deep).unwrap_err().code(), ErrorCode::TooDeep);
        assert_eq!(context.variable("x"), None);
    }

    #[test]
    fn debug_output_shows_names_and_no_values() {
        let shown = format!("{:?}", Context::from_json(seed()).unwrap());
        assert!(shown.contains("http_1") && !shown.contains("500") && !shown.contains("example.com"), "{shown}");
    }
}
