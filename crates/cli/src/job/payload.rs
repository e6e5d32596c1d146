//! What a job carries: JSON from the command line, a file or standard input, passed on exactly as it was written.

use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::source;

/// The place of the counter in a template.
const COUNTER: &str = "{n}";

/// Reads the payload's text. Without any it is an empty object.
pub fn read(text: Option<&str>, file: Option<&PathBuf>) -> Result<String, Failure> {
    match (text, file) {
        // JSON never begins with an @.
        (Some(text), _) => match text.trim_start().strip_prefix('@') {
            Some(path) => source::read(Path::new(path)),
            None => Ok(text.to_owned()),
        },
        (None, None) => Ok("{}".to_owned()),
        (None, Some(path)) => source::read(path),
    }
}

/// The payload of job number `n`, or of the only job.
pub fn fill(template: &str, n: Option<u64>) -> Result<Box<RawValue>, Failure> {
    let text = counted(template, n);
    RawValue::from_string(text.trim().to_owned())
        .map_err(|error| Failure::Usage(format!("the payload is not JSON: {error}")))
}

/// The text with the counter in its place.
pub fn counted(template: &str, n: Option<u64>) -> String {
    match n {
        Some(n) => template.replace(COUNTER, &n.to_string()),
        None => template.to_owned(),
    }
}

/// Whether the text differs from job to job.
pub fn counts(template: &str) -> bool {
    template.contains(COUNTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_may_stand_inside_or_outside_a_string() {
        assert_eq!(fill(r#"{"i":{n},"s":"no {n}"}"#, Some(7)).unwrap().get(), r#"{"i":7,"s":"no 7"}"#);
        assert_eq!(fill(r#"{"s":"{n}"}"#, None).unwrap().get(), r#"{"s":"{n}"}"#);
        assert!(matches!(fill("{n: 1}", Some(1)), Err(Failure::Usage(_))));
    }

    #[test]
    fn the_text_stays_as_it_was_written() {
        assert_eq!(fill(" {\"a\": 1.00, \"a\": 2} \n", None).unwrap().get(), "{\"a\": 1.00, \"a\": 2}");
        assert_eq!(read(None, None).unwrap(), "{}");
    }
}
