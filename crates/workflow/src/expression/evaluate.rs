//! What an expression's tree means, given a context. One pass: no value is ever read as an expression.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{
    budget::Budget,
    context::Context,
    error::{ErrorCode, Fault},
    functions, operators,
    syntax::{Arithmetic, Call, Choice, Comparison, Key, Kind, Node, Segment, Test},
    value::Val,
};

pub(super) struct Evaluation<'a> {
    pub context: &'a Context,
    pub budget: Budget,
}

impl<'a> Evaluation<'a> {
    pub fn new(context: &'a Context) -> Self {
        Self { context, budget: Budget::new(context.allowance()) }
    }

    /// The value of `node`. What is missing is an error.
    pub fn value(&mut self, node: &'a Node) -> Result<Val<'a>, Fault> {
        match self.value_or_missing(node)? {
            Val::Missing { end } => Err(Fault::missing(node.at, end)),
            value => Ok(value),
        }
    }

    /// The value of `node`, which may be missing: for those who know what to do then.
    pub fn value_or_missing(&mut self, node: &'a Node) -> Result<Val<'a>, Fault> {
        self.budget.steps(1, node.at)?;
        match &node.kind {
            Kind::Constant(value) => Ok(Val::borrowed(value)),
            Kind::Path { root, root_end, segments } => {
                let value = self.context.root(*root).unwrap_or(Val::Missing { end: *root_end });
                self.within(value, segments)
            }
            Kind::Within { of, segments } => {
                let value = self.value(of)?;
                self.within(value, segments)
            }
            Kind::List(nodes) => self.list(nodes),
            Kind::Object(fields) => self.object(fields),
            Kind::Negative(of) => operators::negative(self.value(of)?, node.at),
            Kind::Not(of) => Ok(Val::Bool(!self.value(of)?.is_true())),
            Kind::All(nodes) => self.until(nodes, false),
            Kind::Any(nodes) => self.until(nodes, true),
            Kind::Compare(comparison, sides) => self.compare(*comparison, sides, node.at),
            Kind::Is { of, test, negated } => self.test(of, *test, *negated),
            Kind::Calculate { first, rest } => self.calculate(first, rest),
            Kind::Concat(nodes) => self.concat(nodes),
            Kind::Choose(choice) => self.choose(choice),
            Kind::Pipe { first, calls } => self.pipe(first, calls),
        }
    }

    // Each kind has a function of its own, so that a deep expression does not pay for the room that all kinds need.

    fn list(&mut self, nodes: &'a [Node]) -> Result<Val<'a>, Fault> {
        let mut list = Vec::with_capacity(nodes.len());
        for node in nodes {
            let value = self.value(node)?;
            list.push(self.keep(value, node.at)?);
        }
        Ok(Val::List(Cow::Owned(list)))
    }

    fn object(&mut self, fields: &'a [(String, Node)]) -> Result<Val<'a>, Fault> {
        let mut object = Map::new();
        for (key, node) in fields {
            let value = self.value(node)?;
            self.budget.bytes(key.len(), node.at)?;
            object.insert(key.clone(), self.keep(value, node.at)?);
        }
        Ok(Val::Object(Cow::Owned(object)))
    }

    fn compare(&mut self, comparison: Comparison, sides: &'a (Node, Node), at: u32) -> Result<Val<'a>, Fault> {
        let left = self.value(&sides.0)?;
        let right = self.value(&sides.1)?;
        operators::compare(comparison, &left, &right, &mut self.budget, at).map(Val::Bool)
    }

    fn test(&mut self, of: &'a Node, test: Test, negated: bool) -> Result<Val<'a>, Fault> {
        let value = if test == Test::Defined { self.value_or_missing(of)? } else { self.value(of)? };
        Ok(Val::Bool(operators::is(&value, test) != negated))
    }

    fn calculate(&mut self, first: &'a Node, rest: &'a [(Arithmetic, Node)]) -> Result<Val<'a>, Fault> {
        let mut result = self.value(first)?;
        for (arithmetic, node) in rest {
            let operand = self.value(node)?;
            result = operators::calculate(*arithmetic, result, operand, &mut self.budget, node.at)?;
        }
        Ok(result)
    }

    fn concat(&mut self, nodes: &'a [Node]) -> Result<Val<'a>, Fault> {
        let mut text = String::new();
        for node in nodes {
            let value = self.value(node)?;
            functions::write_text(&mut text, &value, &mut self.budget, node.at)?;
        }
        Ok(Val::text(text))
    }

    fn choose(&mut self, choice: &'a Choice) -> Result<Val<'a>, Fault> {
        let Choice { condition, then, otherwise } = choice;
        let chosen = if self.value(condition)?.is_true() { then } else { otherwise };
        self.value(chosen)
    }

    fn pipe(&mut self, first: &'a Node, calls: &'a [Call]) -> Result<Val<'a>, Fault> {
        let mut value = self.value_or_missing(first)?;
        for call in calls {
            self.budget.steps(1, call.at)?;
            value = functions::apply(self, call, value, first.at)?;
        }
        Ok(value)
    }

    /// A value that becomes part of another one. What lies in the context is copied, and that costs.
    pub fn keep(&mut self, value: Val<'a>, at: u32) -> Result<Value, Fault> {
        match &value {
            Val::Text(Cow::Borrowed(text)) => self.budget.bytes(text.len(), at)?,
            Val::List(Cow::Borrowed(list)) => {
                list.iter().try_for_each(|value| self.budget.copy(value, at))?;
            }
            Val::Object(Cow::Borrowed(object)) => {
                for (key, value) in object.iter() {
                    self.budget.bytes(key.len(), at)?;
                    self.budget.copy(value, at)?;
                }
            }
            Val::Table(table) => {
                for (key, value) in table.iter() {
                    self.budget.bytes(key.len(), at)?;
                    self.budget.copy(value, at)?;
                }
            }
            _ => {}
        }
        Ok(value.into_value())
    }

    /// The first value that is as true as `wanted`, or the last one.
    fn until(&mut self, nodes: &'a [Node], wanted: bool) -> Result<Val<'a>, Fault> {
        let mut value = Val::Null;
        for node in nodes {
            value = self.value(node)?;
            if value.is_true() == wanted {
                break;
            }
        }
        Ok(value)
    }

    fn within(&mut self, mut value: Val<'a>, segments: &'a [Segment]) -> Result<Val<'a>, Fault> {
        for segment in segments {
            let found = match &segment.key {
                Key::Name(name) => field(value, name),
                Key::Index(index) => element(value, *index),
                Key::Computed(node) => match self.value(node)? {
                    Val::Text(name) => field(value, &name),
                    Val::Number(number) if number.is_i64() => element(value, number.as_i64().unwrap_or_default()),
                    // No list is that long.
                    Val::Number(number) if number.is_u64() => None,
                    other => {
                        let message = format!("a key is a text or a whole number, not {}", other.kind());
                        return Err(Fault::new(ErrorCode::WrongType, node.at, message));
                    }
                },
            };
            match found {
                Some(found) => value = found,
                None => return Ok(Val::Missing { end: segment.end }),
            }
        }
        Ok(value)
    }
}

fn field<'a>(value: Val<'a>, name: &str) -> Option<Val<'a>> {
    match value {
        Val::Object(Cow::Borrowed(object)) => object.get(name).map(Val::borrowed),
        Val::Object(Cow::Owned(mut object)) => object.remove(name).map(Val::owned),
        Val::Table(table) => table.get(name).map(Val::borrowed),
        _ => None,
    }
}

/// Numbers below zero count from the end.
fn element(value: Val<'_>, index: i64) -> Option<Val<'_>> {
    let Val::List(list) = value else { return None };
    let index = match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => list.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?,
    };
    take(list, index)
}

/// One element of a list, without copying it.
pub(super) fn take(list: Cow<'_, [Value]>, index: usize) -> Option<Val<'_>> {
    match list {
        Cow::Borrowed(list) => list.get(index).map(Val::borrowed),
        Cow::Owned(mut list) => (index < list.len()).then(|| Val::owned(list.swap_remove(index))),
    }
}
