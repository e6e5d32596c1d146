//! What one rendering may still do. Everything that works asks here first.

use serde_json::Value;

use super::{
    error::{ErrorCode, Fault},
    limits::{BYTES_OF_A_SEARCH_STEP, STEPS_MAX, STEPS_OF_AN_OBJECT, WORK_BYTES_MAX},
};

/// Deeper than anything that was read from JSON.
const COPY_DEPTH_MAX: usize = 192;

#[derive(Debug)]
pub(super) struct Budget {
    steps: u32,
    bytes: usize,
}

impl Budget {
    pub fn new() -> Self {
        Self { steps: STEPS_MAX, bytes: WORK_BYTES_MAX }
    }

    pub fn steps(&mut self, count: usize, at: u32) -> Result<(), Fault> {
        let left = u32::try_from(count).ok().and_then(|count| self.steps.checked_sub(count));
        self.steps = left.ok_or_else(|| Fault::budget(at))?;
        Ok(())
    }

    /// Text that is about to be made.
    pub fn bytes(&mut self, count: usize, at: u32) -> Result<(), Fault> {
        self.bytes = self.bytes.checked_sub(count).ok_or_else(|| Fault::budget(at))?;
        Ok(())
    }

    /// Text that is about to be searched.
    pub fn search(&mut self, bytes: usize, at: u32) -> Result<(), Fault> {
        self.steps(bytes / BYTES_OF_A_SEARCH_STEP, at)
    }

    /// A value that is about to be copied.
    pub fn copy(&mut self, value: &Value, at: u32) -> Result<(), Fault> {
        self.copy_within(value, at, 0)
    }

    /// A walk down two values or one, which goes on for as long as they are deep.
    pub fn level(depth: usize, at: u32) -> Result<(), Fault> {
        if depth < COPY_DEPTH_MAX {
            Ok(())
        } else {
            Err(Fault::new(ErrorCode::TooDeep, at, "this value is nested too deep"))
        }
    }

    fn copy_within(&mut self, value: &Value, at: u32, depth: usize) -> Result<(), Fault> {
        Self::level(depth, at)?;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => self.steps(1, at),
            Value::String(text) => {
                self.steps(1, at)?;
                self.bytes(text.len(), at)
            }
            Value::Array(list) => {
                self.steps(1, at)?;
                list.iter().try_for_each(|value| self.copy_within(value, at, depth + 1))
            }
            Value::Object(object) => {
                self.steps(STEPS_OF_AN_OBJECT as usize, at)?;
                object.iter().try_for_each(|(key, value)| {
                    self.bytes(key.len(), at)?;
                    self.copy_within(value, at, depth + 1)
                })
            }
        }
    }
}
