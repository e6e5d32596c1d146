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
    /// The document as it was written: its own part of the text.
    pub text: String,
}

/// Every document of a YAML text that says anything. No key is there twice, no tag is carried out, and aliases cannot
/// multiply without end.
pub fn documents(text: &str) -> Result<Vec<Document>, ImportError> {
    yaml_documents(text, Schema::Core)?
        .into_iter()
        .filter(|(node, _)| !node.is_null())
        .map(|(node, text)| Ok(document(node, text)))
        .collect()
}

/// The one value of a JSON text. No key is there twice.
pub fn json_document(text: &str) -> Result<Document, ImportError> {
    json(text).map(|node| document(node, text))
}

fn document(node: Node, text: &str) -> Document {
    Document {
        line: At::line(node.line).place().line,
        lines: Lines::of(&node),
        value: node.into_value(),
        text: text.to_owned(),
    }
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
    fn each_document_has_its_own_part_of_the_text() {
        let parts = |text: &str| -> Vec<String> {
            documents(text).expect("documents").into_iter().map(|document| document.text).collect()
        };
        let (first, second) = ("# first\nkind: a # of a sort\nspec:\n\n  z: 1\n  a: 2\n", "# second\nkind: b\n# end\n");
        assert_eq!(parts(first), [first]);
        assert_eq!(parts(&format!("{first}---\n{second}")), [first, second]);
        assert_eq!(parts(&format!("{first}--- # next\n{second}---\n# nothing\n---\n{first}")), [first, second, first]);
        assert_eq!(parts(&format!("---\n{first}")), [format!("---\n{first}")], "it stays as it is");
        assert_eq!(parts("kind: a\n--- {kind: b}\n"), ["kind: a\n", "--- {kind: b}\n"]);
        assert_eq!(parts("kind: ä\r\n---\r\nkind: b"), ["kind: ä\r\n", "kind: b"]);
        assert_eq!(parts("script: |\n  a\n  ---\n  b\n"), ["script: |\n  a\n  ---\n  b\n"], "no separator");
        // Each part is a document of its own, and says the same.
        for part in parts(&format!("{first}---\n{second}")) {
            assert_eq!(documents(&part).expect("a document").len(), 1);
        }
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
