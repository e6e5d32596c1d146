//! A text with places in it: compiled once, rendered often.

use std::sync::Arc;

use serde_json::Value;

use super::{
    context::Context,
    error::{ErrorCode, ExpressionError, Fault},
    evaluate::Evaluation,
    insert::{Insert, Surroundings},
    limits::{DEPTH_MAX, PLACES_MAX, RESULT_BYTES_MAX},
    parse::parse,
    pattern::Patterns,
    references::{Reference, count_lines},
    scope::Scope,
    syntax::Node,
    token::{Ending, offset},
    value::{Measure, Oversize, Val},
};

/// A text with places in it, compiled. Copies share everything.
#[derive(Debug, Clone)]
pub struct Template(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Box<str>,
    shape: Shape,
    references: Box<[Reference]>,
}

#[derive(Debug)]
enum Shape {
    /// No place at all, and its braces no longer doubled.
    Literal(String),
    /// One place and nothing around it: the value keeps its type.
    Lone(Node),
    Mixed(Vec<Part>),
}

#[derive(Debug)]
enum Part {
    Literal(String, u32),
    Place(Node, Surroundings),
}

impl Template {
    /// Reads a text. Only names that the scope has may begin a path in it.
    pub fn compile(text: &str, scope: Scope) -> Result<Self, ExpressionError> {
        Self::compile_with(text, scope, &mut Patterns::of_text())
    }

    /// The same for a text of a definition, whose patterns have a budget together.
    pub(crate) fn compile_with(text: &str, scope: Scope, patterns: &mut Patterns) -> Result<Self, ExpressionError> {
        let mut references = Vec::new();
        let shape = shape(text, scope, &mut references, patterns).map_err(|fault| fault.in_text(text))?;
        Ok(Self::new(text, shape, references))
    }

    /// Reads a condition: an expression, with or without braces around it or around parts of it. `{{ a }} == {{ b }}` is
    /// `(a) == (b)`, where a text would have become "1 == 2", which nobody can call true or false.
    pub fn condition(text: &str, scope: Scope) -> Result<Self, ExpressionError> {
        Self::condition_with(text, scope, &mut Patterns::of_text())
    }

    /// The same for a condition of a definition.
    pub(crate) fn condition_with(text: &str, scope: Scope, patterns: &mut Patterns) -> Result<Self, ExpressionError> {
        let mut references = Vec::new();
        let parsed = parse(text, 0, Ending::Text, scope, &mut references, patterns);
        let parsed = parsed.map_err(|fault| fault.in_text(text))?;
        Ok(Self::new(text, Shape::Lone(parsed.node), references))
    }

    fn new(text: &str, shape: Shape, mut references: Vec<Reference>) -> Self {
        count_lines(&mut references, text);
        Self(Arc::new(Inner { source: text.into(), shape, references: references.into() }))
    }

    /// The text that renders as `text`, whatever stands in it.
    pub fn escape(text: &str) -> String {
        text.replace("{{", "{{{{")
    }

    /// The text itself, if there is no place in it.
    pub fn as_literal(&self) -> Option<&str> {
        match &self.0.shape {
            Shape::Literal(text) => Some(text),
            Shape::Lone(_) | Shape::Mixed(_) => None,
        }
    }

    /// The paths that are named, in the order of the text.
    pub fn references(&self) -> &[Reference] {
        &self.0.references
    }

    /// The value. A lone expression keeps its type; everything else is a text.
    pub fn value(&self, context: &Context) -> Result<Value, ExpressionError> {
        let mut measure = Measure { left: RESULT_BYTES_MAX };
        self.value_within(&mut Evaluation::new(context), &mut measure, 0)
    }

    /// The text, with values as they have to be where it is used.
    pub fn text(&self, context: &Context, insert: Insert) -> Result<String, ExpressionError> {
        self.render_text(&mut Evaluation::new(context), insert).map_err(|fault| fault.in_text(&self.0.source))
    }

    /// Whether the value counts as true: everything does but `false`, `null`, zero and what is empty.
    pub fn holds(&self, context: &Context) -> Result<bool, ExpressionError> {
        match &self.0.shape {
            Shape::Lone(node) => {
                let value = Evaluation::new(context).value(node).map_err(|fault| fault.in_text(&self.0.source))?;
                Ok(value.is_true())
            }
            Shape::Literal(_) | Shape::Mixed(_) => Ok(!self.text(context, Insert::Text)?.is_empty()),
        }
    }

