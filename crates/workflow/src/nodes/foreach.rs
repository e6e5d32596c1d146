//! `foreach`: the same job for every element of a list, so many at a time.

use std::sync::Arc;

use bowline_model::RunError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calling::{Caller, unexpected};
use super::fields::{Tree, failure};
use super::{Building, NodeType};
use crate::compile::unknown;
use crate::node::{Answer, Call, CallWhat, Done, Ended, Failed, Next, Node, Visit, Wait};

const ITEMS_MAX: usize = 10_000;
const CONCURRENCY_MAX: u32 = 1_000;
/// What all calls may have together. They are kept until the last of them is made.
const CALLS_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Foreach {
    items: Tree,
    concurrency: u32,
    /// Missing only if it could not be made, and then nothing runs.
    inner: Option<Box<dyn Caller>>,
    stop_on_failure: bool,
    fail_if_any: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// A list of at most 10,000 elements: a place, such as `{{ webhook.payload.lines }}`, or a list with places in its texts.
    items: Value,
    /// How many at a time.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 1000))]
    concurrency: u32,
    /// What is done for each. Its expressions know `item` and `index`, too.
    #[serde(deserialize_with = "bowline_model::shape::by_name")]
    node: InnerConfig,
    /// After a failure no more are begun.
    #[serde(default)]
    stop_on_failure: bool,
    /// Whether the node has failed if one of them has.
    #[serde(default = "yes")]
    fail_if_any: bool,
}

fn ten() -> u32 {
    10
}

fn yes() -> bool {
    true
}

/// A node without edges.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InnerConfig {
    /// `http_request`, `rabbitmq_publish`, `task`, `command` or `workflow`.
    #[serde(rename = "type")]
    node_type: String,
    /// As the type wants it.
    #[serde(default)]
    config: Map<String, Value>,
}

impl NodeType for Foreach {
    const TYPE: &'static str = "foreach";
    const ABOUT: &'static str = "Does the same for every element of a list. The output has what became of each.";
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Box<dyn Node> {
        if !(1..=CONCURRENCY_MAX).contains(&config.concurrency) {
            building.mistake("/concurrency", format!("must be between 1 and {CONCURRENCY_MAX}"));
        }
        match &config.items {
            Value::String(text) if text.contains("{{") => {}
            Value::Array(list) if list.len() <= ITEMS_MAX => {}
            _ => building.mistake("/items", format!("must be a list of at most {ITEMS_MAX}, or a place with one")),
        }
        let items = building.tree("/items", &config.items);
        let InnerConfig { node_type, config: inner } = config.node;
        let callers = || super::ALL.iter().filter(|entry| entry.caller.is_some());
        let inner = match callers().find(|entry| entry.name == node_type).and_then(|entry| entry.caller) {
            Some(build) => building.in_loop("/node/config", |building| build(inner, building)),
            None => {
                let names: Vec<_> = callers().map(|entry| entry.name).collect();
                let what =
                    format!("a loop can do {}; {}", names.join(", "), unknown("it cannot do", &node_type, names));
                building.mistake("/node/type", what);
                None
            }
        };
        let Config { concurrency, stop_on_failure, fail_if_any, .. } = config;
        Box::new(Self { items, concurrency, inner, stop_on_failure, fail_if_any })
    }
}

impl Node for Foreach {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let Value::Array(items) = self.items.value(visit.context)?.into_owned() else {
            return Err(failure("items: must be a list"));
        };
        if items.len() > ITEMS_MAX {
            return Err(failure(format!("items: at most {ITEMS_MAX} elements, there are {}", items.len())));
        }
        if items.is_empty() {
            return Ok(self.gathered(Vec::new()));
        }
        let inner = self.inner.as_deref().ok_or_else(|| failure("node: there is nothing to do"))?;
        let mut calls = Vec::with_capacity(items.len());
        let mut bytes = 0;
        for (index, item) in items.into_iter().enumerate() {
            let context = visit.context.at_item(Arc::new(item), index as u64);
            let call = inner
                .call(Visit { context: &context, ..visit })
                .map_err(|error| RunError::new(error.class, format!("item {index}: {}", error.message)))?;
            bytes += size(&call);
            if bytes > CALLS_BYTES_MAX {
                return Err(failure(format!("all calls together have more than {CALLS_BYTES_MAX} bytes")));
            }
            calls.push(call);
        }
        let (concurrency, stop_on_failure) = (self.concurrency, self.stop_on_failure);
        Ok(Next::Wait(Wait::Each { calls, concurrency, stop_on_failure }))
    }

    fn answered(&self, _: Visit<'_>, answer: Answer) -> Result<Next, RunError> {
        match answer {
            Answer::Each(ended) => Ok(self.gathered(ended)),
            other => Err(unexpected(&other, "the end of all jobs")),
        }
    }

    fn has_effect(&self) -> bool {
        true
    }
}

impl Foreach {
    fn gathered(&self, ended: Vec<Option<Ended>>) -> Next {
        let (mut succeeded, mut failed, mut skipped) = (0_u32, 0_u32, 0_u32);
        let mut first = None;
        let mut items = Vec::with_capacity(ended.len());
        for (index, ended) in ended.into_iter().enumerate() {
            let Some(ended) = ended else {
                skipped += 1;
                items.push(json!({"status": "skipped"}));
                continue;
            };
            match ended.into_result() {
                Ok(output) => {
                    succeeded += 1;
                    items.push(json!({"status": "succeeded", "output": output}));
                }
                Err(error) => {
                    failed += 1;
                    items.push(json!({"status": "failed", "error": error}));
                    first.get_or_insert((index, error));
                }
            }
        }
        let total = items.len();
        // The same after a failure: whoever takes over wants to know which of them are done.
        let output = Map::from_iter([
            ("items".to_owned(), items.into()),
            ("succeeded".to_owned(), succeeded.into()),
            ("failed".to_owned(), failed.into()),
            ("skipped".to_owned(), skipped.into()),
        ]);
        match first {
            Some((index, error)) if self.fail_if_any => {
                let message = format!("{failed} of {total} items have failed; item {index}: {}", error.message);
                Next::Failed(Failed { error: RunError::new(error.class, message), output })
            }
            _ => Done::with(Value::Object(output)),
        }
    }
}

/// About how much there is to keep of a call.
fn size(call: &Call) -> usize {
    match &call.what {
        CallWhat::Task { payload, .. } => size_of_json(payload),
        CallWhat::Command(request) => size_of_json(request),
        CallWhat::Workflow { input, .. } => size_of_json(input),
        CallWhat::Blueprint { data, .. } => size_of_json(data),
    }
}

/// Values are at most as deep as a rendering may be, so this does not go deep either.
fn size_of_json(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter().map(|value| size_of_json(value) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len() + size_of_json(value) + 4).sum::<usize>() + 2
        }
    }
}
