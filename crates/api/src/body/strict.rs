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

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// An object with at most this many keys finds duplicates by looking at each; a larger one hashes.
const KEYS_SCANNED_MAX: usize = 32;

/// Of a key that is repeated to the caller, this many characters are shown.
const SHOWN_CHARS_MAX: usize = 64;

/// A path longer than this is cut.
const POINTER_BYTES_MAX: usize = 512;

/// How much a body may ask of us. Its length is limited elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Arrays and objects inside each other. Stay below 128, where serde_json stops.
    pub depth_max: usize,
    /// Keys in one object.
    pub keys_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth_max: 64, keys_max: 65_536 }
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing, or only whitespace.
    Empty,
    NotUtf8,
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
}

impl FaultKind {
    /// A stable word for machines.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty => "EMPTY",
            Self::NotUtf8 => "NOT_UTF8",
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
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the body is empty"),
            Self::NotUtf8 => f.write_str("invalid UTF-8"),
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

/// Whether `bytes` are exactly one JSON value that every reader understands alike.
pub fn check(bytes: &[u8], limits: &Limits) -> Result<(), Fault> {
    let mut checker = Checker::new(bytes, *limits);
    let halt = match std::str::from_utf8(bytes) {
        Err(error) => Halt { kind: FaultKind::NotUtf8, offset: error.valid_up_to(), place: Place::Container },
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

/// A fault before its place is put in words.
struct Halt {
    kind: FaultKind,
    offset: usize,
    place: Place,
}

/// Which path describes a fault: that of the innermost open array or object, or that of the value inside it.
#[derive(Clone, Copy)]
enum Place {
    Container,
    Value,
}

type Step<T> = Result<T, Halt>;

/// An open array or object.
enum Frame {
    Array {
        /// Of the current element.
        index: usize,
    },
    Object {
        /// Where the text of the current key begins and ends, without its quotes.
        key: (usize, usize),
        key_count: usize,
        /// Where its keys begin in [`Checker::keys`].
        keys_from: usize,
        /// Tells its keys from those of other objects in [`Checker::hashed`].
        number: usize,
    },
}

/// A key, unescaped; borrowed whenever it has no escape.
struct Key<'a> {
    fingerprint: u64,
    text: Cow<'a, [u8]>,
}

struct Checker<'a> {
    bytes: &'a [u8],
    at: usize,
    limits: Limits,
    frames: Vec<Frame>,
    /// The first keys of all open objects, the innermost last.
    keys: Vec<Key<'a>>,
    /// All keys of objects with many of them, with the object's number. Its hash is keyed at random: nobody can
    /// choose keys that collide.
    hashed: HashSet<(usize, Cow<'a, [u8]>)>,
    object_count: usize,
}

impl<'a> Checker<'a> {
    fn new(bytes: &'a [u8], limits: Limits) -> Self {
        Self {
            bytes,
            at: 0,
            limits,
            frames: Vec::with_capacity(8),
            keys: Vec::with_capacity(16),
            hashed: HashSet::new(),
            object_count: 0,
        }
    }

    fn run(&mut self) -> Step<()> {
        self.space();
        if self.at == self.bytes.len() {
            return Err(self.halt(FaultKind::Empty, Place::Container));
        }
        'value: loop {
            self.space();
            match self.peek() {
                Some(b'"') => {
                    self.string(Place::Value)?;
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b'{') => {
                    self.open_object()?;
                    self.space();
                    if self.peek() != Some(b'}') {
                        self.key()?;
                        continue 'value;
                    }
                    self.close();
                }
                Some(b'[') => {
                    self.open(Frame::Array { index: 0 })?;
                    self.space();
                    if self.peek() != Some(b']') {
                        continue 'value;
                    }
                    self.close();
                }
                Some(b't') => self.word(b"true")?,
                Some(b'f') => self.word(b"false")?,
                Some(b'n') => self.word(b"null")?,
                _ => return Err(self.unexpected("a value", Place::Value)),
            }
            // A value is over: the next one follows, or what holds it is over too.
            loop {
                self.space();
                let next = self.peek();
                match self.frames.last_mut() {
                    None if next.is_none() => return Ok(()),
                    None => return Err(self.halt(FaultKind::TrailingText, Place::Container)),
                    Some(Frame::Array { index }) => match next {
                        Some(b',') => {
                            *index += 1;
                            self.at += 1;
                            continue 'value;
                        }
                        Some(b']') => self.close(),
                        _ => return Err(self.unexpected("`,` or `]`", Place::Container)),
                    },
                    Some(Frame::Object { .. }) => match next {
                        Some(b',') => {
                            self.at += 1;
                            self.space();
                            self.key()?;
                            continue 'value;
                        }
                        Some(b'}') => self.close(),
                        _ => return Err(self.unexpected("`,` or `}`", Place::Container)),
                    },
                }
            }
        }
    }

    #[inline(always)]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline(always)]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn open_object(&mut self) -> Step<()> {
        let number = self.object_count;
        self.object_count += 1;
        self.open(Frame::Object { key: (0, 0), key_count: 0, keys_from: self.keys.len(), number })
    }

