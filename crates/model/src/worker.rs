//! Workers, as far as dispatch needs to know them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::{Labels, TaskType};

/// Who gets the next run when several workers ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// One each, in turn.
    #[default]
    RoundRobin,
    /// Whoever has the smallest share of its places taken.
    LeastLoaded,
    /// Whoever fits most closely: fewest labels beyond the required ones, then fewest task types; generalists stay free.
    BestMatch,
    /// Anyone.
    Random,
}

/// What a worker can do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Abilities {
    pub task_types: BTreeSet<TaskType>,
    pub labels: Labels,
}

impl Abilities {
    pub fn can_take(&self, task_type: &TaskType, requires: &Labels) -> bool {
        self.task_types.contains(task_type) && requires.satisfied_by(&self.labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_takes_what_it_knows_and_has_the_labels_for() {
        let render = TaskType::new("render").unwrap();
        let gpu = Labels::of([("gpu", "yes")]);
        let abilities = Abilities { task_types: [render.clone()].into(), labels: gpu.clone() };
        assert!(abilities.can_take(&render, &gpu) && abilities.can_take(&render, &Labels::default()));
        assert!(!abilities.can_take(&TaskType::new("mail").unwrap(), &gpu));
        assert!(!abilities.can_take(&render, &Labels::of([("gpu", "no")])));
    }
}
