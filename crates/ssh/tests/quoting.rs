//! Whatever an argument contains, it arrives as one argument, through sshd, the user's shell and ours.

mod common;

use bowline_ssh::RemoteCommand;
use bowline_testkit::Sshd;
use common::{pool, run, stdout_of, target};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Gives back its arguments, each followed by a NUL.
fn printf(words: &[String]) -> RemoteCommand {
    RemoteCommand::new(["printf", "%s\\0"].into_iter().map(str::to_owned).chain(words.iter().cloned()))
}

fn expected(words: &[String]) -> String {
    words.iter().map(|word| format!("{word}\0")).collect()
}

#[tokio::test]
async fn arguments_that_would_be_something_else_are_arguments() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let words = [
        "",
        " ",
        "; touch x",
        "$(id)",
        "`id`",
        "a\nb",
        "'",
        "''",
        "\"",
        "\\",
        "\\\\",
        "\\'",
        "*",
        "?",
        "~",
        "~root",
        "-n",
        "--",
        "-",
        "#",
        "!",
        "!!",
        "&",
        "|",
        ">x",
        "<x",
        "$HOME",
        "${HOME}",
        "$$",
        "a=b",
        "=ls",
        "{a,b}",
        "[a-z]",
        "\t",
        "\r\n",
        "\u{1b}[31m",
        "é",
        "日本語",
        "\u{1f980}",
        "%s",
        "\\n",
        "\\0",
        "(",
        ")",
        "^",
        "a b",
        "%d\\x41",
    ];
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    assert_eq!(stdout_of(&pool, &target, &printf(&words)).await, expected(&words));
}

#[tokio::test]
async fn random_arguments_arrive_as_they_are() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let mut runner = TestRunner::deterministic();
    let nasty = prop::sample::select(b"'\"\\$`!*?[]{}()<>|&;#~=% \t\n\r-".to_vec())
        .prop_map(|byte| char::from(byte).to_string());
    let any = "[^\0]{1,3}".prop_map(String::from);
    let word = prop::collection::vec(prop_oneof![nasty, any], 0..12).prop_map(|parts| parts.concat());
    let batch = prop::collection::vec(word, 200);
    for _ in 0..20 {
        let words = batch.new_tree(&mut runner).unwrap().current();
        assert_eq!(stdout_of(&pool, &target, &printf(&words)).await, expected(&words));
    }
}

#[tokio::test]
async fn a_long_argument_arrives_whole_and_one_too_long_is_refused() {
    let server = Sshd::start();
    let (pool, target) = (pool(&server), target(&server));
    let long = vec!["x y".repeat(35_000)];
    assert_eq!(stdout_of(&pool, &target, &printf(&long)).await, expected(&long));
    let (end, _) = run(&pool, &target, &printf(&["x".repeat(200_000)])).await;
    assert_eq!(end.unwrap_err().effect(), bowline_ssh::Effect::None);
}
