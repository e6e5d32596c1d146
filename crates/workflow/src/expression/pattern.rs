//! What `matches` looks for. Linear in the text always, but the factor is the pattern's size, so that is known here.
//!
//! A pattern of a few bytes can unfold to many kilobytes, and a definition can have thousands of them. So those of one definition
//! have a budget together ([`Patterns`]), and the same pattern is compiled once. What a pattern learns about a text is dropped
//! after the text: otherwise each pattern that ever matched would hold a cache for as long as its definition is in memory.

use std::{collections::HashMap, sync::Arc};

use regex_automata::{
    Input,
    meta::{Config, Regex},
};

use super::{
    error::{ErrorCode, Fault},
    limits::{PATTERN_BYTES_MAX, PATTERNS_BYTES_MAX, PATTERNS_MAX, PATTERNS_OF_A_TEXT_BYTES_MAX},
};

/// What a pattern may become once it is compiled, in KiB, and the steps that 16 bytes of text cost then. The first that it
/// fits into counts. Measured, so that ten thousand steps are some tens of milliseconds for the hardest of each size.
const SIZES: [(usize, usize); 4] = [(4, 1), (16, 4), (64, 8), (256, 32)];
/// What a pattern may keep of what it learns about one text.
const CACHE_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    steps_of_16_bytes: usize,
}

/// The patterns of one definition, or of one text that stands alone: each once, and how large they are together.
#[derive(Debug)]
pub struct Patterns {
    known: HashMap<Box<str>, Arc<Pattern>>,
    bytes: usize,
    /// What compiling may still make, also what is thrown away because it turns out too large.
    left: usize,
    /// What this is, for messages.
    whole: &'static str,
    most: usize,
}

impl Patterns {
    pub fn of_definition() -> Self {
        Self::new("definition", PATTERNS_BYTES_MAX)
    }

    pub(super) fn of_text() -> Self {
        Self::new("text", PATTERNS_OF_A_TEXT_BYTES_MAX)
    }

    fn new(whole: &'static str, most: usize) -> Self {
        Self { known: HashMap::new(), bytes: 0, left: most, whole, most }
    }

    /// Bytes that the compiled patterns occupy.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn compile(&mut self, pattern: &str, at: u32) -> Result<Arc<Pattern>, Fault> {
        let refused = |message: String| Err(Fault::new(ErrorCode::BadPattern, at, message));
        if pattern.len() > PATTERN_BYTES_MAX {
            return refused(format!("a pattern has at most {PATTERN_BYTES_MAX} bytes"));
        }
        if let Some(known) = self.known.get(pattern) {
            return Ok(Arc::clone(known));
        }
        if self.known.len() >= PATTERNS_MAX {
            let whole = self.whole;
            return refused(format!("the {whole} has more than {PATTERNS_MAX} different patterns; use fewer"));
        }
        for (size_kib, steps_of_16_bytes) in SIZES {
            let size = size_kib * 1024;
            if size > self.left {
                break;
            }
            // One more automaton, for groups, may be as large as a mebibyte for the smallest pattern; `matches` has no use for it.
            let config = Config::new().nfa_size_limit(Some(size)).hybrid_cache_capacity(CACHE_BYTES);
            match Regex::builder().configure(config.onepass(false).dfa(false)).build(pattern) {
                Ok(regex) => {
                    let bytes = regex.memory_usage().max(pattern.len());
                    self.left = self.left.saturating_sub(bytes);
                    self.bytes += bytes;
                    let compiled = Arc::new(Pattern { regex, steps_of_16_bytes });
                    self.known.insert(pattern.into(), Arc::clone(&compiled));
                    return Ok(compiled);
                }
                Err(error) if error.size_limit().is_some() => self.left -= size,
                Err(_) => {
                    return refused("this is no pattern; look-around and back-references do not exist here".to_owned());
                }
            }
        }
        let (largest, _) = SIZES[SIZES.len() - 1];
        if self.left >= largest * 1024 {
            return refused("this pattern is too large".to_owned());
        }
        refused(format!(
            "the patterns of this {} are too large: compiled, they may have {} KiB together; use fewer or simpler ones, without \
             large repetitions such as `{{1,500}}`",
            self.whole,
            self.most / 1024
        ))
    }
}

