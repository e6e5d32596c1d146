//! `math`: one operation on numbers, or an expression.
//!
//! Integers are exact, and a result that does not fit into 64 bits is a failure; so is a division by zero. This is as
//! expressions calculate.

use std::sync::Arc;

use bowline_model::RunError;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Number, Value, json};

use super::fields::{Text, Tree, failure};
use super::{Building, NodeType};
use crate::expression::check_variable_name;
use crate::node::{Done, Exit, Next, Node, Visit};

const OPERANDS_MAX: usize = 1_000;

#[derive(Debug)]
pub(super) struct Math {
    what: What,
    store_as: Option<Arc<str>>,
}

#[derive(Debug)]
enum What {
    Operation(Operation, Vec<Tree>),
    Expression(Text),
}

/// `operation` with `operands`, or `expression`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    #[serde(default)]
    operation: Option<Operation>,
    /// Numbers, or texts with a place. A list counts as its elements.
    #[serde(default)]
    operands: Option<Vec<Value>>,
    /// An expression that gives a number, with or without braces.
    #[serde(default)]
    expression: Option<String>,
    /// A variable to set to the result.
    #[serde(default)]
    store_as: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Operation {
    /// All of them together.
    Add,
    /// The first without the others.
    Subtract,
    Multiply,
    /// The first by the second. `10 / 5` is an integer and `10 / 4` is not.
    Divide,
    /// What a division that rounds down leaves.
    Modulo,
    /// The first, as often as the second says.
    Power,
    Min,
    Max,
    /// The mean of all.
    Average,
    /// The first, to as many digits as the second says; to an integer without it. Halves go away from zero.
    Round,
    /// The next integer below.
    Floor,
    /// The next integer above.
    Ceil,
    /// Without its sign.
    Abs,
    /// With the other sign.
    Negate,
}

impl Operation {
    /// How many numbers it takes.
    fn operands(self) -> std::ops::RangeInclusive<usize> {
        match self {
            Self::Add | Self::Multiply | Self::Min | Self::Max | Self::Average => 1..=OPERANDS_MAX,
            Self::Subtract => 2..=OPERANDS_MAX,
            Self::Divide | Self::Modulo | Self::Power => 2..=2,
            Self::Round => 1..=2,
            Self::Floor | Self::Ceil | Self::Abs | Self::Negate => 1..=1,
        }
    }

    fn wrong_count(self) -> String {
        let range = self.operands();
        match (*range.start(), *range.end()) {
            (1, 1) => "this operation takes one number".to_owned(),
            (2, 2) => "this operation takes two numbers".to_owned(),
            (1, 2) => "this operation takes one number or two".to_owned(),
            (from, to) => format!("this operation takes {from} to {to} numbers"),
        }
    }
}

impl NodeType for Math {
    const TYPE: &'static str = "math";
    const ABOUT: &'static str = "Calculates. The output has the `result`.";
    type Config = Config;

    fn build(config: Config, building: &mut Building<'_>) -> Box<dyn Node> {
        if let Some(Err(error)) = config.store_as.as_deref().map(check_variable_name) {
            building.mistake("/store_as", error.message());
        }
        let what = match (config.operation, config.operands, config.expression) {
            (Some(operation), Some(operands), None) => {
                // A text may become a list, so only numbers can be counted here.
                let countable = operands.iter().all(Value::is_number);
                if (countable && !operation.operands().contains(&operands.len())) || operands.is_empty() {
                    building.mistake("/operands", operation.wrong_count());
                }
                let trees = operands.iter().enumerate().map(|(number, operand)| {
                    let at = format!("/operands/{number}");
                    if !matches!(operand, Value::Number(_) | Value::String(_) | Value::Array(_)) {
                        building.mistake(&at, "must be a number, or a text with a place");
                    }
                    building.tree(&at, operand)
                });
                What::Operation(operation, trees.collect())
            }
            (None, None, Some(expression)) => What::Expression(building.expression("/expression", &expression)),
            _ => {
                building.mistake("", "give `operation` and `operands`, or `expression`");
                What::Operation(Operation::Add, Vec::new())
            }
        };
        Box::new(Self { what, store_as: config.store_as.map(Arc::from) })
    }
}

