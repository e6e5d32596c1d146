//! Name patterns: `web*`, `db[1:20]`, `rack-[a:f]-?`.
//!
//! `*` is any text, also none; `?` is one character. `[1:20]` is a number in that range, written with as many digits as the
//! range is (`[01:20]` has two); `[a:f]` is one letter. Everything else is itself. There is no backtracking that grows with
//! the text: a pattern has a bounded number of parts, and each is tried at each place once.

use std::fmt;

/// Parts a pattern may have.
const PARTS_MAX: usize = 64;

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
    parts: Vec<Part>,
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
            _ => Ok(Self { text: text.to_owned(), parts }),
        }
    }

    /// Whether the whole name looks like this.
    pub fn matches(&self, name: &str) -> bool {
        // Where in the name the parts so far can end. Each part moves every such place on.
        let name = name.as_bytes();
        let mut ends = vec![false; name.len() + 1];
        ends[0] = true;
        for part in &self.parts {
            let mut next = vec![false; name.len() + 1];
            for at in (0..=name.len()).filter(|at| ends[*at]) {
                part.step(name, at, &mut next);
            }
            ends = next;
        }
        ends[name.len()]
    }

    /// The one name it stands for, if it is a plain one.
    pub fn as_name(&self) -> Option<&str> {
        match &self.parts[..] {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl Part {
    /// Marks where this part can end when it begins at `at`.
    fn step(&self, name: &[u8], at: usize, ends: &mut [bool]) {
        match self {
            Self::Text(text) => {
                if name[at..].starts_with(text.as_bytes()) {
                    ends[at + text.len()] = true;
                }
            }
            Self::AnyText => ends[at..].fill(true),
            Self::AnyCharacter => {
                if at < name.len() {
                    ends[at + 1] = true;
                }
            }
            Self::Letter { from, to } => {
                if name.get(at).is_some_and(|letter| (from..=to).contains(&letter)) {
                    ends[at + 1] = true;
                }
            }
            Self::Number { from, to, width } => {
                let digits = name[at..].iter().take_while(|b| b.is_ascii_digit()).count();
                for len in 1..=digits.min(19) {
                    let fits = if *width == 0 { len == 1 || name[at] != b'0' } else { len == *width };
                    let value = name[at..at + len].iter().fold(0u64, |n, digit| n * 10 + u64::from(digit - b'0'));
                    if fits && (*from..=*to).contains(&value) {
                        ends[at + len] = true;
                    }
                }
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
        let digits = !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
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

    proptest! {
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
