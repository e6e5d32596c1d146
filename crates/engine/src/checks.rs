//! What can be said of work before it begins: of a task when it is asked for, of a workflow when it is stored.
//!
//! Enters: a task's type and payload, or a workflow. Leaves: what is wrong, with its place, so that whoever wrote it hears it
//! at once and not from a run that failed. Only what stands there literally can be looked at: an expression becomes something
//! when its node is carried out, and is looked at then. Types that no handler of the house takes are nobody's business here.

use bowline_model::workflow::WorkflowSpec;
use bowline_model::{TaskType, TenantId};
use bowline_store::StoreResult;
use bowline_workflow::program::DefinitionMistake;
use serde_json::{Map, Value, json};

use crate::builtin::{BadPayload, Checked, Handlers, HttpRequest};

/// Where calls go whose address is not known yet: to a name that nobody has.
const SOMEWHERE: &str = "http://somewhere.invalid/";

/// Looks at work before it begins.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    handlers: Handlers,
}

/// A node, or what a `foreach` does for each of its items.
struct Place<'a> {
    /// Where its `config` is.
    path: String,
    node_type: &'a str,
    config: &'a Map<String, Value>,
    /// How long it may take, if its node's policy says so, and where that is.
    timeout: Option<(u64, String)>,
}

impl Checks {
    pub const fn new(handlers: Handlers) -> Self {
        Self { handlers }
    }

    /// A task, as somebody asks for it.
    pub async fn task(&self, tenant: TenantId, task_type: &TaskType, payload: &str) -> Checked {
        match self.handlers.find(task_type) {
            Some(handler) => handler.check(tenant, payload).await,
            None => Ok(Ok(())),
        }
    }

    /// The tasks that a workflow would begin, as far as they are written down. It has been compiled before, so its nodes have
    /// the shapes of their types.
    pub async fn workflow(&self, tenant: TenantId, spec: &WorkflowSpec) -> StoreResult<Vec<DefinitionMistake>> {
        let mut mistakes = Vec::new();
        for (n, node) in spec.nodes.iter().enumerate() {
            let outer = Place {
                path: format!("nodes[{n}].config"),
                node_type: &node.node_type,
                config: &node.config,
                timeout: node.policy.timeout_ms.map(|ms| (ms, format!("nodes[{n}].policy.timeout_ms"))),
            };
            let place = outer.inner().unwrap_or(outer);
            let Some((task_type, payload, field)) = place.task() else { continue };
            if let Err(bad) = self.task(tenant, &task_type, &payload.to_string()).await? {
                mistakes.push(place.mistake(field, &bad));
            }
        }
        Ok(mistakes)
    }
}

impl Place<'_> {
    fn inner(&self) -> Option<Self> {
        let node = self.config.get("node").filter(|_| self.node_type == "foreach")?;
        Some(Place {
            path: format!("{}.node.config", self.path),
            node_type: node.get("type")?.as_str()?,
            config: node.get("config")?.as_object()?,
            timeout: self.timeout.clone(),
        })
    }

    /// The task that it begins: type, payload, and the field that holds the payload, if it is not the whole.
    fn task(&self) -> Option<(TaskType, Value, &'static str)> {
        match self.node_type {
            HttpRequest::NAME => Some((HttpRequest::task_type(), self.call(), "")),
            "task" => {
                let payload = self.config.get("payload").filter(|payload| !is_open(payload))?;
                Some((TaskType::new(self.config.get("type")?.as_str()?).ok()?, payload.clone(), ".payload"))
            }
            _ => None,
        }
    }

    /// The payload of a call, without everything that becomes something later.
    fn call(&self) -> Value {
        let mut payload = self.config.clone();
        if payload.get("url").is_none_or(is_open) {
            payload.insert("url".to_owned(), SOMEWHERE.into());
        }
        for field in ["headers", "query"] {
            if let Some(Value::Object(fields)) = payload.get_mut(field) {
                fields.retain(|_, value| !is_open(value));
            }
        }
        if payload.get("body").is_some_and(is_open) {
            payload.remove("body");
        }
        if let Some((timeout_ms, _)) = self.timeout {
            payload.insert("timeout_ms".to_owned(), timeout_ms.into());
        }
        if let Some(Value::Array(accept)) = payload.get_mut("accept") {
            for status in accept.iter_mut().filter(|status| status.is_number()) {
                *status = json!(status.to_string());
            }
        }
        payload.into()
    }

    fn mistake(&self, field: &str, bad: &BadPayload) -> DefinitionMistake {
        let what =
            if bad.code == BadPayload::VALIDATION { bad.what.clone() } else { format!("{}: {}", bad.code, bad.what) };
        let path = match (&self.timeout, bad.place.as_str()) {
            (Some((_, path)), "timeout_ms") if field.is_empty() => path.clone(),
            (_, "") => format!("{}{field}", self.path),
            (_, place) => format!("{}{field}.{place}", self.path),
        };
        DefinitionMistake { path, what }
    }
}

/// Whether somewhere in it there is a place for a value that is not known yet.
fn is_open(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{"),
        Value::Array(list) => list.iter().any(is_open),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains("{{") || is_open(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
