//! Functions of lists and objects. Every element that is touched is a step.

use std::{borrow::Cow, collections::HashSet};

use serde_json::{Map, Value};

use super::convert::write_text;
use crate::expression::{
    budget::Budget,
    error::Fault,
    evaluate::{Evaluation, take},
    operators,
    token::offset,
    value::Val,
};

/// The list that `function` needs.
pub(super) fn of<'v>(value: &'v Val<'_>, function: &str, at: u32) -> Result<&'v [Value], Fault> {
    match value {
        Val::List(list) => Ok(list),
        other => Err(Fault::wrong_type(at, format!("`{function}` needs a list, not {}", other.kind()))),
    }
}

pub(super) fn length<'a>(subject: &Val<'a>, budget: &mut Budget, at: u32) -> Result<Val<'a>, Fault> {
    let length = match subject {
        Val::Text(text) => {
            budget.search(text.len(), at)?;
            text.chars().count()
        }
        Val::List(list) => list.len(),
        Val::Object(object) => object.len(),
        Val::Table(table) => table.len(),
        other => return Err(Fault::wrong_type(at, format!("{} has no length", other.kind()))),
    };
    Ok(Val::Number(length.into()))
}

/// An empty list has no first element, and `default` can say what to take instead.
pub(super) fn first<'a>(subject: Val<'a>, budget: &mut Budget, at: u32) -> Result<Val<'a>, Fault> {
    match subject {
        Val::Text(text) => one_character(text.chars().next(), "first", budget, at),
        Val::List(list) => Ok(take(list, 0).unwrap_or(nothing("first", at))),
        other => Err(Fault::wrong_type(at, format!("`first` needs a list or a text, not {}", other.kind()))),
    }
}

pub(super) fn last<'a>(subject: Val<'a>, budget: &mut Budget, at: u32) -> Result<Val<'a>, Fault> {
    match subject {
        Val::Text(text) => one_character(text.chars().next_back(), "last", budget, at),
        Val::List(list) => {
            let last = list.len().checked_sub(1).and_then(|index| take(list, index));
            Ok(last.unwrap_or(nothing("last", at)))
        }
        other => Err(Fault::wrong_type(at, format!("`last` needs a list or a text, not {}", other.kind()))),
    }
}

/// What `function` did not find. A message shows the text up to the function's name.
pub(super) fn nothing<'a>(function: &str, at: u32) -> Val<'a> {
    Val::Missing { end: at + offset(function.len()) }
}

fn one_character<'a>(character: Option<char>, function: &str, budget: &mut Budget, at: u32) -> Result<Val<'a>, Fault> {
    let Some(character) = character else { return Ok(nothing(function, at)) };
    budget.bytes(character.len_utf8(), at)?;
    Ok(Val::text(character.to_string()))
}

pub(super) fn keys<'a>(subject: &Val<'a>, budget: &mut Budget, at: u32) -> Result<Val<'a>, Fault> {
    let mut keys = Vec::new();
    let mut add = |key: &str| {
        budget.steps(1, at)?;
        budget.bytes(key.len(), at)?;
        keys.push(Value::String(key.to_owned()));
        Ok(())
    };
    match subject {
        Val::Object(object) => object.keys().try_for_each(|key| add(key))?,
        Val::Table(table) => table.iter().try_for_each(|(key, _)| add(key))?,
        other => return Err(Fault::wrong_type(at, format!("`keys` needs an object, not {}", other.kind()))),
    }
    Ok(Val::List(Cow::Owned(keys)))
}

pub(super) fn values<'a>(evaluation: &mut Evaluation<'a>, subject: Val<'a>, at: u32) -> Result<Val<'a>, Fault> {
    if !matches!(subject, Val::Object(_) | Val::Table(_)) {
        return Err(Fault::wrong_type(at, format!("`values` needs an object, not {}", subject.kind())));
    }
    match evaluation.keep(subject, at)? {
        Value::Object(object) => Ok(Val::List(Cow::Owned(object.into_iter().map(|(_, value)| value).collect()))),
        other => Ok(Val::owned(other)),
    }
}

/// Smallest first. All must be numbers, or all texts: nothing else has an order.
pub(super) fn sort<'a>(evaluation: &mut Evaluation<'a>, subject: Val<'a>, at: u32) -> Result<Val<'a>, Fault> {
    let list = of(&subject, "sort", at)?;
    evaluation.budget.steps(list.len(), at)?;
    if !list.iter().all(Value::is_number) && !list.iter().all(Value::is_string) {
        return Err(Fault::wrong_type(at, "`sort` needs a list of numbers or a list of texts"));
    }
    let mut sorted = match evaluation.keep(subject, at)? {
        Value::Array(list) => list,
        other => return Ok(Val::owned(other)),
    };
    sorted.sort_by(|left, right| match (left, right) {
        (Value::Number(left), Value::Number(right)) => operators::order_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        _ => std::cmp::Ordering::Equal,
    });
    Ok(Val::List(Cow::Owned(sorted)))
}

/// The first of each: what equals an earlier element is left out.
pub(super) fn unique<'a>(subject: &Val<'a>, budget: &mut Budget, at: u32) -> Result<Val<'a>, Fault> {
    let list = of(subject, "unique", at)?;
    let mut seen = HashSet::new();
    let mut rest = Vec::new();
    for value in list {
        // Once for the element, once for the name under which it is remembered.
        budget.copy(value, at)?;
        budget.copy(value, at)?;
        if seen.insert(canonical(value)) {
            rest.push(value.clone());
        }
    }
    Ok(Val::List(Cow::Owned(rest)))
}

/// One text for all values that are equal: `1` and `1.0` are.
fn canonical(value: &Value) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "only numbers that survive it are taken")]
    fn normal(value: &Value) -> Value {
        match value {
            Value::Number(number) if number.is_f64() => match number.as_f64() {
                Some(float) if float.fract() == 0.0 && float.abs() < 9.0e18 => (float as i64).into(),
                _ => value.clone(),
            },
            Value::Array(list) => list.iter().map(normal).collect(),
            Value::Object(object) => {
                Value::Object(object.iter().map(|(key, value)| (key.clone(), normal(value))).collect::<Map<_, _>>())
            }
            _ => value.clone(),
        }
    }
    normal(value).to_string()
}

pub(super) fn join<'a>(
    subject: &Val<'a>,
    separator: Option<&Val<'_>>,
    budget: &mut Budget,
    at: u32,
) -> Result<Val<'a>, Fault> {
    let separator = separator.map(|separator| super::text::of(separator, "join", at)).transpose()?.unwrap_or_default();
    let mut text = String::new();
    for (index, value) in of(subject, "join", at)?.iter().enumerate() {
        budget.steps(1, at)?;
        if index > 0 {
            budget.bytes(separator.len(), at)?;
            text.push_str(separator);
        }
        write_text(&mut text, &Val::borrowed(value), budget, at)?;
    }
    Ok(Val::text(text))
}
