//! From bytes to text: UTF-8, with or without a byte order mark.

use crate::error::ImportError;
use crate::place::Place;

pub(crate) fn text(bytes: &[u8]) -> Result<&str, ImportError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        ImportError::NotUtf8 { at: Place { line: Some(line), path: None } }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        assert_eq!(text(b"\xef\xbb\xbfweb1"), Ok("web1"));
    }

    #[test]
    fn what_is_not_utf_8_is_said_with_its_line() {
        let error = text(b"web1\nweb2\xff\n").expect_err("not UTF-8");
        assert_eq!(error.to_string(), "line 2: the text is not UTF-8");
    }
}
