//! What programs wrote, made harmless for a terminal as it comes.
//!
//! Colours stay, where colours are wanted. Everything else that a terminal would obey is shown instead: `^[[2J`. A lone
//! carriage return, with which a text could write over itself, becomes the end of a line. Bytes may be cut anywhere.

use super::text::is_unsafe;

/// Longer than any sequence of colours that makes sense.
const SEQUENCE_MAX: usize = 64;

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Plain,
    /// After an escape.
    Escape,
    /// After an escape and a bracket; with what stands there so far.
    Sequence(String),
    /// After a carriage return.
    Return,
}

/// Bytes in, harmless text out.
#[derive(Debug, Default)]
pub struct Harmless {
    color: bool,
    /// The beginning of a character.
    rest: Vec<u8>,
    state: State,
    /// A colour is on.
    painted: bool,
}

impl Harmless {
    pub fn new(color: bool) -> Self {
        Self { color, ..Self::default() }
    }

    /// The next bytes, as far as they can be shown.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let taken = std::mem::take(&mut self.rest);
        let mut out = String::with_capacity(taken.len());
        let mut chunks = taken.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            for c in chunk.valid().chars() {
                self.take(c, &mut out);
            }
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_beginning(invalid) {
                self.rest = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.take(char::REPLACEMENT_CHARACTER, &mut out);
            }
        }
        out
    }

    /// What is left at the end, and the end of any colour.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        if !std::mem::take(&mut self.rest).is_empty() {
            self.take(char::REPLACEMENT_CHARACTER, &mut out);
        }
        self.leave(&mut out);
        if std::mem::take(&mut self.painted) {
            out.push_str("\u{1b}[0m");
        }
        out
    }

    fn take(&mut self, c: char, out: &mut String) {
        match (&mut self.state, c) {
            (State::Escape, '[') => self.state = State::Sequence(String::new()),
            (State::Sequence(text), '0'..='9' | ';' | ':') if text.len() < SEQUENCE_MAX => text.push(c),
            (State::Sequence(text), 'm') => {
                if self.color {
                    self.painted = !matches!(text.as_str(), "" | "0");
                    out.push_str(&format!("\u{1b}[{text}m"));
                }
                self.state = State::Plain;
            }
            (State::Return, '\n') => {
                self.state = State::Plain;
                out.push('\n');
            }
            _ => {
                self.leave(out);
                self.plain(c, out);
            }
        }
    }

    /// Shows what was begun and did not become anything.
    fn leave(&mut self, out: &mut String) {
        match std::mem::take(&mut self.state) {
            State::Plain => {}
            State::Escape => out.push_str("^["),
            State::Sequence(text) => out.push_str(&format!("^[[{text}")),
            State::Return => out.push('\n'),
        }
    }

    fn plain(&mut self, c: char, out: &mut String) {
        match c {
            '\u{1b}' => self.state = State::Escape,
            '\r' => self.state = State::Return,
            '\n' | '\t' => out.push(c),
            '\0'..='\u{1f}' | '\u{7f}' => out.extend(['^', char::from((c as u8) ^ 0x40)]),
            c if is_unsafe(c) => out.push_str(&format!("<U+{:04X}>", u32::from(c))),
            c => out.push(c),
        }
    }
}

/// Whether these bytes may become a character when more come.
fn is_beginning(bytes: &[u8]) -> bool {
    let length = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => return false,
    };
    bytes.len() < length
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(pieces: &[&[u8]], color: bool) -> String {
        let mut filter = Harmless::new(color);
        let mut out: String = pieces.iter().map(|piece| filter.push(piece)).collect();
        out.push_str(&filter.finish());
        out
    }

    #[test]
    fn colours_stay_and_orders_are_shown() {
        assert_eq!(shown(&[b"\x1b[31mred\x1b[0m\n"], true), "\u{1b}[31mred\u{1b}[0m\n");
        assert_eq!(shown(&[b"\x1b[31mred\x1b[0m\n"], false), "red\n");
        assert_eq!(shown(&[b"\x1b[1;38:5:9mred"], true), "\u{1b}[1;38:5:9mred\u{1b}[0m", "no colour outlives its text");
        assert_eq!(shown(&[b"a\x1b[2Jb\x1b]0;title\x07c\x1b"], true), "a^[[2Jb^[]0;title^Gc^[");
        assert_eq!(shown(&[b"\x1b[?25l \x9b2J \x00\x7f"], true), "^[[?25l \u{fffd}2J ^@^?");
        assert_eq!(shown(&["\u{9b}2J\u{202e}abc".as_bytes()], true), "<U+009B>2J<U+202E>abc");
    }

    #[test]
    fn lines_end_and_never_write_over_themselves() {
        assert_eq!(shown(&[b"a\r\nb\rc\r", b"\nd\r"], true), "a\nb\nc\nd\n");
    }

    #[test]
    fn characters_and_orders_may_be_cut_anywhere() {
        assert_eq!(shown(&[b"\xe2\x82", b"\xac \x1b", b"[3", b"2mx"], true), "€ \u{1b}[32mx\u{1b}[0m");
        assert_eq!(shown(&[b"\xe2\x82"], true), "\u{fffd}");
    }

    proptest! {
        #[test]
        fn nothing_that_comes_out_is_an_order(bytes in prop::collection::vec(any::<u8>(), 0..80), cut in 0usize..80) {
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            let out = shown(&[head, tail], false);
            prop_assert!(out.chars().all(|c| matches!(c, '\n' | '\t') || !is_unsafe(c)), "{out:?}");
            prop_assert_eq!(out, shown(&[&bytes], false));
        }
    }
}
