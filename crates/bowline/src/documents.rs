//! The documents show commands of this command line, so each of them must parse.

use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};

use super::Cli;

/// Markdown files that show commands.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs"), root.join("examples")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of documents") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The lines of fenced blocks that a shell would get, with continuations joined.
fn shell_lines(text: &str) -> Vec<(usize, String)> {
    let (mut lines, mut fence, mut joined) = (Vec::new(), None, String::new());
    for (at, line) in text.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language.trim().to_owned()) };
            continue;
        }
        let line = match fence.as_deref() {
            Some("sh") => line,
            // A transcript: what follows the prompt was typed.
            Some("console" | "text") => match line.strip_prefix("$ ") {
                Some(typed) => typed,
                None if !joined.is_empty() => line,
                None => continue,
            },
            _ => continue,
        };
        match line.strip_suffix('\\') {
            Some(begun) => joined.push_str(begun),
            None => lines.push((at + 1, std::mem::take(&mut joined) + line)),
        }
    }
    lines
}

/// The words of one call of this program; nothing where the line calls something else or leaves something out.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.push(c),
            (_, '\\') => word.extend(chars.next()),
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, is_word) = (Some(c), true),
            // The end of the call: a comment, a pipe, a redirection, the background, a next command.
            (None, '#') if !is_word => break,
            (None, '|' | '>' | '<' | '&' | ';' | ')') => break,
            (None, c) if c.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (None, c) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    // Settings in front of the program are for the shell.
    let program = words.iter().position(|word| !word.split_once('=').is_some_and(|(name, _)| is_variable(name)))?;
    let is_ours = matches!(words[program].as_str(), "bowline" | "target/release/bowline");
    let is_whole = !words.iter().any(|word| word.contains('…') || word == "...");
    let mut call = (is_ours && is_whole).then(|| words.split_off(program))?;
    // What stands for the id of a job.
    call.iter_mut()
        .filter(|word| matches!(word.as_str(), "ID" | "JOB" | "JOB_ID"))
        .for_each(|word| *word = "5003".into());
    Some(call)
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

#[test]
fn every_command_in_the_documents_is_one() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in documents() {
        let text = std::fs::read_to_string(&path).expect("a document");
        for (line, shown) in shell_lines(&text) {
            let Some(words) = words(&shown) else { continue };
            seen += 1;
            if let Err(error) = Cli::try_parse_from(&words)
                && error.use_stderr()
            {
                let name = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap_or(&path);
                let why = error.to_string();
                wrong.push(format!("{}:{line}: {shown}\n  {}", name.display(), why.lines().next().unwrap_or_default()));
            }
        }
    }
    assert!(seen > 100, "the documents show commands: {seen} were found");
    assert!(wrong.is_empty(), "{} of {seen} commands:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_command_is_in_the_guide() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/README.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let (_, table) = guide.split_once("\n## The command line\n").expect("the chapter about the command line");
    let missing: Vec<_> = Cli::command()
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .map(|command| command.get_name().to_owned())
        .filter(|name| !table.contains(&format!("`{name}")) && !table.contains(&format!(", {name}")))
        .collect();
    assert!(missing.is_empty(), "commands that the chapter leaves out: {missing:?}");
}