impl Node for Math {
    fn enter(&self, visit: Visit<'_>) -> Result<Next, RunError> {
        let result = match &self.what {
            What::Expression(text) => match text.value(visit.context)? {
                number @ Value::Number(_) => number,
                _ => return Err(failure("expression: the result is not a number")),
            },
            What::Operation(operation, operands) => {
                let mut numbers = Vec::with_capacity(operands.len());
                for operand in operands {
                    match &*operand.value(visit.context)? {
                        Value::Array(list) => {
                            for value in list {
                                numbers.push(Num::of(value, operand.field())?);
                            }
                        }
                        value => numbers.push(Num::of(value, operand.field())?),
                    }
                }
                if !operation.operands().contains(&numbers.len()) {
                    return Err(failure(format!("operands: {}", operation.wrong_count())));
                }
                calculate(*operation, &numbers).map_err(failure)?.into_json()
            }
        };
        let set = self.store_as.iter().map(|name| (name.clone(), result.clone())).collect();
        Ok(Next::Done(Done { output: json!({"result": result}), exit: Exit::Success, set }))
    }

    fn pinned(&self, output: &Value) -> Result<Done, String> {
        let result = output.get("result").filter(|result| result.is_number());
        let set = match (&self.store_as, result) {
            (None, _) => Vec::new(),
            (Some(name), Some(result)) => vec![(name.clone(), result.clone())],
            (Some(name), None) => return Err(format!(".result: must be a number, for the variable `{name}`")),
        };
        Ok(Done { output: output.clone(), exit: Exit::Success, set })
    }
}

/// A number, exact as long as it can be.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Num {
    Int(i64),
    Float(f64),
}

const TOO_LARGE: &str = "the result does not fit into a number";

impl Num {
    fn of(value: &Value, field: &str) -> Result<Self, RunError> {
        let number = value
            .as_number()
            .ok_or_else(|| failure(format!("{field}: must be a number; `int` or `float` make one")))?;
        if let Some(int) = number.as_i64() {
            return Ok(Self::Int(int));
        }
        if number.is_u64() {
            return Err(failure(format!("{field}: this number is too large to calculate with")));
        }
        number.as_f64().map(Self::Float).ok_or_else(|| failure(format!("{field}: must be a number")))
    }

    fn float(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }

    fn finite(float: f64) -> Result<Self, &'static str> {
        if float.is_finite() { Ok(Self::Float(float)) } else { Err(TOO_LARGE) }
    }

    /// An integer of a float that has no fraction.
    fn whole(float: f64) -> Result<Self, &'static str> {
        // Every float below 2^63 in size is an i64; the bound itself is not.
        if float.abs() < 9_223_372_036_854_775_808.0 { Ok(Self::Int(float as i64)) } else { Err(TOO_LARGE) }
    }

    fn into_json(self) -> Value {
        match self {
            Self::Int(int) => int.into(),
            // Only finite ones are made.
            Self::Float(float) => Number::from_f64(float).map_or(Value::Null, Value::Number),
        }
    }

    fn is_zero(self) -> bool {
        match self {
            Self::Int(int) => int == 0,
            Self::Float(float) => float == 0.0,
        }
    }

    fn less_than(self, other: Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a < b,
            (a, b) => a.float() < b.float(),
        }
    }
}

fn both(a: Num, b: Num, exact: fn(i64, i64) -> Option<i64>, rough: fn(f64, f64) -> f64) -> Result<Num, &'static str> {
    match (a, b) {
        (Num::Int(a), Num::Int(b)) => exact(a, b).map(Num::Int).ok_or(TOO_LARGE),
        (a, b) => Num::finite(rough(a.float(), b.float())),
    }
}

fn divide(a: Num, b: Num) -> Result<Num, &'static str> {
    if b.is_zero() {
        return Err("division by zero");
    }
    match (a, b) {
        (Num::Int(a), Num::Int(b)) if a.checked_rem(b) == Some(0) => a.checked_div(b).map(Num::Int).ok_or(TOO_LARGE),
        (a, b) => Num::finite(a.float() / b.float()),
    }
}

