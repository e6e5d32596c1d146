//! What `matches` looks for. Linear in the text always, but the factor is the pattern's size, so that is known here.

use regex::{Regex, RegexBuilder};

use super::{
    error::{ErrorCode, Fault},
    limits::PATTERN_BYTES_MAX,
};

/// What a pattern may become once it is compiled, in KiB: the first of these that it fits into is its size.
const SIZES_KIB: [usize; 4] = [4, 16, 64, 256];
/// What a pattern may keep of what it learns about a text.
const CACHE_BYTES: usize = 256 * 1024;
/// Bytes of text for a step, times the size in KiB. At worst, ten thousand steps are some tens of milliseconds then.
const BYTES_TIMES_KIB: usize = 128;

#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    size_kib: usize,
}

impl Pattern {
    pub fn compile(pattern: &str, at: u32) -> Result<Self, Fault> {
        let refused = |message: String| Err(Fault::new(ErrorCode::BadPattern, at, message));
        if pattern.len() > PATTERN_BYTES_MAX {
            return refused(format!("a pattern has at most {PATTERN_BYTES_MAX} bytes"));
        }
        for size_kib in SIZES_KIB {
            match RegexBuilder::new(pattern).size_limit(size_kib * 1024).dfa_size_limit(CACHE_BYTES).build() {
                Ok(regex) => return Ok(Self { regex, size_kib }),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(_) => {
                    return refused("this is no pattern; look-around and back-references do not exist here".to_owned());
                }
            }
        }
        refused("this pattern is too large".to_owned())
    }

    /// How many steps it takes to look at so much text, at worst.
    pub fn steps(&self, bytes: usize) -> usize {
        bytes.saturating_mul(self.size_kib) / BYTES_TIMES_KIB
    }

    pub fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}
