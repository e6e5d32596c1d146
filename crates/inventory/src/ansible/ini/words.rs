//! A line of a `hosts` file as words, the way a POSIX shell would split it: quotes, backslashes, comments.
//!
//! As in Ansible, a `#` begins a comment also in the middle of a word, unless it is in quotes.

/// Why a line has no words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotWords {
    OpenQuote,
    OpenEscape,
}

pub(crate) fn split(line: &str) -> Result<Vec<String>, NotWords> {
    let mut words = Vec::new();
    // `None` between words. An empty pair of quotes is a word, too.
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '#' => break,
            '\\' => word.get_or_insert_default().push(characters.next().ok_or(NotWords::OpenEscape)?),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or(NotWords::OpenQuote)? {
                        '\'' => break,
                        inside => word.push(inside),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or(NotWords::OpenQuote)? {
                        '"' => break,
                        '\\' => match characters.next().ok_or(NotWords::OpenEscape)? {
                            escaped @ ('"' | '\\') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        inside => word.push(inside),
                    }
                }
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// A word as it must be written.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_@%+=:,./-[]{}".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if !word.contains('\'') {
        return format!("'{word}'");
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_quotes_escapes_and_comments() {
        let words = |line| split(line).expect("words");
        assert_eq!(
            words(r#"web1 a=1  b='x y' c="x \"y\" \n" d=x\ y"#),
            ["web1", "a=1", "b=x y", r#"c=x "y" \n"#, "d=x y"]
        );
        assert_eq!(words("a=b#c d"), ["a=b"], "as in Ansible");
        assert_eq!(words("a='b#c' # d"), ["a=b#c"]);
        assert_eq!(words("a= '' \"\""), ["a=", "", ""]);
        assert_eq!(split("a='b"), Err(NotWords::OpenQuote));
        assert_eq!(split("a=b\\"), Err(NotWords::OpenEscape));
    }

    proptest! {
        #[test]
        fn a_quoted_word_is_one_word(word in "[^\r\n]{0,12}", other in "[-\"'\\\\# a$\t]{0,8}") {
            for word in [word, other] {
                prop_assert_eq!(split(&quote(&word)), Ok(vec![word]));
            }
        }
    }
}
