//! Workflows and blueprints in files: documents of these kinds, or definitions alone, with `nodes` and `edges` or with `start`
//! and `states` at the top.

use std::path::Path;

use bowline_inventory::document::{Lines, documents, json_document};
use serde_json::Value;

use crate::failure::Failure;
use crate::source;

/// Which of the two ways to write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    Workflow,
    Blueprint,
}

impl Kind {
    /// As a document has it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Blueprint => "blueprint",
        }
    }

    /// What a definition is that has no document around it.
    fn of_definition(value: &Value) -> Option<Self> {
        match (value.get("nodes"), value.get("states")) {
            (Some(_), _) => Some(Self::Workflow),
            (None, Some(_)) => Some(Self::Blueprint),
            (None, None) => None,
        }
    }

    fn of_document(kind: &str) -> Option<Self> {
        [Self::Workflow, Self::Blueprint].into_iter().find(|known| known.word() == kind)
    }
}

/// A workflow or a blueprint that somebody wrote.
#[derive(Debug)]
pub struct Definition {
    pub kind: Kind,
    pub file: String,
    lines: Lines,
    /// A definition alone has no name.
    pub name: Option<String>,
    pub spec: Value,
    /// What a path into the spec begins with, so that it leads there from the top of the document.
    pub prefix: &'static str,
}

impl Definition {
    /// The line of what this path leads to, if it is known.
    pub fn line(&self, path: &str) -> Option<usize> {
        self.lines.at(path)
    }
}

/// Every workflow and blueprint of a file, in its order. Documents of other kinds are passed over.
pub fn read(path: &Path) -> Result<Vec<Definition>, Failure> {
    let text = source::read(path)?;
    let file = if source::is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() };
    let is_json = path.extension().is_some_and(|ending| ending == "json");
    let read = if is_json { json_document(&text).map(|document| vec![document]) } else { documents(&text) };
    let read = read.map_err(|error| Failure::Usage(format!("{file}: {error}")))?;
    let mut found = Vec::new();
    for document in read {
        let place = document.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
        let (mut value, lines, file) = (document.value, document.lines, file.clone());
        let Some(kind) = value.get("kind") else {
            let Some(kind) = Kind::of_definition(&value) else {
                let what = "this is no workflow and no blueprint: a document has kind, name and spec, a definition has \
                            nodes and edges, or start and states";
                return Err(Failure::Usage(format!("{place}: {what}")));
            };
            found.push(Definition { kind, file, lines, name: None, spec: value, prefix: "" });
            continue;
        };
        if let Some(kind) = kind.as_str().and_then(Kind::of_document) {
            let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
            let Some(spec) = value.get_mut("spec").map(Value::take) else {
                return Err(Failure::Usage(format!("{place}: a document has kind, name and spec")));
            };
            found.push(Definition { kind, file, lines, name, spec, prefix: "spec." });
        }
    }
    Ok(found)
}

/// A workflow or a blueprint that somebody names on the command line.
#[derive(Debug)]
pub enum Target {
    /// By the name that the server knows.
    Stored(String),
    /// In a file, or on standard input.
    Written(Definition),
}

/// What a word on the command line means: a file if there is one, a name otherwise.
pub fn target(what: &str, name: Option<&str>) -> Result<Target, Failure> {
    let path = Path::new(what);
    if source::is_stdin(path) || path.exists() {
        one(path, name).map(Target::Written)
    } else if what.contains(['/', '\\']) || has_ending(path) {
        Err(Failure::Usage(format!("there is no file {}", path.display())))
    } else {
        Ok(Target::Stored(what.to_owned()))
    }
}

fn has_ending(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml" || ending == "json")
}

/// The one workflow or blueprint of a file, or the one of this name.
pub fn one(path: &Path, name: Option<&str>) -> Result<Definition, Failure> {
    let mut found = read(path)?;
    if let Some(name) = name {
        found.retain(|definition| definition.name.as_deref() == Some(name));
    }
    match found.len() {
        1 => Ok(found.swap_remove(0)),
        0 => Err(Failure::Usage(format!("there is no such workflow or blueprint in {}", path.display()))),
        several => {
            let file = path.display();
            Err(Failure::Usage(format!(
                "there are {several} workflows and blueprints in {file}; say which with --name"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<Definition>, Failure> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("w.yaml");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn documents_and_definitions_alone() {
        let text = "kind: command\nname: x\nspec: {}\n---\nkind: workflow\nname: a\nspec: {nodes: []}\n---\nnodes: []\nedges: []\n---\nkind: blueprint\nname: b\nspec: {}\n---\nstart: a\nstates: {}\n";
        let found = read_text(text).unwrap();
        let names: Vec<_> = found.iter().map(|found| (found.kind, found.name.as_deref(), found.prefix)).collect();
        use Kind::{Blueprint, Workflow};
        let all = [
            (Workflow, Some("a"), "spec."),
            (Workflow, None, ""),
            (Blueprint, Some("b"), "spec."),
            (Blueprint, None, ""),
        ];
        assert_eq!(names, all);
        assert_eq!((found[0].line(""), found[0].line("spec.nodes")), (Some(5), Some(7)));
    }

    #[test]
    fn what_is_no_workflow_is_said() {
        for text in ["- 1\n", "name: x\n", "kind: workflow\nname: x\n", "kind: blueprint\nname: x\n", "nodes: [\n"] {
            assert!(matches!(read_text(text), Err(Failure::Usage(_))), "{text}");
        }
    }
}
