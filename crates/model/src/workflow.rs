//! A workflow as people write it: nodes, and the edges between them.
//!
//! Only the shape is known here. What a node's configuration may say, and whether the whole makes sense, is the business of
//! the room `workflow`.

pub(crate) mod inline_command;
mod read;
mod values;
mod wish;

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use read::{WorkflowDraft, read_draft, read_workflow};
pub(crate) use values::look as look_for_secrets;
pub use wish::{Breakpoint, WorkflowField, WorkflowVersion};

use crate::retry::RetryPolicy;

/// What a node is called within its workflow, such as `http_1`. Checked when the workflow is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct NodeId(pub Arc<str>);

impl NodeId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for NodeId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// A graph of nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowSpec {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub nodes: Vec<NodeSpec>,
    pub edges: Vec<EdgeSpec>,
    /// Variables as they are when a run begins.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub variables: Map<String, Value>,
    /// The node that takes over when a node fails and has no failure edge of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<NodeId>,
    /// Steps that one run may take. A loop that does not end, ends here.
    #[serde(default = "max_steps")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_steps: u32,
}

const fn max_steps() -> u32 {
    WorkflowSpec::MAX_STEPS
}

impl WorkflowSpec {
    /// Unless the workflow says otherwise.
    pub const MAX_STEPS: u32 = 10_000;
}

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    pub id: NodeId,
    #[serde(rename = "type")]
    pub node_type: String,
    /// As the type wants it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    #[serde(default, skip_serializing_if = "NodePolicy::is_default")]
    pub policy: NodePolicy,
    /// The node that undoes what this one did, if the run fails after it. No edges lead to that node or away from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<NodeId>,
    /// For people: what it is called in a drawing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// For people: where it stands in a drawing. Kept as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Value>,
}

/// How patient to be with one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodePolicy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800_000))]
    pub timeout_ms: Option<u64>,
}

impl NodePolicy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The way from one node to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EdgeSpec {
    pub source: NodeId,
    pub target: NodeId,
    /// When it is taken: `success` (unless said otherwise), `failure`, `always`; after a condition `true` or `false`; after a
    /// switch the name of a case.
    #[serde(default = "success", skip_serializing_if = "is_success", deserialize_with = "word")]
    pub on: String,
}

/// A text. YAML takes `true` without quotes for something else, and so whoever writes it is told to quote it.
fn word<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(word) => Ok(word),
        said @ (Value::Bool(_) | Value::Number(_)) => {
            Err(serde::de::Error::custom(format!("must be a text: put it into quotes, \"{said}\"")))
        }
        Value::Null => {
            Err(serde::de::Error::custom("must be a text, such as \"failure\"; leave `on` out for `success`"))
        }
        _ => Err(serde::de::Error::custom("must be a text, such as \"failure\"")),
    }
}

fn success() -> String {
    "success".to_owned()
}

fn is_success(on: &str) -> bool {
    on == "success"
}
