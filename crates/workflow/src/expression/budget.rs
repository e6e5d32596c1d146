//! What one rendering may still do. Everything that works asks here first.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

use serde_json::Value;

use super::{
    error::{ErrorCode, Fault},
    limits::{
        BYTES_OF_A_SEARCH_STEP, STEPS_MAX, STEPS_OF_AN_OBJECT, VISIT_STEPS_MAX, VISIT_WORK_BYTES_MAX, WORK_BYTES_MAX,
    },
};

/// Deeper than anything that was read from JSON.
const COPY_DEPTH_MAX: usize = 192;

/// What the expressions of one visit of a node may still do together. Each has a budget; but a loop evaluates its own for every
/// item, and a `switch` one for every case.
#[derive(Debug)]
pub(super) struct Allowance {
    steps: AtomicU32,
    bytes: AtomicUsize,
}

impl Allowance {
    pub fn of_visit() -> Arc<Self> {
        Arc::new(Self { steps: AtomicU32::new(VISIT_STEPS_MAX), bytes: AtomicUsize::new(VISIT_WORK_BYTES_MAX) })
    }

    /// Steps that were taken.
    pub fn spent(&self) -> u32 {
        VISIT_STEPS_MAX - self.steps.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(super) struct Budget {
    steps: u32,
    bytes: usize,
    /// What was given, so that what was taken can be taken from the visit's allowance.
    given: (u32, usize),
    of: Option<Arc<Allowance>>,
}

impl Budget {
    /// What one rendering may do, in a visit or alone. A visit renders one after the other.
    pub fn new(of: Option<&Arc<Allowance>>) -> Self {
        let given = of.map_or((STEPS_MAX, WORK_BYTES_MAX), |allowance| {
            let (steps, bytes) = (allowance.steps.load(Ordering::Relaxed), allowance.bytes.load(Ordering::Relaxed));
            (steps.min(STEPS_MAX), bytes.min(WORK_BYTES_MAX))
        });
        Self { steps: given.0, bytes: given.1, given, of: of.cloned() }
    }

    pub fn steps(&mut self, count: usize, at: u32) -> Result<(), Fault> {
        let left = u32::try_from(count).ok().and_then(|count| self.steps.checked_sub(count));
        self.steps = left.ok_or_else(|| self.exceeded(self.given.0 < STEPS_MAX, at))?;
        Ok(())
    }

    /// Text that is about to be made.
    pub fn bytes(&mut self, count: usize, at: u32) -> Result<(), Fault> {
        let left = self.bytes.checked_sub(count);
        self.bytes = left.ok_or_else(|| self.exceeded(self.given.1 < WORK_BYTES_MAX, at))?;
        Ok(())
    }

    /// What is left of a budget that was too small is spent with it, so that what follows costs nothing any more.
    fn exceeded(&mut self, of_visit: bool, at: u32) -> Fault {
        if !of_visit {
            return Fault::budget(at);
        }
        (self.steps, self.bytes) = (0, 0);
        Fault::budget_of_visit(at)
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

impl Drop for Budget {
    fn drop(&mut self) {
        let Some(allowance) = &self.of else { return };
        allowance.steps.fetch_sub(self.given.0 - self.steps, Ordering::Relaxed);
        allowance.bytes.fetch_sub(self.given.1 - self.bytes, Ordering::Relaxed);
    }
}