fn modulo(a: Num, b: Num) -> Result<Num, &'static str> {
    if b.is_zero() {
        return Err("division by zero");
    }
    match (a, b) {
        // What is left has the sign of the divisor, because the division rounds down. `i64::MIN % -1` leaves nothing.
        (Num::Int(a), Num::Int(b)) => {
            let left = a.checked_rem(b).unwrap_or(0);
            Ok(Num::Int(if left != 0 && (left < 0) != (b < 0) { left + b } else { left }))
        }
        (a, b) => {
            let (a, b) = (a.float(), b.float());
            let left = a % b;
            Num::finite(if left != 0.0 && (left < 0.0) != (b < 0.0) { left + b } else { left })
        }
    }
}

fn power(a: Num, b: Num) -> Result<Num, &'static str> {
    match (a, b) {
        (Num::Int(0), Num::Int(exponent)) if exponent < 0 => Err("division by zero"),
        (Num::Int(a @ (0 | 1)), Num::Int(exponent)) if exponent > 0 => Ok(Num::Int(a)),
        (Num::Int(-1), Num::Int(exponent)) => Ok(Num::Int(if exponent % 2 == 0 { 1 } else { -1 })),
        (Num::Int(a), Num::Int(exponent)) if exponent >= 0 => {
            let exponent = u32::try_from(exponent).map_err(|_| TOO_LARGE)?;
            a.checked_pow(exponent).map(Num::Int).ok_or(TOO_LARGE)
        }
        (a, b) => Num::finite(a.float().powf(b.float())),
    }
}

fn round(number: Num, digits: Option<Num>) -> Result<Num, &'static str> {
    let digits = match digits {
        None => return if let Num::Float(float) = number { Num::whole(float.round()) } else { Ok(number) },
        Some(Num::Int(digits @ 0..=15)) => i32::try_from(digits).unwrap_or(0),
        Some(_) => return Err("digits are counted from 0 to 15"),
    };
    match number {
        Num::Int(_) => Ok(number),
        Num::Float(float) => {
            let factor = 10_f64.powi(digits);
            let scaled = float * factor;
            // So large a number has no digits behind the point that could be rounded.
            if scaled.is_finite() { Num::finite(scaled.round() / factor) } else { Ok(number) }
        }
    }
}

/// The result. There are as many numbers as the operation takes.
fn calculate(operation: Operation, numbers: &[Num]) -> Result<Num, &'static str> {
    let [first, rest @ ..] = numbers else { return Err("there are no numbers") };
    let (first, second) = (*first, rest.first().copied());
    let fold = |step: fn(Num, Num) -> Result<Num, &'static str>| rest.iter().try_fold(first, |a, b| step(a, *b));
    let two =
        |step: fn(Num, Num) -> Result<Num, &'static str>| step(first, second.ok_or("a second number is missing")?);
    match operation {
        Operation::Add => fold(|a, b| both(a, b, i64::checked_add, |a, b| a + b)),
        Operation::Subtract => fold(|a, b| both(a, b, i64::checked_sub, |a, b| a - b)),
        Operation::Multiply => fold(|a, b| both(a, b, i64::checked_mul, |a, b| a * b)),
        Operation::Divide => two(divide),
        Operation::Modulo => two(modulo),
        Operation::Power => two(power),
        Operation::Min => fold(|a, b| Ok(if b.less_than(a) { b } else { a })),
        Operation::Max => fold(|a, b| Ok(if a.less_than(b) { b } else { a })),
        Operation::Average => {
            let sum = fold(|a, b| both(a, b, i64::checked_add, |a, b| a + b))?;
            divide(sum, Num::Int(i64::try_from(numbers.len()).map_err(|_| TOO_LARGE)?))
        }
        Operation::Round => round(first, second),
        Operation::Floor => {
            if let Num::Float(float) = first {
                Num::whole(float.floor())
            } else {
                Ok(first)
            }
        }
        Operation::Ceil => {
            if let Num::Float(float) = first {
                Num::whole(float.ceil())
            } else {
                Ok(first)
            }
        }
        Operation::Abs => match first {
            Num::Int(int) => int.checked_abs().map(Num::Int).ok_or(TOO_LARGE),
            Num::Float(float) => Ok(Num::Float(float.abs())),
        },
        Operation::Negate => match first {
            Num::Int(int) => int.checked_neg().map(Num::Int).ok_or(TOO_LARGE),
            Num::Float(float) => Ok(Num::Float(-float)),
        },
    }
}
