//! Documents that people write, whatever they describe: YAML with several of them in one text, or JSON, as plain values.

use serde_json::Value;

use crate::error::ImportError;
pub use crate::lines::Lines;
use crate::place::At;
use crate::tree::{Node, Schema, emit, json, yaml_documents};

/// One document of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Where it begins, counted from 1; `None` where lines are not known.
    pub line: Option<usize>,
    /// Where its parts are.
    pub lines: Lines,
    pub value: Value,
}

/// Every document of a YAML text that says anything. No key is there twice, no tag is carried out, and aliases cannot
/// multiply without end.
pub fn documents(text: &str) -> Result<Vec<Document>, ImportError> {
    yaml_documents(text, Schema::Core)?
        .into_iter()
        .filter(|node| !node.is_null())
        .map(|node| Ok(document(node)))
        .collect()
}

/// The one value of a JSON text. No key is there twice.
pub fn json_document(text: &str) -> Result<Document, ImportError> {
    json(text).map(document)
}

fn document(node: Node) -> Document {
    Document { line: At::line(node.line).place().line, lines: Lines::of(&node), value: node.into_value() }
}

/// A value as YAML.
pub fn to_yaml(value: &Value) -> String {
    emit(&Node::from(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_stand_one_after_the_other_and_know_their_lines() {
        let text = "# two of them\n---\nkind: a\n---\n---\n\nkind: b\nscript: |\n  x\n";
        let found = documents(text).expect("documents");
        let wanted = [(Some(3), json!({"kind": "a"})), (Some(7), json!({"kind": "b", "script": "x\n"}))];
        assert_eq!(found.into_iter().map(|found| (found.line, found.value)).collect::<Vec<_>>(), wanted);
        assert_eq!(documents("").expect("nothing"), []);
    }

    #[test]
    fn a_document_does_not_see_into_the_one_before() {
        let error = documents("a: &x 1\n---\nb: *x\n").expect_err("nobody named it here");
        assert!(error.to_string().starts_with("line 3"), "{error}");
    }

    #[test]
    fn mistakes_are_found_in_any_document() {
        for text in ["a: 1\n---\nb: 1\nb: 2\n", "a: 1\n---\nb: !!python/object:os.system ls\n", "a: 1\n---\nb: [\n"] {
            assert!(documents(text).is_err(), "{text}");
        }
        assert!(json_document(r#"{"a": 1, "a": 2}"#).is_err());
    }
}
