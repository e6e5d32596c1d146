//! The debugger, a key for each command.

use console::{Key, Term};

use super::session::{After, Session};
use super::words::{self, Wish};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Paint, Screen};

const KEYS: &str = "s step  c continue  r run to  b break  e edit  p pin  g graph  x context  f fork  w wait  : more  d detach  q quit  ? help";

/// What a key means.
enum Pressed {
    Wish(Wish),
    /// A line is to be typed: this begins it.
    Line(String),
    /// Nothing here.
    Unknown,
}

fn ask(question: &str) -> Result<String, Failure> {
    let term = Term::stderr();
    term.write_str(question).map_err(Failure::Output)?;
    Ok(term.read_line().map_err(Failure::Output)?.trim().to_owned())
}

/// Asks for what a key needs. Nothing typed is nothing wanted.
fn line(parts: &[(&str, &str)]) -> Result<Pressed, Failure> {
    let mut line = String::new();
    for (before, question) in parts {
        let answer = ask(question)?;
        if answer.is_empty() && !before.trim().starts_with("if") {
            return Ok(Pressed::Wish(Wish::Nothing));
        }
        if !answer.is_empty() {
            line.push_str(before);
            line.push_str(&answer);
        }
    }
    Ok(Pressed::Line(line))
}

fn read(session: &Session<'_>) -> Result<Pressed, Failure> {
    let wish = |wish| Ok(Pressed::Wish(wish));
    match Term::stderr().read_key_raw().map_err(Failure::Output)? {
        Key::Char('s' | ' ') => wish(Wish::Step),
        Key::Char('c') => wish(Wish::Continue),
        Key::Char('g') => wish(Wish::Graph),
        Key::Char('x') => Ok(match ask("which part (Enter for all): ")? {
            path if path.is_empty() => Pressed::Wish(Wish::Context(None)),
            path => Pressed::Wish(Wish::Context(Some(path))),
        }),
        Key::Char('r') => line(&[("run ", "run to which node: ")]),
        Key::Char('b') => line(&[("break ", "break before which node: "), (" if ", "only if (Enter for always): ")]),
        Key::Char('e') => {
            line(&[("edit ", "which variable: "), ("=", "its value, as JSON or text: "), (" because ", "why: ")])
        }
        Key::Char('p') => line(&[("pin ", "pin which node: "), (" ", "its output, as JSON: ")]),
        Key::Char('f') => line(&[("fork ", "fork from which step, and NAME=VALUE to set: ")]),
        Key::Char('d') => wish(Wish::Detach),
        Key::Char('w') => wish(Wish::Wait),
        Key::Char(':') => line(&[("", ":")]),
        Key::Char('?' | 'h') => wish(Wish::Help),
        Key::Char('q') | Key::Escape if session.has_ended() => wish(Wish::Quit),
        Key::Char('q') | Key::Escape => {
            Ok(match ask("cancel the run as well? [y/N] ")?.to_ascii_lowercase().as_str() {
                "y" | "yes" => Pressed::Line("cancel".to_owned()),
                _ => Pressed::Wish(Wish::Quit),
            })
        }
        Key::CtrlC => wish(Wish::Quit),
        Key::Enter => wish(Wish::Nothing),
        _ => Ok(Pressed::Unknown),
    }
}

pub async fn serve(session: &mut Session<'_>, screen: &mut Screen) -> Result<Exit, Failure> {
    let hint = |screen: &mut Screen| {
        let hint = Paint::Quiet.on(KEYS, screen.color());
        screen.line(&hint)
    };
    hint(screen)?;
    loop {
        let wish = match read(session)? {
            Pressed::Wish(Wish::Nothing) => continue,
            Pressed::Wish(wish) => Ok(wish),
            Pressed::Line(line) => words::read(&line),
            Pressed::Unknown => {
                hint(screen)?;
                continue;
            }
        };
        let wish = match wish {
            Ok(wish) => wish,
            Err(what) => {
                screen.line(&what)?;
                continue;
            }
        };
        let leaves = wish == Wish::Cancel;
        match session.obey(screen, wish).await {
            Ok(After::Leave(exit)) => return Ok(exit),
            Ok(After::Stay) if leaves => return Ok(session.exit()),
            Ok(After::Stay) => {}
            Err(failure @ (Failure::Refused(_) | Failure::Usage(_))) => screen.notes().failure(&failure, false),
            Err(failure) => return Err(failure),
        }
        if session.has_ended() {
            let hint = Paint::Quiet.on("the run is over: x context  f fork  q quit", screen.color());
            screen.line(&hint)?;
        }
    }
}
