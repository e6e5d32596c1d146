//! How much work it is to evaluate a schema over an instance, counted before it is done.
//!
//! The walk below visits what an evaluator would visit, with fuel: it stops when the fuel is used up, so counting is bounded
//! whatever the schema says. Recursive schemas are bounded by this as well, because the instance ends.

use serde_json::{Map, Value};

use super::parts::{On, References, nodes, own_work, parts};

/// Work one evaluation may take: subschemas applied to values, plus the values they compare with.
pub(super) const WORK_MAX: u64 = 200_000;
/// How deep an evaluation may go, through schemas and instance together.
const DEPTH_MAX: u32 = 192;
/// Bytes of a text that a pattern reads for one unit of work.
const TEXT_PER_UNIT: usize = 64;
/// What it costs to read a text as a regular expression.
const REGEX_FORMAT: u64 = 2_000;

/// The work of two questions: does the instance fit, and what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    /// To say whether the instance fits.
    pub(super) judge: u64,
    /// To collect errors. An applicator such as `anyOf` judges each branch before it collects from it.
    collect: u64,
}

impl Work {
    pub(super) const fn of(own: u64) -> Self {
        Self { judge: own, collect: own }
    }

    /// A part that is applied besides.
    pub(super) const fn add(&mut self, part: Self) {
        self.judge = self.judge.saturating_add(part.judge);
        self.collect = self.collect.saturating_add(part.judge).saturating_add(part.collect);
    }

    /// `unevaluatedProperties` and `unevaluatedItems` go through all that stands next to them once more.
    #[must_use]
    pub(super) const fn looking_back(self) -> Self {
        Self {
            judge: self.judge.saturating_add(self.collect),
            collect: self.collect.saturating_mul(2).saturating_add(self.judge),
        }
    }

    /// Both questions, one after the other.
    pub(super) const fn total(self) -> u64 {
        self.judge.saturating_add(self.collect)
    }
}

/// Whether a schema has a keyword that needs to know what the others evaluated.
pub(super) fn looks_back(schema: &Map<String, Value>) -> bool {
    schema.contains_key("unevaluatedProperties") || schema.contains_key("unevaluatedItems")
}

/// The work of evaluating a schema over an instance, or why it is too much.
pub(super) fn work(schema: &Value, instance: &Value) -> Result<u64, String> {
    let mut walk = Walk { references: References::of(schema), fuel: WORK_MAX };
    let total = walk.visit(schema, instance, 0)?.total();
    if total > WORK_MAX { Err(too_much()) } else { Ok(total) }
}

/// Whether evaluating a schema over an instance takes no more work than this. Asking takes no more either.
pub(super) fn is_at_most(schema: &Value, instance: &Value, max: u64) -> bool {
    let mut walk = Walk { references: References::of(schema), fuel: max };
    walk.visit(schema, instance, 0).is_ok_and(|work| work.total() <= max)
}

fn too_much() -> String {
    format!(
        "checking them against their schema takes more than {WORK_MAX} steps; send smaller parameters or simplify the schema"
    )
}

struct Walk<'a> {
    references: References<'a>,
    fuel: u64,
}

impl<'a> Walk<'a> {
    fn burn(&mut self, units: u64) -> Result<(), String> {
        self.fuel = self.fuel.checked_sub(units).ok_or_else(too_much)?;
        Ok(())
    }

    fn visit(&mut self, schema: &'a Value, instance: &Value, depth: u32) -> Result<Work, String> {
        if depth > DEPTH_MAX {
            return Err(format!("schema and parameters together are nested deeper than {DEPTH_MAX}"));
        }
        let Value::Object(fields) = schema else {
            self.burn(1)?;
            return Ok(Work::of(1));
        };
        let own = own_work(fields).saturating_add(own_reading(fields, instance));
        self.burn(own)?;
        let mut found = Work::of(own);
        let mut inner = Vec::new();
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            inner.push((On::Same, self.references.find(reference)?));
        }
        parts(fields, |part| inner.push((part.on, part.schema)));
        for (on, schema) in inner {
            self.apply(on, schema, instance, depth + 1, &mut found)?;
        }
        Ok(if looks_back(fields) { found.looking_back() } else { found })
    }

    fn apply(
        &mut self,
        on: On<'_>,
        schema: &'a Value,
        instance: &Value,
        depth: u32,
        found: &mut Work,
    ) -> Result<(), String> {
        let mut each = |walk: &mut Self, value: &Value| {
            found.add(walk.visit(schema, value, depth)?);
            Ok(())
        };
        match (on, instance) {
            (On::Same, value) => each(self, value),
            (On::Property(name), Value::Object(fields)) => match fields.get(name) {
                Some(value) => each(self, value),
                None => self.burn(1),
            },
            (On::Properties, Value::Object(fields)) => fields.values().try_for_each(|value| each(self, value)),
            (On::Matching(pattern), Value::Object(fields)) => fields.iter().try_for_each(|(name, value)| {
                self.burn(reading(name, pattern))?;
                each(self, value)
            }),
            (On::Names, Value::Object(fields)) => {
                fields.keys().try_for_each(|name| each(self, &Value::String(name.clone())))
            }
            (On::Item(n), Value::Array(items)) => match items.get(n) {
                Some(value) => each(self, value),
                None => self.burn(1),
            },
            (On::Items, Value::Array(items)) => items.iter().try_for_each(|value| each(self, value)),
            _ => self.burn(1),
        }
    }
}

/// What keywords that read the whole of a value cost.
fn own_reading(schema: &Map<String, Value>, instance: &Value) -> u64 {
    let mut sum = 0_u64;
    if let Value::String(text) = instance {
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
            sum = sum.saturating_add(reading(text, pattern));
        }
        if let Some(format) = schema.get("format").and_then(Value::as_str) {
            sum = sum.saturating_add(if format == "regex" { REGEX_FORMAT } else { reading(text, "") });
        }
    }
    if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
        sum = sum.saturating_add(nodes(instance));
    }
    for keyword in ["enum", "const"] {
        if schema.contains_key(keyword) {
            sum = sum.saturating_add(nodes(instance));
        }
    }
    sum
}

/// A pattern is matched in time linear in the text, times the size of the pattern at worst.
fn reading(text: &str, pattern: &str) -> u64 {
    let (text, pattern) = (text.len() / TEXT_PER_UNIT, pattern.len() / TEXT_PER_UNIT);
    (text as u64 + 1).saturating_mul(pattern as u64 + 1)
}
