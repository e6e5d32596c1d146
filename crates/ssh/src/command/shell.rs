//! Words a shell reads as what they are.

/// Appends `word`, quoted, and a space before it unless it is the first.
///
/// The first shell to read it is the user's own, which is not always a POSIX shell. So a backslash stands outside of the
/// quotes, as fish would take it for an escape inside of them.
pub(super) fn push(line: &mut String, word: &str) {
    if !line.is_empty() {
        line.push(' ');
    }
    if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./:-".contains(&byte)) {
        line.push_str(word);
        return;
    }
    line.push('\'');
    for character in word.chars() {
        match character {
            '\'' => line.push_str(r"'\''"),
            '\\' => line.push_str(r"'\\'"),
            _ => line.push(character),
        }
    }
    line.push('\'');
}

/// Appends `value` as one line of a script for a POSIX shell, in which the variable [`LINE_BREAK`] holds a line break.
pub(super) fn push_one_line(script: &mut String, value: &str) {
    script.push('\'');
    for character in value.chars() {
        match character {
            '\'' => script.push_str(r"'\''"),
            '\n' => {
                script.push_str("'\"$");
                script.push_str(LINE_BREAK);
                script.push_str("\"'");
            }
            _ => script.push(character),
        }
    }
    script.push('\'');
}

pub(super) const LINE_BREAK: &str = "bowline_n";

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn quoted(words: &[&str]) -> String {
        let mut line = String::new();
        words.iter().for_each(|word| push(&mut line, word));
        line
    }

    #[test]
    fn plain_words_stay_readable() {
        assert_eq!(quoted(&["ls", "-l", "/tmp/a_b.c"]), "ls -l /tmp/a_b.c");
        assert_eq!(quoted(&["", "it's", r"a\b", "=x", "~", "$(id)"]), r"'' 'it'\''s' 'a'\\'b' '=x' '~' '$(id)'");
    }

    #[test]
    fn a_value_becomes_one_line() {
        let mut script = String::new();
        push_one_line(&mut script, "a'b\nc\\");
        assert_eq!(script, "'a'\\''b'\"$bowline_n\"'c\\'");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_shell_gives_back_what_was_quoted(words in prop::collection::vec("[^\0]{0,20}", 1..20)) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let script = format!("printf '%s\\0' {}", quoted(&words));
            let output = Command::new("/bin/sh").arg("-c").arg(script).output().unwrap();
            let expected: Vec<u8> = words.iter().flat_map(|word| word.bytes().chain([0])).collect();
            prop_assert_eq!(output.stdout, expected);
        }
    }
}
