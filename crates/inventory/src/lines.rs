//! Where the parts of a document stand in its text, for whoever finds a mistake in what was read from it.

use crate::tree::{Data, Node};

/// The lines of a document's parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// 0 where lines are not known.
    line: u32,
    parts: Parts,
}

#[derive(Debug, Clone, PartialEq)]
enum Parts {
    None,
    Items(Vec<Lines>),
    /// By key: the line of the key, and what is below it.
    Entries(Vec<(Box<str>, u32, Lines)>),
}

impl Lines {
    pub(crate) fn of(node: &Node) -> Self {
        let parts = match &node.data {
            Data::List(items) => Parts::Items(items.iter().map(Self::of).collect()),
            Data::Map(entries) => Parts::Entries(
                entries.iter().map(|entry| (entry.key.as_str().into(), entry.line, Self::of(&entry.value))).collect(),
            ),
            Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Vault => Parts::None,
        };
        Self { line: node.line, parts }
    }

    /// The line of what a path like `nodes[2].config.url` leads to, counted from 1. Where there is no such part (it is missing,
    /// which may be the mistake), the line of the innermost part that is there; `None` where lines are not known.
    pub fn at(&self, path: &str) -> Option<usize> {
        let (mut here, mut line) = (self, self.line);
        for word in path.split(['.', '[']).filter(|word| !word.is_empty()) {
            let found = match &here.parts {
                Parts::None => None,
                Parts::Items(items) => {
                    let index: Option<usize> = word.strip_suffix(']').and_then(|index| index.parse().ok());
                    index.and_then(|index| items.get(index)).map(|item| (item.line, item))
                }
                Parts::Entries(entries) => {
                    entries.iter().find(|(key, ..)| **key == *word).map(|(_, line, below)| (*line, below))
                }
            };
            let Some((next_line, next)) = found else { break };
            (here, line) = (next, next_line);
        }
        (line > 0).then_some(line as usize)
    }
}

#[cfg(test)]
mod tests {
    use crate::document::{documents, json_document};

    #[test]
    fn a_path_leads_to_its_line_or_to_the_nearest_part_there_is() {
        let text = "# first\nkind: a\n---\nspec:\n  nodes:\n    - id: x\n      config: {url: 1}\n    - {id: y}\n\n  edges: []\n";
        let lines = &documents(text).expect("documents")[1].lines;
        for (path, line) in [
            ("", 4),
            ("spec.nodes", 5),
            ("spec.nodes[0].id", 6),
            ("spec.nodes[0].config.url", 7),
            ("spec.nodes[1]", 8),
            ("spec.nodes[1].config.url", 8),
            ("spec.nodes[7].id", 5),
            ("spec.edges[0]", 10),
            ("nowhere", 4),
        ] {
            assert_eq!(lines.at(path), Some(line), "{path}");
        }
        assert_eq!(json_document("{\"a\": 1}").expect("a document").lines.at("a"), None, "lines of JSON are not known");
    }
}
