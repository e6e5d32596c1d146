//! Crockford's base32 in lower case: no `i`, `l`, `o`, `u`, so a token can be read out aloud.
//!
//! There is one text for each value: upper case, look-alike letters and set padding bits are refused, because two texts
//! for one secret would make a changed character pass.

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// How many characters `bytes` bytes need.
pub(crate) const fn text_len(bytes: usize) -> usize {
    (bytes * 8).div_ceil(5)
}

/// Appends `bytes`, most significant bit first; missing bits of the last character are zero.
pub(crate) fn encode(bytes: &[u8], out: &mut String) {
    let (mut bits, mut count) = (0_u16, 0);
    for &byte in bytes {
        bits = (bits << 8) | u16::from(byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            out.push(digit(bits >> count));
        }
    }
    if count > 0 {
        out.push(digit(bits << (5 - count)));
    }
}

/// Fills `out` from `text`. `None` unless `text` is exactly what [`encode`] writes for those bytes.
pub(crate) fn decode(text: &str, out: &mut [u8]) -> Option<()> {
    if text.len() != text_len(out.len()) {
        return None;
    }
    let (mut bits, mut count, mut filled) = (0_u16, 0, 0);
    for byte in text.bytes() {
        bits = (bits << 5) | value(byte)?;
        count += 5;
        if count >= 8 {
            count -= 8;
            out[filled] = (bits >> count) as u8;
            filled += 1;
        }
    }
    let padding = bits & ((1 << count) - 1);
    (padding == 0).then_some(())
}

/// The lowest 30 bits of `number`, as six characters.
pub(crate) fn encode_30_bits(number: u32, out: &mut String) {
    for shift in [25, 20, 15, 10, 5, 0] {
        out.push(digit((number >> shift) as u16));
    }
}

fn digit(bits: u16) -> char {
    ALPHABET[usize::from(bits & 31)].into()
}

fn value(byte: u8) -> Option<u16> {
    let value = match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'h' => byte - b'a' + 10,
        b'j' | b'k' => byte - b'j' + 18,
        b'm' | b'n' => byte - b'm' + 20,
        b'p'..=b't' => byte - b'p' + 22,
        b'v'..=b'z' => byte - b'v' + 27,
        _ => return None,
    };
    Some(u16::from(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(bytes: &[u8]) -> String {
        let mut text = String::new();
        encode(bytes, &mut text);
        text
    }

    #[test]
    fn every_digit_reads_back() {
        for (at, &byte) in ALPHABET.iter().enumerate() {
            assert_eq!(value(byte), Some(at as u16));
        }
        assert_eq!((0..=255).filter(|byte| value(*byte).is_some()).count(), 32);
    }

    #[test]
    fn known_texts() {
        assert_eq!(encoded(b""), "");
        assert_eq!(encoded(&[0xff; 5]), "zzzzzzzz");
        assert_eq!(encoded(b"foobar"), "csqpyrk1e8"); // RFC 4648's "MZXW6YTBOI", in Crockford's letters
    }

    #[test]
    fn set_padding_bits_upper_case_and_wrong_lengths_are_refused() {
        let mut byte = [0];
        assert!(decode("zw", &mut byte).is_some());
        for text in ["zz", "ZW", "z", "zw0", "zo", "z ", "zé"] {
            assert!(decode(text, &mut byte).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn bytes_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let text = encoded(&bytes);
            let mut back = vec![0; bytes.len()];
            prop_assert_eq!(text.len(), text_len(bytes.len()));
            prop_assert!(decode(&text, &mut back).is_some());
            prop_assert_eq!(back, bytes);
        }
    }
}
