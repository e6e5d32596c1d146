//! JSON with places in its texts: what a node of a workflow is told to do, before its values are known.

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;

use super::{
    context::Context,
    error::{ErrorCode, ExpressionError, Fault},
    evaluate::Evaluation,
    limits::{DEPTH_MAX, RESULT_BYTES_MAX},
    pattern::Patterns,
    references::Reference,
    scope::Scope,
    template::{Template, too_large},
    value::Measure,
};

/// JSON with places in its texts, compiled. Keys are never places. Copies share everything.
#[derive(Debug, Clone)]
pub struct TemplateTree(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    branch: Branch,
    references: Box<[Reference]>,
}

#[derive(Debug)]
enum Branch {
    /// Nothing in here has a place.
    Fixed(Value),
    Text(Template),
    List(Vec<Branch>),
    Object(Vec<(String, Branch)>),
}

/// What the texts of a tree are compiled with.
struct Compiling<'c> {
    scope: Scope,
    references: &'c mut Vec<Reference>,
    patterns: &'c mut Patterns,
}

impl TemplateTree {
    /// Reads all texts of a tree. An error says which one it is about, with a JSON pointer.
    pub fn compile(value: &Value, scope: Scope) -> Result<Self, ExpressionError> {
        Self::compile_with(value, scope, &mut Patterns::of_text())
    }

    /// The same for a tree of a definition, whose patterns have a budget together.
    pub(crate) fn compile_with(value: &Value, scope: Scope, patterns: &mut Patterns) -> Result<Self, ExpressionError> {
        let (mut pointer, mut references) = (Vec::new(), Vec::new());
        let branch =
            Branch::compile(value, &mut pointer, &mut Compiling { scope, references: &mut references, patterns })?;
        Ok(Self(Arc::new(Inner { branch, references: references.into() })))
    }

    /// The paths that are named, each with the pointer to its text.
    pub fn references(&self) -> &[Reference] {
        &self.0.references
    }

    /// The tree with its values. One without places is not even copied. All of it shares one budget.
    pub fn value(&self, context: &Context) -> Result<Cow<'_, Value>, ExpressionError> {
        if let Branch::Fixed(value) = &self.0.branch {
            return Ok(Cow::Borrowed(value));
        }
        let mut measure = Measure { left: RESULT_BYTES_MAX };
        self.0.branch.value(&mut Evaluation::new(context), &mut measure, 0).map(Cow::Owned)
    }
}

impl Branch {
    fn compile<'v>(
        value: &'v Value,
        pointer: &mut Vec<Cow<'v, str>>,
        compiling: &mut Compiling<'_>,
    ) -> Result<Self, ExpressionError> {
        if pointer.len() >= DEPTH_MAX {
            let message = format!("a tree with places is at most {DEPTH_MAX} levels deep");
            return Err(Fault::new(ErrorCode::TooDeep, 0, message).in_text(""));
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(Self::Fixed(value.clone())),
            Value::String(text) => {
                let template = Template::compile_with(text, compiling.scope, compiling.patterns)?;
                if let Some(literal) = template.as_literal() {
                    return Ok(Self::Fixed(Value::String(literal.to_owned())));
                }
                let written = written(pointer);
                compiling.references.extend(template.references().iter().cloned().map(|mut reference| {
                    reference.place.pointer.clone_from(&written);
                    reference
                }));
                Ok(Self::Text(template))
            }
            Value::Array(list) => {
                let mut branches = Vec::with_capacity(list.len());
                for (index, value) in list.iter().enumerate() {
                    let key = index.to_string();
                    branches.push(Self::child(value, Cow::Owned(key), pointer, compiling)?);
                }
                if branches.iter().all(Self::is_fixed) {
                    return Ok(Self::Fixed(branches.into_iter().filter_map(Self::fixed).collect()));
                }
                Ok(Self::List(branches))
            }
            Value::Object(object) => {
                let mut branches = Vec::with_capacity(object.len());
                for (key, value) in object {
                    branches.push((key.clone(), Self::child(value, Cow::Borrowed(key), pointer, compiling)?));
                }
                if branches.iter().all(|(_, branch)| branch.is_fixed()) {
                    let fixed = branches.into_iter().filter_map(|(key, branch)| Some((key, branch.fixed()?)));
                    return Ok(Self::Fixed(Value::Object(fixed.collect())));
                }
                Ok(Self::Object(branches))
            }
        }
    }

    fn child<'v>(
        value: &'v Value,
        key: Cow<'v, str>,
        pointer: &mut Vec<Cow<'v, str>>,
        compiling: &mut Compiling<'_>,
    ) -> Result<Self, ExpressionError> {
        pointer.push(key.clone());
        let branch = Self::compile(value, pointer, compiling).map_err(|error| error.under(&key));
        pointer.pop();
        branch
    }

    fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }

    fn fixed(self) -> Option<Value> {
        match self {
            Self::Fixed(value) => Some(value),
            _ => None,
        }
    }

    fn value<'a>(
        &'a self,
        evaluation: &mut Evaluation<'a>,
        measure: &mut Measure,
        depth: usize,
    ) -> Result<Value, ExpressionError> {
        let oversize = |oversize| too_large(oversize, 0).in_text("");
        match self {
            Self::Fixed(value) => {
                measure.value(value, depth).map_err(oversize)?;
                Ok(value.clone())
            }
            Self::Text(template) => template.value_within(evaluation, measure, depth),
            Self::List(branches) => {
                measure.take(2 + branches.len()).map_err(oversize)?;
                let values = branches.iter().enumerate().map(|(index, branch)| {
                    branch.value(evaluation, measure, depth + 1).map_err(|error| error.under(&index.to_string()))
                });
                values.collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            Self::Object(branches) => {
                let mut object = serde_json::Map::new();
                for (key, branch) in branches {
                    measure.take(key.len() + 4).map_err(oversize)?;
                    let value = branch.value(evaluation, measure, depth + 1).map_err(|error| error.under(key))?;
                    object.insert(key.clone(), value);
                }
                Ok(Value::Object(object))
            }
        }
    }
}

fn written(pointer: &[Cow<'_, str>]) -> String {
    pointer.iter().map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1"))).collect()
}
