//! What a node's parts are made with: it knows where in the definition they stand, and gathers what is wrong with them.
//!
//! Places within a configuration are JSON pointers here, `/headers/accept`; people see them as `nodes[3].config.headers.accept`.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::fields::{Condition, Text, Tree};
use crate::compile::{Mistakes, path_under, read_at};
use crate::expression::{ExpressionError, Patterns, Reference, Scope, Template, TemplateTree};

/// One node while it is made.
pub(crate) struct Building<'b> {
    /// Where the configuration stands, such as `nodes[3].config`.
    base: &'b str,
    /// The pointer from there to what is being made.
    pointer: String,
    scope: Scope,
    /// What the edges that leave the node are taken on.
    edges: &'b [&'b str],
    mistakes: &'b mut Mistakes,
    /// Those of the whole definition.
    patterns: &'b mut Patterns,
    references: Vec<Reference>,
    /// How many texts and trees were compiled that have places.
    compiled: usize,
}

impl<'b> Building<'b> {
    pub fn new(base: &'b str, edges: &'b [&'b str], mistakes: &'b mut Mistakes, patterns: &'b mut Patterns) -> Self {
        let (pointer, scope) = (String::new(), Scope::workflow());
        Self { base, pointer, scope, edges, mistakes, patterns, references: Vec::new(), compiled: 0 }
    }

    /// How many texts and trees with places have been compiled.
    pub const fn compiled(&self) -> usize {
        self.compiled
    }

    /// Whether an edge with this name leaves the node.
    pub fn has_edge(&self, name: &str) -> bool {
        self.edges.contains(&name)
    }

    /// Something is wrong at a place of the configuration.
    pub fn mistake(&mut self, at: &str, what: impl Into<String>) {
        self.mistakes.add(path_under(self.base, &format!("{}{at}", self.pointer)), what);
    }

    /// Reads a configuration.
    pub fn read<T: DeserializeOwned>(&mut self, config: Map<String, Value>) -> Option<T> {
        read_at(&path_under(self.base, &self.pointer), Value::Object(config), self.mistakes)
    }

    /// Makes something that stands deeper in the configuration, and where a loop's names are known.
    pub fn in_loop<T>(&mut self, at: &str, make: impl FnOnce(&mut Self) -> T) -> T {
        let (length, scope) = (self.pointer.len(), self.scope);
        self.pointer.push_str(at);
        self.scope = Scope::within_loop();
        let made = make(self);
        self.pointer.truncate(length);
        self.scope = scope;
        made
    }

    /// A text with places.
    pub fn text(&mut self, at: &str, text: &str) -> Text {
        let compiled = Template::compile_with(text, self.scope, self.patterns);
        self.compiled += usize::from(text.contains("{{"));
        let template = self.keep(at, compiled, Template::references).unwrap_or_else(|| self.nothing());
        Text::new(at, template)
    }

    /// A text with places, if there is one.
    pub fn maybe_text(&mut self, at: &str, text: Option<&str>) -> Option<Text> {
        text.map(|text| self.text(at, text))
    }

    /// An expression, with or without braces.
    pub fn expression(&mut self, at: &str, text: &str) -> Text {
        let compiled = Template::condition_with(text, self.scope, self.patterns);
        self.compiled += 1;
        let template = self.keep(at, compiled, Template::references).unwrap_or_else(|| self.nothing());
        Text::new(at, template)
    }

    /// A condition, with or without braces.
    pub fn condition(&mut self, at: &str, text: &str) -> Condition {
        let compiled = Template::condition_with(text, self.scope, self.patterns);
        self.compiled += 1;
        let template = self.keep(at, compiled, Template::references).unwrap_or_else(|| self.nothing());
        Condition::new(at, template)
    }

    /// JSON with places in its texts.
    pub fn tree(&mut self, at: &str, value: &Value) -> Tree {
        let compiled = TemplateTree::compile_with(value, self.scope, self.patterns);
        self.compiled += 1;
        let tree = self.keep(at, compiled, TemplateTree::references).unwrap_or_else(|| {
            TemplateTree::compile(&Value::Null, self.scope).expect("null has no place that could be wrong")
        });
        Tree::new(at, tree)
    }

    /// What all compiled texts name.
    pub fn take_references(&mut self) -> Vec<Reference> {
        std::mem::take(&mut self.references)
    }

    fn nothing(&self) -> Template {
        Template::compile("", self.scope).expect("an empty text has no place that could be wrong")
    }

    /// Notes what was compiled, or what is wrong with it.
    fn keep<T>(
        &mut self,
        at: &str,
        compiled: Result<T, ExpressionError>,
        references: fn(&T) -> &[Reference],
    ) -> Option<T> {
        match compiled {
            Ok(template) => {
                let noted = references(&template).iter().cloned().map(|mut reference| {
                    reference.place.pointer = format!("{}{at}{}", self.pointer, reference.place.pointer);
                    reference
                });
                self.references.extend(noted);
                Some(template)
            }
            Err(error) => {
                let place = error.place();
                let what = format!("line {}, column {}: {}", place.line, place.column, error.message());
                self.mistake(&format!("{at}{}", place.pointer), what);
                None
            }
        }
    }
}

/// One key of a JSON pointer.
pub(super) fn key(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}
