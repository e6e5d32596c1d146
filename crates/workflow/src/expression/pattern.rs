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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pieces that unfold: repetitions of repetitions, and classes of many characters.
    fn hostile() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec!["a", ".", "\\w", "\\pL", "[a-z]", "(?i)ss", "x*", "(a|b|ab)*", "^", "$"]);
        let leaf = prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat());
        leaf.prop_recursive(4, 16, 3, |inner| {
            prop_oneof![
                (inner.clone(), 1..1_000_u32).prop_map(|(inner, times)| format!("({inner}){{{times}}}")),
                (inner.clone(), 1..100_u32).prop_map(|(inner, times)| format!("({inner}){{0,{times}}}")),
                (inner.clone(), inner).prop_map(|(left, right)| format!("({left}|{right})")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Whatever unfolds to more than its size is refused; what is compiled costs its steps, two for each byte at worst.
        #[test]
        fn no_pattern_is_larger_or_costs_more_than_its_budget(pattern in hostile(), bytes in 0..(1_usize << 20)) {
            match Pattern::compile(&pattern, 0) {
                Err(_) => {}
                Ok(compiled) => {
                    prop_assert!(pattern.len() <= PATTERN_BYTES_MAX);
                    let (largest, most) = SIZES[SIZES.len() - 1];
                    let fits = RegexBuilder::new(&pattern).size_limit(largest * 1024).build();
                    prop_assert!(fits.is_ok(), "larger than {largest} KiB");
                    prop_assert!(compiled.steps(bytes) <= bytes * most / 16);
                    // A pattern that is larger than the smallest size costs more than the smallest price.
                    let (small, least) = SIZES[0];
                    let is_small = RegexBuilder::new(&pattern).size_limit(small * 1024).build().is_ok();
                    prop_assert_eq!(compiled.steps(16) == least, is_small);
                }
            }
        }
    }
}
