//! What a value has to become to stand where it is inserted, so that it can never be more than a value there.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{
    budget::Budget,
    error::{ErrorCode, Fault},
    functions::{write_json, write_text},
    value::Val,
};

/// What kind of text the values are inserted into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insert {
    /// A text for people: texts as they are, everything else as JSON.
    Text,
    /// A whole address. Values are parts of its path or query and are percent-encoded; only a place at the very beginning
    /// that is followed by nothing or by `/`, `?` or `#` is the address's own beginning and is inserted as it is.
    Url,
    /// A part of an address: everything that is not plain is percent-encoded.
    UrlPart,
    /// The value of a header: no control characters.
    HeaderValue,
    /// One argument of a program, whatever is in it: no NUL.
    ArgvItem,
    /// JSON. Within quotes a value continues the text, elsewhere it is a JSON value.
    Json,
}

/// Where in its text a place stands, as far as that matters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Surroundings {
    /// Between the quotes of a JSON text.
    pub in_json_text: bool,
    /// At the beginning of an address, and all of its beginning.
    pub begins_address: bool,
}

/// RFC 3986: all that needs no encoding anywhere.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl Insert {
    /// Whether the text around the places may stand there.
    pub(super) fn check_literal(self, literal: &str, at: u32) -> Result<(), Fault> {
        match self {
            Self::HeaderValue => check_header(literal, at),
            Self::ArgvItem => check_argument(literal, at),
            Self::Text | Self::Url | Self::UrlPart | Self::Json => Ok(()),
        }
    }

    pub(super) fn write(
        self,
        text: &mut String,
        value: &Val<'_>,
        surroundings: Surroundings,
        budget: &mut Budget,
        at: u32,
    ) -> Result<(), Fault> {
        match self {
            Self::Text => write_text(text, value, budget, at),
            Self::Json if surroundings.in_json_text => {
                let mut inner = String::new();
                write_text(&mut inner, value, budget, at)?;
                let mut quoted = String::new();
                write_json(&mut quoted, &Val::text(inner), budget, at)?;
                text.push_str(&quoted[1..quoted.len() - 1]);
                Ok(())
            }
            Self::Json => write_json(text, value, budget, at),
            Self::Url | Self::UrlPart | Self::HeaderValue | Self::ArgvItem => {
                let from = text.len();
                match value {
                    Val::Text(_) | Val::Number(_) | Val::Bool(_) => write_text(text, value, budget, at)?,
                    other => {
                        let message = format!("{} cannot stand here; `json` makes a text of it", other.kind());
                        return Err(Fault::new(ErrorCode::RefusedHere, at, message));
                    }
                }
                match self {
                    Self::HeaderValue => check_header(&text[from..], at),
                    Self::ArgvItem => check_argument(&text[from..], at),
                    _ if self == Self::Url && surroundings.begins_address => check_address(&text[from..], at),
                    _ => encode(text, from, budget, at),
                }
            }
        }
    }
}

fn encode(text: &mut String, from: usize, budget: &mut Budget, at: u32) -> Result<(), Fault> {
    let plain = text.split_off(from);
    if !plain.is_empty() && plain.bytes().all(|byte| byte == b'.') {
        // Encoded or not, an address reads these as "this" and "the one above".
        return Err(Fault::new(
            ErrorCode::RefusedHere,
            at,
            "a value of dots alone would change the path of the address",
        ));
    }
    budget.bytes(plain.len().saturating_mul(2), at)?;
    text.extend(utf8_percent_encode(&plain, ENCODED));
    Ok(())
}

fn check_address(text: &str, at: u32) -> Result<(), Fault> {
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Fault::new(ErrorCode::RefusedHere, at, "an address has no spaces and no control characters"));
    }
    Ok(())
}

fn check_header(text: &str, at: u32) -> Result<(), Fault> {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(Fault::new(
            ErrorCode::RefusedHere,
            at,
            "a header has no line breaks and no other control characters",
        ));
    }
    Ok(())
}

fn check_argument(text: &str, at: u32) -> Result<(), Fault> {
    if text.contains('\0') {
        return Err(Fault::new(ErrorCode::RefusedHere, at, "an argument cannot contain NUL"));
    }
    Ok(())
}
