//! YAML that reads the same in every version of YAML: what could be taken for something else is in double quotes, and a text
//! of several lines stands as it is, unless a reader or a terminal could take it for something else.

use super::scalar::Schema;
use super::{Data, Node};

/// A key that is not announced by `?` has at most 1024 characters in YAML, quotes and escapes included.
const SHORT_KEY_MAX: usize = 128;

pub(crate) fn emit(node: &Node) -> String {
    let mut out = String::new();
    block(&mut out, node, 0, true);
    out
}

fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

/// Writes a node. `fresh` says that we are at the beginning of a line, or right behind a dash.
fn block(out: &mut String, node: &Node, depth: usize, fresh: bool) {
    match &node.data {
        Data::Map(entries) if !entries.is_empty() => {
            if !fresh {
                out.push('\n');
            }
            for (index, entry) in entries.iter().enumerate() {
                if index > 0 || !fresh {
                    indent(out, depth);
                }
                if entry.key.len() > SHORT_KEY_MAX {
                    out.push_str("? ");
                    scalar(out, &entry.key);
                    out.push('\n');
                    indent(out, depth);
                } else {
                    scalar(out, &entry.key);
                }
                out.push(':');
                block(out, &entry.value, depth + 1, false);
            }
        }
        Data::List(items) if !items.is_empty() => {
            if !fresh {
                out.push('\n');
            }
            for (index, item) in items.iter().enumerate() {
                if index > 0 || !fresh {
                    indent(out, depth);
                }
                out.push_str("- ");
                block(out, item, depth + 1, true);
            }
        }
        data => {
            if !fresh {
                out.push(' ');
            }
            match data {
                Data::Text(text) if depth > 0 && is_literal(text) => literal(out, text, depth),
                data => {
                    leaf(out, data);
                    out.push('\n');
                }
            }
        }
    }
}

/// Whether a text of several lines can stand as it is: one line end after the last line, or none; no white space before the
/// first line, and none that nobody would see, at the end of a line.
fn is_literal(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.starts_with([' ', '\t', '\n'])
        && !body.ends_with('\n')
        && body.split('\n').all(|line| !line.ends_with([' ', '\t']))
        && !text.chars().any(|c| c != '\n' && c != '\t' && is_escaped(c))
}

fn literal(out: &mut String, text: &str, depth: usize) {
    out.push_str(if text.ends_with('\n') { "|\n" } else { "|-\n" });
    for line in text.lines() {
        if !line.is_empty() {
            indent(out, depth);
            out.push_str(line);
        }
        out.push('\n');
    }
}

/// Whether a character is written as its number: readers refuse it, or terminals obey it or turn the text around it.
fn is_escaped(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn leaf(out: &mut String, data: &Data) {
    match data {
        Data::Null | Data::Vault => out.push_str("null"),
        Data::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Data::Number(number) => out.push_str(&float_with_point(&number.to_string())),
        Data::Text(text) => scalar(out, text),
        Data::List(_) => out.push_str("[]"),
        Data::Map(_) => out.push_str("{}"),
    }
}

/// YAML 1.1 takes `1e16` for a text: its floats have a point, and a sign before the exponent.
fn float_with_point(number: &str) -> String {
    let Some((mantissa, exponent)) = number.split_once('e') else { return number.to_owned() };
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['+', '-']) { "" } else { "+" };
    format!("{mantissa}{point}e{sign}{exponent}")
}

fn scalar(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push_str(text);
    } else {
        quoted(out, text);
    }
}

fn is_plain(text: &str) -> bool {
    let mut bytes = text.bytes();
    let good_start = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'/' || b == b'_');
    if !good_start || !bytes.all(|b| b.is_ascii_alphanumeric() || b"_./@+-".contains(&b)) {
        return false;
    }
    // Some readers of 1.1 take single letters for truth values, and all take dates for dates.
    let letter_or_address = text.starts_with(|c: char| !c.is_ascii_digit())
        || text.bytes().any(|b| b.is_ascii_alphabetic())
        || text.parse::<std::net::Ipv4Addr>().is_ok();
    letter_or_address
        && !matches!(text, "y" | "Y" | "n" | "N")
        && [Schema::Core, Schema::Ansible].iter().all(|schema| matches!(schema.resolve(text), Ok(Data::Text(_))))
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_escaped(c) => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::yaml;
    use super::*;

    #[test]
    fn it_looks_as_one_would_write_it() {
        let node = Node::map([
            ("hosts", Node::list([Node::from(&json!({"name": "web1", "vars": {"ports": [80, 443], "on": true}}))])),
            ("empty", Node::from(&json!([[], {}, [[1]], {"a": [{}]}]))),
            (
                "script",
                Node::list(
                    [
                        "set -e\nif true; then\n  echo 'a: b' # no comment\nfi\n\nexit\n",
                        "a \nb",
                        " a\nb",
                        "a\n\n",
                        "a\r\nb",
                    ]
                    .map(Node::text),
                ),
            ),
            (
                "odd",
                Node::from(&json!(["yes", "1.0", "10.0.0.1", "2001-12-14", "", "a: b", "#x", "é", "a\nb", "<<", 1e16])),
            ),
        ]);
        insta::assert_snapshot!(emit(&node));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            any::<String>(),
            "[a-c:# \n\t-]{0,12}",
            "[a-c:# \\n\\t\\-]{0,12}",
            "[-+.0-9eEx_:~ a-z]{0,6}",
            "[yYnNoOfFtTrRuU]{1,4}"
        ];
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
                prop::collection::btree_map(
                    prop_oneof![9 => text.clone(), 1 => "[a-z ]{1,3}".prop_map(|s| s.repeat(800))],
                    inner,
                    0..4
                )
                .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_reads_back_in_both_schemas(value in any_value()) {
            let text = emit(&Node::from(&value));
            for schema in [Schema::Core, Schema::Ansible] {
                let back = yaml(&text, schema).unwrap_or_else(|error| panic!("{error}\n{text}"));
                prop_assert_eq!(back.into_value(), value.clone(), "{}", text);
            }
        }
    }
}
