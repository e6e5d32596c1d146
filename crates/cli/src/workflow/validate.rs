//! `workflow validate FILE…`: all errors of all workflows and blueprints, a line each.

use std::path::{Path, PathBuf};

use bowline_workflow::compile::{check_blueprint, check_workflow};
use bowline_workflow::program::DefinitionMistake;
use clap::Args;
use serde_json::json;

use super::files::{self, Definition, Kind};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Screen, Text};
use crate::resource::paths;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  bowline workflow validate order.yaml
  bowline workflow validate workflows/

Errors are listed in the order of the file: each with its line (of YAML), its path, and what is wrong. \
Errors that only follow from another one are left out. \
Whether the resources exist that a definition names (secrets, brokers, commands) is known to the server only:
`bowline validate -f` asks it.")]
pub struct ValidateArgs {
    /// Files with workflows and blueprints, directories with such files (*.yaml, *.yml, *.json), or - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// One error, and where it stands.
struct Found {
    file: String,
    line: Option<usize>,
    path: String,
    what: String,
}

impl Found {
    /// What was said about a file that could not be read; it begins with the file, and the line where that is known.
    fn unreadable(path: &Path, said: &str) -> Self {
        let file = path.display().to_string();
        let what = said.strip_prefix(file.as_str()).unwrap_or(said).trim_start_matches([':', ' ']);
        let what = what.strip_prefix("line ").unwrap_or(what);
        let (line, what) = match what.split_once(": ") {
            Some((line, what)) if line.parse::<usize>().is_ok() => (line.parse().ok(), what),
            _ => (None, what),
        };
        Self { file, line, path: String::new(), what: what.to_owned() }
    }
}

fn errors(definition: &Definition) -> Vec<Found> {
    let spec = definition.spec.clone();
    let errors = match definition.kind {
        Kind::Workflow => check_workflow(spec),
        Kind::Blueprint => check_blueprint(spec),
    };
    let mut found: Vec<Found> = errors
        .into_iter()
        .map(|DefinitionMistake { path, what }| {
            let path = if path == "spec" { path } else { format!("{}{path}", definition.prefix) };
            Found { file: definition.file.clone(), line: definition.line(&path), path, what }
        })
        .collect();
    // As they stand in the file.
    found.sort_by_key(|found| found.line);
    found
}

pub fn validate(screen: &mut Screen, args: &ValidateArgs) -> Result<Exit, Failure> {
    let (mut workflows, mut blueprints, mut wrong) = (0_usize, 0_usize, Vec::new());
    let mut exit = Exit::Refused;
    for path in paths(&args.files)? {
        let definitions = match files::read(&path) {
            Ok(definitions) => definitions,
            // The other files may have their own errors, and all are listed at once.
            Err(Failure::Usage(said)) => {
                exit = Exit::Usage;
                wrong.push(Found::unreadable(&path, &said));
                continue;
            }
            Err(failure) => return Err(failure),
        };
        for definition in definitions {
            match definition.kind {
                Kind::Workflow => workflows += 1,
                Kind::Blueprint => blueprints += 1,
            }
            wrong.extend(errors(&definition));
        }
    }
    if workflows + blueprints + wrong.len() == 0 {
        return Err(Failure::Usage("there is no workflow and no blueprint in what was given".to_owned()));
    }
    if screen.json() {
        let list: Vec<_> = wrong
            .iter()
            .map(|Found { file, line, path, what }| json!({"file": file, "line": line, "path": path, "what": what}))
            .collect();
        let said = json!({
            "valid": wrong.is_empty(), "workflows": workflows, "blueprints": blueprints, "errors": list,
        });
        screen.json_line(&said.to_string())?;
    } else {
        for Found { file, line, path, what } in &wrong {
            let place = line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
            let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
            screen.line(Text::new(&format!("{place}: {path}{what}")).as_str())?;
        }
        if wrong.is_empty() {
            let counts = [(workflows, Kind::Workflow), (blueprints, Kind::Blueprint)];
            let counts = counts.into_iter().filter(|(count, _)| *count > 0);
            let counts =
                counts.map(|(count, kind)| format!("{count} {}{}", kind.word(), if count == 1 { "" } else { "s" }));
            screen.line(&format!("valid: {}", counts.collect::<Vec<_>>().join(", ")))?;
        }
    }
    Ok(if wrong.is_empty() { Exit::Success } else { exit })
}