    fn open(&mut self, frame: Frame) -> Step<()> {
        let depth_max = self.limits.depth_max;
        if self.frames.len() >= depth_max {
            return Err(self.halt(FaultKind::TooDeep { depth_max }, Place::Value));
        }
        self.frames.push(frame);
        self.at += 1;
        Ok(())
    }

    fn close(&mut self) {
        if let Some(Frame::Object { keys_from, .. }) = self.frames.pop() {
            self.keys.truncate(keys_from);
        }
        self.at += 1;
    }

    /// A key and its colon.
    fn key(&mut self) -> Step<()> {
        let quote_at = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a key in double quotes", Place::Container));
        }
        let escaped = self.string(Place::Container)?;
        let (start, end) = (quote_at + 1, self.at - 1);
        let raw = &self.bytes[start..end];
        let text = if escaped { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) };
        self.note_key(text, start, end)?;
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("`:` after the key", Place::Value));
        }
        self.at += 1;
        Ok(())
    }

    /// Remembers a key of the innermost object, which must not have it yet.
    fn note_key(&mut self, text: Cow<'a, [u8]>, start: usize, end: usize) -> Step<()> {
        let Some(Frame::Object { key, key_count, keys_from, number }) = self.frames.last_mut() else {
            unreachable!("keys are only read inside objects")
        };
        *key = (start, end);
        *key_count += 1;
        let halt = |kind| Err(Halt { kind, offset: start - 1, place: Place::Container });
        let keys_max = self.limits.keys_max;
        if *key_count > keys_max {
            return halt(FaultKind::TooManyKeys { keys_max });
        }
        let is_new = if *key_count <= KEYS_SCANNED_MAX {
            let fingerprint = fingerprint(&text);
            let known = &self.keys[*keys_from..];
            let is_new = !known.iter().any(|known| known.fingerprint == fingerprint && known.text == text);
            self.keys.push(Key { fingerprint, text });
            is_new
        } else {
            // The first key too many takes those before it along.
            self.hashed.extend(self.keys.drain(*keys_from..).map(|known| (*number, known.text)));
            self.hashed.insert((*number, text))
        };
        if is_new { Ok(()) } else { halt(FaultKind::DuplicateKey(shown(&self.bytes[start..end]))) }
    }

    /// From the opening quote to behind the closing one. Returns whether there was an escape.
    fn string(&mut self, place: Place) -> Step<bool> {
        self.at += 1;
        let mut escaped = false;
        loop {
            self.at = plain_end(self.bytes, self.at);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape(place)?;
                }
                Some(_) => return Err(self.halt(FaultKind::ControlCharacter, place)),
                None => return Err(self.halt(FaultKind::UnexpectedEnd, place)),
            }
        }
    }

    fn escape(&mut self, place: Place) -> Step<()> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                return Ok(());
            }
            Some(b'u') => {}
            Some(_) => return Err(self.halt(FaultKind::InvalidEscape, place)),
            None => return Err(self.end(place)),
        }
        match self.hex(self.at, place)? {
            0 => Err(self.halt(FaultKind::Nul, place)),
            0xd800..=0xdbff => {
                let second_at = self.at + 6;
                if !self.bytes[second_at..].starts_with(b"\\u") {
                    return Err(self.halt(FaultKind::LoneSurrogate, place));
                }
                match self.hex(second_at, place)? {
                    0xdc00..=0xdfff => self.at += 12,
                    _ => return Err(self.halt(FaultKind::LoneSurrogate, place)),
                }
                Ok(())
            }
            0xdc00..=0xdfff => Err(self.halt(FaultKind::LoneSurrogate, place)),
            _ => {
                self.at += 6;
                Ok(())
            }
        }
    }

    /// The four digits of the `\u` at `from`.
    fn hex(&self, from: usize, place: Place) -> Step<u16> {
        let mut code = 0;
        for at in from + 2..from + 6 {
            let Some(&byte) = self.bytes.get(at) else { return Err(self.end(place)) };
            let Some(digit) = char::from(byte).to_digit(16) else {
                return Err(Halt { kind: FaultKind::InvalidEscape, offset: from, place });
            };
            code = code << 4 | digit as u16;
        }
        Ok(code)
    }

    fn number(&mut self) -> Step<()> {
        /// Fewer digits and a smaller exponent than these are far from infinity (1.8e308): nothing to compute.
        const PLAIN_DIGITS_MAX: usize = 200;
        const PLAIN_EXPONENT_DIGITS_MAX: usize = 2;

        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leads_with_zero = self.peek() == Some(b'0');
        let digits = self.digits(start)?;
        if leads_with_zero && digits > 1 {
            return Err(Halt { kind: FaultKind::InvalidNumber, offset: start, place: Place::Value });
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits(start)?;
        }
        let mut exponent_digits = 0;
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            exponent_digits = self.digits(start)?;
        }
        if digits <= PLAIN_DIGITS_MAX && exponent_digits <= PLAIN_EXPONENT_DIGITS_MAX {
            return Ok(());
        }
        if is_too_large(&self.bytes[start..self.at]) {
            return Err(Halt { kind: FaultKind::NumberTooLarge, offset: start, place: Place::Value });
        }
        Ok(())
    }

    /// At least one digit; returns how many.
    #[inline(always)]
    fn digits(&mut self, number_from: usize) -> Step<usize> {
        let from = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        match self.at - from {
            0 if self.at == self.bytes.len() => Err(self.end(Place::Value)),
            0 => Err(Halt { kind: FaultKind::InvalidNumber, offset: number_from, place: Place::Value }),
            count => Ok(count),
        }
    }

    fn word(&mut self, word: &'static [u8]) -> Step<()> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(word) {
            self.at += word.len();
            Ok(())
        } else if word.starts_with(rest) {
            Err(self.end(Place::Value))
        } else {
            Err(self.halt(FaultKind::Expected("a value"), Place::Value))
        }
    }

    #[cold]
    fn halt(&self, kind: FaultKind, place: Place) -> Halt {
        Halt { kind, offset: self.at, place }
    }

    #[cold]
    fn end(&self, place: Place) -> Halt {
        Halt { kind: FaultKind::UnexpectedEnd, offset: self.bytes.len(), place }
    }

    #[cold]
    fn unexpected(&self, wanted: &'static str, place: Place) -> Halt {
        if self.at == self.bytes.len() { self.end(place) } else { self.halt(FaultKind::Expected(wanted), place) }
    }

    /// The path to where the check stands now.
    #[cold]
    fn pointer(&self, place: Place) -> String {
        let mut pointer = String::new();
        for (at, frame) in self.frames.iter().enumerate() {
            if at + 1 == self.frames.len() && matches!(place, Place::Container) {
                break;
            }
            let segment = match frame {
                Frame::Array { index } => index.to_string(),
                Frame::Object { key: (start, end), .. } => shown(&self.bytes[*start..*end])
                    .replace('~', "~0")
                    .replace('/', "~1")
                    .replace(char::is_control, "\u{fffd}"),
            };
            if pointer.len() + segment.len() >= POINTER_BYTES_MAX {
                pointer.push_str("/…");
                break;
            }
            pointer.push('/');
            pointer.push_str(&segment);
        }
        pointer
    }
}

