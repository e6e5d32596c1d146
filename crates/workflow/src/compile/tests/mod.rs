//! Every mistake there is, and graphs that nobody would draw.

mod mistakes;
mod properties;
mod sizes;

use serde_json::Value;

use super::{check_workflow, read_workflow};
use crate::program::{DefinitionMistake, Program};

/// What becomes of a definition in JSON.
fn compile(value: Value) -> Result<Program, Vec<DefinitionMistake>> {
    Program::compile(&read_workflow(value)?)
}

/// The mistakes, a line each.
#[track_caller]
fn lines(value: Value) -> String {
    let mistakes = check_workflow(value.clone());
    match compile(value) {
        Ok(_) => panic!("nothing is wrong with it"),
        Err(_) => mistakes.iter().map(|mistake| format!("{}: {}\n", mistake.path, mistake.what)).collect(),
    }
}
