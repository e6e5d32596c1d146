//! Documents: files, directories and standard input, read into one list before anything is asked of the server.
//!
//! A document is `{kind, name, spec}`. Its place (file and line) stays with it, so that whatever is wrong with it can be
//! said where its author will look.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::{Path, PathBuf};

use bowline_inventory::document::{Lines, documents, json_document};
use bowline_model::read_all::{ReadAll, read_all};
use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::wrong::Wrong;
use crate::failure::Failure;
use crate::source;

/// The kind that is no resource: hosts and groups.
pub const INVENTORY: &str = "inventory";
/// Directories in each other.
const DEPTH_MAX: usize = 16;
const FILES_MAX: usize = 10_000;
/// What the server keeps of a document beside its content.
const SOURCE_MAX: usize = 1 << 20;

/// Where documents come from.
#[derive(Debug, Clone, Args)]
pub struct Files {
    /// A file with documents, a directory with such files (*.yaml, *.yml, *.json), or - for standard input; repeat for
    /// several
    #[arg(value_name = "FILE", required_unless_present = "files")]
    paths: Vec<PathBuf>,
    /// The same, before or after other options
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Files {
    /// All of them, in the order of the command line.
    fn all(&self) -> Vec<PathBuf> {
        self.paths.iter().chain(&self.files).cloned().collect()
    }
}

/// Where a document stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub place: Place,
    lines: Lines,
    pub kind: String,
    pub name: String,
    pub spec: Value,
    /// The document as it was written in YAML, unless it is too long to be kept.
    pub source: Option<String>,
}

impl Document {
    /// For remarks: `fleet.yaml:7: command restart-nginx`.
    pub fn words(&self) -> String {
        format!("{}: {} {}", self.place, self.kind, self.name)
    }

    /// Where a path into the document leads to (`spec.argv`), as far as it is known.
    pub fn place_of(&self, path: Option<&str>) -> Place {
        let line = path.and_then(|path| self.lines.at(path)).or(self.place.line);
        Place { line, ..self.place.clone() }
    }

    /// The line of what a path into the document leads to.
    pub fn line(&self, path: &str) -> Option<usize> {
        self.lines.at(path)
    }
}

/// The shape of a document.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    kind: String,
    name: String,
    spec: Map<String, Value>,
}

impl Files {
    /// Every document, in the order of the files; within a directory, by name. With them what is wrong with others, so that
    /// all of it can be told at once.
    pub fn read(&self) -> Result<(Vec<Document>, Vec<Wrong>), Failure> {
        let (mut found, mut wrong) = (Vec::new(), Vec::new());
        for path in &paths(&self.all())? {
            read_text(path, &source::read(path)?, &mut found, &mut wrong);
        }
        check_twice(&found, &mut wrong);
        if found.is_empty() && wrong.is_empty() {
            return Err(Failure::Usage("there is no document in the files that were given".to_owned()));
        }
        Ok((found, wrong))
    }
}

/// The files that are meant: each that is named, and those of each directory that is.
pub fn paths(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for path in named {
        if source::is_stdin(path) || !path.is_dir() {
            paths.push(path.clone());
        } else {
            walk(path, 0, &mut paths)?;
        }
    }
    Ok(paths)
}

fn walk(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if depth > DEPTH_MAX {
        return Err(Failure::Usage(format!("{} is nested deeper than {DEPTH_MAX} directories", directory.display())));
    }
    let paths = std::fs::read_dir(directory).and_then(|all| all.map(|entry| Ok(entry?.path())).collect());
    let mut paths: Vec<PathBuf> = paths.map_err(|error| source::cannot(directory, &error))?;
    paths.sort();
    for path in paths {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden {
            continue;
        }
        if path.is_dir() {
            walk(&path, depth + 1, found)?;
        } else if path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml" || ending == "json") {
            found.push(path);
        }
        if found.len() > FILES_MAX {
            return Err(Failure::Usage(format!("there are more than {FILES_MAX} files")));
        }
    }
    Ok(())
}

/// What a text says that is no list of documents. It begins with the line, where that is known.
fn unreadable(file: &str, error: &str) -> Wrong {
    let (line, what) = match error.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((line, what)) => match line.parse() {
            Ok(line) => (Some(line), what),
            Err(_) => (None, error),
        },
        None => (None, error),
    };
    Wrong { place: Place { file: file.to_owned(), line }, about: None, path: None, what: what.to_owned() }
}

