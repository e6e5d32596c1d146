//! Which hosts somebody means: `role=web & site!=fra | db[1:20]`.
//!
//! | text | means |
//! |---|---|
//! | `web*`, `db[1:20]` | hosts whose name looks like this, and hosts of a group whose name does |
//! | `@prod` | hosts of this group, and of the groups in it; patterns too |
//! | `role=web`, `role!=web` | hosts whose label has this value, or another one or none; patterns too |
//! | `a & b`, `a \| b`, `!a`, `( )` | both, either, not, first this |
//!
//! `&` binds more than `|`. `all` is everybody. A comma is `|`, for those who are used to it.

use std::fmt;

use super::{HostFacts, NotAPattern, Pattern, Steps, TooCostly};

/// Bytes a selector may have; brackets inside each other.
const LENGTH_MAX: usize = 16_384;
const DEPTH_MAX: usize = 64;
/// What commands can refer to and selectors cannot. Read as labels they would select no host, without a word.
const NOT_LABELS: [&str; 3] = ["vars.", "host.vars.", "host.labels."];

/// Why a text is not a selector, and where it stops being one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at character {at}")]
pub struct NotASelector {
    pub what: String,
    /// Counted from 1.
    pub at: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    Everybody,
    Named(Pattern),
    Group(Pattern),
    Label { key: String, value: Pattern, is: bool },
    Not(Box<Term>),
    All(Vec<Term>),
    Any(Vec<Term>),
}

/// A choice of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    text: String,
    term: Term,
}

impl Selector {
    pub fn parse(text: &str) -> Result<Self, NotASelector> {
        let mut reader = Reader { text, at: 0, depth: 0 };
        if text.len() > LENGTH_MAX {
            return Err(reader.wrong(format!("a selector has at most {LENGTH_MAX} bytes")));
        }
        let term = reader.any()?;
        match reader.peek() {
            None => Ok(Self { text: text.trim().to_owned(), term }),
            Some(')') => Err(reader.wrong("a ) that nothing opened".to_owned())),
            Some(other) => Err(reader.wrong(format!("{other:?} where & or | should be"))),
        }
    }

