//! Values in a `hosts` file: Python literals where they are that, else text.
//!
//! Ansible asks Python whether a value is a literal, in host lines and in `:vars` sections alike, and so `1,2` is a list,
//! `True` is true, `true` is a text, `0755` is a text, and `80 # http` in a `:vars` section is a number with a comment.
//! What we cannot hold as JSON stays the text that it is: numbers beyond 64 bits, infinities, complex numbers.

use std::collections::HashSet;

use serde_json::{Number, Value};

use crate::limits::DEPTH_MAX;
use crate::tree::{digits, integer};

/// What a value means.
pub(crate) fn value(text: &str) -> Value {
    literal(text).unwrap_or_else(|| Value::String(text.to_owned()))
}

/// The value, if the text is a literal.
fn literal(text: &str) -> Option<Value> {
    let text = text.trim_start_matches([' ', '\t']);
    // Most values are words. Only what begins like a literal can be one.
    let first = text.chars().next()?;
    if !(first.is_ascii_digit() || "+-.'\"([{TFNrRbBuUs".contains(first)) || text.contains('\0') {
        return None;
    }
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.tuple_or_value(None)?;
    reader.skip();
    (reader.at == text.len()).then_some(value)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn eat(&mut self, token: &str) -> bool {
        let eaten = self.rest().starts_with(token);
        if eaten {
            self.at += token.len();
        }
        eaten
    }

    /// Spaces, and a comment, which goes to the end.
    fn skip(&mut self) {
        let trimmed = self.rest().trim_start_matches([' ', '\t', '\x0c']);
        self.at = if trimmed.starts_with('#') { self.text.len() } else { self.text.len() - trimmed.len() };
    }

    /// Values with commas between them are a list; one without a comma is itself. Up to `end`, or to the end.
    fn tuple_or_value(&mut self, end: Option<&str>) -> Option<Value> {
        let mut items = Vec::new();
        let mut commas = false;
        loop {
            self.skip();
            let over = end.map_or(self.at == self.text.len(), |end| self.eat(end));
            if over {
                break;
            }
            items.push(self.value()?);
            self.skip();
            if self.eat(",") {
                commas = true;
                continue;
            }
            let over = end.map_or(self.at == self.text.len(), |end| self.eat(end));
            if !over {
                return None;
            }
            break;
        }
        match (items.len(), commas) {
            (0, _) => end.map(|_| Value::Array(items)),
            (1, false) => items.pop(),
            _ => Some(Value::Array(items)),
        }
    }

    fn value(&mut self) -> Option<Value> {
        self.skip();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let value = match self.peek()? {
            '(' => {
                self.at += 1;
                self.tuple_or_value(Some(")"))
            }
            '[' => {
                self.at += 1;
                self.items("]").map(Value::Array)
            }
            '{' => {
                self.at += 1;
                self.braces()
            }
            '+' | '-' => self.signed(),
            '.' if self.eat("...") => Some(Value::from("...")),
            '0'..='9' | '.' => self.number(false),
            's' => self.empty_set(),
            _ => self.word(),
        };
        self.depth -= 1;
        value
    }

    fn items(&mut self, end: &str) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        loop {
            self.skip();
            if self.eat(end) {
                return Some(items);
            }
            items.push(self.value()?);
            self.skip();
            if !self.eat(",") {
                return self.eat(end).then_some(items);
            }
        }
    }

    /// A dictionary, or a set, which becomes a list.
    fn braces(&mut self) -> Option<Value> {
        self.skip();
        if self.eat("}") {
            return Some(Value::Object(serde_json::Map::new()));
        }
        let first = self.value()?;
        self.skip();
        if !self.eat(":") {
            let mut items = vec![first];
            if self.eat(",") {
                items.extend(self.items("}")?);
            } else if !self.eat("}") {
                return None;
            }
            if items.iter().any(|item| matches!(item, Value::Array(_) | Value::Object(_))) {
                return None;
            }
            let mut seen = HashSet::new();
            let different = items.into_iter().filter(|item| seen.insert(item.to_string())).collect();
            return Some(Value::Array(different));
        }
        let mut map = serde_json::Map::new();
        let mut key = first;
        loop {
            let value = self.value()?;
            map.insert(key_text(&key)?, value);
            self.skip();
            let comma = self.eat(",");
            self.skip();
            if self.eat("}") {
                return Some(Value::Object(map));
            }
            if !comma {
                return None;
            }
            key = self.value()?;
            self.skip();
            if !self.eat(":") {
                return None;
            }
        }
    }

    /// One sign, and then a number: two signs are arithmetic, and no literal.
    fn signed(&mut self) -> Option<Value> {
        let negative = self.eat("-");
        if !negative {
            self.at += 1;
        }
        self.skip();
        // Parentheses around the number are allowed, as everywhere.
        let mut open = 0;
        while self.eat("(") {
            open += 1;
            self.skip();
        }
        let value = self.number(negative)?;
        for _ in 0..open {
            self.skip();
            if !self.eat(")") {
                return None;
            }
        }
        Some(value)
    }

    fn number(&mut self, negative: bool) -> Option<Value> {
        let rest = self.rest();
        let radix = match rest.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("0x") => 16,
            Some("0o") => 8,
            Some("0b") => 2,
            _ => 10,
        };
        let mut length;
        let number = if radix != 10 {
            let body = &rest[2..];
            length = body.find(|c: char| c != '_' && !c.is_digit(radix)).unwrap_or(body.len());
            let clean = without_underscores(body[..length].strip_prefix('_').unwrap_or(&body[..length]))?;
            length += 2;
            integer(negative, digits(&clean, radix)?)?
        } else {
            let run = |from: usize| {
                let tail = &rest[from..];
                from + tail.find(|c: char| c != '_' && !c.is_ascii_digit()).unwrap_or(tail.len())
            };
            let whole = run(0);
            length = whole;
            let (mut is_float, mut part) = (false, "");
            if rest[length..].starts_with('.') {
                let end = run(length + 1);
                (is_float, part) = (true, &rest[length + 1..end]);
                length = end;
            }
            if whole == 0 && part.is_empty() {
                return None;
            }
            if rest[length..].starts_with(['e', 'E']) {
                let sign = usize::from(rest[length + 1..].starts_with(['+', '-']));
                let from = length + 1 + sign;
                let end = run(from);
                without_underscores(&rest[from..end]).filter(|text| !text.is_empty())?;
                (is_float, length) = (true, end);
            }
            let clean_whole = without_underscores(&rest[..whole])?;
            without_underscores(part)?;
            if is_float {
                let value: f64 = rest[..length].replace('_', "").parse().ok()?;
                Number::from_f64(if negative { -value } else { value })?
            } else {
                if clean_whole.len() > 1 && clean_whole.starts_with('0') && clean_whole.bytes().any(|b| b != b'0') {
                    return None;
                }
                integer(negative, digits(&clean_whole, 10)?)?
            }
        };
        self.at += length;
        // `1j` is complex, `1a` is nothing, and `1if` is something that Python tolerates and nobody writes.
        let ends = self.peek().is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '.');
        ends.then_some(Value::Number(number))
    }

    /// Braces with nothing in them are a dictionary, so an empty set is written as a call.
    fn empty_set(&mut self) -> Option<Value> {
        for token in ["set", "(", ")"] {
            if !self.eat(token) {
                return None;
            }
            self.skip();
        }
        Some(Value::Array(Vec::new()))
    }

    /// `True`, `False`, `None`, or texts, which are one text if they follow each other.
    fn word(&mut self) -> Option<Value> {
        for (word, value) in [("True", Value::Bool(true)), ("False", Value::Bool(false)), ("None", Value::Null)] {
            if self.eat(word) {
                let ends = self.peek().is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '\'' && c != '"');
                return ends.then_some(value);
            }
        }
        let mut text: Option<(bool, String)> = None;
        loop {
            self.skip();
            let before = self.at;
            let Some((is_bytes, part)) = self.text_literal()? else {
                self.at = before;
                break;
            };
            match &mut text {
                None => text = Some((is_bytes, part)),
                Some((bytes, whole)) if *bytes == is_bytes => whole.push_str(&part),
                Some(_) => return None,
            }
        }
        text.map(|(_, text)| Value::String(text))
    }

    /// One text in quotes, if there is one here. `None` if it is a broken one.
    fn text_literal(&mut self) -> Option<Option<(bool, String)>> {
        let prefix_len = self.rest().find(['\'', '"']).unwrap_or(3);
        if prefix_len > 2 {
            return Some(None);
        }
        let prefix = self.rest()[..prefix_len].to_ascii_lowercase();
        let (raw, is_bytes) = match prefix.as_str() {
            "" | "u" => (false, false),
            "r" => (true, false),
            "b" => (false, true),
            "rb" | "br" => (true, true),
            _ => return Some(None),
        };
        self.at += prefix_len;
        let single = if self.rest().starts_with('\'') { "'" } else { "\"" };
        let triple = single.repeat(3);
        let end = if self.eat(&triple) {
            triple.as_str()
        } else {
            self.at += 1;
            single
        };
        let mut text = String::new();
        loop {
            if self.eat(end) {
                break;
            }
            let character = self.peek()?;
            self.at += character.len_utf8();
            match character {
                '\\' if raw => {
                    let next = self.peek()?;
                    self.at += next.len_utf8();
                    text.extend(['\\', next]);
                }
                '\\' => self.escape(&mut text, is_bytes)?,
                '\n' if end.len() == 1 => return None,
                c if is_bytes && !c.is_ascii() => return None,
                c => text.push(c),
            }
        }
        Some(Some((is_bytes, text)))
    }

    fn escape(&mut self, text: &mut String, is_bytes: bool) -> Option<()> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        let simple = match character {
            '\n' => return Some(()),
            '\\' | '\'' | '"' => character,
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => self.code(2, 16)?,
            'u' if !is_bytes => self.code(4, 16)?,
            'U' if !is_bytes => self.code(8, 16)?,
            // Names of characters are a book of their own.
            'N' if !is_bytes => return None,
            '0'..='7' => {
                self.at -= 1;
                let octal = self.rest().bytes().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
                self.code(octal, 8)?
            }
            other => {
                text.extend(['\\', other]);
                return Some(());
            }
        };
        // Bytes beyond ASCII would have to be UTF-8 together; nobody writes that.
        if is_bytes && !simple.is_ascii() {
            return None;
        }
        text.push(simple);
        Some(())
    }

    fn code(&mut self, length: usize, radix: u32) -> Option<char> {
        let text = self.rest().get(..length)?;
        self.at += length;
        u32::try_from(digits(text, radix)?).ok().and_then(char::from_u32)
    }
}