fn read_text(path: &Path, text: &str, found: &mut Vec<Document>, wrong: &mut Vec<Wrong>) {
    let file = if source::is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() };
    let is_json = path.extension().is_some_and(|ending| ending == "json");
    let read = if is_json { json_document(text).map(|document| vec![document]) } else { documents(text) };
    let read = match read {
        Ok(read) => read,
        Err(error) => return wrong.push(unreadable(&file, &error.to_string())),
    };
    for document in read {
        let lines = document.lines;
        let place = Place { file: file.clone(), line: document.line };
        let ReadAll { value: shape, errors, .. } = read_all::<Shape>("", document.value);
        let mut errors: Vec<_> =
            errors.into_iter().map(|error| (lines.at(&error.path).or(place.line), error)).collect();
        errors.sort_by_key(|(line, _)| *line);
        wrong.extend(errors.into_iter().map(|(line, error)| Wrong {
            place: Place { line, ..place.clone() },
            about: None,
            path: Some(error.path).filter(|path| !path.is_empty()),
            what: format!("a document has kind, name and spec: {}", error.what),
        }));
        if let Some(Shape { kind, name, spec }) = shape {
            let source = (!is_json && kind != INVENTORY && document.text.len() <= SOURCE_MAX).then_some(document.text);
            found.push(Document { place, lines, kind, name, spec: Value::Object(spec), source });
        }
    }
}

/// Two documents about one thing would undo each other.
fn check_twice(documents: &[Document], wrong: &mut Vec<Wrong>) {
    let mut seen: BTreeMap<(&str, &str), &Place> = BTreeMap::new();
    for document in documents {
        match seen.entry((&document.kind, &document.name)) {
            Entry::Occupied(first) => {
                let what = format!("is there twice; the first one is at {}", first.get());
                wrong.push(Wrong::with(document, None, what));
            }
            Entry::Vacant(vacant) => {
                vacant.insert(&document.place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Vec<Document>, Vec<String>> {
        let (mut found, mut wrong) = (Vec::new(), Vec::new());
        read_text(Path::new("x.yaml"), text, &mut found, &mut wrong);
        check_twice(&found, &mut wrong);
        if wrong.is_empty() { Ok(found) } else { Err(wrong.iter().map(Wrong::to_string).collect()) }
    }

    #[test]
    fn all_documents_of_a_file_are_read_before_anything_is_said() {
        let text = "kind: a\nname: b\nsepc: {}\n---\nkind: [a]\nname: b\nspec: {}\nmore: 1\n---\nkind: a\nname: c\nspec: {x: 1}\n";
        let wrong = read(text).unwrap_err();
        let lines: Vec<_> = wrong.iter().map(|wrong| wrong.split(": ").next().unwrap()).collect();
        assert_eq!(lines, ["x.yaml:3", "x.yaml:5", "x.yaml:8"], "{wrong:?}");
    }

    #[test]
    fn a_directory_is_read_by_name_and_all_the_way_down() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(at("b/deep")).unwrap();
        std::fs::create_dir_all(at(".git")).unwrap();
        let document = |name: &str| format!("kind: command\nname: {name}\nspec: {{argv: [x]}}\n");
        std::fs::write(at("z.yaml"), document("last")).unwrap();
        std::fs::write(at("a.yml"), format!("# two\n{}---\n{}", document("one"), document("two"))).unwrap();
        std::fs::write(at("b/deep/c.json"), r#"{"kind": "inventory", "name": "main", "spec": {"hosts": []}}"#).unwrap();
        std::fs::write(at("README.md"), "no document").unwrap();
        std::fs::write(at(".git/config.yaml"), "no document").unwrap();
        let found = Files { paths: vec![directory.path().to_owned()], files: Vec::new() }.read().unwrap().0;
        let names: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.place.line)).collect();
        assert_eq!(names, [("one", Some(2)), ("two", Some(6)), ("main", None), ("last", Some(1))]);
        assert_eq!(found[2].spec, json!({"hosts": []}));
    }

    #[test]
    fn what_is_no_document_is_said_with_its_place() {
        for (text, says) in [
            ("kind: a\nname: b\n", "x.yaml:1: a document has kind, name and spec: missing field `spec`"),
            ("---\n- 1\n", "x.yaml:2: a document has"),
            ("kind: a\nname: b\nspec: {}\nsepc: {}\n", "unknown field `sepc`"),
            ("kind: a\nname: b\nspec: []\n", "expected a map"),
            ("kind: a\nkind: b\n", "x.yaml:2: kind is there twice"),
            ("a: [\n", "x.yaml:"),
        ] {
            let error = read(text).unwrap_err().join("\n");
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }

    #[test]
    fn one_thing_is_described_once() {
        let text = "kind: a\nname: b\nspec: {}\n---\nkind: a\nname: b\nspec: {}\n";
        let error = read(text).unwrap_err();
        assert_eq!(error, ["x.yaml:5: a b: is there twice; the first one is at x.yaml:1"]);
    }
}
