//! `GET /workflows/node-types`: what a workflow can be made of.

use std::sync::LazyLock;

use axum::Json;
use bowline_workflow::nodes::NodeTypeView;
use schemars::JsonSchema;
use serde::Serialize;

use crate::door::Known;
use crate::problem::Problem;

#[derive(Debug, Serialize, JsonSchema)]
pub struct NodeTypeList {
    /// Each with the JSON Schema of its `config`.
    pub types: Vec<NodeTypeView>,
}

static TYPES: LazyLock<NodeTypeList> = LazyLock::new(|| NodeTypeList { types: bowline_workflow::nodes::node_types() });

pub async fn node_types(known: Known) -> Result<Json<&'static NodeTypeList>, Problem> {
    known.tenant()?;
    Ok(Json(&*TYPES))
}