/// Underscores stand between digits only.
fn without_underscores(text: &str) -> Option<String> {
    let wrong = text.starts_with('_') || text.ends_with('_') || text.contains("__");
    (!wrong).then(|| text.replace('_', ""))
}

/// What Python's JSON makes of a key.
fn key_text(key: &Value) -> Option<String> {
    match key {
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(key.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// How a value is written so that it reads back as itself: bare if it is a text that nothing else could be.
pub(crate) fn write(value: &Value) -> String {
    match value {
        Value::String(text) if is_bare(text) => text.clone(),
        value => python(value),
    }
}

/// Complex numbers are literals for Python and not for us; nothing that could be one stays bare.
fn is_bare(text: &str) -> bool {
    let complex = text.starts_with(|c: char| c.is_ascii_digit() || "+-.([{".contains(c)) && text.contains(['j', 'J']);
    literal(text).is_none() && !complex && text.trim() == text && !text.chars().any(must_escape)
}

/// Characters that could end a line, or cannot be seen.
fn must_escape(character: char) -> bool {
    character.is_control() || (character.is_whitespace() && character != ' ') || character == '\u{feff}'
}

fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => python_text(text),
        Value::Array(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let pair = |(key, value): (&String, &Value)| format!("{}: {}", python_text(key), python(value));
            format!("{{{}}}", map.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

fn python_text(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if must_escape(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_python_takes_for_a_literal_is_one() {
        for (text, expected) in [
            ("1", json!(1)),
            ("-5", json!(-5)),
            ("+5", json!(5)),
            ("- 5", json!(-5)),
            ("1_000", json!(1000)),
            ("0o755", json!(493)),
            ("0xFF", json!(255)),
            ("00", json!(0)),
            ("1.5", json!(1.5)),
            ("1.", json!(1.0)),
            (".5", json!(0.5)),
            ("1e5", json!(100000.0)),
            ("True", json!(true)),
            ("None", json!(null)),
            ("'a b'", json!("a b")),
            ("'it''s'", json!("its")),
            ("u'x' \"y\"", json!("xy")),
            (r"'\x41\u00e9\n\d\101'", json!("Aé\n\\dA")),
            (r"r'\d'", json!("\\d")),
            ("b'x'", json!("x")),
            ("'''a'b'''", json!("a'b")),
            ("[1, 'a', [True]]", json!([1, "a", [true]])),
            ("(1)", json!(1)),
            ("(1,)", json!([1])),
            ("()", json!([])),
            ("80,443", json!([80, 443])),
            ("1,", json!([1])),
            ("{'a': 1, 2: None,}", json!({"a": 1, "2": null})),
            ("{1, 2, 1}", json!([1, 2])),
            ("{}", json!({})),
            ("80 # http", json!(80)),
            ("set()", json!([])),
            ("..., 1", json!(["...", 1])),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn everything_else_is_text() {
        for text in [
            "",
            "web",
            "true",
            "none",
            "yes",
            "0755",
            "10.0.0.1",
            "1.2.3",
            "1__0",
            "1_",
            "1j",
            "1+2",
            "--5",
            "-True",
            "a,b",
            "[1, a]",
            "{\"a\": null}",
            "'open",
            "'a' b",
            "f'x'",
            "1 2",
            "1e",
            "0x",
            "{[1]: 2}",
            "[1",
            "(,)",
            ",",
            "18446744073709551616",
            "1e999",
            "foo # bar",
            "# x",
            "{{ x }}",
            "'\\N{DASH}'",
            "*x",
            "$(x)",
            "1 .real",
            "~",
            "'a' b'c'",
        ] {
            assert_eq!(value(text), json!(text), "{text}");
        }
        value(&"[".repeat(100_000));
        value(&"-(".repeat(100_000));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![any::<String>(), "[-+.0-9eExTrueNo'\"#,\\[\\](){}\\\\ ]{0,6}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_reads_back_and_stays_on_its_line(value in any_value()) {
            let text = write(&value);
            prop_assert!(!text.chars().any(must_escape), "{text:?}");
            prop_assert_eq!(super::value(&text), value, "{}", text);
        }
    }
}
