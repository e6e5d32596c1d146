//! YAML, as far as inventories need it: one document, no keys twice, no types from other languages, and aliases that
//! cannot multiply without end.
//!
//! Merge keys (`<<: *defaults`) work as in YAML 1.1, because Ansible inventories use them. `!vault` and `!unsafe` are
//! Ansible's, and known in its schema only.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Parser, ScalarStyle, Tag};

use super::scalar::{NotFinite, Schema};
use super::{Data, Entry, Node};
use crate::error::ImportError;
use crate::limits::{Copies, DEPTH_MAX, VALUES_MAX};
use crate::place::At;

const CORE: &str = "tag:yaml.org,2002:";

/// The one document of a text.
pub(crate) fn yaml(text: &str, schema: Schema) -> Result<Node, ImportError> {
    let (mut documents, _) = build(text, schema, false)?;
    Ok(documents.pop().unwrap_or_else(|| Node::new(Data::Null)))
}

/// Every document of a text, with its own part of the text.
pub(crate) fn yaml_documents(text: &str, schema: Schema) -> Result<Vec<(Node, &str)>, ImportError> {
    let (nodes, starts) = build(text, schema, true)?;
    Ok(nodes.into_iter().zip(parts(text, &starts)).collect())
}

/// The parts of a text in which documents stand that start in these lines. A line that only separates two documents is in
/// none of them; comments before the first document belong to it.
fn parts<'a>(text: &'a str, starts: &[u32]) -> Vec<&'a str> {
    let lines: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let offset = |line: u32| lines.get((line as usize).saturating_sub(1)).copied().unwrap_or(text.len());
    let separates = |line: u32| {
        let line = text[offset(line)..offset(line + 1)].trim_end();
        line == "---" || line.strip_prefix("--- ").is_some_and(|rest| rest.trim_start().starts_with('#'))
    };
    let part = |(n, start): (usize, &u32)| {
        let from = match n {
            0 => 0,
            _ if separates(*start) => offset(start + 1),
            _ => offset(*start),
        };
        let until = starts.get(n + 1).map_or(text.len(), |next| offset(*next));
        &text[from.min(until)..until]
    };
    starts.iter().enumerate().map(part).collect()
}

/// The documents, and the lines in which they start.
fn build(text: &str, schema: Schema, many: bool) -> Result<(Vec<Node>, Vec<u32>), ImportError> {
    let mut builder = Builder {
        schema,
        many,
        open: Vec::new(),
        anchors: HashMap::new(),
        copies: Copies::default(),
        values: 0,
        done: Vec::new(),
    };
    let mut starts = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let line = u32::try_from(error.marker().line()).unwrap_or(0);
            ImportError::Syntax { at: At::line(line).place(), format: "YAML", what: error.info() }
        })?;
        let line = u32::try_from(span.start.line()).unwrap_or(0);
        if matches!(event, Event::DocumentStart(..)) {
            starts.push(line);
        }
        builder.on(event, line)?;
    }
    Ok((builder.done, starts))
}

/// A list or a map that has begun and not ended.
struct Open {
    line: u32,
    anchor: usize,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<Key>, merged: Vec<Node> },
}

enum Key {
    Plain(String, u32),
    Merge,
}

struct Builder {
    schema: Schema,
    /// More than one document is fine.
    many: bool,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    copies: Copies,
    values: usize,
    done: Vec<Node>,
}

impl Builder {
    fn on(&mut self, event: Event<'_>, line: u32) -> Result<(), ImportError> {
        let at = At::line(line);
        match event {
            Event::DocumentStart(..) if !self.many && !self.done.is_empty() => Err(ImportError::Value {
                at: at.place(),
                what: "a second document begins here; an inventory is one document".to_owned(),
            }),
            Event::Scalar(text, style, anchor, tag) => {
                if self.awaits_key() {
                    return self.key(text.into_owned(), style, tag.as_deref(), anchor, line);
                }
                let node = self.scalar(&text, style, tag.as_deref(), line)?;
                self.finish(node, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.collection_tag(tag.as_deref(), "seq", at)?;
                self.begin(Open { line, anchor, inside: Inside::List(Vec::new()) })
            }
            Event::MappingStart(_, anchor, tag) => {
                self.collection_tag(tag.as_deref(), "map", at)?;
                let inside = Inside::Map { entries: Vec::new(), key: None, merged: Vec::new() };
                self.begin(Open { line, anchor, inside })
            }
            Event::DocumentEnd => {
                // What one document has named, the next one does not know.
                self.anchors.clear();
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(at),
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    let what = "an alias stands inside what it stands for".to_owned();
                    return Err(ImportError::Value { at: at.place(), what });
                };
                self.copies.charge(node.weight(), at)?;
                let mut node = node.clone();
                node.line = line;
                if self.awaits_key() {
                    let key = node.as_text("a key", at)?.to_owned();
                    return self.set_key(Key::Plain(key, line));
                }
                self.place(node)
            }
            _ => Ok(()),
        }
    }