impl Pattern {
    /// How many steps it takes to look at so much text, at worst. There is something to prepare even for none.
    pub fn steps(&self, bytes: usize) -> usize {
        (bytes / 16).saturating_add(1).saturating_mul(self.steps_of_16_bytes)
    }

    pub fn is_in(&self, text: &str) -> bool {
        let mut cache = self.regex.create_cache();
        self.regex.search_half_with(&mut cache, &Input::new(text).earliest(true)).is_some()
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

    fn fits(pattern: &str, size_kib: usize) -> bool {
        let config = Config::new().nfa_size_limit(Some(size_kib * 1024)).onepass(false).dfa(false);
        Regex::builder().configure(config).build(pattern).is_ok()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Whatever unfolds to more than its size is refused; what is compiled costs its steps, two for each byte at worst.
        #[test]
        fn no_pattern_is_larger_or_costs_more_than_its_budget(pattern in hostile(), bytes in 0..(1_usize << 20)) {
            match Patterns::of_definition().compile(&pattern, 0) {
                Err(_) => {}
                Ok(compiled) => {
                    prop_assert!(pattern.len() <= PATTERN_BYTES_MAX);
                    let (largest, most) = SIZES[SIZES.len() - 1];
                    prop_assert!(fits(&pattern, largest), "larger than {largest} KiB");
                    prop_assert!(compiled.steps(bytes) <= (bytes / 16 + 1) * most);
                    prop_assert!(compiled.steps(0) >= 1, "nothing is for nothing");
                    // A pattern that is larger than the smallest size costs more than the smallest price.
                    let (small, least) = SIZES[0];
                    prop_assert_eq!(compiled.steps(0) == least, fits(&pattern, small));
                }
            }
        }

        /// However many there are and whatever they unfold to, together they are no larger than their budget but for the last one.
        #[test]
        fn no_definition_has_larger_patterns_than_its_budget(patterns in prop::collection::vec(hostile(), 1..12)) {
            let (largest, _) = SIZES[SIZES.len() - 1];
            let mut all = Patterns::of_text();
            let mut held: HashMap<String, usize> = HashMap::new();
            for pattern in &patterns {
                if let Ok(compiled) = all.compile(pattern, 0) {
                    held.insert(pattern.clone(), compiled.regex.memory_usage());
                }
            }
            let bytes: usize = held.values().sum();
            prop_assert!(all.bytes() >= bytes, "{bytes} bytes are held, {} are counted", all.bytes());
            // Both directions of a pattern have this limit.
            prop_assert!(bytes <= PATTERNS_OF_A_TEXT_BYTES_MAX + 4 * largest * 1024, "{bytes} bytes");
        }
    }

    #[test]
    fn the_same_pattern_is_compiled_once() {
        let mut all = Patterns::of_definition();
        let first = all.compile("^[a-z]+$", 0).expect("a pattern");
        let bytes = all.bytes();
        for _ in 0..10 * PATTERNS_MAX {
            assert!(Arc::ptr_eq(&first, &all.compile("^[a-z]+$", 0).expect("a pattern")));
        }
        assert_eq!(all.bytes(), bytes);
    }

    #[test]
    fn more_patterns_than_a_definition_may_have_are_refused_before_they_are_compiled() {
        let mut all = Patterns::of_definition();
        let several = (0..PATTERNS_MAX + 1).map(|n| all.compile(&format!("a{n}"), 0)).filter(Result::is_err).count();
        assert_eq!(several, 1);
        let mut all = Patterns::of_definition();
        let fits = (0..5_000).filter(|n| all.compile(&format!("[a-z{n}]{{900}}"), 0).is_ok()).count();
        assert!((1..1_000).contains(&fits), "{fits} large patterns");
        assert!(all.bytes() <= PATTERNS_BYTES_MAX + 4 * 256 * 1024);
        // Also those that are thrown away because they are too large cost something.
        let mut all = Patterns::of_definition();
        for n in 1..PATTERNS_MAX {
            assert!(all.compile(&format!("((.{{100}}){{100}}){{{n}}}b"), 0).is_err());
        }
        assert!(all.left < 256 * 1024);
    }
}
