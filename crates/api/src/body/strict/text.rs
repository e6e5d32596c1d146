//! Texts and numbers, byte by byte: what they mean, and how they are shown.

/// Of a key that is repeated to the caller, this many characters are shown.
const SHOWN_CHARS_MAX: usize = 64;

/// Where the text that starts at `at` has its next quote, backslash or control character; the end, if it has none.
///
/// Eight bytes at a time: a byte minus one borrows into its highest bit only when it was zero, and likewise for "less
/// than a space". A borrow can disturb higher bytes, never lower ones, so the lowest mark is always true.
#[inline(always)]
pub fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let chunk = u64::from_le_bytes(*chunk);
        let quote = chunk ^ (ONES * b'"' as u64);
        let backslash = chunk ^ (ONES * b'\\' as u64);
        let marks = (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash)
            | (chunk.wrapping_sub(ONES * b' ' as u64) & !chunk);
        let marks = marks & HIGH;
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(&byte) = bytes.get(at)
        && byte >= b' '
        && byte != b'"'
        && byte != b'\\'
    {
        at += 1;
    }
    at
}

/// A number that differs for most different keys, so that few are compared byte by byte.
#[inline(always)]
pub fn fingerprint(text: &[u8]) -> u64 {
    let (head, tail) = match (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
        _ => match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
            (Some(head), Some(tail)) => (u32::from_le_bytes(*head).into(), u32::from_le_bytes(*tail).into()),
            _ => (text.iter().fold(0, |head, byte| head << 8 | u64::from(*byte)), 0),
        },
    };
    head ^ tail.rotate_left(32) ^ (text.len() as u64).rotate_left(56)
}

/// Whether a number that follows the grammar would become infinity as a double.
///
/// Decided by where its first significant digit stands; `f64::from_str` alone takes exponents of six digits for smaller
/// ones, and nobody limits the zeros before a digit.
pub fn is_too_large(number: &[u8]) -> bool {
    /// The largest double has 309 digits before its point.
    const MAGNITUDE_MAX: i64 = 309;
    const DIGITS_READ_MAX: usize = 40;

    let exponent_at = number.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(number.len());
    let (mantissa, exponent) = number.split_at(exponent_at);
    let mantissa = mantissa.strip_prefix(b"-").unwrap_or(mantissa);
    let digits_before_point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let mut digits = mantissa.iter().filter(|byte| **byte != b'.').map(|byte| char::from(*byte));
    let Some(zeros) = digits.clone().position(|digit| digit != '0') else { return false };

    let power = exponent
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .fold(0_i64, |power, digit| power.saturating_mul(10).saturating_add((digit - b'0').into()));
    let power = if exponent.get(1) == Some(&b'-') { -power } else { power };
    // The number is 0.d1d2d3… times ten to the magnitude, and d1 is not zero.
    let magnitude = (digits_before_point as i64 - zeros as i64).saturating_add(power);
    if magnitude != MAGNITUDE_MAX {
        return magnitude > MAGNITUDE_MAX;
    }
    if zeros > 0 {
        digits.nth(zeros - 1);
    }
    let significant: String = digits.take(DIGITS_READ_MAX).collect();
    let value: f64 = format!("0.{significant}e{MAGNITUDE_MAX}").parse().expect("digits and an exponent are a number");
    value.is_infinite()
}

/// Whether a number with many digits is kept as it is: one with a fraction or an exponent is a double and says so, a whole
/// one must fit into 64 bits.
#[cold]
pub fn is_whole(number: &[u8]) -> bool {
    let text = std::str::from_utf8(number).unwrap_or_default();
    text.contains(['.', 'e', 'E']) || text.parse::<u64>().is_ok() || text.parse::<i64>().is_ok()
}

/// The bytes a text with escapes stands for. The escapes were checked before.
#[cold]
pub fn unescape(raw: &[u8]) -> Vec<u8> {
    let raw = std::str::from_utf8(raw).expect("the body was checked to be UTF-8");
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let (letter, after) = escape.split_at(1);
        rest = after;
        text.push(match letter {
            "b" => '\u{8}',
            "f" => '\u{c}',
            "n" => '\n',
            "r" => '\r',
            "t" => '\t',
            "u" => {
                let first = hex_code(&rest[..4]);
                rest = &rest[4..];
                let code = if let 0xd800..=0xdbff = first {
                    let second = hex_code(&rest[2..6]);
                    rest = &rest[6..];
                    0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                } else {
                    first
                };
                char::from_u32(code).expect("lone surrogates were refused")
            }
            itself => itself.chars().next().expect("an escape has a letter"),
        });
    }
    text.push_str(rest);
    text.into_bytes()
}

fn hex_code(digits: &str) -> u32 {
    u32::from_str_radix(digits, 16).expect("the digits were checked")
}

/// A key for a message: unescaped, and cut when it is long.
#[cold]
pub fn shown(raw: &[u8]) -> String {
    let text = unescape(raw);
    let text = String::from_utf8_lossy(&text);
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// The place behind `before`, counted from 1.
#[cold]
pub fn line_and_column(before: &[u8]) -> (usize, usize) {
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line = before[..line_start].iter().filter(|byte| **byte == b'\n').count();
    // A character has one byte that does not continue another.
    let column = before[line_start..].iter().filter(|byte| **byte & 0xc0 != 0x80).count();
    (line + 1, column + 1)
}
