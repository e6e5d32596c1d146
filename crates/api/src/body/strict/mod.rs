//! Is this body one honest JSON value? Asked once, before anything else reads it.
//!
//! Enters: the bytes of a request body. Leaves: nothing, or a [`Fault`] that says what is wrong and where.
//! Never here: values. Nothing is decoded or kept; what passes is then read by serde as usual, numbers untouched.
//!
//! Refused beyond the grammar of RFC 8259 is everything two readers could understand differently: duplicate keys (after
//! unescaping), lone surrogates, NUL in a text, a number too large for a double, and nesting deep enough to exhaust a
//! stack. One pass over the bytes, no recursion, time proportional to the length whatever the bytes say.
//!
//! What passes is JSON to serde_json, too, with one exception: it rounds carelessly and refuses some numbers within the
//! last digit of the largest double (`1.7976931348623158e308`). That ends in its own error, never in a changed number.
mod checker;
mod fault;
#[cfg(test)]
mod tests;
mod text;

use checker::{Checker, Halt, Place};
pub use fault::{Fault, FaultKind};
use text::line_and_column;

/// How much a body may ask of us. Its length is limited elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Arrays and objects inside each other. Stay below 128, where serde_json stops.
    pub depth_max: usize,
    /// Keys in one object.
    pub keys_max: usize,
    /// Whether whole numbers must fit into 64 bits. For what is read into values, where larger ones would be rounded;
    /// what is kept as text keeps them.
    pub exact_numbers: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth_max: 64, keys_max: 65_536, exact_numbers: false }
    }
}

/// Whether `bytes` are exactly one JSON value that every reader understands alike.
pub fn check(bytes: &[u8], limits: &Limits) -> Result<(), Fault> {
    let mut checker = Checker::new(bytes, *limits);
    let halt = match std::str::from_utf8(bytes) {
        Err(error) => Halt { kind: FaultKind::NotUtf8, offset: error.valid_up_to(), place: Place::Container },
        Ok(text) if text.starts_with('\u{feff}') => {
            Halt { kind: FaultKind::ByteOrderMark, offset: 0, place: Place::Container }
        }
        Ok(_) => match checker.run() {
            Ok(()) => return Ok(()),
            Err(halt) => halt,
        },
    };
    // Lines and paths are not tracked on the way: only a fault pays for them.
    let (line, column) = line_and_column(&bytes[..halt.offset]);
    let pointer = checker.pointer(halt.place);
    Err(Fault { kind: halt.kind, offset: halt.offset, line, column, pointer })
}
