//! What a secret looks like when it is printed: as it is, and in the encodings that programs put it into.

use std::collections::BTreeSet;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

/// Shorter values are left alone: they would be found everywhere, and hide the output without hiding themselves.
pub const VALUE_MIN_BYTES: usize = 4;

/// All forms of a value, longest first. Empty for a value that is too short.
pub fn forms(value: &str) -> Vec<Vec<u8>> {
    let mut forms = BTreeSet::new();
    // A last line break is often lost on the way, and lost before the encoding.
    for value in BTreeSet::from([value, value.trim_end_matches(['\r', '\n'])]) {
        if value.len() >= VALUE_MIN_BYTES {
            forms.insert(value.as_bytes().to_vec());
            base64_forms(value.as_bytes(), &mut forms);
            percent_forms(value, &mut forms);
            json_forms(value, &mut forms);
            hex_forms(value.as_bytes(), &mut forms);
        }
    }
    forms.extend(value.lines().map(str::as_bytes).map(<[u8]>::to_vec));
    let mut forms: Vec<_> = forms.into_iter().filter(|form| form.len() >= VALUE_MIN_BYTES).collect();
    forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    forms
}

/// Base64 of the value, alone and within a longer text. Within one it begins at the first, second or third byte of a group
/// of three; the characters it shares with its neighbours cannot be known, and are not part of the form.
fn base64_forms(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
        let alone = engine.encode(value).into_bytes();
        // `base64` breaks lines after 76 characters, PEM after 64.
        for width in [76, 64] {
            if alone.len() > width {
                forms.extend(alone.chunks(width).map(<[u8]>::to_vec));
            }
        }
        forms.insert(alone);
    }
    for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        for before in 0..3 {
            let mut group = vec![0; before];
            group.extend_from_slice(value);
            let text = engine.encode(&group).into_bytes();
            let first = (before * 8).div_ceil(6);
            let last = (before + value.len()) * 8 / 6;
            forms.insert(text[first..last].to_vec());
        }
    }
}

/// Percent-encoding, by those who encode everything, what a URI component needs, what a path needs, or a form.
fn percent_forms(value: &str, forms: &mut BTreeSet<Vec<u8>>) {
    const KEPT: [&[u8]; 5] = [b"", b"-_.~", b"-_.!~*'()", b"-_.~/", b"*-._"];
    for (index, kept) in KEPT.iter().enumerate() {
        for upper in [true, false] {
            let mut text = String::new();
            for byte in value.bytes() {
                match byte {
                    _ if index > 0 && (byte.is_ascii_alphanumeric() || kept.contains(&byte)) => {
                        text.push(char::from(byte));
                    }
                    b' ' if index == KEPT.len() - 1 => text.push('+'),
                    _ if upper => write!(text, "%{byte:02X}").expect("a string takes everything"),
                    _ => write!(text, "%{byte:02x}").expect("a string takes everything"),
                }
            }
            forms.insert(text.into_bytes());
        }
    }
}

/// Hex in both cases: in one piece, byte by byte with what programs put between them, and as escapes of a shell or of C.
fn hex_forms(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    for upper in [true, false] {
        let byte = |byte: &u8| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
        let bytes: Vec<String> = value.iter().map(byte).collect();
        let whole = bytes.concat();
        // `xxd -p` breaks lines after 60 characters, `od -t x1` after 16 bytes.
        if whole.len() > 60 {
            let lines = whole.as_bytes().chunks(60).filter(|line| line.len() >= 2 * VALUE_MIN_BYTES);
            forms.extend(lines.map(<[u8]>::to_vec));
        }
        if bytes.len() > 16 {
            let lines = bytes.chunks(16).filter(|line| line.len() >= VALUE_MIN_BYTES);
            forms.extend(lines.map(|line| line.join(" ").into_bytes()));
        }
        forms.insert(whole.into_bytes());
        forms.extend([":", " ", "-"].map(|between| bytes.join(between).into_bytes()));
        forms.insert(bytes.iter().flat_map(|byte| ["\\x", byte]).collect::<String>().into_bytes());
    }
}

/// JSON, as most write it, with `/` escaped, with `<`, `>` and `&` escaped, and in ASCII alone.
fn json_forms(value: &str, forms: &mut BTreeSet<Vec<u8>>) {
    let plain = serde_json::to_string(value).expect("every text is a JSON string");
    let plain = &plain[1..plain.len() - 1];
    for ascii in [None, Some(false), Some(true)] {
        for slash in [false, true] {
            for html in [false, true] {
                let mut text = String::new();
                for character in plain.chars() {
                    match character {
                        '/' if slash => text.push_str("\\/"),
                        '<' | '>' | '&' if html => escape(&mut text, character, false),
                        _ if !character.is_ascii() => match ascii {
                            None => text.push(character),
                            Some(upper) => escape(&mut text, character, upper),
                        },
                        _ => text.push(character),
                    }
                }
                forms.insert(text.into_bytes());
            }
        }
    }
}

fn escape(text: &mut String, character: char, upper: bool) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        let written = if upper { write!(text, "\\u{unit:04X}") } else { write!(text, "\\u{unit:04x}") };
        written.expect("a string takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(value: &str, form: &str) -> bool {
        forms(value).iter().any(|found| found == form.as_bytes())
    }

    #[test]
    fn a_secret_has_the_forms_that_programs_print() {
        assert!(has("p@ss/w&rd", "p@ss/w&rd"));
        assert!(has("p@ss/w&rd", "p%40ss%2Fw%26rd"));
        assert!(has("p@ss/w&rd", "p%40ss%2fw%26rd"));
        assert!(has("p@ss/w&rd", "p%40ss/w%26rd"));
        assert!(has("two words", "two+words"));
        assert!(has("p@ss/w&rd", "p@ss\\/w&rd"));
        assert!(has("p@ss/w&rd", "p@ss/w\\u0026rd"));
        assert!(has("say \"hi\"\\", "say \\\"hi\\\"\\\\"));
        assert!(has("größe", "gr\\u00f6\\u00dfe"));
        assert!(has("p@ss/w&rd", "cEBzcy93JnJk"));
        for hex in ["68756e746572323a", "68756E746572323A", "68:75:6e:74:65:72:32:3a", "68 75 6E 74 65 72 32 3A"] {
            assert!(has("hunter2:", hex), "{hex}");
        }
        assert!(has("hunter2:", "\\x68\\x75\\x6e\\x74\\x65\\x72\\x32\\x3a"));
        let long = "0123456789abcdef0123456789abcdef";
        assert!(has(long, "303132333435363738396162636465663031323334353637383961626364"), "xxd -p breaks here");
        assert!(has(long, "30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66"), "od breaks here");
        assert!(has("line one\nline two\n", "line one"));
        assert!(has("hunter22\n", "aHVudGVyMjI="));
    }

    #[test]
    fn short_values_and_short_lines_have_no_forms() {
        assert!(forms("abc").is_empty());
        assert!(forms("").is_empty());
        assert!(!has("long enough\nabc\n", "abc"));
    }

    #[test]
    fn base64_of_a_longer_text_contains_a_form() {
        for before in 0..7 {
            for after in 0..4 {
                let text = [vec![b'#'; before], b"hunter22".to_vec(), vec![b'?'; after]].concat();
                for encoded in [STANDARD.encode(&text), URL_SAFE.encode(&text)] {
                    let forms = forms("hunter22");
                    assert!(
                        forms.iter().any(|form| encoded.as_bytes().windows(form.len()).any(|part| part == form)),
                        "{encoded}"
                    );
                }
            }
        }
    }
}
