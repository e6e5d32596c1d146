//! Nodes whose work is one job: they make a call, wait for its end, and their output is its result.

use bowline_model::RunError;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::building::Building;
use crate::node::{Answer, Call, Done, Next, Node, Visit, Wait};
use crate::nodes::fields::failure;

/// What is known of such a type before there is a node; see [`NodeType`](super::NodeType).
pub(crate) trait CallerType: Caller + Sized + 'static {
    const TYPE: &'static str;
    const ABOUT: &'static str;
    type Config: DeserializeOwned + JsonSchema;

    fn build(config: Self::Config, building: &mut Building<'_>) -> Self;
}

/// What makes calls: once for a node, or once for every item of a loop.
pub(crate) trait Caller: Send + Sync + std::fmt::Debug {
    fn call(&self, visit: Visit<'_>) -> Result<Call, RunError>;
}

/// A node that makes one call.
#[derive(Debug)]
pub(super) struct Calling<C>(pub C);

impl<C: Caller> Node for Calling<C> {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        Ok(Next::Wait(Wait::Call(Box::new(self.0.call(visit)?))))
    }

    fn answered(&self, _: Visit<'_>, answer: Answer) -> Result<Next, RunError> {
        match answer {
            Answer::Ended(ended) => Ok(ended.into_outcome().map_or_else(Next::Failed, Done::with)),
            other => Err(unexpected(&other, "the end of a job")),
        }
    }

    fn has_effect(&self) -> bool {
        true
    }
}

/// An answer to a question that was not asked.
pub(super) fn unexpected(answer: &Answer, awaited: &str) -> RunError {
    failure(format!("this node waits for {awaited}, but heard {}", answer.word()))
}
