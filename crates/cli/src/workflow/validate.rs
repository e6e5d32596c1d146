//! `workflow validate FILE…`: all mistakes of all workflows, a line each.

use std::path::PathBuf;

use bowline_workflow::compile::read_workflow;
use bowline_workflow::program::{DefinitionMistake, Program};
use clap::Args;
use serde_json::{Value, json};

use super::files;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Screen, Text};
use crate::resource::paths;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline workflow validate order.yaml
  bowline workflow validate workflows/

Each mistake is a line: the file, the place in it, and what is wrong. Whether the resources exist that a workflow names
(secrets, brokers, commands) is known to the server only: `bowline validate -f` asks it.")]
pub struct ValidateArgs {
    /// Files with workflows, directories with such files (*.yaml, *.yml, *.json), or - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Everything that is wrong with a definition.
fn mistakes(spec: Value) -> Vec<DefinitionMistake> {
    let spec = match read_workflow(spec) {
        Ok(spec) => spec,
        Err(mistakes) => return mistakes,
    };
    let mut mistakes = Program::compile(&spec).err().unwrap_or_default();
    if let Err(bad) = spec.check() {
        let bad = bad.all().map(|bad| DefinitionMistake { path: bad.path.clone(), what: bad.what.clone() });
        mistakes.extend(bad);
    }
    mistakes
}

pub fn validate(screen: &mut Screen, args: &ValidateArgs) -> Result<Exit, Failure> {
    let (mut count, mut wrong) = (0_usize, Vec::new());
    for path in paths(&args.files)? {
        for definition in files::read(&path)? {
            count += 1;
            for DefinitionMistake { path, what } in mistakes(definition.spec) {
                let path = if path == "spec" { path } else { format!("{}{path}", definition.prefix) };
                wrong.push((definition.place.clone(), path, what));
            }
        }
    }
    if count == 0 {
        return Err(Failure::Usage("there is no workflow in what was given".to_owned()));
    }
    if screen.json() {
        let list: Vec<_> =
            wrong.iter().map(|(place, path, what)| json!({"file": place, "path": path, "what": what})).collect();
        let said = json!({"valid": wrong.is_empty(), "workflows": count, "mistakes": list});
        screen.json_line(&said.to_string())?;
    } else {
        for (place, path, what) in &wrong {
            screen.line(Text::new(&format!("{place}: {path}: {what}")).as_str())?;
        }
        if wrong.is_empty() {
            screen.line(&format!("valid: {count} {}", if count == 1 { "workflow" } else { "workflows" }))?;
        }
    }
    Ok(if wrong.is_empty() { Exit::Success } else { Exit::Refused })
}
