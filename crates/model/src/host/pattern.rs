//! Name patterns: `web*`, `db[1:20]`, `rack-[a:f]-?`.
//!
//! `*` is any text, also none; `?` is one character. `[1:20]` is a number in that range, written with as many digits as the
//! range is (`[01:20]` has two); `[a:f]` is one letter. Everything else is itself.
//!
//! A pattern is compiled to *segments*, the parts between two `*`. Segments are matched from left to right, and each takes the
//! match that ends first: what comes after it then has the most of the name left, so nothing is ever tried again. A segment
//! that is plain text is found with a search that is linear in the name. Every step is counted ([`Steps`]).

use std::fmt;

use memchr::memmem;

use super::steps::{Steps, TooCostly};

/// Parts a pattern may have.
const PARTS_MAX: usize = 64;
/// Digits a number in a range may have.
const DIGITS_MAX: usize = 18;

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAPattern {
    #[error("an empty pattern matches nothing")]
    Empty,
    #[error("[ without ]")]
    OpenRange,
    #[error("[{0}] is not a range; ranges are [1:20], [01:20] or [a:f]")]
    NotARange(String),
    #[error("a pattern has at most {PARTS_MAX} parts")]
    TooLong,
    #[error("{0:?} cannot stand in a name")]
    BadCharacter(char),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    AnyText,
    AnyCharacter,
    /// Inclusive; `width` digits, or as many as the number has for 0.
    Number {
        from: u64,
        to: u64,
        width: usize,
    },
    Letter {
        from: u8,
        to: u8,
    },
}

/// Names that look like this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    /// What stands between two `*`; one segment if there is none. The first and the last may be empty.
    segments: Vec<Segment>,
    /// The shortest name that can match.
    shortest: usize,
}

