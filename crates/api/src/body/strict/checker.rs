//! The one pass over the bytes: a machine with a stack of its own.

use std::borrow::Cow;
use std::collections::HashSet;

use super::text::{fingerprint, is_too_large, is_whole, plain_end, shown, unescape};
use super::{FaultKind, Limits};

/// An object with at most this many keys finds duplicates by looking at each; a larger one hashes.
const KEYS_SCANNED_MAX: usize = 32;

/// A path longer than this is cut.
const POINTER_BYTES_MAX: usize = 512;

/// A fault before its place is put in words.
pub struct Halt {
    pub kind: FaultKind,
    pub offset: usize,
    pub place: Place,
}

/// Which path describes a fault: that of the innermost open array or object, or that of the value inside it.
#[derive(Clone, Copy)]
pub enum Place {
    Container,
    Value,
}

pub type Step<T> = Result<T, Halt>;

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

pub struct Checker<'a> {
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
    pub fn new(bytes: &'a [u8], limits: Limits) -> Self {
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

    pub fn run(&mut self) -> Step<()> {
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
        /// Fewer digits than these fit into 64 bits.
        const WHOLE_DIGITS: usize = 19;

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
        if self.limits.exact_numbers && digits >= WHOLE_DIGITS && !is_whole(&self.bytes[start..self.at]) {
            return Err(Halt { kind: FaultKind::NumberNotExact, offset: start, place: Place::Value });
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
    pub fn pointer(&self, place: Place) -> String {
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
