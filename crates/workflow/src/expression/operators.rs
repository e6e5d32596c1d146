//! Operators: arithmetic that cannot overflow, comparisons that say what they cannot compare.
//!
//! Integers are calculated with exactly, and a result must fit into 64 bits with a sign; larger ones that the context
//! holds (up to 2^64-1) can be compared and passed on, but no calculation makes them. A float that is not finite is none
//! of JSON's and is refused.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::{
    budget::Budget,
    error::{ErrorCode, Fault},
    functions,
    syntax::{Arithmetic, Comparison, Test},
    value::Val,
};

/// A number as it is calculated with. Whatever JSON's integers are, an `i128` holds the sum of any two.
#[derive(Debug, Clone, Copy)]
enum Exact {
    Whole(i128),
    Float(f64),
}

impl Exact {
    fn of(number: &Number) -> Self {
        if let Some(signed) = number.as_i64() {
            Self::Whole(signed.into())
        } else if let Some(unsigned) = number.as_u64() {
            Self::Whole(unsigned.into())
        } else {
            Self::Float(number.as_f64().unwrap_or(f64::NAN))
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a float is asked for, and the nearest one is meant")]
    fn float(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Float(float) => float,
        }
    }
}

pub(super) fn whole(number: i128, at: u32) -> Result<Number, Fault> {
    i64::try_from(number)
        .map(Number::from)
        .map_err(|_| Fault::new(ErrorCode::NumberOutOfRange, at, "the result does not fit into an integer of 64 bits"))
}

pub(super) fn float(number: f64, at: u32) -> Result<Number, Fault> {
    Number::from_f64(number)
        .ok_or_else(|| Fault::new(ErrorCode::NumberOutOfRange, at, "the result is not a finite number"))
}

pub(super) fn negative(value: Val<'_>, at: u32) -> Result<Val<'_>, Fault> {
    match value {
        Val::Number(number) => match Exact::of(&number) {
            Exact::Whole(number) => whole(-number, at),
            Exact::Float(number) => float(-number, at),
        }
        .map(Val::Number),
        other => Err(Fault::wrong_type(at, format!("`-` needs a number, not {}", other.kind()))),
    }
}

pub(super) fn calculate<'a>(
    arithmetic: Arithmetic,
    left: Val<'a>,
    right: Val<'a>,
    budget: &mut Budget,
    at: u32,
) -> Result<Val<'a>, Fault> {
    let (left, right) = match (left, right) {
        (Val::Number(left), Val::Number(right)) => (left, right),
        (Val::Text(left), Val::Text(right)) if arithmetic == Arithmetic::Add => {
            budget.bytes(left.len() + right.len(), at)?;
            return Ok(Val::text(left.into_owned() + &right));
        }
        (Val::Text(text), Val::Number(times)) | (Val::Number(times), Val::Text(text))
            if arithmetic == Arithmetic::Multiply =>
        {
            return functions::repeat(&text, &Val::Number(times), budget, at);
        }
        (left, right) => {
            let sign = sign(arithmetic);
            let hint = if arithmetic == Arithmetic::Add { "; `~` joins texts" } else { "" };
            let message = format!("`{sign}` cannot be used with {} and {}{hint}", left.kind(), right.kind());
            return Err(Fault::wrong_type(at, message));
        }
    };
    calculate_numbers(arithmetic, &left, &right, at).map(Val::Number)
}

pub(super) fn calculate_numbers(
    arithmetic: Arithmetic,
    left: &Number,
    right: &Number,
    at: u32,
) -> Result<Number, Fault> {
    let (left, right) = (Exact::of(left), Exact::of(right));
    let divides = matches!(arithmetic, Arithmetic::Divide | Arithmetic::DivideWhole | Arithmetic::Remainder);
    if divides && right.float() == 0.0 {
        return Err(Fault::new(ErrorCode::DivisionByZero, at, "division by zero"));
    }
    if let (Exact::Whole(left), Exact::Whole(right)) = (left, right) {
        // Two integers of 64 bits: nothing but a product can leave 128 bits.
        let result = match arithmetic {
            Arithmetic::Add => Some(left + right),
            Arithmetic::Subtract => Some(left - right),
            Arithmetic::Multiply => Some(left.checked_mul(right).unwrap_or(i128::MAX)),
            Arithmetic::Divide => (left % right == 0).then(|| left / right),
            Arithmetic::DivideWhole => Some(floor_division(left, right)),
            Arithmetic::Remainder => Some(left - right * floor_division(left, right)),
        };
        if let Some(result) = result {
            return whole(result, at);
        }
    }
    let (left, right) = (left.float(), right.float());
    float(
        match arithmetic {
            Arithmetic::Add => left + right,
            Arithmetic::Subtract => left - right,
            Arithmetic::Multiply => left * right,
            Arithmetic::Divide => left / right,
            Arithmetic::DivideWhole => (left / right).floor(),
            Arithmetic::Remainder => left - right * (left / right).floor(),
        },
        at,
    )
}

fn floor_division(left: i128, right: i128) -> i128 {
    let quotient = left / right;
    if left % right != 0 && (left < 0) != (right < 0) { quotient - 1 } else { quotient }
}

fn sign(arithmetic: Arithmetic) -> &'static str {
    match arithmetic {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        Arithmetic::Multiply => "*",
        Arithmetic::Divide => "/",
        Arithmetic::DivideWhole => "//",
        Arithmetic::Remainder => "%",
    }
}

