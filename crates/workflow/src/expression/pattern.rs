//! What `matches` looks for. Linear in the text always, but the factor is the pattern's size, so that is known here.

use regex::{Regex, RegexBuilder};

use super::{
    error::{ErrorCode, Fault},
    limits::PATTERN_BYTES_MAX,
};

/// What a pattern may become once it is compiled, in KiB, and the steps that 16 bytes of text cost then. The first that it
/// fits into counts. Measured, so that ten thousand steps are some tens of milliseconds for the hardest of each size.
const SIZES: [(usize, usize); 4] = [(4, 1), (16, 4), (64, 8), (256, 32)];
/// What a pattern may keep of what it learns about a text.
const CACHE_BYTES: usize = 256 * 1024;
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    steps_of_16_bytes: usize,
}

impl Pattern {
    pub fn compile(pattern: &str, at: u32) -> Result<Self, Fault> {
        let refused = |message: String| Err(Fault::new(ErrorCode::BadPattern, at, message));
        if pattern.len() > PATTERN_BYTES_MAX {
            return refused(format!("a pattern has at most {PATTERN_BYTES_MAX} bytes"));
        }
        for (size_kib, steps_of_16_bytes) in SIZES {
            match RegexBuilder::new(pattern).size_limit(size_kib * 1024).dfa_size_limit(CACHE_BYTES).build() {
                Ok(regex) => return Ok(Self { regex, steps_of_16_bytes }),
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
        bytes.saturating_mul(self.steps_of_16_bytes) / 16
    }

    pub fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}
