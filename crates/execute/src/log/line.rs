//! A sealed line: a JSON object whose last member is the checksum of everything before it.

use super::crc32::crc32;

const BEFORE: &[u8] = b",\"crc\":\"";
const AFTER: &[u8] = b"\"}";
const DIGITS: usize = 8;

/// Seals a JSON object with at least one member. The result ends with a line break.
pub(crate) fn seal(object: &str) -> String {
    let open = object.strip_suffix('}').unwrap_or(object);
    format!("{open},\"crc\":\"{:08x}\"}}\n", crc32(open.as_bytes()))
}

/// The object in a line without its line break, the checksum taken off; nothing if the line is not whole.
pub(crate) fn open(line: &[u8]) -> Option<Vec<u8>> {
    let line = line.strip_suffix(AFTER)?;
    let (line, digits) = line.split_at_checked(line.len().checked_sub(DIGITS)?)?;
    let object = line.strip_suffix(BEFORE)?;
    // One thing has one spelling: upper case digits or a sign were not written by us.
    if digits != format!("{:08x}", crc32(object)).as_bytes() {
        return None;
    }
    Some([object, b"}"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_line_opens_and_a_changed_one_does_not() {
        let line = seal(r#"{"seq":1,"kind":"x"}"#);
        assert!(line.ends_with('\n'));
        let line = line.trim_end().as_bytes();
        assert_eq!(open(line).unwrap(), br#"{"seq":1,"kind":"x"}"#);
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut changed = line.to_vec();
                changed[at] ^= 1 << bit;
                assert_eq!(open(&changed), None, "bit {bit} of byte {at}");
            }
            assert_eq!(open(&line[..at]), None, "cut at {at}");
        }
    }
}