/// Parts that follow each other without a `*` between them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    parts: Vec<Part>,
    /// How long a text that matches is, unless there is a number in it.
    length: Option<usize>,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, NotAPattern> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let taken = match next {
                '*' => {
                    if parts.last() != Some(&Part::AnyText) {
                        parts.push(Part::AnyText);
                    }
                    1
                }
                '?' => {
                    parts.push(Part::AnyCharacter);
                    1
                }
                '[' => {
                    let (inside, _) = rest[1..].split_once(']').ok_or(NotAPattern::OpenRange)?;
                    parts.push(range(inside)?);
                    inside.len() + 2
                }
                _ => {
                    let end = rest.find(['*', '?', '[']).unwrap_or(rest.len());
                    let plain = &rest[..end];
                    if let Some(bad) = plain.chars().find(|c| !c.is_ascii_alphanumeric() && !"._:/@-".contains(*c)) {
                        return Err(NotAPattern::BadCharacter(bad));
                    }
                    parts.push(Part::Text(plain.to_owned()));
                    end
                }
            };
            rest = &rest[taken..];
        }
        match parts.len() {
            0 => Err(NotAPattern::Empty),
            n if n > PARTS_MAX => Err(NotAPattern::TooLong),
            _ => {
                let shortest = parts.iter().map(Part::shortest).sum();
                let segments = parts.split(|part| *part == Part::AnyText).map(Segment::new).collect();
                Ok(Self { text: text.to_owned(), segments, shortest })
            }
        }
    }

    /// Whether the whole name looks like this.
    pub fn matches(&self, name: &str) -> bool {
        let mut steps = Steps::UNBOUNDED;
        self.matches_within(name, &mut steps).unwrap_or_default()
    }

    /// The same, as long as there are steps left for it.
    pub fn matches_within(&self, name: &str, steps: &mut Steps) -> Result<bool, TooCostly> {
        steps.take(1)?;
        let name = name.as_bytes();
        if name.len() < self.shortest {
            return Ok(false);
        }
        let (first, rest) = match &self.segments[..] {
            [] => return Ok(false),
            [only] => return only.is_all_of(name, steps),
            [first, rest @ ..] => (first, rest),
        };
        let Some(mut at) = first.end_at_start(name, steps)? else { return Ok(false) };
        let Some((last, floating)) = rest.split_last() else { return Ok(false) };
        for segment in floating {
            match segment.first_end(name, at, steps)? {
                Some(end) => at = end,
                None => return Ok(false),
            }
        }
        last.ends(name, at, steps)
    }

    /// The one name it stands for, if it is a plain one.
    pub fn as_name(&self) -> Option<&str> {
        match &self.segments[..] {
            [Segment { parts, .. }] => match &parts[..] {
                [Part::Text(text)] => Some(text),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Segment {
    fn new(parts: &[Part]) -> Self {
        let numbers = parts.iter().any(|part| matches!(part, Part::Number { .. }));
        let length = (!numbers).then(|| parts.iter().map(Part::shortest).sum());
        Self { parts: parts.to_vec(), length }
    }

    /// Whether it is this text, from its first to its last byte.
    fn is_all_of(&self, name: &[u8], steps: &mut Steps) -> Result<bool, TooCostly> {
        match self.length {
            Some(length) => Ok(length == name.len() && self.fits(name, 0, steps)?),
            None => Ok(self.ends_from(name, 0..=0, steps)?.last() == Some(&name.len())),
        }
    }

    /// The first place where it can end when it begins with the name.
    fn end_at_start(&self, name: &[u8], steps: &mut Steps) -> Result<Option<usize>, TooCostly> {
        match self.length {
            Some(length) => Ok(self.fits(name, 0, steps)?.then_some(length)),
            None => Ok(self.ends_from(name, 0..=0, steps)?.first().copied()),
        }
    }

    /// The first place where it can end when it begins anywhere from `at` on.
    fn first_end(&self, name: &[u8], at: usize, steps: &mut Steps) -> Result<Option<usize>, TooCostly> {
        let Some(length) = self.length else {
            return Ok(self.ends_from(name, at..=name.len(), steps)?.first().copied());
        };
        if let [Part::Text(text)] = &self.parts[..] {
            let found = memmem::find(&name[at..], text.as_bytes());
            steps.take(found.map_or(name.len() - at, |begin| begin + length))?;
            return Ok(found.map(|begin| at + begin + length));
        }
        for begin in at..=name.len().saturating_sub(length) {
            if self.fits(name, begin, steps)? {
                return Ok(Some(begin + length));
            }
        }
        Ok(None)
    }

    /// Whether it can end with the name when it begins at `at` or later.
    fn ends(&self, name: &[u8], at: usize, steps: &mut Steps) -> Result<bool, TooCostly> {
        match self.length {
            Some(length) => Ok(name.len() - at >= length && self.fits(name, name.len() - length, steps)?),
            None => Ok(self.ends_from(name, at..=name.len(), steps)?.last() == Some(&name.len())),
        }
    }

    /// Whether it stands here. Only for segments without numbers: each part is one length.
    fn fits(&self, name: &[u8], mut at: usize, steps: &mut Steps) -> Result<bool, TooCostly> {
        for part in &self.parts {
            let length = part.shortest();
            steps.take(1 + length / 16)?;
            let fits = name.get(at..at + length).is_some_and(|here| match part {
                Part::Text(text) => here == text.as_bytes(),
                Part::Letter { from, to } => here.iter().all(|letter| (from..=to).contains(&letter)),
                Part::AnyCharacter => true,
                Part::AnyText | Part::Number { .. } => false,
            });
            if !fits {
                return Ok(false);
            }
            at += length;
        }
        Ok(true)
    }

    /// Where it can end, in order, when it begins at one of these places. All of them are followed together, so that no place
    /// is looked at twice for one part.
    fn ends_from(
        &self,
        name: &[u8],
        begins: std::ops::RangeInclusive<usize>,
        steps: &mut Steps,
    ) -> Result<Vec<usize>, TooCostly> {
        let mut places: Vec<usize> = begins.collect();
        steps.take(places.len())?;
        for part in &self.parts {
            let mut ends = vec![false; name.len() + 1];
            steps.take(1 + ends.len() / 16)?;
            for at in places {
                steps.take(part.mark_ends(name, at, &mut ends))?;
            }
            places = (0..=name.len()).filter(|at| ends[*at]).collect();
        }
        Ok(places)
    }
}

impl Part {
    /// Bytes it takes at least.
    fn shortest(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::AnyText => 0,
            Self::AnyCharacter | Self::Letter { .. } => 1,
            Self::Number { width, .. } => (*width).max(1),
        }
    }

    /// Marks where this part can end when it begins at `at`, and says how many steps that took.
    fn mark_ends(&self, name: &[u8], at: usize, ends: &mut [bool]) -> usize {
        match self {
            Self::Text(text) => {
                if name[at..].starts_with(text.as_bytes()) {
                    ends[at + text.len()] = true;
                }
                1 + text.len() / 16
            }
            // Segments have none.
            Self::AnyText => 1,
            Self::AnyCharacter => {
                if at < name.len() {
                    ends[at + 1] = true;
                }
                1
            }
            Self::Letter { from, to } => {
                if name.get(at).is_some_and(|letter| (from..=to).contains(&letter)) {
                    ends[at + 1] = true;
                }
                1
            }
            Self::Number { from, to, width } => {
                let mut value = 0u64;
                let digits = name[at..].iter().take(DIGITS_MAX).take_while(|byte| byte.is_ascii_digit());
                let mut steps = 1;
                for (before, digit) in digits.enumerate() {
                    let length = before + 1;
                    value = value * 10 + u64::from(digit - b'0');
                    steps += 1;
                    let fits = if *width == 0 { length == 1 || name[at] != b'0' } else { length == *width };
                    if fits && (*from..=*to).contains(&value) {
                        ends[at + length] = true;
                    }
                    if value > *to {
                        break;
                    }
                }
                steps
            }
        }
    }
}

fn range(inside: &str) -> Result<Part, NotAPattern> {
    let wrong = || NotAPattern::NotARange(inside.to_owned());
    let (from, to) = inside.split_once(':').or_else(|| inside.split_once('-')).ok_or_else(wrong)?;
    if let ([first], [last]) = (from.as_bytes(), to.as_bytes())
        && first.is_ascii_alphabetic()
        && last.is_ascii_alphabetic()
        && first <= last
    {
        return Ok(Part::Letter { from: *first, to: *last });
    }
    let number = |text: &str| -> Option<u64> {
        let digits = !text.is_empty() && text.len() <= DIGITS_MAX && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    let (low, high) = (number(from).ok_or_else(wrong)?, number(to).ok_or_else(wrong)?);
    if low > high {
        return Err(wrong());
    }
    let padded = from.len() > 1 && from.starts_with('0');
    if padded && from.len() != to.len() {
        return Err(wrong());
    }
    Ok(Part::Number { from: low, to: high, width: if padded { from.len() } else { 0 } })
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hits<'a>(pattern: &str, names: &[&'a str]) -> Vec<&'a str> {
        let pattern = Pattern::parse(pattern).expect("a pattern");
        names.iter().copied().filter(|name| pattern.matches(name)).collect()
    }

    #[test]
    fn a_plain_text_is_itself_and_nothing_longer() {
        assert_eq!(hits("web1", &["web1", "web10", "xweb1", "web", ""]), ["web1"]);
    }

    #[test]
    fn stars_and_questions() {
        assert_eq!(hits("web*", &["web", "web1", "aweb"]), ["web", "web1"]);
        assert_eq!(hits("*.fra.*", &["a.fra.b", "fra", ".fra.", "a.fra"]), ["a.fra.b", ".fra."]);
        assert_eq!(hits("db?", &["db1", "db", "db12"]), ["db1"]);
    }

    #[test]
    fn what_one_part_has_taken_is_not_taken_again_by_the_next() {
        assert_eq!(hits("*abc*cx", &["xabcx", "xabccx"]), ["xabccx"]);
        assert_eq!(hits("*?bc*cx", &["xabcx", "xabccx"]), ["xabccx"]);
        assert_eq!(hits("*[a:b]bc*cx", &["xabcx", "xabccx"]), ["xabccx"]);
        assert_eq!(hits("*a[1:20]*[1:9]x", &["ya1x", "ya12x", "ya123x"]), ["ya12x", "ya123x"]);
        assert_eq!(hits("*ab*ab*", &["xxabx", "abxab", "xababx"]), ["abxab", "xababx"]);
        assert_eq!(hits("ab*b", &["ab", "abb", "abab"]), ["abb", "abab"]);
    }

    #[test]
    fn ranges_of_numbers_and_letters() {
        assert_eq!(hits("db[1:20]", &["db0", "db1", "db9", "db20", "db21", "db01", "db2x"]), ["db1", "db9", "db20"]);
        assert_eq!(hits("db[01:20]", &["db1", "db01", "db20", "db021"]), ["db01", "db20"]);
        assert_eq!(hits("db[8:12].x", &["db8.x", "db12.x", "db1.x", "db13.x"]), ["db8.x", "db12.x"]);
        assert_eq!(hits("r[a:c][1:2]", &["ra1", "rc2", "rd1", "ra3"]), ["ra1", "rc2"]);
    }

    #[test]
    fn what_is_no_pattern_is_said() {
        let wrong = |text: &str| Pattern::parse(text).expect_err("no pattern").to_string();
        assert_eq!(wrong(""), "an empty pattern matches nothing");
        assert_eq!(wrong("db[1:20"), "[ without ]");
        for text in ["db[]", "db[5:1]", "db[1:b]", "db[01:5]", "db[x]", "db[:]", "db[99999999999999999999:1]"] {
            assert!(wrong(text).contains("is not a range"), "{text}: {}", wrong(text));
        }
        assert_eq!(wrong("a b"), "' ' cannot stand in a name");
        assert_eq!(wrong(&"?".repeat(65)), "a pattern has at most 64 parts");
    }

    #[test]
    fn a_hostile_pattern_takes_no_longer_than_others() {
        let pattern = Pattern::parse(&"*a".repeat(32)).expect("a pattern");
        assert!(!pattern.matches(&"a".repeat(31).repeat(8).replace('a', "b")));
        assert!(pattern.matches(&"a".repeat(253)));
    }

    /// The steps that one match takes.
    fn cost(pattern: &str, name: &str) -> u64 {
        let pattern = Pattern::parse(pattern).expect("a pattern");
        let mut steps = Steps::up_to(u64::MAX);
        pattern.matches_within(name, &mut steps).expect("enough steps");
        u64::MAX - steps.left()
    }

    #[test]
    fn stars_and_text_cost_no_more_than_the_name_is_long() {
        for length in [60, 120, 240] {
            let name = "a".repeat(length);
            let hostile =
                [format!("{}b", "*a".repeat(31)), format!("*{}b*", "a".repeat(length / 2)), "*a*b*".to_owned()];
            for pattern in hostile {
                let steps = cost(&pattern, &name);
                assert!(steps <= 2 * (length as u64) + 64, "{pattern} on {length} bytes: {steps} steps");
            }
        }
    }

    #[test]
    fn sixteen_bytes_of_text_are_one_step() {
        let text = |length: usize| "a".repeat(length);
        assert_eq!(cost("a", "a"), 2, "one for the name, one for the text");
        assert_eq!(cost(&text(48), &text(48)), 5);
        // The same after a number, where every place at which it can end is followed.
        let after_a_number = |length: usize| cost(&format!("[1:9]{}", text(length)), &format!("1{}", text(length)));
        assert_eq!(after_a_number(48) - after_a_number(32), 1 + 2, "one for the text, one for each part");
    }

    #[test]
    fn matching_ends_when_the_steps_are_used_up() {
        let pattern = Pattern::parse("*b*").expect("a pattern");
        let mut steps = Steps::up_to(100);
        assert_eq!(pattern.matches_within(&"a".repeat(90), &mut steps), Ok(false));
        assert_eq!(pattern.matches_within(&"a".repeat(90), &mut steps), Err(TooCostly));
    }

    /// What a pattern means, as simply as it can be said.
    fn naive(parts: &[Part], name: &[u8]) -> bool {
        let Some((part, rest)) = parts.split_first() else { return name.is_empty() };
        let ends: Vec<usize> = match part {
            Part::AnyText => (0..=name.len()).collect(),
            other => {
                let mut ends = vec![false; name.len() + 1];
                other.mark_ends(name, 0, &mut ends);
                (0..=name.len()).filter(|at| ends[*at]).collect()
            }
        };
        ends.into_iter().any(|end| naive(rest, &name[end..]))
    }

    fn parts(pattern: &Pattern) -> Vec<Part> {
        let mut parts = Vec::new();
        for (at, segment) in pattern.segments.iter().enumerate() {
            if at > 0 {
                parts.push(Part::AnyText);
            }
            parts.extend(segment.parts.iter().cloned());
        }
        parts
    }

    /// Patterns of few different characters, so that much of them fits in many places.
    fn hostile(max: usize) -> impl Strategy<Value = String> {
        let part = prop_oneof![
            4 => Just("*".to_owned()),
            4 => "[ab1]{1,3}",
            1 => "a{20,60}",
            2 => Just("?".to_owned()),
            1 => Just("[a:b]".to_owned()),
            1 => Just("[1:12]".to_owned()),
            1 => Just("[01:11]".to_owned()),
            1 => Just("[0:999999999999999999]".to_owned()),
        ];
        proptest::collection::vec(part, 1..max).prop_map(|parts| parts.concat())
    }

    proptest! {
        /// The matcher agrees with the naive one.
        #[test]
        fn it_matches_what_a_naive_matcher_matches(pattern in hostile(8), name in "[ab1]{0,14}") {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                prop_assert_eq!(pattern.matches(&name), naive(&parts(&pattern), name.as_bytes()), "{} on {}", pattern, name);
            }
        }

        /// No pattern costs more steps than its parts times the name, and numbers their digits.
        #[test]
        fn no_pattern_takes_more_steps_than_parts_times_length(
            pattern in hostile(60),
            name in prop_oneof!["[ab1]{0,253}", "a{253}", "1{253}", "a{200}b{53}"],
        ) {
            if let Ok(parsed) = Pattern::parse(&pattern) {
                let parts = parts(&parsed);
                let numbers = parts.iter().filter(|part| matches!(part, Part::Number { .. })).count() as u64;
                let (parts, length) = (parts.len() as u64, name.len() as u64 + 1);
                let most = 8 + 6 * parts * length + numbers * length * (DIGITS_MAX as u64 + 1);
                prop_assert!(cost(&pattern, &name) <= most, "{} on {}: {} > {}", pattern, name, cost(&pattern, &name), most);
            }
        }

        #[test]
        fn a_name_matches_itself(name in "[a-z0-9][a-z0-9._-]{0,40}") {
            prop_assert!(Pattern::parse(&name).unwrap().matches(&name));
        }

        #[test]
        fn a_number_range_is_its_numbers(from in 0u64..300, len in 0u64..50, n in 0u64..400) {
            let pattern = Pattern::parse(&format!("h[{from}:{}]", from + len)).unwrap();
            prop_assert_eq!(pattern.matches(&format!("h{n}")), (from..=from + len).contains(&n));
        }

        #[test]
        fn no_text_makes_it_panic(pattern in ".{0,40}", name in ".{0,40}") {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                pattern.matches(&name);
            }
        }
    }
}