/// Where the text that starts at `at` has its next quote, backslash or control character; the end, if it has none.
///
/// Eight bytes at a time: a byte minus one borrows into its highest bit only when it was zero, and likewise for "less
/// than a space". A borrow can disturb higher bytes, never lower ones, so the lowest mark is always true.
#[inline(always)]
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let chunk = u64::from_le_bytes(*chunk);
        let quote = chunk ^ (ONES * b'"' as u64);
        let backslash = chunk ^ (ONES * b'\\' as u64);
        let marks = (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash)
            | (chunk.wrapping_sub(ONES * b' ' as u64) & !chunk);
        let marks = marks & HIGH;
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(&byte) = bytes.get(at)
        && byte >= b' '
        && byte != b'"'
        && byte != b'\\'
    {
        at += 1;
    }
    at
}

/// A number that differs for most different keys, so that few are compared byte by byte.
#[inline(always)]
fn fingerprint(text: &[u8]) -> u64 {
    let (head, tail) = match (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
        _ => match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
            (Some(head), Some(tail)) => (u32::from_le_bytes(*head).into(), u32::from_le_bytes(*tail).into()),
            _ => (text.iter().fold(0, |head, byte| head << 8 | u64::from(*byte)), 0),
        },
    };
    head ^ tail.rotate_left(32) ^ (text.len() as u64).rotate_left(56)
}

