//! Zero bytes in texts, which PostgreSQL does not take.
//!
//! A zero byte can be in anything that others say: in the answer to an HTTP call, in a message of a broker, in the output of a
//! program, and so in the title of an approval or the key of an event that a workflow makes of it. SQLite keeps such a text;
//! PostgreSQL would refuse the whole statement, and everybody who shares the transaction with it. So that both ledgers keep
//! the same, a text is written to PostgreSQL with a mark in the place of each zero byte, and read back without.
//! The mark is a code point that Unicode reserves for such inner use and that is never a character. Where a text has the mark
//! itself, it is doubled in a way that cannot be mistaken. Texts are compared by PostgreSQL as they are written, so equal
//! texts stay equal and different ones stay different.

use std::borrow::Cow;

const MARK: char = '\u{ffff}';
const ZERO: &str = "\u{ffff}0";
const ITSELF: &str = "\u{ffff}1";

/// A text as PostgreSQL takes it.
pub fn written(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', MARK]) {
        return Cow::Borrowed(text);
    }
    let mut marked = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\0' => marked.push_str(ZERO),
            MARK => marked.push_str(ITSELF),
            other => marked.push(other),
        }
    }
    Cow::Owned(marked)
}

/// The text that was written.
pub fn read(marked: String) -> String {
    if !marked.contains(MARK) {
        return marked;
    }
    let mut text = String::with_capacity(marked.len());
    let mut rest = marked.chars();
    while let Some(c) = rest.next() {
        match (c, if c == MARK { rest.clone().next() } else { None }) {
            (MARK, Some('0')) => {
                text.push('\0');
                rest.next();
            }
            (MARK, Some('1')) => {
                text.push(MARK);
                rest.next();
            }
            // Written by somebody else.
            (other, _) => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_as_it_was_and_without_zero_bytes_on_its_way() {
        let parts = ["", "a", "0", "1", "\0", "\u{ffff}", "é"];
        let mut seen = std::collections::HashMap::new();
        for a in parts {
            for b in parts {
                for c in parts {
                    let text = format!("{a}{b}{c}");
                    let marked = written(&text).into_owned();
                    assert!(!marked.contains('\0'), "{text:?}");
                    assert_eq!(read(marked.clone()), text);
                    let before = seen.insert(marked, text.clone());
                    assert!(before.is_none_or(|before| before == text), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn a_usual_text_is_not_copied() {
        assert!(matches!(written("a usual text"), Cow::Borrowed(_)));
    }
}
