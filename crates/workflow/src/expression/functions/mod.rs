//! The functions that there are. The list is closed: nothing can be defined, and nothing else can be called.
//!
//! `f(x, y)` and `x | f(y)` are the same thing. Every function asks the budget before it makes something.

mod convert;
mod lists;
mod numbers;
mod text;

pub(super) use convert::{write_json, write_text};
pub(super) use text::repeat;

use super::{
    error::Fault,
    evaluate::Evaluation,
    syntax::{Call, Node},
    value::Val,
};

macro_rules! functions {
    ($($variant:ident $name:literal $least:literal ..= $most:expr;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Function { $($variant),* }

        impl Function {
            /// All of them, for the documentation's test.
            #[cfg(test)]
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            pub fn of(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }

            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// The fewest and the most arguments, with the one before the `|`.
            pub fn arguments(self) -> (usize, usize) {
                match self { $(Self::$variant => ($least, $most)),* }
            }
        }
    };
}

functions! {
    Abs "abs" 1..=1;
    Bool "bool" 1..=1;
    Contains "contains" 2..=2;
    Default "default" 2..=2;
    First "first" 1..=1;
    Float "float" 1..=1;
    FromJson "from_json" 1..=1;
    Int "int" 1..=1;
    Join "join" 1..=2;
    Json "json" 1..=1;
    Keys "keys" 1..=1;
    Last "last" 1..=1;
    Length "length" 1..=1;
    Lower "lower" 1..=1;
    Matches "matches" 2..=2;
    Max "max" 1..=usize::MAX;
    Min "min" 1..=usize::MAX;
    Repeat "repeat" 2..=2;
    Replace "replace" 3..=3;
    Round "round" 1..=2;
    Sort "sort" 1..=1;
    Split "split" 2..=2;
    String "string" 1..=1;
    Sum "sum" 1..=1;
    Trim "trim" 1..=1;
    Unique "unique" 1..=1;
    Upper "upper" 1..=1;
    Values "values" 1..=1;
}

/// Calls a function with `subject`, which began at `subject_at`, as its first argument.
pub(super) fn apply<'a>(
    evaluation: &mut Evaluation<'a>,
    call: &'a Call,
    subject: Val<'a>,
    subject_at: u32,
) -> Result<Val<'a>, Fault> {
    if let Val::Missing { end } = subject {
        return match call.arguments.first() {
            Some(instead) if call.function == Function::Default => evaluation.value(instead),
            _ => Err(Fault::missing(subject_at, end)),
        };
    }
    let at = call.at;
    let argument = |evaluation: &mut Evaluation<'a>, number: usize| -> Result<Option<Val<'a>>, Fault> {
        call.arguments.get(number).map(|node: &'a Node| evaluation.value(node)).transpose()
    };
    match call.function {
        // It is there, so nobody asks what to take instead.
        Function::Default => Ok(subject),

        Function::Upper => text::upper(&subject, &mut evaluation.budget, at),
        Function::Lower => text::lower(&subject, &mut evaluation.budget, at),
        Function::Trim => text::trim(subject, &mut evaluation.budget, at),
        Function::Matches => text::matches(&subject, call.pattern.as_deref(), &mut evaluation.budget, at),
        Function::Split => {
            let separator = argument(evaluation, 0)?.unwrap_or(Val::Null);
            text::split(&subject, &separator, &mut evaluation.budget, at)
        }
        Function::Repeat => {
            let times = argument(evaluation, 0)?.unwrap_or(Val::Null);
            let subject = text::of(&subject, "repeat", at)?;
            text::repeat(subject, &times, &mut evaluation.budget, at)
        }
        Function::Replace => {
            let from = argument(evaluation, 0)?.unwrap_or(Val::Null);
            let to = argument(evaluation, 1)?.unwrap_or(Val::Null);
            text::replace(&subject, &from, &to, &mut evaluation.budget, at)
        }

        Function::Length => lists::length(&subject, &mut evaluation.budget, at),
        Function::First => lists::first(subject, &mut evaluation.budget, at),
        Function::Last => lists::last(subject, &mut evaluation.budget, at),
        Function::Keys => lists::keys(&subject, &mut evaluation.budget, at),
        Function::Values => lists::values(evaluation, subject, at),
        Function::Sort => lists::sort(evaluation, subject, at),
        Function::Unique => lists::unique(&subject, &mut evaluation.budget, at),
        Function::Join => {
            let separator = argument(evaluation, 0)?;
            lists::join(&subject, separator.as_ref(), &mut evaluation.budget, at)
        }
        Function::Contains => {
            let part = argument(evaluation, 0)?.unwrap_or(Val::Null);
            super::operators::contains(&subject, &part, &mut evaluation.budget, at).map(Val::Bool)
        }

        Function::Abs => numbers::abs(subject, at),
        Function::Round => {
            let digits = argument(evaluation, 0)?;
            numbers::round(subject, digits.as_ref(), at)
        }
        Function::Sum => numbers::sum(&subject, &mut evaluation.budget, at),
        Function::Min | Function::Max => {
            let mut candidates = Vec::with_capacity(call.arguments.len() + 1);
            candidates.push(subject);
            for node in &call.arguments {
                candidates.push(evaluation.value(node)?);
            }
            numbers::extreme(candidates, call.function == Function::Max, &mut evaluation.budget, at)
        }

        Function::Int => convert::int(&subject, at),
        Function::Float => convert::float(&subject, at),
        Function::Bool => convert::bool(&subject, at),
        Function::String => convert::string(subject, &mut evaluation.budget, at),
        Function::Json => convert::json(&subject, &mut evaluation.budget, at),
        Function::FromJson => convert::from_json(&subject, &mut evaluation.budget, at),
    }
}