    /// Whether this host is meant, as long as there are steps left to find out.
    pub fn matches(&self, host: HostFacts<'_>, steps: &mut Steps) -> Result<bool, TooCostly> {
        self.term.matches(host, steps)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Term {
    fn matches(&self, host: HostFacts<'_>, steps: &mut Steps) -> Result<bool, TooCostly> {
        steps.take(1)?;
        match self {
            Self::Everybody => Ok(true),
            Self::Named(pattern) => {
                Ok(pattern.matches_within(host.name.as_str(), steps)? || in_group(pattern, host, steps)?)
            }
            Self::Group(pattern) => in_group(pattern, host, steps),
            Self::Label { key, value, is } => match host.labels.get(key) {
                Some(text) => Ok(value.matches_within(text, steps)? == *is),
                None => Ok(!*is),
            },
            Self::Not(term) => Ok(!term.matches(host, steps)?),
            Self::All(terms) => {
                for term in terms {
                    if !term.matches(host, steps)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(terms) => {
                for term in terms {
                    if term.matches(host, steps)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

fn in_group(pattern: &Pattern, host: HostFacts<'_>, steps: &mut Steps) -> Result<bool, TooCostly> {
    if let Some(name) = pattern.as_name() {
        steps.take(1)?;
        return Ok(host.groups.contains(name));
    }
    for group in host.groups {
        if pattern.matches_within(group.as_str(), steps)? {
            return Ok(true);
        }
    }
    Ok(false)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn wrong(&self, what: String) -> NotASelector {
        NotASelector { what, at: self.text[..self.at].chars().count() + 1 }
    }

    /// The next character that is no space; stands before it.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn any(&mut self) -> Result<Term, NotASelector> {
        let mut terms = vec![self.all()?];
        while let Some('|' | ',') = self.peek() {
            self.at += 1;
            terms.push(self.all()?);
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Term::Any(terms) })
    }

    fn all(&mut self) -> Result<Term, NotASelector> {
        let mut terms = vec![self.one()?];
        while let Some('&') = self.peek() {
            self.at += 1;
            terms.push(self.one()?);
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Term::All(terms) })
    }

    fn one(&mut self) -> Result<Term, NotASelector> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong(format!("deeper than {DEPTH_MAX} levels")));
        }
        let term = match self.peek() {
            None => Err(self.wrong("a name, a group or a label should be".to_owned())),
            Some('!') => {
                self.at += 1;
                self.one().map(|term| Term::Not(Box::new(term)))
            }
            Some('(') => {
                self.at += 1;
                let inside = self.any()?;
                match self.peek() {
                    Some(')') => {
                        self.at += 1;
                        Ok(inside)
                    }
                    _ => Err(self.wrong("a ) is missing".to_owned())),
                }
            }
            Some('@') => {
                self.at += 1;
                self.pattern("a group").map(Term::Group)
            }
            Some(_) => self.name_or_label(),
        };
        self.depth -= 1;
        term
    }

    /// Up to a space or an operator. Inside a range everything belongs to it.
    fn word(&mut self) -> &str {
        let rest = &self.text[self.at..];
        let mut in_range = false;
        let end = rest.find(|c: char| {
            in_range = (in_range || c == '[') && c != ']';
            !in_range && (c.is_whitespace() || "&|,!()=".contains(c))
        });
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn pattern(&mut self, what: &str) -> Result<Pattern, NotASelector> {
        let from = self.at;
        let parsed = Pattern::parse(self.word());
        parsed.map_err(|error| {
            self.at = from;
            match error {
                NotAPattern::Empty => self.wrong(format!("{what} should be")),
                error => self.wrong(error.to_string()),
            }
        })
    }

    fn name_or_label(&mut self) -> Result<Term, NotASelector> {
        let from = self.at;
        let word = self.word().to_owned();
        let after = self.text[self.at..].trim_start();
        let (is, skip) = if after.starts_with("!=") {
            (false, 2)
        } else if after.starts_with('=') {
            (true, 1)
        } else if word == "all" {
            return Ok(Term::Everybody);
        } else {
            self.at = from;
            return self.pattern("a name, a group or a label").map(Term::Named);
        };
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "._:/@-".contains(c));
        if word.is_empty() || !plain {
            self.at = from;
            return Err(self.wrong("the name of a label should be".to_owned()));
        }
        if let Some(prefix) = NOT_LABELS.iter().find(|prefix| word.starts_with(**prefix)) {
            self.at = from;
            return Err(self.wrong(format!(
                "{prefix} where a label should be (selectors see names, groups and labels, not variables)"
            )));
        }
        self.peek();
        self.at += skip;
        self.peek();
        Ok(Term::Label { key: word, value: self.pattern("the value of a label")?, is })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::name::{GroupName, HostName, Labels};

    struct Host(HostName, Labels, BTreeSet<GroupName>);

    fn host(name: &str, labels: &[(&str, &str)], groups: &[&str]) -> Host {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let groups = groups.iter().map(|g| GroupName::new(g).expect("a name")).collect();
        Host(HostName::new(name).expect("a name"), Labels::new(labels).expect("labels"), groups)
    }

    fn fleet() -> Vec<Host> {
        vec![
            host("web1", &[("role", "web"), ("site", "fra")], &["web", "prod"]),
            host("web2", &[("role", "web"), ("site", "ams")], &["web", "prod"]),
            host("db1", &[("role", "db"), ("site", "fra")], &["db", "prod"]),
            host("db21", &[("role", "db")], &["db"]),
            host("lone", &[], &[]),
        ]
    }

    fn meant(selector: &Selector, host: HostFacts<'_>) -> bool {
        let mut steps = Steps::UNBOUNDED;
        selector.matches(host, &mut steps).expect("enough steps")
    }

    fn chosen(text: &str) -> Vec<String> {
        let selector = Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let fleet = fleet();
        let facts = fleet.iter().map(|Host(name, labels, groups)| HostFacts { name, labels, groups });
        facts.filter(|host| meant(&selector, *host)).map(|host| host.name.to_string()).collect()
    }

    #[test]
    fn names_groups_and_labels() {
        assert_eq!(chosen("web1"), ["web1"]);
        assert_eq!(chosen("web*"), ["web1", "web2"]);
        assert_eq!(chosen("web"), ["web1", "web2"], "a group");
        assert_eq!(chosen("@prod"), ["web1", "web2", "db1"]);
        assert_eq!(chosen("@web1"), [""; 0], "no group");
        assert_eq!(chosen("role=web"), ["web1", "web2"]);
        assert_eq!(chosen("site!=fra"), ["web2", "db21", "lone"], "another value, or none");
        assert_eq!(chosen("site=*"), ["web1", "web2", "db1"], "any value");
        assert_eq!(chosen("all").len(), 5);
    }

    #[test]
    fn combinations() {
        assert_eq!(chosen("role=web & site!=fra | db[1:20]"), ["web2", "db1"], "& binds more than |");
        assert_eq!(chosen("role=web & (site!=fra | web1)"), ["web1", "web2"]);
        assert_eq!(chosen("!@prod"), ["db21", "lone"]);
        assert_eq!(chosen("all & !role=db & !(lone)"), ["web1", "web2"]);
        assert_eq!(chosen("web1,db1"), ["web1", "db1"]);
        assert_eq!(chosen(" role = web&site != ams "), ["web1"]);
    }

    #[test]
    fn what_is_no_selector_is_said_and_where() {
        let wrong = |text: &str| Selector::parse(text).expect_err(text).to_string();
        let cases = [
            "",
            "role=",
            "=web",
            "role=web &",
            "(role=web",
            "role=web)",
            "a b",
            "db[1:2",
            "db[2:1]",
            "@",
            "!",
            "a & | b",
            "ro*le=web",
            "$(reboot)",
            "a;b",
            "a & vars.port=80",
            "host.vars.port!=80",
        ];
        let said: String = cases.iter().map(|text| format!("{text:12} {}\n", wrong(text))).collect();
        insta::assert_snapshot!(said);
        assert!(wrong(&"(".repeat(100)).contains("deeper than 64"));
        assert!(wrong(&"!".repeat(100)).contains("deeper than 64"));
        assert!(wrong(&"a|".repeat(10_000)).contains("at most 16384 bytes"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}") {
            if let Ok(selector) = Selector::parse(&text) {
                for Host(name, labels, groups) in &fleet() {
                    meant(&selector, HostFacts { name, labels, groups });
                }
            }
        }

        /// What a host costs: each term is tried at most once, and there are no more terms than characters.
        #[test]
        fn no_selector_has_more_terms_than_characters(text in "[ab*@=&|!()]{0,200}|(a[|&]){0,200}b|[(!]{0,70}a[)]{0,70}") {
            fn terms(term: &Term) -> usize {
                match term {
                    Term::Not(term) => 1 + terms(term),
                    Term::All(all) | Term::Any(all) => 1 + all.iter().map(terms).sum::<usize>(),
                    Term::Everybody | Term::Named(_) | Term::Group(_) | Term::Label { .. } => 1,
                }
            }
            if let Ok(selector) = Selector::parse(&text) {
                prop_assert!(terms(&selector.term) <= text.len(), "{}", text);
            }
        }

        /// Whatever the selector: it stops once its steps are used up, and with enough of them it says the same.
        #[test]
        fn no_selector_takes_more_steps_than_it_is_given(
            terms in proptest::collection::vec("@?[*ab?]{1,30}|l=[*ab]{1,30}|!\\(\\*a\\*b\\)", 1..60),
            given in 0u64..3_000,
            groups in 0usize..40,
        ) {
            let Ok(selector) = Selector::parse(&terms.join("|")) else { return Ok(()) };
            let name = "a".repeat(253);
            let groups: Vec<String> = (0..groups).map(|n| format!("{}{n}", "a".repeat(100))).collect();
            let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
            let Host(name, labels, groups) = host(&name, &[("l", &name)], &groups);
            let facts = HostFacts { name: &name, labels: &labels, groups: &groups };
            let mut needed = Steps::up_to(u64::MAX);
            let right = selector.matches(facts, &mut needed).expect("enough steps");
            let needed = u64::MAX - needed.left();
            let mut steps = Steps::up_to(given);
            match selector.matches(facts, &mut steps) {
                Ok(said) => prop_assert!(said == right && needed <= given && given - steps.left() == needed),
                Err(TooCostly) => prop_assert!(needed > given && steps.left() == 0),
            }
        }

        #[test]
        fn not_is_the_rest(text in "[a-z0-9*@=&|!() ]{1,20}") {
            if let (Ok(these), Ok(rest)) = (Selector::parse(&text), Selector::parse(&format!("!({text})"))) {
                for Host(name, labels, groups) in &fleet() {
                    let host = HostFacts { name, labels, groups };
                    prop_assert_ne!(meant(&these, host), meant(&rest, host));
                }
            }
        }
    }
}
