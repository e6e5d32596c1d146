//! What can be wrong with a body, in words for machines and for people.

use std::fmt;

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing, or only whitespace.
    Empty,
    NotUtf8,
    /// U+FEFF before the value: some editors write it, and JSON has no place for it.
    ByteOrderMark,
    /// The text stops inside a value.
    UnexpectedEnd,
    /// Something else stands where the grammar wants this.
    Expected(&'static str),
    /// More text after the value.
    TrailingText,
    TooDeep {
        depth_max: usize,
    },
    TooManyKeys {
        keys_max: usize,
    },
    /// The key, unescaped and cut to a length fit for a message.
    DuplicateKey(String),
    /// A control character that is not escaped.
    ControlCharacter,
    InvalidEscape,
    LoneSurrogate,
    /// `\u0000`: many readers take it for the end of the text.
    Nul,
    InvalidNumber,
    /// A number that would become infinity.
    NumberTooLarge,
    /// A whole number that would be rounded.
    NumberNotExact,
}

impl FaultKind {
    /// A stable word for machines.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty => "EMPTY",
            Self::NotUtf8 => "NOT_UTF8",
            Self::ByteOrderMark => "BYTE_ORDER_MARK",
            Self::UnexpectedEnd => "UNEXPECTED_END",
            Self::Expected(_) => "UNEXPECTED",
            Self::TrailingText => "TRAILING_TEXT",
            Self::TooDeep { .. } => "TOO_DEEP",
            Self::TooManyKeys { .. } => "TOO_MANY_KEYS",
            Self::DuplicateKey(_) => "DUPLICATE_KEY",
            Self::ControlCharacter => "CONTROL_CHARACTER",
            Self::InvalidEscape => "INVALID_ESCAPE",
            Self::LoneSurrogate => "LONE_SURROGATE",
            Self::Nul => "NUL",
            Self::InvalidNumber => "INVALID_NUMBER",
            Self::NumberTooLarge => "NUMBER_TOO_LARGE",
            Self::NumberNotExact => "NUMBER_NOT_EXACT",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the body is empty"),
            Self::NotUtf8 => f.write_str("invalid UTF-8"),
            Self::ByteOrderMark => f.write_str("byte order mark (it must be UTF-8 without one)"),
            Self::UnexpectedEnd => f.write_str("unexpected end of the body"),
            Self::Expected(what) => write!(f, "expected {what}"),
            Self::TrailingText => f.write_str("unexpected text after the value"),
            Self::TooDeep { depth_max } => write!(f, "nested deeper than {depth_max} levels"),
            Self::TooManyKeys { keys_max } => write!(f, "more than {keys_max} keys in one object"),
            Self::DuplicateKey(key) => write!(f, "duplicate key {key:?}"),
            Self::ControlCharacter => f.write_str("control character in a text; it must be escaped"),
            Self::InvalidEscape => f.write_str("invalid escape"),
            Self::LoneSurrogate => f.write_str("half of a surrogate pair"),
            Self::Nul => f.write_str("NUL in a text"),
            Self::InvalidNumber => f.write_str("invalid number"),
            Self::NumberTooLarge => f.write_str("number too large for a double"),
            Self::NumberNotExact => f.write_str("whole number beyond 64 bits, which cannot be kept exactly"),
        }
    }
}

/// The first thing that is wrong with a body, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// Bytes before the fault.
    pub offset: usize,
    /// Counted from 1.
    pub line: usize,
    /// Characters, counted from 1.
    pub column: usize,
    /// The value the fault is in, as a JSON pointer (RFC 6901): `/payload/items/3`, or nothing for the whole body. Long
    /// keys and long paths are cut with `…`, control characters are replaced.
    pub pointer: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, line, column, pointer, .. } = self;
        let place = if pointer.is_empty() { "the top level" } else { pointer };
        write!(f, "{kind} at {place} (line {line}, column {column})")
    }
}

impl std::error::Error for Fault {}