pub(super) fn compare(
    comparison: Comparison,
    left: &Val<'_>,
    right: &Val<'_>,
    budget: &mut Budget,
    at: u32,
) -> Result<bool, Fault> {
    Ok(match comparison {
        Comparison::Equal => equal(left, right, budget, at)?,
        Comparison::Different => !equal(left, right, budget, at)?,
        Comparison::Less => order(left, right, budget, at)? == Ordering::Less,
        Comparison::LessOrEqual => order(left, right, budget, at)? != Ordering::Greater,
        Comparison::Greater => order(left, right, budget, at)? == Ordering::Greater,
        Comparison::GreaterOrEqual => order(left, right, budget, at)? != Ordering::Less,
        Comparison::In => contains(right, left, budget, at)?,
        Comparison::NotIn => !contains(right, left, budget, at)?,
    })
}

/// Which of two numbers or two texts comes first. Texts are compared as their code points are.
pub(super) fn order(left: &Val<'_>, right: &Val<'_>, budget: &mut Budget, at: u32) -> Result<Ordering, Fault> {
    match (left, right) {
        (Val::Number(left), Val::Number(right)) => Ok(order_numbers(left, right)),
        (Val::Text(left), Val::Text(right)) => {
            budget.search(left.len().min(right.len()), at)?;
            Ok(left.cmp(right))
        }
        _ => {
            let message = format!("{} and {} have no order; two numbers or two texts have", left.kind(), right.kind());
            Err(Fault::wrong_type(at, message))
        }
    }
}

pub(super) fn order_numbers(left: &Number, right: &Number) -> Ordering {
    match (Exact::of(left), Exact::of(right)) {
        (Exact::Whole(left), Exact::Whole(right)) => left.cmp(&right),
        (Exact::Whole(left), Exact::Float(right)) => order_whole_and_float(left, right),
        (Exact::Float(left), Exact::Whole(right)) => order_whole_and_float(right, left).reverse(),
        (Exact::Float(left), Exact::Float(right)) => left.partial_cmp(&right).unwrap_or(Ordering::Equal),
    }
}

/// Exactly: as floats, 2^53 and 2^53 + 1 would be the same.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the integer part is asked for; what is too large becomes the largest"
)]
fn order_whole_and_float(whole: i128, float: f64) -> Ordering {
    let below = float.floor();
    whole.cmp(&(below as i128)).then(if float > below { Ordering::Less } else { Ordering::Equal })
}

fn equal(left: &Val<'_>, right: &Val<'_>, budget: &mut Budget, at: u32) -> Result<bool, Fault> {
    Ok(match (left, right) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(left), Val::Bool(right)) => left == right,
        (Val::Number(left), Val::Number(right)) => order_numbers(left, right).is_eq(),
        (Val::Text(left), Val::Text(right)) => {
            budget.search(left.len().min(right.len()), at)?;
            left == right
        }
        (Val::List(left), Val::List(right)) => equal_lists(left, right, budget, at, 0)?,
        (Val::Object(left), Val::Object(right)) => equal_objects(left, right, budget, at, 0)?,
        (Val::Table(_), Val::Object(_) | Val::Table(_)) | (Val::Object(_), Val::Table(_)) => {
            return Err(Fault::wrong_type(at, "`steps` and `variables` can only be compared part by part"));
        }
        _ => false,
    })
}

fn equal_values(left: &Value, right: &Value, budget: &mut Budget, at: u32, depth: usize) -> Result<bool, Fault> {
    budget.steps(1, at)?;
    Budget::level(depth, at)?;
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => equal_lists(left, right, budget, at, depth),
        (Value::Object(left), Value::Object(right)) => equal_objects(left, right, budget, at, depth),
        _ => equal(&Val::borrowed(left), &Val::borrowed(right), budget, at),
    }
}

fn equal_lists(left: &[Value], right: &[Value], budget: &mut Budget, at: u32, depth: usize) -> Result<bool, Fault> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (left, right) in left.iter().zip(right) {
        if !equal_values(left, right, budget, at, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_objects(
    left: &serde_json::Map<String, Value>,
    right: &serde_json::Map<String, Value>,
    budget: &mut Budget,
    at: u32,
    depth: usize,
) -> Result<bool, Fault> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (key, left) in left {
        match right.get(key) {
            Some(right) if equal_values(left, right, budget, at, depth + 1)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// A part of a text, an element of a list, a key of an object.
pub(super) fn contains(whole: &Val<'_>, part: &Val<'_>, budget: &mut Budget, at: u32) -> Result<bool, Fault> {
    match (whole, part) {
        (Val::Text(text), Val::Text(part)) => {
            budget.search(text.len(), at)?;
            Ok(text.contains(part.as_ref()))
        }
        (Val::List(list), part) => {
            for value in list.iter() {
                budget.steps(1, at)?;
                if equal(&Val::borrowed(value), part, budget, at)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Val::Object(object), Val::Text(key)) => Ok(object.contains_key(key.as_ref())),
        (Val::Table(table), Val::Text(key)) => Ok(table.get(key).is_some()),
        (whole, part) => {
            let message = format!("{} cannot be looked for in {}", part.kind(), whole.kind());
            Err(Fault::wrong_type(at, message))
        }
    }
}

pub(super) fn is(value: &Val<'_>, test: Test) -> bool {
    match test {
        Test::Defined => !matches!(value, Val::Missing { .. }),
        Test::Null => matches!(value, Val::Null),
        Test::Text => matches!(value, Val::Text(_)),
        Test::Number => matches!(value, Val::Number(_)),
        Test::Integer => matches!(value, Val::Number(number) if !number.is_f64()),
        Test::Boolean => matches!(value, Val::Bool(_)),
        Test::List => matches!(value, Val::List(_)),
        Test::Object => matches!(value, Val::Object(_) | Val::Table(_)),
    }
}