    fn awaits_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { inside: Inside::Map { key: None, .. }, .. }))
    }

    fn key(
        &mut self,
        text: String,
        style: ScalarStyle,
        tag: Option<&Tag>,
        anchor: usize,
        line: u32,
    ) -> Result<(), ImportError> {
        if let Some(tag) = tag.filter(|tag| tag.handle() != CORE && !(tag.handle() == "!" && tag.suffix().is_empty())) {
            return Err(self.bad_tag(tag, At::line(line)));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, Node { line, written: None, data: Data::Text(text.clone()) });
        }
        let merge = style == ScalarStyle::Plain && tag.is_none() && text == "<<";
        self.set_key(if merge { Key::Merge } else { Key::Plain(text, line) })
    }

    fn set_key(&mut self, new: Key) -> Result<(), ImportError> {
        if let Some(Open { inside: Inside::Map { key, .. }, .. }) = self.open.last_mut() {
            *key = Some(new);
        }
        Ok(())
    }

    fn begin(&mut self, open: Open) -> Result<(), ImportError> {
        let at = At::line(open.line);
        if self.awaits_key() {
            return Err(ImportError::Value { at: at.place(), what: "a list or a map cannot be a key".to_owned() });
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(ImportError::TooDeep { at: at.place() });
        }
        self.open.push(open);
        Ok(())
    }

    fn end(&mut self, at: At<'_>) -> Result<(), ImportError> {
        let Some(Open { line, anchor, inside }) = self.open.pop() else { return Ok(()) };
        let data = match inside {
            // Many small lists and maps should not keep room for what did not come.
            Inside::List(mut items) => {
                items.shrink_to_fit();
                Data::List(items)
            }
            Inside::Map { mut entries, merged, .. } => {
                let mut seen = HashSet::with_capacity(entries.len());
                if let Some(twice) = entries.iter().find(|entry| !seen.insert(entry.key.as_str())) {
                    return Err(ImportError::KeyTwice { at: At::line(twice.line).place(), key: twice.key.clone() });
                }
                if !merged.is_empty() {
                    merge(&mut entries, merged, at)?;
                }
                entries.shrink_to_fit();
                Data::Map(entries)
            }
        };
        self.finish(Node { line, written: None, data }, anchor)
    }

    /// A node is complete: it can be named from now on, and goes where it belongs.
    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), ImportError> {
        if anchor > 0 {
            self.copies.charge(node.weight(), At::line(node.line))?;
            self.anchors.insert(anchor, node.clone());
        }
        self.place(node)
    }

    fn place(&mut self, node: Node) -> Result<(), ImportError> {
        self.values += 1;
        if self.values > VALUES_MAX {
            let at = At::line(node.line).place();
            return Err(ImportError::TooMany { at, what: "values", max: VALUES_MAX });
        }
        match self.open.last_mut().map(|open| &mut open.inside) {
            None => self.done.push(node),
            Some(Inside::List(items)) => items.push(node),
            Some(Inside::Map { entries, key, merged }) => match key.take() {
                Some(Key::Plain(key, line)) => entries.push(Entry { key, line, value: node }),
                Some(Key::Merge) => merged.push(node),
                None => {
                    let what = "a list or a map cannot be a key".to_owned();
                    return Err(ImportError::Value { at: At::line(node.line).place(), what });
                }
            },
        }
        Ok(())
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>, line: u32) -> Result<Node, ImportError> {
        let at = At::line(line);
        let plain = |data: Data| {
            let written = matches!(data, Data::Bool(_) | Data::Number(_)).then(|| text.into());
            Node { line, written, data }
        };
        let resolved = || {
            let data = self.schema.resolve(text).map_err(|NotFinite| ImportError::Value {
                at: at.place(),
                what: "infinity and not-a-number are no values here".to_owned(),
            })?;
            Ok(plain(data))
        };
        let as_text = || Node { line, written: None, data: Data::Text(text.to_owned()) };
        let Some(tag) = tag else {
            return if style == ScalarStyle::Plain { resolved() } else { Ok(as_text()) };
        };
        match (tag.handle(), tag.suffix()) {
            (CORE, "str") | ("!", "") => Ok(as_text()),
            ("!", "unsafe") if self.schema == Schema::Ansible => Ok(as_text()),
            ("!", "vault" | "vault-encrypted") if self.schema == Schema::Ansible => {
                Ok(Node { line, written: None, data: Data::Vault })
            }
            (CORE, kind @ ("int" | "float" | "bool" | "null")) => {
                let node = resolved()?;
                let fits = match &node.data {
                    Data::Number(number) => kind == "float" || (kind == "int" && !number.is_f64()),
                    Data::Bool(_) => kind == "bool",
                    Data::Null => kind == "null",
                    _ => false,
                };
                if fits { Ok(node) } else { Err(self.bad_tag(tag, at)) }
            }
            _ => Err(self.bad_tag(tag, at)),
        }
    }

    fn collection_tag(&self, tag: Option<&Tag>, kind: &str, at: At<'_>) -> Result<(), ImportError> {
        match tag {
            Some(tag) if !(tag.handle() == CORE && tag.suffix() == kind) => Err(self.bad_tag(tag, at)),
            _ => Ok(()),
        }
    }

    fn bad_tag(&self, tag: &Tag, at: At<'_>) -> ImportError {
        let handle = if tag.handle() == CORE { "!!" } else { tag.handle() };
        ImportError::Tag { at: at.place(), tag: format!("{handle}{}", tag.suffix()) }
    }
}

