//! What a YAML scalar without quotes means: the core schema of YAML 1.2, or what Ansible makes of it, which is YAML 1.1.
//!
//! In 1.1 `yes` is true, `0755` is octal and `1:30` is ninety. Whoever brings an Ansible inventory has written it for that
//! reader. Dates stay the text that they are in either.

use serde_json::Number;

use super::Data;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schema {
    Core,
    Ansible,
}

/// A number that JSON does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotFinite;

impl Schema {
    pub(crate) fn resolve(self, text: &str) -> Result<Data, NotFinite> {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return Ok(Data::Null),
            "true" | "True" | "TRUE" => return Ok(Data::Bool(true)),
            "false" | "False" | "FALSE" => return Ok(Data::Bool(false)),
            _ => {}
        }
        if self == Self::Ansible {
            match text {
                "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Ok(Data::Bool(true)),
                "no" | "No" | "NO" | "off" | "Off" | "OFF" => return Ok(Data::Bool(false)),
                _ => {}
            }
        }
        // Most scalars are words. Only what begins like a number can be one.
        if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
            return Ok(Data::Text(text.to_owned()));
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
            return Err(NotFinite);
        }
        let negative = text.starts_with('-');
        let whole = match self {
            Self::Core => core_integer(text, unsigned),
            Self::Ansible => old_integer(unsigned),
        };
        if let Some(whole) = whole {
            // What fits no number keeps all its digits, as the text it was written in.
            return Ok(integer(negative, whole).map_or_else(|| Data::Text(text.to_owned()), Data::Number));
        }
        let float = match self {
            Self::Core => core_float(unsigned),
            // A point at the beginning has no sign before it.
            Self::Ansible if unsigned.starts_with('.') && unsigned != text => None,
            Self::Ansible => old_float(unsigned),
        };
        match float {
            Some(float) => Number::from_f64(if negative { -float } else { float }).map(Data::Number).ok_or(NotFinite),
            None => Ok(Data::Text(text.to_owned())),
        }
    }
}

/// `None` if it is larger than numbers are here.
pub(crate) fn integer(negative: bool, value: u128) -> Option<Number> {
    if negative {
        let value = i128::try_from(value).ok()?;
        i64::try_from(-value).ok().map(Number::from)
    } else {
        u64::try_from(value).ok().map(Number::from)
    }
}

/// The value of some digits; more than fits is the most there is, which no number can hold either.
pub(crate) fn digits(text: &str, radix: u32) -> Option<u128> {
    if text.is_empty() {
        return None;
    }
    text.chars().try_fold(0u128, |value, digit| {
        let digit = digit.to_digit(radix)?;
        Some(value.saturating_mul(radix.into()).saturating_add(digit.into()))
    })
}

fn core_integer(text: &str, unsigned: &str) -> Option<u128> {
    if let Some(octal) = text.strip_prefix("0o") {
        return digits(octal, 8);
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return digits(hex, 16);
    }
    digits(unsigned, 10)
}

fn core_float(unsigned: &str) -> Option<f64> {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let some_digits = !whole.is_empty() || !part.is_empty();
    let exponent_good = exponent.is_none_or(|text| !text.is_empty() && all_digits(text));
    (some_digits && all_digits(whole) && all_digits(part) && exponent_good).then(|| unsigned.parse().ok()).flatten()
}

/// Without the underscores that 1.1 allows among digits; `None` if the first is not a digit.
fn grouped(text: &str) -> Option<String> {
    text.starts_with(|c: char| c.is_ascii_digit()).then(|| text.replace('_', ""))
}

fn old_integer(unsigned: &str) -> Option<u128> {
    let clean = grouped(unsigned)?;
    if let Some(binary) = unsigned.strip_prefix("0b") {
        return digits(&binary.replace('_', ""), 2);
    }
    if let Some(hex) = unsigned.strip_prefix("0x") {
        return digits(&hex.replace('_', ""), 16);
    }
    if unsigned.starts_with('0') && unsigned.len() > 1 {
        return digits(&clean, 8);
    }
    if let Some((first, rest)) = unsigned.split_once(':') {
        return rest.split(':').try_fold(digits(&grouped(first)?, 10)?, |value, part| {
            Some(value.saturating_mul(60).saturating_add(sixtieth(part)?.into()))
        });
    }
    digits(&clean, 10)
}

/// One or two digits, below sixty.
fn sixtieth(text: &str) -> Option<u8> {
    (text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
        .filter(|n| *n < 60)
}

/// A float of 1.1 has a point, and its exponent has a sign.
fn old_float(unsigned: &str) -> Option<f64> {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, part) = mantissa.split_once('.')?;
    if !part.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return None;
    }
    if let Some((head, last)) = whole.rsplit_once(':') {
        if exponent.is_some() {
            return None;
        }
        let mut value = 0.0;
        for (index, text) in head.split(':').enumerate() {
            let number: f64 = if index == 0 { digits(&grouped(text)?, 10)? as f64 } else { sixtieth(text)?.into() };
            value = value * 60.0 + number;
        }
        let last: f64 = format!("{}.{}", sixtieth(last)?, part.replace('_', "")).parse().ok()?;
        return Some(value * 60.0 + last);
    }
    if !whole.bytes().all(|b| b.is_ascii_digit() || b == b'_') || whole.starts_with('_') {
        return None;
    }
    if whole.is_empty() && !part.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Some(exponent) = exponent {
        let power = exponent.strip_prefix(['+', '-'])?;
        if power.is_empty() || !power.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
    }
    unsigned.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(schema: Schema, text: &str) -> String {
        match schema.resolve(text) {
            Ok(Data::Text(text)) => format!("{text:?}"),
            Ok(Data::Number(number)) => number.to_string(),
            Ok(Data::Bool(value)) => value.to_string(),
            Ok(Data::Null) => "null".to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn the_two_schemas_differ_where_yaml_changed() {
        let words = [
            "",
            "~",
            "null",
            "true",
            "TRUE",
            "yes",
            "Off",
            "y",
            "web1",
            "10.0.0.1",
            "22",
            "-22",
            "+22",
            "0755",
            "0o755",
            "0x1F",
            "0b101",
            "1_000",
            "1:30",
            "12:61",
            "1.5",
            "-1.5",
            "1.",
            ".5",
            "1e3",
            "1.0e3",
            "1.0e+3",
            "1:30.5",
            ".inf",
            "-.INF",
            ".nan",
            "2001-12-14",
            "18446744073709551616",
            "-",
            "+",
            ".",
            "08",
            "1.2.3",
            "0x",
            "_1",
            "1e",
        ];
        let table: String = words
            .iter()
            .map(|word| format!("{word:22} {:24} {}\n", said(Schema::Core, word), said(Schema::Ansible, word)))
            .collect();
        insta::assert_snapshot!(table);
    }
}
