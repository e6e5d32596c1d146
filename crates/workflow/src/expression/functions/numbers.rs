//! Functions of numbers.

use serde_json::{Number, Value};

use crate::expression::{
    budget::Budget,
    error::{ErrorCode, Fault},
    operators,
    syntax::Arithmetic,
    value::Val,
};

/// More digits than a float has mean nothing.
const DIGITS_MAX: u64 = 15;

fn of(value: &Val<'_>, function: &str, at: u32) -> Result<Number, Fault> {
    match value {
        Val::Number(number) => Ok(number.clone()),
        other => {
            let hint = if matches!(other, Val::Text(_)) { "; `int` and `float` make one of it" } else { "" };
            Err(Fault::wrong_type(at, format!("`{function}` needs a number, not {}{hint}", other.kind())))
        }
    }
}

pub(super) fn abs(subject: Val<'_>, at: u32) -> Result<Val<'_>, Fault> {
    let number = of(&subject, "abs", at)?;
    if number.as_f64().is_some_and(|float| float < 0.0) {
        operators::negative(Val::Number(number), at)
    } else {
        Ok(subject)
    }
}

/// To whole numbers, which are integers then, or to some digits behind the point. Halves go away from zero.
pub(super) fn round<'a>(subject: Val<'a>, digits: Option<&Val<'_>>, at: u32) -> Result<Val<'a>, Fault> {
    let number = of(&subject, "round", at)?;
    let digits = match digits {
        None => 0,
        Some(Val::Number(digits)) if digits.as_u64().is_some_and(|digits| digits <= DIGITS_MAX) => {
            digits.as_u64().unwrap_or_default()
        }
        Some(_) => return Err(Fault::wrong_type(at, format!("`round` keeps 0 to {DIGITS_MAX} digits"))),
    };
    if !number.is_f64() {
        return Ok(subject);
    }
    let float = number.as_f64().unwrap_or_default();
    if digits == 0 {
        return super::convert::truncated(float.round(), at).map(Val::Number);
    }
    let scale = 10_f64.powi(i32::try_from(digits).unwrap_or_default());
    let scaled = float * scale;
    // So large that it has no such digits anyway.
    let rounded = if scaled.is_finite() { scaled.round() / scale } else { float };
    operators::float(rounded, at).map(Val::Number)
}

pub(super) fn sum<'a>(subject: &Val<'a>, budget: &mut Budget, at: u32) -> Result<Val<'a>, Fault> {
    let mut sum = Number::from(0);
    for value in super::lists::of(subject, "sum", at)? {
        budget.steps(1, at)?;
        let Value::Number(number) = value else {
            return Err(Fault::wrong_type(at, "`sum` needs a list of numbers"));
        };
        sum = operators::calculate_numbers(Arithmetic::Add, &sum, number, at)?;
    }
    Ok(Val::Number(sum))
}

/// The smallest or the largest: of several arguments, or of the one list that is given. An empty list has none.
pub(super) fn extreme<'a>(
    mut candidates: Vec<Val<'a>>,
    largest: bool,
    budget: &mut Budget,
    at: u32,
) -> Result<Val<'a>, Fault> {
    if let [Val::List(_)] = candidates.as_slice() {
        let Some(Val::List(list)) = candidates.pop() else { return Err(Fault::budget(at)) };
        budget.steps(list.len(), at)?;
        let mut best = 0;
        for index in 1..list.len() {
            if is_better(&Val::borrowed(&list[index]), &Val::borrowed(&list[best]), largest, budget, at)? {
                best = index;
            }
        }
        if let [only] = list.as_ref() {
            // Nothing to compare it with, but it must be something that can be compared.
            operators::order(&Val::borrowed(only), &Val::borrowed(only), budget, at)?;
        }
        return Ok(crate::expression::evaluate::take(list, best).unwrap_or(super::lists::nothing("min", at)));
    }
    let mut candidates = candidates.into_iter();
    let mut best =
        candidates.next().ok_or_else(|| Fault::new(ErrorCode::WrongArguments, at, "nothing to choose from"))?;
    operators::order(&best, &best, budget, at)?;
    for candidate in candidates {
        if is_better(&candidate, &best, largest, budget, at)? {
            best = candidate;
        }
    }
    Ok(best)
}

fn is_better(candidate: &Val<'_>, best: &Val<'_>, largest: bool, budget: &mut Budget, at: u32) -> Result<bool, Fault> {
    let order = operators::order(candidate, best, budget, at)?;
    Ok(if largest { order.is_gt() } else { order.is_lt() })
}