/// What the map says itself comes first, then the merged maps in their order.
fn merge(entries: &mut Vec<Entry>, merged: Vec<Node>, at: At<'_>) -> Result<(), ImportError> {
    let mut seen: HashSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    for node in merged {
        let maps = match node.data {
            Data::List(items) => items,
            _ => vec![node],
        };
        for map in maps {
            let line = At { line: map.line, ..at };
            let Data::Map(more) = map.data else { return Err(map.unexpected("a map to merge", line)) };
            entries.extend(more.into_iter().filter(|entry| seen.insert(entry.key.clone())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn value(text: &str) -> Value {
        yaml(text, Schema::Ansible).expect(text).into_value()
    }

    fn wrong(text: &str) -> String {
        yaml(text, Schema::Core).expect_err(text).to_string()
    }

    #[test]
    fn aliases_and_merges_are_what_they_stand_for() {
        let text = "base: &b {x: 1, y: 2}\none: *b\ntwo:\n  <<: *b\n  y: 3\nthree:\n  <<: [*b, {z: 4, x: 9}]\n";
        let x_y = json!({"x": 1, "y": 2});
        let expected = json!({"base": x_y, "one": x_y, "two": {"x": 1, "y": 3}, "three": {"x": 1, "y": 2, "z": 4}});
        assert_eq!(value(text), expected);
        assert_eq!(value("'<<': 1"), json!({"<<": 1}), "in quotes it is a key");
    }

    #[test]
    fn aliases_cannot_multiply_without_end() {
        let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..20 {
            let of = format!("*a{}", level - 1);
            text += &format!("a{level}: &a{level} [{}]\n", vec![of; 10].join(","));
        }
        assert!(wrong(&text).contains("repeat more than 64 MiB"), "{}", wrong(&text));
        assert!(wrong("a: &a [*a]").contains("inside what it stands for"), "{}", wrong("a: &a [*a]"));
    }

    #[test]
    fn what_yaml_can_do_and_an_inventory_need_not_is_refused() {
        let said: String = [
            "a: 1\nb: 2\na: 3",
            "a: !!python/object:os.system ls",
            "a: !!python/tuple [1]",
            "a: !vault x",
            "? [a]\n: b",
            "a: 1\n---\nb: 2",
            "a: .inf",
            "a: !!int x",
            "<<: 1",
            "a: [",
            "a: b: c",
            "a: *b",
        ]
        .iter()
        .map(|text| format!("{text:?}\n    {}\n", wrong(text)))
        .collect();
        insta::assert_snapshot!(said);
        for deep in ["[".repeat(200_000), "- ".repeat(200_000), "{a: ".repeat(100_000), "? ".repeat(100_000)] {
            wrong(&deep);
        }
    }

    #[test]
    fn numbers_remember_how_they_were_written() {
        let node = yaml("version: 1.10", Schema::Core).expect("a map");
        let entries = node.into_map("a map", At::default()).expect("entries");
        assert_eq!(entries[0].value.as_text("a text", At::default()), Ok("1.10"));
        assert_eq!(entries[0].line, 1);
    }
}
