//! Functions of texts. How long the result will be is calculated before it is made.

use std::borrow::Cow;

use serde_json::Value;

use crate::expression::{
    budget::Budget,
    error::{ErrorCode, Fault},
    pattern::Pattern,
    value::Val,
};

/// The text that `function` needs.
pub(super) fn of<'v>(value: &'v Val<'_>, function: &str, at: u32) -> Result<&'v str, Fault> {
    match value {
        Val::Text(text) => Ok(text),
        other => {
            let hint = if matches!(other, Val::Null) { "" } else { "; `string` makes one of it" };
            Err(Fault::wrong_type(at, format!("`{function}` needs a text, not {}{hint}", other.kind())))
        }
    }
}

pub(super) fn upper<'a>(subject: &Val<'a>, budget: &mut Budget, at: u32) -> Result<Val<'a>, Fault> {
    let text = of(subject, "upper", at)?;
    budget.bytes(text.len(), at)?;
    Ok(Val::text(text.to_uppercase()))
}

pub(super) fn lower<'a>(subject: &Val<'a>, budget: &mut Budget, at: u32) -> Result<Val<'a>, Fault> {
    let text = of(subject, "lower", at)?;
    budget.bytes(text.len(), at)?;
    Ok(Val::text(text.to_lowercase()))
}

pub(super) fn trim<'a>(subject: Val<'a>, budget: &mut Budget, at: u32) -> Result<Val<'a>, Fault> {
    match subject {
        Val::Text(Cow::Borrowed(text)) => Ok(Val::Text(Cow::Borrowed(text.trim()))),
        other => {
            let text = of(&other, "trim", at)?.trim();
            budget.bytes(text.len(), at)?;
            Ok(Val::text(text.to_owned()))
        }
    }
}

pub(super) fn matches<'a>(
    subject: &Val<'a>,
    pattern: Option<&Pattern>,
    budget: &mut Budget,
    at: u32,
) -> Result<Val<'a>, Fault> {
    let text = of(subject, "matches", at)?;
    // The parser gives every call of this function its pattern.
    let Some(pattern) = pattern else { return Ok(Val::Bool(false)) };
    budget.steps(pattern.steps(text.len()), at)?;
    Ok(Val::Bool(pattern.is_in(text)))
}

pub(super) fn split<'a>(
    subject: &Val<'a>,
    separator: &Val<'_>,
    budget: &mut Budget,
    at: u32,
) -> Result<Val<'a>, Fault> {
    let (text, separator) = (of(subject, "split", at)?, of(separator, "split", at)?);
    needs_something(separator, "split", at)?;
    budget.search(text.len(), at)?;
    budget.bytes(text.len(), at)?;
    let mut parts = Vec::new();
    for part in text.split(separator) {
        budget.steps(1, at)?;
        parts.push(Value::String(part.to_owned()));
    }
    Ok(Val::List(Cow::Owned(parts)))
}

pub(super) fn replace<'a>(
    subject: &Val<'a>,
    from: &Val<'_>,
    to: &Val<'_>,
    budget: &mut Budget,
    at: u32,
) -> Result<Val<'a>, Fault> {
    let (text, from, to) = (of(subject, "replace", at)?, of(from, "replace", at)?, of(to, "replace", at)?);
    needs_something(from, "replace", at)?;
    budget.search(text.len(), at)?;
    let found = text.matches(from).count();
    let length = found.checked_mul(to.len()).and_then(|added| added.checked_add(text.len() - found * from.len()));
    budget.bytes(length.ok_or_else(|| Fault::budget(at))?, at)?;
    Ok(Val::text(text.replace(from, to)))
}

/// A text many times over: `repeat(x, 3)` and `x * 3`.
pub(in crate::expression) fn repeat<'a>(
    text: &str,
    times: &Val<'_>,
    budget: &mut Budget,
    at: u32,
) -> Result<Val<'a>, Fault> {
    let times = match times {
        Val::Number(number) => number.as_u64(),
        _ => None,
    };
    let Some(times) = times else {
        return Err(Fault::wrong_type(at, "a text is repeated a whole number of times, zero or more"));
    };
    let length = usize::try_from(times).ok().and_then(|times| text.len().checked_mul(times));
    budget.bytes(length.ok_or_else(|| Fault::budget(at))?, at)?;
    if text.is_empty() {
        return Ok(Val::text(String::new()));
    }
    let times = usize::try_from(times).map_err(|_| Fault::budget(at))?;
    Ok(Val::text(text.repeat(times)))
}

fn needs_something(text: &str, function: &str, at: u32) -> Result<(), Fault> {
    if text.is_empty() {
        let message = format!("`{function}` needs a text to look for, and this one is empty");
        return Err(Fault::new(ErrorCode::WrongType, at, message));
    }
    Ok(())
}
