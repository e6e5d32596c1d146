//! Text from outside, made harmless before it can reach a terminal.
//!
//! Whatever a server says may have been written by anybody: a job's type, an error, a reason. A terminal obeys some
//! characters instead of showing them, and a few others make text look like what it is not. Here they are taken out.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Whether a terminal might obey this character, or read the text around it in another order.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{feff}'
            | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text on one line, without unsafe characters. Line breaks and tabs become one space, so that words stay apart.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            c if is_unsafe(c) => {}
            c => out.push(c),
        }
    }
    out
}

/// JSON that says the same, with unsafe characters written as escapes. Valid JSON carries such characters only inside
/// strings, where an escape means the same; the white space between its parts stays as it was.
pub fn json_safe(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(c),
            c if is_unsafe(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// The text, or its beginning and an ellipsis where it is longer than `chars`.
pub fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
    }
}

/// Text from the server. It is clean from the moment it is read, so it can be printed anywhere.
///
/// It reads any JSON value: numbers and booleans become their text, `null` becomes empty, and lists and objects become
/// a mark. A server that is newer than this program must not make it fail.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(String);

impl Text {
    pub fn new(raw: &str) -> Self {
        Self(clean(raw))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text, or `other` where there is none.
    pub fn or<'a>(&'a self, other: &'a str) -> &'a str {
        if self.0.is_empty() { other } else { &self.0 }
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyText;

        impl<'de> Visitor<'de> for AnyText {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text::new(text))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_unit<E>(self) -> Result<Text, E> {
                Ok(Text::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Text, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Text("[…]".to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text("{…}".to_owned()))
            }
        }

        deserializer.deserialize_any(AnyText)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escape_sequences_lose_what_makes_them_work() {
        assert_eq!(clean("\u{1b}[31mred\u{1b}[0m"), "[31mred[0m");
        assert_eq!(clean("\u{1b}]0;title\u{7}x"), "]0;titlex");
        assert_eq!(clean("\u{9b}2J\u{7f}ok\0"), "2Jok");
        assert_eq!(clean("user\u{202e}gnp.exe\u{2066}"), "usergnp.exe");
        assert_eq!(clean("two\r\n\tlines"), "two lines");
        assert_eq!(clean("Zoë 東京 👩‍🚀"), "Zoë 東京 👩‍🚀");
    }

    #[test]
    fn json_keeps_its_meaning_and_its_layout() {
        let json = "{\n\t\"a\": \"x\u{9b}31m\u{202e}y\"\r\n}";
        let safe = json_safe(json);
        assert_eq!(safe, "{\n\t\"a\": \"x\\u009b31m\\u202ey\"\r\n}");
        let (before, after): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(json).unwrap(), serde_json::from_str(&safe).unwrap());
        assert_eq!(before, after);
    }

    #[test]
    fn text_reads_any_value() {
        let read = |json: &str| serde_json::from_str::<Text>(json).unwrap().to_string();
        assert_eq!(read("\"a\\u001bb\""), "ab");
        assert_eq!(read("12"), "12");
        assert_eq!(read("-1.5"), "-1.5");
        assert_eq!(read("true"), "true");
        assert_eq!(read("null"), "");
        assert_eq!(read("[1,[2]]"), "[…]");
        assert_eq!(read("{\"a\":{}}"), "{…}");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äöü…");
        assert_eq!(cut("a bcd", 2), "a…");
    }

    proptest! {
        #[test]
        fn nothing_unsafe_is_left(text in any::<String>()) {
            prop_assert!(!clean(&text).chars().any(is_unsafe));
            let json = serde_json::to_string(&text).unwrap();
            let safe = json_safe(&json);
            prop_assert!(!safe.chars().any(is_unsafe));
            prop_assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
        }
    }
}
