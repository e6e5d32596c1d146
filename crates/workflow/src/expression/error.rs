//! What can be wrong with an expression, where, and how to say so.
//!
//! A message is made from the text that somebody wrote and from the kinds of values, never from values themselves: a
//! context holds other people's data, and messages end up in logs.

use std::{borrow::Cow, fmt};

use serde::Serialize;

/// The stable name of what is wrong. Clients may decide by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// `{{` without its `}}`.
    UnclosedPlace,
    /// Not an expression.
    Syntax,
    /// More than an expression may say.
    ExpressionTooLong,
    /// Nested deeper than allowed: an expression, or a value.
    TooDeep,
    /// A name that no context has.
    UnknownName,
    /// A function that there is not.
    UnknownFunction,
    /// A function with too few or too many arguments.
    WrongArguments,
    /// A pattern that is none, or is too large.
    BadPattern,
    /// The context has nothing at a path.
    MissingPath,
    /// A value of a kind that cannot be used so.
    WrongType,
    /// Divided by nothing.
    DivisionByZero,
    /// A number that JSON's integers and floats cannot hold.
    NumberOutOfRange,
    /// Text that should have been JSON.
    NotJson,
    /// More steps, or more text on the way, than one rendering may use.
    BudgetExceeded,
    /// More came out than may.
    ResultTooLarge,
    /// A value that must not stand where it would be inserted.
    RefusedHere,
    /// A variable's name that cannot be one.
    BadVariableName,
}

impl ErrorCode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnclosedPlace => "UNCLOSED_PLACE",
            Self::Syntax => "SYNTAX",
            Self::ExpressionTooLong => "EXPRESSION_TOO_LONG",
            Self::TooDeep => "TOO_DEEP",
            Self::UnknownName => "UNKNOWN_NAME",
            Self::UnknownFunction => "UNKNOWN_FUNCTION",
            Self::WrongArguments => "WRONG_ARGUMENTS",
            Self::BadPattern => "BAD_PATTERN",
            Self::MissingPath => "MISSING_PATH",
            Self::WrongType => "WRONG_TYPE",
            Self::DivisionByZero => "DIVISION_BY_ZERO",
            Self::NumberOutOfRange => "NUMBER_OUT_OF_RANGE",
            Self::NotJson => "NOT_JSON",
            Self::BudgetExceeded => "BUDGET_EXCEEDED",
            Self::ResultTooLarge => "RESULT_TOO_LARGE",
            Self::RefusedHere => "REFUSED_HERE",
            Self::BadVariableName => "BAD_VARIABLE_NAME",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where in a text, and in which text of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Place {
    /// The JSON pointer to the text; empty if there is but one text.
    pub pointer: String,
    /// In bytes, from the beginning of the text.
    pub offset: usize,
    /// From one.
    pub line: usize,
    /// From one, in characters.
    pub column: usize,
}

impl Place {
    /// Known by its offset only, until somebody counts lines.
    pub(super) fn at_offset(offset: u32) -> Self {
        Self { pointer: String::new(), offset: offset as usize, line: 1, column: 1 }
    }

    pub(super) fn within(source: &str, offset: usize) -> Self {
        let mut end = offset.min(source.len());
        while !source.is_char_boundary(end) {
            end -= 1;
        }
        let before = &source[..end];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            pointer: String::new(),
            offset: before.len(),
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(f, "{}: ", self.pointer)?;
        }
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// What is wrong with an expression, or went wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError(Box<Details>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Details {
    code: ErrorCode,
    message: Cow<'static, str>,
    place: Place,
}

impl ExpressionError {
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// For people. It may change.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The same, one level up in a tree.
    pub(super) fn under(mut self, key: &str) -> Self {
        let escaped = key.replace('~', "~0").replace('/', "~1");
        self.0.place.pointer.insert_str(0, &format!("/{escaped}"));
        self
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.place, self.0.message)
    }
}

impl std::error::Error for ExpressionError {}

/// What is wrong, before anybody knows in which text: the offsets are all there is. Boxed, because it stands beside
/// every value that is returned and is hardly ever there.
#[derive(Debug)]
pub(super) struct Fault(Box<FaultDetails>);

#[derive(Debug)]
struct FaultDetails {
    code: ErrorCode,
    message: Cow<'static, str>,
    /// From here …
    at: u32,
    /// … to here, if the message shall show what stands there.
    end: Option<u32>,
}

impl Fault {
    pub fn new(code: ErrorCode, at: u32, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(FaultDetails { code, message: message.into(), at, end: None }))
    }

    pub fn missing(at: u32, end: u32) -> Self {
        Self(Box::new(FaultDetails { code: ErrorCode::MissingPath, message: Cow::Borrowed(""), at, end: Some(end) }))
    }

    pub fn wrong_type(at: u32, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::WrongType, at, message)
    }

    pub fn budget(at: u32) -> Self {
        Self::new(ErrorCode::BudgetExceeded, at, "this takes more work than an expression may cost")
    }

    pub fn budget_of_visit(at: u32) -> Self {
        let message = "the expressions of this step take more work together than one step may cost; give it fewer items or cases, \
                       or simpler expressions";
        Self::new(ErrorCode::BudgetExceeded, at, message)
    }

    pub fn in_text(self, source: &str) -> ExpressionError {
        let FaultDetails { code, message, at, end } = *self.0;
        let message = match end {
            Some(end) => {
                let path = source.get(at as usize..end as usize).unwrap_or_default();
                format!("there is no `{}`; `default(…)` says what to take instead", shown(path)).into()
            }
            None => message,
        };
        let place = Place::within(source, at as usize);
        ExpressionError(Box::new(Details { code, message, place }))
    }
}

/// What somebody wrote, short enough for a message.
pub(super) fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 80;
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((cut, _)) => text[..cut].chars().map(printable).chain(['…']).collect(),
        None => text.chars().map(printable).collect(),
    }
}