    /// The value, as part of something larger that has its own budget and is `depth` levels deep here.
    pub(super) fn value_within<'a>(
        &'a self,
        evaluation: &mut Evaluation<'a>,
        measure: &mut Measure,
        depth: usize,
    ) -> Result<Value, ExpressionError> {
        let result = match &self.0.shape {
            Shape::Lone(node) => evaluation.value(node).and_then(|value| {
                measure.val(&value, depth).map_err(|oversize| too_large(oversize, node.at))?;
                Ok(value.into_value())
            }),
            _ => self.render_text(evaluation, Insert::Text).and_then(|text| {
                measure.take(text.len() + 2).map_err(|oversize| too_large(oversize, 0))?;
                Ok(Value::String(text))
            }),
        };
        result.map_err(|fault| fault.in_text(&self.0.source))
    }

    fn render_text<'a>(&'a self, evaluation: &mut Evaluation<'a>, insert: Insert) -> Result<String, Fault> {
        let mut text = String::new();
        let mut place = |text: &mut String, node: &'a Node, surroundings| {
            let value: Val<'a> = evaluation.value(node)?;
            insert.write(text, &value, surroundings, &mut evaluation.budget, node.at)?;
            check_length(text, node.at)
        };
        match &self.0.shape {
            Shape::Literal(literal) => {
                insert.check_literal(literal, 0)?;
                text.push_str(literal);
            }
            Shape::Lone(node) => {
                place(&mut text, node, Surroundings { in_json_text: false, begins_address: true })?;
            }
            Shape::Mixed(parts) => {
                for part in parts {
                    match part {
                        Part::Literal(literal, at) => {
                            insert.check_literal(literal, *at)?;
                            text.push_str(literal);
                            check_length(&text, *at)?;
                        }
                        Part::Place(node, surroundings) => place(&mut text, node, *surroundings)?,
                    }
                }
            }
        }
        if insert == Insert::Json && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err() {
            return Err(Fault::new(ErrorCode::NotJson, 0, "with its values this text is not JSON"));
        }
        Ok(text)
    }
}

fn check_length(text: &str, at: u32) -> Result<(), Fault> {
    if text.len() > RESULT_BYTES_MAX { Err(too_large(Oversize::Bytes, at)) } else { Ok(()) }
}

pub(super) fn too_large(oversize: Oversize, at: u32) -> Fault {
    match oversize {
        Oversize::Bytes => {
            Fault::new(ErrorCode::ResultTooLarge, at, format!("the result has more than {RESULT_BYTES_MAX} bytes"))
        }
        Oversize::Depth => {
            Fault::new(ErrorCode::TooDeep, at, format!("the result is nested more than {DEPTH_MAX} levels deep"))
        }
    }
}

/// Finds the places. `{{{{` is two braces that are meant as such.
fn shape(source: &str, scope: Scope, references: &mut Vec<Reference>, patterns: &mut Patterns) -> Result<Shape, Fault> {
    let mut parts = Vec::new();
    let mut places = 0;
    let mut literal = String::new();
    let mut literal_at = 0;
    let mut position = 0;
    while let Some(found) = source[position..].find("{{") {
        let start = position + found;
        literal.push_str(&source[position..start]);
        if source[start..].starts_with("{{{{") {
            literal.push_str("{{");
            position = start + 4;
            continue;
        }
        places += 1;
        if places > PLACES_MAX || source.len() > RESULT_BYTES_MAX {
            let message = format!("a text with places has at most {PLACES_MAX} of them and {RESULT_BYTES_MAX} bytes");
            return Err(Fault::new(ErrorCode::ExpressionTooLong, offset(start), message));
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(std::mem::take(&mut literal), literal_at));
        }
        let parsed = parse(source, start + 2, Ending::Braces, scope, references, patterns)?;
        parts.push(Part::Place(parsed.node, Surroundings::default()));
        position = parsed.end;
        literal_at = offset(position);
    }
    literal.push_str(&source[position..]);
    if places == 0 {
        return Ok(Shape::Literal(literal));
    }
    if !literal.is_empty() {
        parts.push(Part::Literal(literal, literal_at));
    }
    if parts.len() == 1
        && let Some(Part::Place(node, _)) = parts.pop_if(|part| matches!(part, Part::Place(..)))
    {
        return Ok(Shape::Lone(node));
    }
    look_around(&mut parts);
    Ok(Shape::Mixed(parts))
}

/// Tells every place what is around it.
fn look_around(parts: &mut [Part]) {
    if let [Part::Place(_, first), Part::Literal(next, _), ..] = parts {
        first.begins_address = next.starts_with(['/', '?', '#']);
    }
    let mut in_json_text = false;
    for part in parts {
        match part {
            Part::Place(_, surroundings) => surroundings.in_json_text = in_json_text,
            Part::Literal(literal, _) => {
                let mut escaped = false;
                for byte in literal.bytes() {
                    match byte {
                        _ if escaped => escaped = false,
                        b'\\' if in_json_text => escaped = true,
                        b'"' => in_json_text = !in_json_text,
                        _ => {}
                    }
                }
            }
        }
    }
}
