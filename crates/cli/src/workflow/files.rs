//! Workflows in files: documents of the kind `workflow`, or definitions alone, with `nodes` and `edges` at the top.

use std::path::Path;

use bowline_inventory::document::{documents, json_document};
use serde_json::Value;

use crate::failure::Failure;
use crate::source;

/// A workflow that somebody wrote.
#[derive(Debug)]
pub struct Definition {
    /// The file, and the line if it is known.
    pub place: String,
    /// A definition alone has no name.
    pub name: Option<String>,
    pub spec: Value,
    /// What a path into the spec begins with, so that it leads there from the top of the document.
    pub prefix: &'static str,
}

/// Every workflow of a file, in its order. Documents of other kinds are passed over.
pub fn read(path: &Path) -> Result<Vec<Definition>, Failure> {
    let text = source::read(path)?;
    let file = if source::is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() };
    let is_json = path.extension().is_some_and(|ending| ending == "json");
    let read = if is_json { json_document(&text).map(|document| vec![document]) } else { documents(&text) };
    let read = read.map_err(|error| Failure::Usage(format!("{file}: {error}")))?;
    let mut found = Vec::new();
    for document in read {
        let place = document.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
        let mut value = document.value;
        if value.get("nodes").is_some() && value.get("kind").is_none() {
            found.push(Definition { place, name: None, spec: value, prefix: "" });
        } else if value.get("kind").and_then(Value::as_str) == Some("workflow") {
            let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
            let Some(spec) = value.get_mut("spec").map(Value::take) else {
                return Err(Failure::Usage(format!("{place}: a document has kind, name and spec")));
            };
            found.push(Definition { place, name, spec, prefix: "spec." });
        } else if value.get("kind").is_none() {
            let what = "this is no workflow: a document has kind, name and spec, a definition has nodes and edges";
            return Err(Failure::Usage(format!("{place}: {what}")));
        }
    }
    Ok(found)
}

/// A workflow that somebody names on the command line.
#[derive(Debug)]
pub enum Target {
    /// By the name that the server knows.
    Stored(String),
    /// In a file, or on standard input.
    Written(Value),
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

/// The one workflow of a file, or the one of this name.
pub fn one(path: &Path, name: Option<&str>) -> Result<Value, Failure> {
    let mut found = read(path)?;
    if let Some(name) = name {
        found.retain(|definition| definition.name.as_deref() == Some(name));
    }
    match found.len() {
        1 => Ok(found.swap_remove(0).spec),
        0 => Err(Failure::Usage(format!("there is no such workflow in {}", path.display()))),
        several => {
            let file = path.display();
            Err(Failure::Usage(format!("there are {several} workflows in {file}; say which with --name")))
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
        let text = "kind: command\nname: x\nspec: {}\n---\nkind: workflow\nname: a\nspec: {nodes: []}\n---\nnodes: []\nedges: []\n";
        let found = read_text(text).unwrap();
        let names: Vec<_> = found.iter().map(|found| (found.name.as_deref(), found.prefix)).collect();
        assert_eq!(names, [(Some("a"), "spec."), (None, "")]);
        assert!(found[0].place.ends_with("w.yaml:5"), "{}", found[0].place);
    }

    #[test]
    fn what_is_no_workflow_is_said() {
        for text in ["- 1\n", "name: x\n", "kind: workflow\nname: x\n", "nodes: [\n"] {
            assert!(matches!(read_text(text), Err(Failure::Usage(_))), "{text}");
        }
    }
}
