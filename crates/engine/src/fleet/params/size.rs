//! How large a schema is when every reference is replaced by what it names.
//!
//! Twenty lines of `$ref` can say what 2^20 lines would say, and an evaluator does the work of the latter. So the *unfolded
//! size* is counted before anything is compiled: paths through references and applicators, each schema once (memoised), with
//! numbers that saturate. Recursion into properties and items is allowed and counted as one step; how far it goes depends on
//! the instance, and [`super::work`] counts that. Recursion that stays at the same value would never end and is refused.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::parts::{On, References, nodes, own_work, parts};
use super::work::{Work, looks_back};

/// The largest unfolded size of a schema.
pub(super) const UNFOLDED_MAX: u64 = 10_000;
/// How deep subschemas may be nested, references included.
pub(super) const DEPTH_MAX: usize = 64;
/// Values in a schema as it is written.
const WRITTEN_MAX: u64 = 20_000;
/// Patterns of one schema: each is compiled, and takes up to [`super::PATTERN_BYTES_MAX`].
const PATTERNS_MAX: usize = 200;

/// The unfolded size of a schema, or what is wrong with it.
pub(super) fn unfolded(schema: &Value) -> Result<u64, String> {
    let written = nodes(schema);
    if written > WRITTEN_MAX {
        return Err(format!("has {written} values; at most {WRITTEN_MAX} are allowed"));
    }
    let patterns = patterns(schema);
    if patterns > PATTERNS_MAX {
        return Err(format!("has {patterns} patterns; at most {PATTERNS_MAX} are allowed"));
    }
    let mut count = Count {
        references: References::of(schema),
        root: schema,
        draft_4: schema.get("$schema").and_then(Value::as_str).is_some_and(|draft| draft.contains("draft-04")),
        known: HashMap::new(),
        without_loop: HashSet::new(),
    };
    let total = count.walk(schema, 0, true)?.work.judge;
    if total > UNFOLDED_MAX {
        let total = if total == u64::MAX { "more than 10^19".to_owned() } else { total.to_string() };
        return Err(format!(
            "unfolds to {total} subschemas when each $ref is replaced by what it names; at most {UNFOLDED_MAX} are \
             allowed: use fewer references inside anyOf, oneOf and allOf"
        ));
    }
    Ok(total)
}

/// Whether a schema can be compiled at once: it unfolds to no more than this, and no pattern has to be compiled.
pub(super) fn is_at_most(schema: &Value, max: u64) -> bool {
    patterns(schema) == 0 && unfolded(schema).is_ok_and(|size| size <= max)
}

pub(super) fn patterns(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(patterns).sum(),
        Value::Object(fields) => {
            let own = usize::from(fields.get("pattern").is_some_and(Value::is_string));
            let of_names = fields.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
            own + of_names + fields.values().map(patterns).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn too_deep() -> String {
    format!("nests subschemas deeper than {DEPTH_MAX}, references included")
}

/// What is known of a schema that was walked to its end.
#[derive(Debug, Clone, Copy)]
struct Found {
    work: Work,
    depth: usize,
}

#[derive(Debug)]
struct Count<'a> {
    references: References<'a>,
    root: &'a Value,
    draft_4: bool,
    /// By address: a schema is a value inside one document that does not move. Nothing while it is being walked.
    known: HashMap<*const Value, Option<Found>>,
    /// Schemas from which no chain of parts leads back to the same value.
    without_loop: HashSet<*const Value>,
}

impl<'a> Count<'a> {
    fn walk(&mut self, schema: &'a Value, depth: usize, enters: bool) -> Result<Found, String> {
        let Value::Object(fields) = schema else { return Ok(Found { work: Work::of(1), depth: 0 }) };
        let here = std::ptr::from_ref(schema);
        match self.known.get(&here) {
            Some(Some(found)) if depth + found.depth <= DEPTH_MAX => return Ok(*found),
            Some(Some(_)) => return Err(too_deep()),
            // Recursion that moves on through the instance.
            Some(None) => return Ok(Found { work: Work::of(1), depth: 0 }),
            None if depth > DEPTH_MAX => return Err(too_deep()),
            None => {}
        }
        self.check_words(schema, fields)?;
        if enters {
            self.check_loop(schema, &mut Vec::new())?;
        }
        self.known.insert(here, None);
        let mut found = Found { work: Work::of(own_work(fields)), depth: 0 };
        for (on, schema) in self.parts_of(fields)? {
            let below = self.walk(schema, depth + 1, on != On::Same)?;
            found.work.add(below.work);
            found.depth = found.depth.max(below.depth + 1);
        }
        if looks_back(fields) {
            found.work = found.work.looking_back();
        }
        self.known.insert(here, Some(found));
        Ok(found)
    }

    fn parts_of(&self, fields: &'a Map<String, Value>) -> Result<Vec<(On<'a>, &'a Value)>, String> {
        let mut inner = Vec::new();
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            inner.push((On::Same, self.references.find(reference)?));
        }
        parts(fields, |part| inner.push((part.on, part.schema)));
        Ok(inner)
    }

    /// Refuses words that change what a reference means.
    fn check_words(&self, schema: &Value, fields: &Map<String, Value>) -> Result<(), String> {
        for keyword in ["$dynamicRef", "$recursiveRef"] {
            if fields.contains_key(keyword) {
                return Err(format!("{keyword} is not supported; use $ref"));
            }
        }
        let keyword = if self.draft_4 { "id" } else { "$id" };
        if fields.get(keyword).is_some_and(Value::is_string) && !std::ptr::eq(schema, self.root) {
            return Err(format!("{keyword} is supported at the top of a schema only; use $defs and $ref"));
        }
        Ok(())
    }

    /// Whether applying a schema to a value leads to applying it to the same value again.
    fn check_loop(&mut self, schema: &'a Value, path: &mut Vec<*const Value>) -> Result<(), String> {
        let Value::Object(fields) = schema else { return Ok(()) };
        let here = std::ptr::from_ref(schema);
        if path.contains(&here) {
            return Err("refers to itself without end: a $ref leads back to where it stands".to_owned());
        }
        if path.len() > DEPTH_MAX {
            return Err(too_deep());
        }
        if self.without_loop.contains(&here) {
            return Ok(());
        }
        path.push(here);
        for (on, schema) in self.parts_of(fields)? {
            if on == On::Same {
                self.check_loop(schema, path)?;
            }
        }
        path.pop();
        self.without_loop.insert(here);
        Ok(())
    }
}
