//! `workflow validate FILE…`: all mistakes of all workflows and blueprints, a line each.

use std::path::PathBuf;

use bowline_model::blueprint::BlueprintSpec;
use bowline_model::resource::BadSpec;
use bowline_workflow::compile::read_workflow;
use bowline_workflow::program::{DefinitionMistake, Program};
use clap::Args;
use serde_json::{Value, json};

use super::files::{self, Kind};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Screen, Text};
use crate::resource::paths;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline workflow validate order.yaml
  bowline workflow validate workflows/

Each mistake is a line: the file with the line in it (of YAML), the place in the definition, and what is wrong.
Whether the resources exist that a definition names (secrets, brokers, commands) is known to the server only:
`bowline validate -f` asks it.")]
pub struct ValidateArgs {
    /// Files with workflows and blueprints, directories with such files (*.yaml, *.yml, *.json), or - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Everything that is wrong with a definition.
fn mistakes(kind: Kind, spec: Value) -> Vec<DefinitionMistake> {
    match kind {
        Kind::Workflow => of_workflow(spec),
        Kind::Blueprint => of_blueprint(spec),
    }
}

fn of_blueprint(spec: Value) -> Vec<DefinitionMistake> {
    let spec = match BlueprintSpec::read(spec) {
        Ok(spec) => spec,
        Err(bad) => return listed(&bad),
    };
    let mut mistakes = Program::of_blueprint(&spec).err().unwrap_or_default();
    mistakes.extend(spec.check().err().iter().flat_map(listed));
    mistakes
}

fn listed(bad: &BadSpec) -> Vec<DefinitionMistake> {
    bad.all().map(|bad| DefinitionMistake { path: bad.path.clone(), what: bad.what.clone() }).collect()
}

fn of_workflow(spec: Value) -> Vec<DefinitionMistake> {
    let spec = match read_workflow(spec) {
        Ok(spec) => spec,
        Err(mistakes) => return mistakes,
    };
    let mut mistakes = Program::compile(&spec).err().unwrap_or_default();
    mistakes.extend(spec.check().err().iter().flat_map(listed));
    mistakes
}

pub fn validate(screen: &mut Screen, args: &ValidateArgs) -> Result<Exit, Failure> {
    let (mut workflows, mut blueprints, mut wrong) = (0_usize, 0_usize, Vec::new());
    for path in paths(&args.files)? {
        for definition in files::read(&path)? {
            match definition.kind {
                Kind::Workflow => workflows += 1,
                Kind::Blueprint => blueprints += 1,
            }
            for DefinitionMistake { path, what } in mistakes(definition.kind, definition.spec.clone()) {
                let path = if path == "spec" { path } else { format!("{}{path}", definition.prefix) };
                wrong.push((definition.place(&path), path, what));
            }
        }
    }
    if workflows + blueprints == 0 {
        return Err(Failure::Usage("there is no workflow and no blueprint in what was given".to_owned()));
    }
    if screen.json() {
        let list: Vec<_> =
            wrong.iter().map(|(place, path, what)| json!({"file": place, "path": path, "what": what})).collect();
        let said = json!({
            "valid": wrong.is_empty(), "workflows": workflows, "blueprints": blueprints, "mistakes": list,
        });
        screen.json_line(&said.to_string())?;
    } else {
        for (place, path, what) in &wrong {
            screen.line(Text::new(&format!("{place}: {path}: {what}")).as_str())?;
        }
        if wrong.is_empty() {
            let counts = [(workflows, Kind::Workflow), (blueprints, Kind::Blueprint)];
            let counts = counts.into_iter().filter(|(count, _)| *count > 0);
            let counts =
                counts.map(|(count, kind)| format!("{count} {}{}", kind.word(), if count == 1 { "" } else { "s" }));
            screen.line(&format!("valid: {}", counts.collect::<Vec<_>>().join(", ")))?;
        }
    }
    Ok(if wrong.is_empty() { Exit::Success } else { Exit::Refused })
}
