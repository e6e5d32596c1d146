//! What a reader says of a text that it cannot read, in words for people who write JSON and not Rust.
//!
//! Serde names the types of the program (`u32`, `struct Breakpoint`, `unit`). Everything that shows its messages to callers
//! passes them through here.

/// The message, with what is expected and what was found in our words. What it does not know stays as it is.
pub fn in_plain_words(message: &str) -> String {
    if let Some(rest) = message.strip_prefix("invalid digit found in string") {
        return format!("expected a whole number{rest}");
    }
    if let Some(rest) = message.strip_prefix("invalid socket address syntax") {
        return format!("an address with its port is expected, such as 127.0.0.1:7420{rest}");
    }
    for plain in ["number too large to fit in target type", "number too small to fit in target type"] {
        if let Some(rest) = message.strip_prefix(plain) {
            return format!("the number is too {}{rest}", if plain.contains("large") { "large" } else { "small" });
        }
    }
    let Some((start, found_and_rest)) = ["invalid type: ", "invalid value: ", "invalid length "]
        .into_iter()
        .find_map(|start| message.strip_prefix(start).map(|rest| (start, rest)))
    else {
        return message.to_owned();
    };
    // The last one: what was found may be a text that says the same words.
    let Some((found, expected)) = found_and_rest.rsplit_once(", expected ") else { return message.to_owned() };
    let (expected, place) = match expected.rfind(" at line ") {
        Some(at) => expected.split_at(at),
        None => (expected, ""),
    };
    format!("{start}{}, expected {}{place}", found_word(found), expected_word(expected))
}

/// What was found, for the words that only Rust has.
fn found_word(found: &str) -> &str {
    match found {
        "unit variant" => "a word alone",
        "newtype variant" | "struct variant" | "tuple variant" => "an object",
        "unit value" | "Option value" => "null",
        other => other,
    }
}

fn expected_word(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" | "u128" => "a whole number, not below 0",
        "i8" | "i16" | "i32" | "i64" | "isize" | "i128" => "a whole number",
        "f32" | "f64" => "a number",
        "unit" | "unit variant" => "nothing",
        "map with a single key" => "an object with one field",
        "string or map" => "a text, or an object with one field",
        "newtype variant" | "struct variant" => "an object",
        named => match named.split_once(' ') {
            Some(("struct" | "map", _)) => "an object",
            Some(("tuple", _)) => "a list",
            Some(("enum", _)) => "a text, or an object with one field",
            // `struct variant Order::Pin`
            Some(("unit", _)) => "nothing",
            Some(("newtype", _)) => "a value",
            _ => named,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::de::DeserializeOwned;

    use super::in_plain_words;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "only read")]
    enum Order {
        Step,
        To(String),
        Pin { node: String },
    }

    fn said<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        in_plain_words(&serde_json::from_str::<T>(text).expect_err("it is wrong").to_string())
    }

    #[test]
    fn nobody_has_to_know_rust() {
        let whole = "expected a whole number from 0 to 4294967295 at line 1 column";
        assert_eq!(said::<u32>("\"x\""), format!("invalid type: string \"x\", {whole} 3"));
        assert_eq!(said::<u32>("-1"), format!("invalid value: integer `-1`, {whole} 2"));
        assert_eq!(said::<u64>("null"), "invalid type: null, expected a whole number, not below 0 at line 1 column 4");
        assert_eq!(
            said::<i16>("1.5"),
            "invalid type: floating point `1.5`, expected a whole number at line 1 column 3"
        );
        assert_eq!(said::<f64>("\"x\""), "invalid type: string \"x\", expected a number at line 1 column 3");
        assert!(said::<crate::RetryPolicy>("5").contains("invalid type: integer `5`, expected an object"));
        assert!(said::<Order>("{\"step\": 5}").contains("expected nothing"), "{}", said::<Order>("{\"step\": 5}"));
        assert!(said::<Order>("\"pin\"").contains("invalid type: a word alone, expected an object"));
        assert!(
            said::<Order>("\"to\"").contains("invalid type: a word alone, expected"),
            "{}",
            said::<Order>("\"to\"")
        );
        for wrong in ["{\"step\": 5}", "\"pin\"", "\"to\"", "{\"pin\": 5}", "{\"pin\": []}", "{\"to\": 5}"] {
            let said = said::<Order>(wrong);
            assert!(!said.contains("variant") && !said.contains("unit") && !said.contains("struct"), "{wrong}: {said}");
        }
        let said = |value: serde_json::Value| {
            in_plain_words(&serde_json::from_value::<Order>(value).expect_err("it is wrong").to_string())
        };
        assert_eq!(said(serde_json::json!({})), "invalid value: map, expected an object with one field");
        assert_eq!(
            said(serde_json::json!(5)),
            "invalid type: integer `5`, expected a text, or an object with one field"
        );
    }

    #[test]
    fn shapes_that_only_rust_has_are_called_what_json_calls_them() {
        for (expected, said) in [
            ("struct Pair with 2 elements", "an object"),
            ("tuple struct Pair", "a list"),
            ("enum Order", "a text, or an object with one field"),
            ("unit struct Nothing", "nothing"),
            ("newtype struct Name", "a value"),
            ("a map", "a map"),
        ] {
            let found = in_plain_words(&format!("invalid type: integer `5`, expected {expected}"));
            assert_eq!(found, format!("invalid type: integer `5`, expected {said}"));
        }
        for (found, said) in [("unit value", "null"), ("Option value", "null"), ("tuple variant", "an object")] {
            let found = in_plain_words(&format!("invalid type: {found}, expected u8"));
            assert_eq!(found, format!("invalid type: {said}, expected a whole number from 0 to 255"));
        }
    }

    #[test]
    fn what_it_does_not_know_stays() {
        for text in ["missing field `a`", "unknown field `a`, expected `b`", "", "invalid type: x", "EOF while parsing"]
        {
            assert_eq!(in_plain_words(text), text);
        }
        assert_eq!(
            said::<BTreeMap<String, u8>>("{\"a\": \", expected u8\"}"),
            "invalid type: string \", expected u8\", expected a whole number from 0 to 255 at line 1 column 21"
        );
        assert_eq!(in_plain_words("invalid digit found in string"), "expected a whole number");
    }
}