/// Whether a number that follows the grammar would become infinity as a double.
///
/// Decided by where its first significant digit stands; `f64::from_str` alone takes exponents of six digits for smaller
/// ones, and nobody limits the zeros before a digit.
fn is_too_large(number: &[u8]) -> bool {
    /// The largest double has 309 digits before its point.
    const MAGNITUDE_MAX: i64 = 309;
    const DIGITS_READ_MAX: usize = 40;

    let exponent_at = number.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(number.len());
    let (mantissa, exponent) = number.split_at(exponent_at);
    let mantissa = mantissa.strip_prefix(b"-").unwrap_or(mantissa);
    let digits_before_point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let mut digits = mantissa.iter().filter(|byte| **byte != b'.').map(|byte| char::from(*byte));
    let Some(zeros) = digits.clone().position(|digit| digit != '0') else { return false };

    let power = exponent
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .fold(0_i64, |power, digit| power.saturating_mul(10).saturating_add((digit - b'0').into()));
    let power = if exponent.get(1) == Some(&b'-') { -power } else { power };
    // The number is 0.d1d2d3… times ten to the magnitude, and d1 is not zero.
    let magnitude = (digits_before_point as i64 - zeros as i64).saturating_add(power);
    if magnitude != MAGNITUDE_MAX {
        return magnitude > MAGNITUDE_MAX;
    }
    if zeros > 0 {
        digits.nth(zeros - 1);
    }
    let significant: String = digits.take(DIGITS_READ_MAX).collect();
    let value: f64 = format!("0.{significant}e{MAGNITUDE_MAX}").parse().expect("digits and an exponent are a number");
    value.is_infinite()
}

/// The bytes a text with escapes stands for. The escapes were checked before.
#[cold]
fn unescape(raw: &[u8]) -> Vec<u8> {
    let raw = std::str::from_utf8(raw).expect("the body was checked to be UTF-8");
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let (letter, after) = escape.split_at(1);
        rest = after;
        text.push(match letter {
            "b" => '\u{8}',
            "f" => '\u{c}',
            "n" => '\n',
            "r" => '\r',
            "t" => '\t',
            "u" => {
                let first = hex_code(&rest[..4]);
                rest = &rest[4..];
                let code = if let 0xd800..=0xdbff = first {
                    let second = hex_code(&rest[2..6]);
                    rest = &rest[6..];
                    0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                } else {
                    first
                };
                char::from_u32(code).expect("lone surrogates were refused")
            }
            itself => itself.chars().next().expect("an escape has a letter"),
        });
    }
    text.push_str(rest);
    text.into_bytes()
}

fn hex_code(digits: &str) -> u32 {
    u32::from_str_radix(digits, 16).expect("the digits were checked")
}

