//! The data of a run: its variables, apart from what the last task said.

use std::sync::Arc;

use bowline_model::blueprint::TASK_RESULT;
use bowline_model::{ErrorClass, RunError};
use serde_json::{Map, Value};

use crate::expression::Context;
use crate::node::{Done, Next, Node, Ports, Shape, Visit};

/// A failure that will come again with the same context.
pub(super) fn failure(message: impl Into<String>) -> RunError {
    RunError::new(ErrorClass::Permanent, message)
}

/// What a handler is given, and what a run leaves behind.
pub(super) fn data_of(context: &Context) -> Map<String, Value> {
    let mut data = context.variables();
    data.remove(TASK_RESULT);
    data
}

/// Data that change, one after the other, so that whoever comes later sees what was changed before.
#[derive(Debug)]
pub(super) struct Changes {
    /// As everything will be.
    pub context: Context,
    set: Vec<(Arc<str>, Value)>,
}

impl Changes {
    pub fn new(context: &Context) -> Self {
        Self { context: context.clone(), set: Vec::new() }
    }

    /// Changes data. What says the same as before is not worth a record.
    pub fn data(&mut self, changed: Map<String, Value>) -> Result<(), String> {
        for (name, value) in changed {
            if name == TASK_RESULT {
                return Err(format!("{name}: no data can have this name; it is what the last task said"));
            }
            self.set(&name, value)?;
        }
        Ok(())
    }

    /// Notes what the last task said.
    pub fn task_result(&mut self, value: Value) -> Result<(), String> {
        self.set(TASK_RESULT, value)
    }

    fn set(&mut self, name: &str, value: Value) -> Result<(), String> {
        if self.context.variable(name) == Some(&value) {
            return Ok(());
        }
        self.context.set_variable(name, value.clone()).map_err(|error| format!("{name}: {}", error.message()))?;
        self.set.push((name.into(), value));
        Ok(())
    }

    pub fn into_set(self) -> Vec<(Arc<str>, Value)> {
        self.set
    }
}

/// Whether a run of a blueprint can begin with this; what is wrong with it otherwise.
pub fn check_data(data: &Value) -> Result<(), String> {
    changes(&Context::new(Value::Null, Value::Null, Value::Null), data.clone()).map(drop)
}

fn changes(context: &Context, data: Value) -> Result<Changes, String> {
    let mut changes = Changes::new(context);
    match data {
        Value::Null => {}
        Value::Object(data) => changes.data(data)?,
        _ => return Err("the data of a blueprint are an object".to_owned()),
    }
    Ok(changes)
}

/// The node before all states: what the run was given becomes its data.
#[derive(Debug)]
pub(super) struct Start;

impl Node for Start {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let given = visit.context.webhook().get("payload").cloned().unwrap_or_default();
        let set = changes(visit.context, given).map_err(failure)?.into_set();
        Ok(Next::Done(Done { output: Value::Null, exit: crate::node::Exit::Success, set }))
    }

    fn pinned(&self, _: &Value) -> Result<Done, String> {
        Err(": this node makes data of what the run was given; edit the data instead".to_owned())
    }

    fn ports(&self) -> Ports {
        Ports::Success
    }

    fn shape(&self) -> Shape {
        Shape::Start
    }
}
