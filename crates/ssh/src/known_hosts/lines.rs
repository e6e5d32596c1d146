//! The lines of a `known_hosts` file: `[@marker] names type key [comment]`.
//!
//! Names are a comma-separated list of plain names, patterns with `*` and `?`, patterns to exclude with `!`, or one name
//! that was hashed, so that who steals the file does not learn the hosts.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use super::HostKey;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Key,
    Revoked,
    Authority,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// Counted from one.
    pub line: usize,
    pub kind: Kind,
    pub key: HostKey,
    names: Names,
}

#[derive(Debug)]
enum Names {
    Plain(Vec<String>),
    Patterns(Vec<Pattern>),
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
}

#[derive(Debug)]
struct Pattern {
    excludes: bool,
    text: String,
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    entries: Vec<Entry>,
    /// Where plain names are found without going through all lines.
    plain: HashMap<String, Vec<usize>>,
    /// Entries one has to go through.
    others: Vec<usize>,
    not_understood: Vec<usize>,
}

impl Lines {
    pub fn parse(text: &str) -> Self {
        let mut lines = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some(entry) = entry(number + 1, line) else {
                lines.not_understood.push(number + 1);
                continue;
            };
            let place = lines.entries.len();
            match &entry.names {
                Names::Plain(names) => {
                    for name in names {
                        lines.plain.entry(name.clone()).or_default().push(place);
                    }
                }
                Names::Patterns(_) | Names::Hashed { .. } => lines.others.push(place),
            }
            lines.entries.push(entry);
        }
        lines
    }

    /// What is said about a host, whose name is in lower case.
    pub fn about<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a Entry> {
        let plain = self.plain.get(host).into_iter().flatten();
        let others = self.others.iter().filter(move |place| self.entries[**place].names.include(host));
        plain.chain(others).map(|place| &self.entries[*place])
    }

    pub fn not_understood(&self) -> &[usize] {
        &self.not_understood
    }
}

fn entry(line: usize, text: &str) -> Option<Entry> {
    let mut words = text.split_whitespace();
    let mut names = words.next()?;
    let mut kind = Kind::Key;
    if names.starts_with('@') {
        kind = match names {
            "@revoked" => Kind::Revoked,
            "@cert-authority" => Kind::Authority,
            _ => return None,
        };
        names = words.next()?;
    }
    let algorithm = words.next()?.to_owned();
    let blob = STANDARD.decode(words.next()?).ok().filter(|blob| !blob.is_empty())?;
    Some(Entry { line, kind, key: HostKey { algorithm, blob }, names: Names::parse(names)? })
}

impl Names {
    fn parse(text: &str) -> Option<Self> {
        if let Some(hashed) = text.strip_prefix("|1|") {
            let (salt, hash) = hashed.split_once('|')?;
            return Some(Self::Hashed { salt: STANDARD.decode(salt).ok()?, hash: STANDARD.decode(hash).ok()? });
        }
        if text.starts_with('|') {
            return None;
        }
        let names = text.split(',').filter(|name| !name.is_empty()).map(str::to_ascii_lowercase);
        if !text.contains(['*', '?', '!']) {
            return Some(Self::Plain(names.collect()));
        }
        let pattern = |name: String| match name.strip_prefix('!') {
            Some(text) => Pattern { excludes: true, text: text.to_owned() },
            None => Pattern { excludes: false, text: name },
        };
        Some(Self::Patterns(names.map(pattern).collect()))
    }

    fn include(&self, host: &str) -> bool {
        match self {
            Self::Plain(names) => names.iter().any(|name| name == host),
            Self::Patterns(patterns) => {
                let meant = |excludes| patterns.iter().any(|p| p.excludes == excludes && matches(&p.text, host));
                meant(false) && !meant(true)
            }
            Self::Hashed { salt, hash } => {
                let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
                hmac::verify(&key, host.as_bytes(), hash).is_ok()
            }
        }
    }
}

/// `*` is any text, `?` any one character, everything else is itself.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on if what the last star has taken so far was not enough.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star.as_mut() {
                Some((after, taken)) => {
                    *taken += 1;
                    (p, t) = (*after, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts_in(text: &str, host: &str) -> Vec<usize> {
        Lines::parse(text).about(host).map(|entry| entry.line).collect()
    }

    #[test]
    fn patterns_match_as_in_openssh() {
        for (pattern, text) in [("*", ""), ("a*", "abc"), ("*.b.c", "a.b.c"), ("a?c", "abc"), ("*a*b*", "xxaxxbxx")] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a?", "a"), ("*.b", "a.c"), ("a*b", "a"), ("?", "")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_name_that_is_excluded_is_not_meant() {
        let text = "*.example,!bad.example ssh-ed25519 AAAA\n";
        assert_eq!(hosts_in(text, "good.example"), [1]);
        assert!(hosts_in(text, "bad.example").is_empty());
        assert!(hosts_in("!bad.example ssh-ed25519 AAAA\n", "good.example").is_empty());
    }

    #[test]
    fn names_with_ports_and_upper_case_are_found() {
        let text = "# a comment\n\n[Web.Example]:2222,10.0.0.1 ssh-ed25519 AAAA me@here\n";
        assert_eq!(hosts_in(text, "[web.example]:2222"), [3]);
        assert_eq!(hosts_in(text, "10.0.0.1"), [3]);
        assert!(hosts_in(text, "web.example").is_empty());
    }

    #[test]
    fn hashed_names_are_found() {
        // `ssh-keygen -H` made this of "[127.0.0.1]:2222".
        let text = include_str!("hashed.txt");
        assert_eq!(hosts_in(text, "[127.0.0.1]:2222"), [1]);
        assert!(hosts_in(text, "127.0.0.1").is_empty());
    }

    #[test]
    fn lines_that_are_not_understood_are_told_and_left_out() {
        let text =
            "a ssh-ed25519\na ssh-ed25519 %%%\n@what a ssh-ed25519 AAAA\n|2|x|y ssh-ed25519 AAAA\nb ssh-ed25519 AAAA\n";
        assert_eq!(Lines::parse(text).not_understood(), [1, 2, 3, 4]);
        assert_eq!(hosts_in(text, "b"), [5]);
    }
}
