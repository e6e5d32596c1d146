//! From one kind of value to another, and to text.

use std::io;

use serde_json::{Number, Value};

use crate::expression::{
    budget::Budget,
    error::{ErrorCode, Fault},
    limits::STEPS_OF_AN_OBJECT,
    operators,
    value::Val,
};

/// A value as it stands in a text: texts as they are, everything else as JSON.
pub(in crate::expression) fn write_text(
    text: &mut String,
    value: &Val<'_>,
    budget: &mut Budget,
    at: u32,
) -> Result<(), Fault> {
    match value {
        Val::Text(value) => {
            budget.bytes(value.len(), at)?;
            text.push_str(value);
            Ok(())
        }
        other => write_json(text, other, budget, at),
    }
}

/// A value as JSON text.
pub(in crate::expression) fn write_json(
    text: &mut String,
    value: &Val<'_>,
    budget: &mut Budget,
    at: u32,
) -> Result<(), Fault> {
    let mut writer = Writer { text, budget, at, fault: None };
    let written = match value {
        Val::Missing { .. } | Val::Null => serde_json::to_writer(&mut writer, &()),
        Val::Bool(bool) => serde_json::to_writer(&mut writer, bool),
        Val::Number(number) => serde_json::to_writer(&mut writer, number),
        Val::Text(value) => serde_json::to_writer(&mut writer, value),
        Val::List(list) => serde_json::to_writer(&mut writer, list),
        Val::Object(object) => serde_json::to_writer(&mut writer, object),
        Val::Table(table) => {
            let serializer = &mut serde_json::Serializer::new(&mut writer);
            serde::Serializer::collect_map(serializer, table.iter())
        }
    };
    match (written, writer.fault.take()) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(fault)) => Err(fault),
        (Err(_), None) => Err(Fault::budget(at)),
    }
}

/// Takes JSON for as long as there is budget.
struct Writer<'w> {
    text: &'w mut String,
    budget: &'w mut Budget,
    at: u32,
    fault: Option<Fault>,
}

impl io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(fault) = self.budget.bytes(bytes.len(), self.at) {
            self.fault = Some(fault);
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        // It writes whole characters, because what it escapes is ASCII.
        let text = std::str::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        self.text.push_str(text);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn string<'a>(subject: Val<'a>, budget: &mut Budget, at: u32) -> Result<Val<'a>, Fault> {
    if let Val::Text(_) = subject {
        return Ok(subject);
    }
    let mut text = String::new();
    write_text(&mut text, &subject, budget, at)?;
    Ok(Val::text(text))
}

pub(super) fn json<'a>(subject: &Val<'a>, budget: &mut Budget, at: u32) -> Result<Val<'a>, Fault> {
    let mut text = String::new();
    write_json(&mut text, subject, budget, at)?;
    Ok(Val::text(text))
}

/// What becomes of the text is paid for before it is read: a few bytes of JSON can be many bytes of memory.
pub(super) fn from_json<'a>(subject: &Val<'a>, budget: &mut Budget, at: u32) -> Result<Val<'a>, Fault> {
    let text = super::text::of(subject, "from_json", at)?;
    budget.bytes(text.len(), at)?;
    let count = |wanted: &[u8]| text.bytes().filter(|byte| wanted.contains(byte)).count();
    budget.steps(count(b",[") + count(b"{") * STEPS_OF_AN_OBJECT as usize, at)?;
    serde_json::from_str::<Value>(text).map(Val::owned).map_err(|error| {
        // The reader has no other sign for it than its words. The text may be JSON; nobody looks at the rest of it.
        if error.to_string().starts_with("recursion limit exceeded") {
            return Fault::new(ErrorCode::TooDeep, at, "this JSON is nested more than 127 levels deep");
        }
        // The line is the text's own, and says nothing of what stands there.
        let message = format!("this text is not JSON, from its line {}, column {} on", error.line(), error.column());
        Fault::new(ErrorCode::NotJson, at, message)
    })
}

pub(super) fn int<'a>(subject: &Val<'a>, at: u32) -> Result<Val<'a>, Fault> {
    match subject {
        Val::Number(number) if number.is_f64() => truncated(number.as_f64().unwrap_or_default(), at),
        Val::Number(number) => Ok(number.clone()),
        Val::Bool(bool) => Ok(i64::from(*bool).into()),
        Val::Text(text) => text
            .trim()
            .parse::<i64>()
            .map(Number::from)
            .map_err(|_| Fault::wrong_type(at, "this text is no whole number")),
        other => Err(Fault::wrong_type(at, format!("`int` cannot make a number of {}", other.kind()))),
    }
    .map(Val::Number)
}

/// The integer part.
#[expect(clippy::cast_possible_truncation, reason = "it is asked for, and the range is checked afterwards")]
pub(super) fn truncated(float: f64, at: u32) -> Result<Number, Fault> {
    // What is too large for an i128 becomes the largest one, which is too large for the next line.
    operators::whole(float.trunc() as i128, at)
}

pub(super) fn float<'a>(subject: &Val<'a>, at: u32) -> Result<Val<'a>, Fault> {
    let number = match subject {
        Val::Number(number) => number.as_f64().unwrap_or(f64::NAN),
        Val::Bool(bool) => f64::from(*bool),
        Val::Text(text) => {
            let text = text.trim();
            // Rust reads `inf` and `nan`, too; JSON knows neither.
            let looks_right = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
            let number = text.parse::<f64>().ok().filter(|_| looks_right);
            number.ok_or_else(|| Fault::wrong_type(at, "this text is no number"))?
        }
        other => return Err(Fault::wrong_type(at, format!("`float` cannot make a number of {}", other.kind()))),
    };
    operators::float(number, at).map(Val::Number)
}

pub(super) fn bool<'a>(subject: &Val<'a>, at: u32) -> Result<Val<'a>, Fault> {
    match subject {
        Val::Bool(bool) => Ok(Val::Bool(*bool)),
        Val::Number(_) => Ok(Val::Bool(subject.is_true())),
        Val::Text(text) if text.trim().eq_ignore_ascii_case("true") => Ok(Val::Bool(true)),
        Val::Text(text) if text.trim().eq_ignore_ascii_case("false") => Ok(Val::Bool(false)),
        Val::Text(_) => Err(Fault::wrong_type(at, "this text is neither `true` nor `false`")),
        other => Err(Fault::wrong_type(at, format!("`bool` cannot make a boolean of {}", other.kind()))),
    }
}
