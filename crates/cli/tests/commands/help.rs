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