/// A key for a message: unescaped, and cut when it is long.
#[cold]
fn shown(raw: &[u8]) -> String {
    let text = unescape(raw);
    let text = String::from_utf8_lossy(&text);
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// The place behind `before`, counted from 1.
#[cold]
fn line_and_column(before: &[u8]) -> (usize, usize) {
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line = before[..line_start].iter().filter(|byte| **byte == b'\n').count();
    // A character has one byte that does not continue another.
    let column = before[line_start..].iter().filter(|byte| **byte & 0xc0 != 0x80).count();
    (line + 1, column + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn fault(text: &str) -> Fault {
        match check(text.as_bytes(), &Limits::default()) {
            Err(fault) => fault,
            Ok(()) => panic!("passed: {text}"),
        }
    }

    fn kind(text: &str) -> FaultKind {
        fault(text).kind
    }

    fn passes(text: &str) {
        assert_eq!(check(text.as_bytes(), &Limits::default()), Ok(()), "{text}");
        assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
    }

    #[test]
    fn what_is_json_passes() {
        for text in [
            "null",
            " true ",
            "\t\r\n false",
            "0",
            "-0",
            "-0.0e-0",
            "9007199254740993",
            "12345678901234567890123456789012345678901234567890",
            "1e308",
            "1E+2",
            "1.5e-400",
            "0e999999999999999999999",
            "\"\"",
            r#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 é😀""#,
            "\"\u{7f}\u{80}\u{10ffff}\"",
            "[]",
            "{}",
            "[ ]",
            "{ }",
            "[[],{},[{}]]",
            r#"{"":1," ":2}"#,
            r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}"#,
            " { \"a\" : [ 1 , 2 ] , \"b\" : null } ",
        ] {
            passes(text);
        }
    }

    #[test]
    fn the_grammar_is_strict() {
        use FaultKind as K;
        let cases = [
            ("", K::Empty),
            (" \n\t", K::Empty),
            ("\u{feff}{}", K::Expected("a value")),
            ("\u{a0}1", K::Expected("a value")),
            ("\u{b}1", K::Expected("a value")),
            ("tru", K::UnexpectedEnd),
            ("trux", K::Expected("a value")),
            ("True", K::Expected("a value")),
            ("NaN", K::Expected("a value")),
            ("Infinity", K::Expected("a value")),
            ("nulll", K::TrailingText),
            ("'a'", K::Expected("a value")),
            ("// no\n1", K::Expected("a value")),
            ("1 2", K::TrailingText),
            ("{} {}", K::TrailingText),
            ("{}]", K::TrailingText),
            ("]", K::Expected("a value")),
            (",", K::Expected("a value")),
            ("[", K::UnexpectedEnd),
            ("[1", K::UnexpectedEnd),
            ("[1,", K::UnexpectedEnd),
            ("[1,]", K::Expected("a value")),
            ("[,1]", K::Expected("a value")),
            ("[1 2]", K::Expected("`,` or `]`")),
            ("[1}", K::Expected("`,` or `]`")),
            ("{", K::UnexpectedEnd),
            ("{1:2}", K::Expected("a key in double quotes")),
            ("{a:2}", K::Expected("a key in double quotes")),
            ("{,}", K::Expected("a key in double quotes")),
            (r#"{"a"}"#, K::Expected("`:` after the key")),
            (r#"{"a","b"}"#, K::Expected("`:` after the key")),
            (r#"{"a":}"#, K::Expected("a value")),
            (r#"{"a":1,}"#, K::Expected("a key in double quotes")),
            (r#"{"a":1]"#, K::Expected("`,` or `}`")),
            (r#"{"a":1 "b":2}"#, K::Expected("`,` or `}`")),
            (r#"{"a":1"#, K::UnexpectedEnd),
            (r#"{"a""#, K::UnexpectedEnd),
            (r#"{"a"#, K::UnexpectedEnd),
            ("\"a", K::UnexpectedEnd),
            ("\"a\\", K::UnexpectedEnd),
            ("\"\\u12", K::UnexpectedEnd),
            ("\"a\nb\"", K::ControlCharacter),
            ("\"a\tb\"", K::ControlCharacter),
            ("\"a\0b\"", K::ControlCharacter),
            ("\"01234567\u{1f}\"", K::ControlCharacter),
            (r#""\x""#, K::InvalidEscape),
            (r#""\U0041""#, K::InvalidEscape),
            (r#""\u00g0""#, K::InvalidEscape),
            (r#""\u+041""#, K::InvalidEscape),
            ("\"\\é\"", K::InvalidEscape),
        ];
        for (text, expected) in cases {
            assert_eq!(kind(text), expected, "{text:?}");
            assert!(serde_json::from_str::<Value>(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn numbers_follow_the_grammar() {
        for text in ["-", "+1", "01", "-01", "00", "1.", ".5", "-.5", "1.e5", "1e", "1e+", "1E-", "0x10", "1_000", "1a"]
        {
            assert!(check(text.as_bytes(), &Limits::default()).is_err(), "{text}");
            assert!(check(format!("[{text}]").as_bytes(), &Limits::default()).is_err(), "{text}");
        }
        assert_eq!(kind("[01]"), FaultKind::InvalidNumber);
        assert_eq!(kind("[1.]"), FaultKind::InvalidNumber);
        assert_eq!(kind("[-]"), FaultKind::InvalidNumber);
        assert_eq!(kind("-"), FaultKind::UnexpectedEnd);
    }

    /// B028.
    #[test]
    fn a_number_that_would_become_infinity_is_refused() {
        for text in ["1e999", "-1e999", "1e309", "1.8e308", "1e99999999999999999999", &"9".repeat(310), "123e400"] {
            assert_eq!(kind(&format!("{{\"n\": {text}}}")), FaultKind::NumberTooLarge, "{text}");
        }
        let long_but_small = format!("{}e-900", "9".repeat(1_000));
        for text in ["1e-999", &"9".repeat(300), &long_but_small, "0.0001e309", &format!("0.{}1e400", "0".repeat(399))]
        {
            passes(text);
        }
    }

    /// B029.
    #[test]
    fn broken_texts_are_refused() {
        for text in [
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800x""#,
            r#""\ud800\n""#,
            r#""\ud800\ud800""#,
            r#""\ud800\u0041""#,
            r#""\udc00\ud800""#,
            r#"{"\udbff":1}"#,
        ] {
            assert_eq!(kind(text), FaultKind::LoneSurrogate, "{text}");
        }
        for text in [r#""\u0000""#, r#"{"name":"a\u0000b"}"#, r#"{"a\u0000":1}"#] {
            assert_eq!(kind(text), FaultKind::Nul, "{text}");
        }
        for bytes in [
            &b"\"\xff\""[..],
            b"\"\xc0\x80\"",
            b"\"\xed\xa0\x80\"",
            b"\"\xf4\x90\x80\x80\"",
            b"\"\xe2\x82",
            b"\xfe\xff",
        ] {
            let fault = check(bytes, &Limits::default()).unwrap_err();
            assert_eq!(fault.kind, FaultKind::NotUtf8, "{bytes:?}");
        }
    }

    /// B016.
    #[test]
    fn duplicate_keys_are_refused() {
        for text in [
            r#"{"type":"a","type":"b"}"#,
            r#"{"":1,"":2}"#,
            r#"{"type":1,"typ\u0065":2}"#,
            r#"{"\u0074ype":1,"type":2}"#,
            r#"{"a/b":1,"a\/b":2}"#,
            r#"{"😀":1,"\ud83d\uDE00":2}"#,
            r#"{"é":1,"\u00e9":2}"#,
            r#"{"a":{"a":1},"a":2}"#,
            r#"[{"b":[{"x":{"a":1,"b":2,"a":3}}]}]"#,
        ] {
            assert!(matches!(kind(text), FaultKind::DuplicateKey(_)), "{text}");
        }
        // Different as characters, even if they look alike.
        passes(r#"{"é":1,"e\u0301":2}"#);
        passes(r#"{"a":1,"A":2,"a ":3}"#);
    }

    #[test]
    fn duplicates_are_found_in_objects_of_every_size() {
        for count in 1..60 {
            let pairs = |keys: &[usize]| {
                let pairs: Vec<_> = keys.iter().map(|key| format!("\"key {key}\":{{\"key {key}\":0}}")).collect();
                format!("{{{}}}", pairs.join(","))
            };
            let mut keys: Vec<_> = (0..count).collect();
            passes(&pairs(&keys));
            for repeated in [0, count / 2, count - 1] {
                keys.push(repeated);
                assert_eq!(kind(&pairs(&keys)), FaultKind::DuplicateKey(format!("key {repeated}")), "{count}");
                keys.pop();
            }
        }
    }

    #[test]
    fn large_objects_side_by_side_do_not_share_keys() {
        let pairs: Vec<_> = (0..40).map(|key| format!("\"{key}\":0")).collect();
        let object = format!("{{{}}}", pairs.join(","));
        passes(&format!("[{object},{object}]"));
        passes(&format!("{{{},\"x\":{object}}}", pairs.join(",")));
    }

    /// B027.
    #[test]
    fn depth_is_limited_exactly() {
        let arrays = |depth| "[".repeat(depth) + &"]".repeat(depth);
        let objects = |depth| "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
        passes(&arrays(64));
        passes(&objects(64));
        for text in [arrays(65), objects(65), "[".repeat(1 << 20), "{\"a\":".repeat(200_000), "[{\"a\":".repeat(10_000)]
        {
            let fault = fault(&text);
            assert_eq!(fault.kind, FaultKind::TooDeep { depth_max: 64 });
            assert!(fault.offset < 400);
        }
        let limits = Limits { depth_max: 0, ..Limits::default() };
        assert!(check(b"1", &limits).is_ok());
        assert!(check(b"[]", &limits).is_err());
    }

    #[test]
    fn keys_are_limited_exactly() {
        for keys_max in [0, 1, 16, 17, 100] {
            let limits = Limits { keys_max, ..Limits::default() };
            let object = |count: usize| {
                let pairs: Vec<_> = (0..count).map(|key| format!("\"{key}\":0")).collect();
                format!("{{{}}}", pairs.join(","))
            };
            assert_eq!(check(object(keys_max).as_bytes(), &limits), Ok(()));
            let fault = check(object(keys_max + 1).as_bytes(), &limits).unwrap_err();
            assert_eq!(fault.kind, FaultKind::TooManyKeys { keys_max });
        }
    }

    #[test]
    fn a_fault_says_where_it_is() {
        let cases = [
            (
                "{\n  \"payload\": {\n    \"type\": 1, \"type\": 2\n  }\n}",
                "duplicate key \"type\" at /payload (line 3, column 16)",
            ),
            (r#"{"type":1,"type":2}"#, "duplicate key \"type\" at the top level (line 1, column 11)"),
            (
                r#"{"payload":{"items":[0,1,2,1e999]}}"#,
                "number too large for a double at /payload/items/3 (line 1, column 28)",
            ),
            ("[1,\n2,\n", "unexpected end of the body at /2 (line 3, column 1)"),
            ("[[1 2]]", "expected `,` or `]` at /0 (line 1, column 5)"),
            ("\"é\\x\"", "invalid escape at the top level (line 1, column 3)"),
            (r#"{"a/b~c":{"x":tru}}"#, "expected a value at /a~1b~0c/x (line 1, column 15)"),
            (r#"{"\u0061\n":?}"#, "expected a value at /a\u{fffd} (line 1, column 13)"),
            (r#"{"a":[{"b" 1}]}"#, "expected `:` after the key at /a/0/b (line 1, column 12)"),
            (r#"{"a":[{"b":1,2}]}"#, "expected a key in double quotes at /a/0 (line 1, column 14)"),
            ("{} x", "unexpected text after the value at the top level (line 1, column 4)"),
            ("", "the body is empty at the top level (line 1, column 1)"),
        ];
        for (text, sentence) in cases {
            assert_eq!(fault(text).to_string(), sentence);
        }
        let fault = check(b"{\"a\":\n\"\xff\"}", &Limits::default()).unwrap_err();
        assert_eq!(fault.to_string(), "invalid UTF-8 at the top level (line 2, column 2)");
        assert_eq!((fault.offset, fault.kind.code()), (7, "NOT_UTF8"));
    }

    #[test]
    fn a_message_stays_short() {
        let key = "k".repeat(10_000);
        let deep = format!("{{\"{key}\":").repeat(60) + "?";
        assert!(fault(&deep).to_string().len() < 700);
        assert!(fault(&format!("{{\"{key}\":1,\"{key}\":2}}")).to_string().len() < 200);
    }

    #[test]
    fn every_byte_is_classified_at_every_place_in_a_chunk() {
        for byte in 0..=127_u8 {
            for before in 0..17 {
                let mut text = vec![b'x'; before];
                text.push(byte);
                text.extend([0xc3, 0xa9, b'y', b'z', b'"', 0]);
                let ends = byte < b' ' || byte == b'"' || byte == b'\\';
                let expected = if ends { before } else { before + 5 };
                assert_eq!(plain_end(&text, 0), expected, "{byte} at {before}");
            }
        }
        assert_eq!(plain_end(b"xxxxxxxxx", 0), 9);
        assert_eq!(plain_end(b"", 0), 0);
    }

    /// Texts with every kind of character that needs care, but no NUL.
    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof!["[a-e]{0,3}", any::<String>(), "[\"\\\\/\u{1}-\u{1f} é😀\u{ffff}]{0,20}",]
            .prop_map(|text| text.replace('\0', ""))
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from), // what is not finite becomes null
            any_text().prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 80, 25, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..25).prop_map(Value::from),
                proptest::collection::btree_map(any_text(), inner, 0..25)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// One way to spoil a text.
    #[derive(Debug, Clone)]
    enum Mutation {
        Set(prop::sample::Index, u8),
        Insert(prop::sample::Index, u8),
        Remove(prop::sample::Index),
        Copy(prop::sample::Index, prop::sample::Index),
        Cut(prop::sample::Index),
    }

    fn any_mutation() -> impl Strategy<Value = Mutation> {
        let index = any::<prop::sample::Index>;
        let byte = || prop_oneof![any::<u8>(), prop::sample::select(&b"{}[]:,\"\\u0123456789abcdefDEt.+- \n"[..])];
        prop_oneof![
            (index(), byte()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
            (index(), byte()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
            index().prop_map(Mutation::Remove),
            (index(), index()).prop_map(|(from, to)| Mutation::Copy(from, to)),
            index().prop_map(Mutation::Cut),
        ]
    }

    fn mutate(mut bytes: Vec<u8>, mutations: Vec<Mutation>) -> Vec<u8> {
        for mutation in mutations {
            if bytes.is_empty() {
                break;
            }
            let len = bytes.len();
            match mutation {
                Mutation::Set(at, byte) => bytes[at.index(len)] = byte,
                Mutation::Insert(at, byte) => bytes.insert(at.index(len), byte),
                Mutation::Remove(at) => {
                    bytes.remove(at.index(len));
                }
                Mutation::Copy(from, to) => {
                    let (from, to) = (from.index(len), to.index(len));
                    let copy = bytes[from..len.min(from + 12)].to_vec();
                    bytes.splice(to..to, copy);
                }
                Mutation::Cut(at) => bytes.truncate(at.index(len)),
            }
        }
        bytes
    }

    /// What passes is JSON to serde; what is refused for its grammar is none to serde either.
    fn agrees_with_serde(bytes: &[u8]) -> Result<(), TestCaseError> {
        use FaultKind as K;
        let serde = serde_json::from_slice::<Value>(bytes);
        match check(bytes, &Limits::default()).map_err(|fault| fault.kind) {
            Ok(()) => prop_assert!(serde.is_ok(), "{:?}", serde),
            Err(K::DuplicateKey(_) | K::Nul | K::TooDeep { .. } | K::TooManyKeys { .. }) => {}
            Err(kind) => prop_assert!(serde.is_err(), "{:?}", kind),
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn every_value_passes(value in any_value()) {
            prop_assert_eq!(check(value.to_string().as_bytes(), &Limits::default()), Ok(()));
            let pretty = serde_json::to_vec_pretty(&value).unwrap();
            prop_assert_eq!(check(&pretty, &Limits::default()), Ok(()));
        }

        #[test]
        fn a_spoilt_text_is_judged_as_serde_judges_it(
            value in any_value(),
            mutations in proptest::collection::vec(any_mutation(), 1..4),
        ) {
            agrees_with_serde(&mutate(value.to_string().into_bytes(), mutations))?;
        }

        #[test]
        fn scribbles_are_judged_as_serde_judges_them(text in r#"[\[\]{}:,"\\u0-9eE+. \-tfnulrsad\x{1}é]{0,30}"#) {
            agrees_with_serde(text.as_bytes())?;
        }

        #[test]
        fn numbers_are_judged_as_serde_judges_them(text in r"-?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+\-]?[0-9]{0,3})?") {
            agrees_with_serde(text.as_bytes())?;
        }

        #[test]
        fn size_is_judged_as_the_standard_library_judges_it(
            text in r"-?(0|[1-9][0-9]{0,30}|9[0-9]{290,320})(\.0{0,300}[0-9]{1,25})?([eE][+\-]?[0-9]{1,3})?",
        ) {
            prop_assert_eq!(is_too_large(text.as_bytes()), text.parse::<f64>().unwrap().is_infinite());
        }

        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            agrees_with_serde(&bytes)?;
        }

        /// However the keys are spelt, an object passes exactly if they differ.
        #[test]
        fn duplicates_are_found_however_they_are_spelt(
            keys in proptest::collection::vec(("[ab/é😀]{0,3}", any::<u64>()), 0..40),
        ) {
            let spelt: Vec<_> = keys.iter().map(|(key, choice)| {
                let units: Vec<_> = key.chars().enumerate().map(|(at, char)| {
                    if choice >> at & 1 == 0 {
                        return char.to_string();
                    }
                    let mut buffer = [0; 2];
                    char.encode_utf16(&mut buffer).iter().map(|unit| format!("\\u{unit:04x}")).collect()
                }).collect();
                format!("\"{}\":0", units.concat())
            }).collect();
            let text = format!("{{{}}}", spelt.join(","));
            let distinct: HashSet<_> = keys.iter().map(|(key, _)| key).collect();
            prop_assert_eq!(check(text.as_bytes(), &Limits::default()).is_ok(), distinct.len() == keys.len());
        }
    }
}
