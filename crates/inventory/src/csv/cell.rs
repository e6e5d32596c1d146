//! Cells: formulas are disarmed, and values keep their types.
//!
//! A spreadsheet takes a cell that begins with `=`, `+`, `-`, `@`, a tab or a carriage return for a formula. Such a cell is
//! written with a `'` before it, and so is one that begins with `'` and goes on like that; reading takes exactly one away.
//!
//! A variable's cell is JSON if it is a list, an object, a text in quotes, `true`, `false`, `null`, or a number in its
//! shortest form. Everything else is text: `1.10` is a version, `007` is an agent, and neither becomes a number.

use std::borrow::Cow;

use serde_json::Value;

use crate::tree;

fn is_formula(cell: &str) -> bool {
    cell.trim_start_matches('\'').starts_with(['=', '+', '-', '@', '\t', '\r'])
}

pub(crate) fn disarm(cell: Cow<'_, str>) -> Cow<'_, str> {
    if is_formula(&cell) { Cow::Owned(format!("'{cell}")) } else { cell }
}

pub(crate) fn rearm(cell: &str) -> &str {
    cell.strip_prefix('\'').filter(|_| is_formula(cell)).unwrap_or(cell)
}

/// What a cell says about a variable. A list or an object that is no JSON is text as well.
pub(crate) fn value(cell: &str) -> Value {
    let json = match cell.as_bytes() {
        [b'"' | b'[' | b'{', ..] => tree::json(cell).ok().map(tree::Node::into_value),
        [b'-' | b'0'..=b'9', ..] | b"true" | b"false" | b"null" => {
            let shortest = |value: &Value| format!("{value}") == cell;
            serde_json::from_str(cell).ok().filter(shortest)
        }
        _ => None,
    };
    json.unwrap_or_else(|| Value::String(cell.to_owned()))
}

/// The cell that says so.
pub(crate) fn of_value(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) if !text.is_empty() && self::value(text) == *value => Cow::Borrowed(text),
        value => Cow::Owned(value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_formula_is_disarmed_and_read_back_as_it_was() {
        for cell in ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "'=x", "''-"] {
            let written = disarm(cell.into());
            assert_eq!(written, format!("'{cell}"));
            assert_eq!(rearm(&written), cell);
        }
        for cell in ["", "web1", "'quoted'", "it's", "a=b", "'"] {
            assert_eq!(disarm(cell.into()), cell);
            assert_eq!(rearm(cell), cell);
        }
    }

    #[test]
    fn a_cell_is_json_only_if_nobody_could_have_meant_a_text() {
        assert_eq!(value("8080"), json!(8080));
        assert_eq!(value("-1.5"), json!(-1.5));
        assert_eq!(value("true"), json!(true));
        assert_eq!(value("null"), json!(null));
        assert_eq!(value(r#"["a", 1]"#), json!(["a", 1]));
        assert_eq!(value(r#""8080""#), json!("8080"));
        for text in ["1.10", "007", "1e3", "True", "yes", "10.0.0.1", "[web", "{{ x }}", " 1", "1 "] {
            assert_eq!(value(text), json!(text));
        }
    }

    proptest! {
        #[test]
        fn every_text_and_number_reads_back(text in prop_oneof![any::<String>(), "[-+='\"\\[{0-9.e tru]{0,6}"], number in any::<f64>()) {
            for value in [json!(text), json!([text]), json!({text.as_str(): number}), json!(number)] {
                let cell = of_value(&value);
                prop_assert!(!cell.is_empty());
                let written = disarm(cell);
                prop_assert_eq!(self::value(rearm(&written)), value);
            }
        }
    }
}
