//! One text, and the words of a command in it.
//!
//! A text is split as a shell would split it, and no shell ever sees it: quotes and backslashes keep words together, and
//! nothing is expanded. A text that only means something to a shell is therefore refused, instead of being run as
//! something its writer did not mean.

/// Characters that a shell acts upon wherever they stand bare.
const BARE: &[char] = &['|', ';', '<', '>', '&', '(', ')', '$', '`', '*', '\n'];
/// Characters that a shell acts upon even between double quotes.
const QUOTED: &[char] = &['$', '`'];

/// Why a text cannot be split into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotWords {
    #[error("there is no command in it")]
    Empty,
    #[error("a {0} is never closed")]
    Open(char),
    #[error("it ends with a backslash")]
    Backslash,
    #[error("{0:?} means something to a shell, and no shell reads this")]
    Shell(char),
}

/// The words of a text.
pub fn split(text: &str) -> Result<Vec<String>, NotWords> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.trim().chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or(NotWords::Open('\''))? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or(NotWords::Open('"'))? {
                        '"' => break,
                        '\\' => match chars.next().ok_or(NotWords::Open('"'))? {
                            c @ ('"' | '\\' | '$' | '`') => word.push(c),
                            '\n' => {}
                            c => word.extend(['\\', c]),
                        },
                        c if QUOTED.contains(&c) => return Err(NotWords::Shell(c)),
                        c => word.push(c),
                    }
                }
            }
            '\\' => match chars.next().ok_or(NotWords::Backslash)? {
                '\n' => {}
                c => word.get_or_insert_default().push(c),
            },
            c if BARE.contains(&c) => return Err(NotWords::Shell(c)),
            // At the beginning of a word these stand for a home directory and for a remark.
            '~' | '#' if word.is_none() => return Err(NotWords::Shell(c)),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.first().is_none_or(|program| program.trim().is_empty()) { Err(NotWords::Empty) } else { Ok(words) }
}

/// Words as one text that can be split again; for people to read.
pub fn join<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() {
            text.push(' ');
        }
        let word = word.as_ref();
        let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,^{}?[]".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            text.push_str(word);
        } else {
            text.push_str(&format!("'{}'", word.replace('\'', r"'\''")));
        }
    }
    text
}

/// The word as a command type writes it when nothing in it is a place to fill.
pub fn literal(word: &str) -> String {
    word.replace("{{", r#"{{ "{{" }}"#)
}

#[cfg(test)]
mod tests {
    use bowline_model::fleet::{HostScope, Scope, Template};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        for (text, words) in [
            ("uptime", vec!["uptime"]),
            ("  systemctl   restart\tnginx ", vec!["systemctl", "restart", "nginx"]),
            ("echo 'a  b' \"c d\"e\\ f", vec!["echo", "a  b", "c de f"]),
            ("echo '' \"\"", vec!["echo", "", ""]),
            (r#"echo "a \"b\" \n \\ \$HOME""#, vec!["echo", r#"a "b" \n \ $HOME"#]),
            ("echo '$HOME | *' a~b a#b", vec!["echo", "$HOME | *", "a~b", "a#b"]),
            ("find / -name '*.log' \\;", vec!["find", "/", "-name", "*.log", ";"]),
        ] {
            assert_eq!(split(text).unwrap(), words, "{text}");
        }
    }

    #[test]
    fn what_only_a_shell_understands_is_refused() {
        for (text, c) in [
            ("ps aux | grep x", '|'),
            ("a; b", ';'),
            ("a > b", '>'),
            ("a < b", '<'),
            ("a &", '&'),
            ("echo $HOME", '$'),
            ("echo \"$HOME\"", '$'),
            ("echo `id`", '`'),
            ("ls *.log", '*'),
            ("(a)", '('),
            ("a\nb", '\n'),
            ("ls ~/x", '~'),
            ("a # why", '#'),
        ] {
            assert_eq!(split(text), Err(NotWords::Shell(c)), "{text}");
        }
        assert_eq!(split("echo 'a"), Err(NotWords::Open('\'')));
        assert_eq!(split("echo \"a"), Err(NotWords::Open('"')));
        assert_eq!(split("echo \\"), Err(NotWords::Backslash));
        assert_eq!([split(""), split(" \t"), split("''")], [const { Err(NotWords::Empty) }; 3]);
    }

    proptest! {
        #[test]
        fn joined_words_are_split_into_the_same_words(words in prop::collection::vec("\\PC{0,12}|[a-z '\"\\\\$|*~#\n]{0,8}", 1..6)) {
            prop_assume!(!words[0].trim().is_empty());
            prop_assert_eq!(split(&join(&words)), Ok(words));
        }

        #[test]
        fn a_literal_word_reaches_its_host_as_it_is(word in "[{}\" a.]{0,16}") {
            let template = Template::parse(&literal(&word)).unwrap();
            let scope = Scope { params: &serde_json::Map::new(), host_name: "h", host: &HostScope::default() };
            prop_assert_eq!(template.fill(&scope).unwrap(), word);
        }
    }
}
