//! Which handler does which sort of task.
//!
//! A handler's future and result are erased here, so that the rest of the house knows one shape only.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use bowline_model::TaskType;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::worker::context::TaskContext;
use crate::worker::task_error::TaskError;

pub(crate) type Finished = Result<Box<RawValue>, TaskError>;
type Work = Pin<Box<dyn Future<Output = Finished> + Send>>;
pub(crate) type Handler = Arc<dyn Fn(TaskContext) -> Work + Send + Sync>;

#[derive(Default)]
pub(crate) struct Handlers(BTreeMap<TaskType, Handler>);

impl Handlers {
    /// `false` if this task type has a handler already.
    pub fn add(&mut self, task_type: TaskType, handler: Handler) -> bool {
        self.0.insert(task_type, handler).is_none()
    }

    pub fn find(&self, task_type: &TaskType) -> Option<Handler> {
        self.0.get(task_type).cloned()
    }

    pub fn task_types(&self) -> Vec<TaskType> {
        self.0.keys().cloned().collect()
    }
}

/// A plain async function as a handler.
pub(crate) fn handler<F, Fut, R>(work: F) -> Handler
where
    F: Fn(TaskContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, TaskError>> + Send + 'static,
    R: Serialize,
{
    Arc::new(move |context| {
        let work = work(context);
        Box::pin(async move {
            let result = work.await?;
            to_raw_value(&result)
                .map_err(|error| TaskError::handler(format!("the handler's result is not JSON: {error}")))
        })
    })
}
