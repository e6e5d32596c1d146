//! What the command line says about itself. A changed line here is a changed promise.

use clap::CommandFactory;

use crate::fake::Cli;

#[test]
fn the_commands_are_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn the_help_texts_are_stable() {
    let mut text = String::new();
    tell(Cli::command().term_width(110), "bowline", &mut text);
    insta::assert_snapshot!(text);
}

/// A paragraph is one line, which is wrapped where the terminal ends; a line broken by hand is broken twice.
#[test]
fn paragraphs_of_help_are_not_broken_by_hand() {
    fn walk(command: &clap::Command, path: &str, broken: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let prose = |line: &str| !line.trim().is_empty() && !line.starts_with(' ') && !line.ends_with(':');
        let lines: Vec<&str> = help.lines().collect();
        for pair in lines.windows(2).filter(|pair| prose(pair[0]) && prose(pair[1])) {
            broken.push(format!("{path}: {}", pair[0]));
        }
        for line in lines.iter().filter(|line| line.starts_with(' ') && line.chars().count() > 100) {
            broken.push(format!("{path}: longer than 100: {line}"));
        }
        for sub in command.get_subcommands() {
            walk(sub, &format!("{path} {}", sub.get_name()), broken);
        }
    }
    let mut broken = Vec::new();
    walk(&Cli::command(), "bowline", &mut broken);
    assert!(broken.is_empty(), "{broken:#?}");
}

fn tell(mut command: clap::Command, name: &str, text: &mut String) {
    command.build();
    // The options that all share are told once.
    let mut own = command.clone();
    if name != "bowline" {
        own = own
            .mut_args(|arg| if arg.get_help_heading() == Some("Connection and output") { arg.hide(true) } else { arg });
    }
    text.push_str(&format!("## {name}\n\n{}\n", own.render_help()));
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        tell(sub.clone().term_width(110), &format!("{name} {}", sub.get_name()), text);
    }
}
