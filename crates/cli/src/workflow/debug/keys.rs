//! The debugger, a key for each command.

use console::{Key, Term, measure_text_width};

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
    /// Nothing after all: back to the keys.
    Back,
    /// Nothing here.
    Unknown,
}

/// Reads a line key by key, so that Esc and Ctrl-C lead back to the keys: `None`.
fn ask(question: &str) -> Result<Option<String>, Failure> {
    let term = Term::stderr();
    let said = |done: std::io::Result<()>| done.map_err(Failure::Output);
    said(term.write_str(question))?;
    let mut line = String::new();
    loop {
        match typed(&mut line, &term.read_key_raw().map_err(Failure::Output)?) {
            Typed::Shows(text) => said(term.write_str(&text))?,
            Typed::Erases(columns) => said(term.clear_chars(columns))?,
            Typed::Nothing => {}
            Typed::Done => {
                said(term.write_line(""))?;
                return Ok(Some(line.trim().to_owned()));
            }
            Typed::Back => {
                said(term.write_line(""))?;
                return Ok(None);
            }
        }
    }
}

/// What a key does to the line that is typed.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    Shows(String),
    /// So many columns at the end.
    Erases(usize),
    Nothing,
    Done,
    Back,
}

fn typed(line: &mut String, key: &Key) -> Typed {
    const END_OF_INPUT: char = '\u{4}';
    const ERASE_LINE: char = '\u{15}';
    match key {
        Key::Enter => Typed::Done,
        Key::Escape | Key::CtrlC | Key::Char(END_OF_INPUT) => Typed::Back,
        Key::Backspace => line.pop().map_or(Typed::Nothing, |c| Typed::Erases(measure_text_width(&c.to_string()))),
        Key::Char(ERASE_LINE) => Typed::Erases(measure_text_width(&std::mem::take(line))),
        Key::Char(c) if !c.is_control() => {
            line.push(*c);
            Typed::Shows(c.to_string())
        }
        _ => Typed::Nothing,
    }
}

/// Asks for what a key needs. Nothing typed is nothing wanted.
fn line(parts: &[(&str, &str)]) -> Result<Pressed, Failure> {
    let mut line = String::new();
    for (before, question) in parts {
        let Some(answer) = ask(question)? else { return Ok(Pressed::Back) };
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
            None => Pressed::Back,
            Some(path) if path.is_empty() => Pressed::Wish(Wish::Context(None)),
            Some(path) => Pressed::Wish(Wish::Context(Some(path))),
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
            Ok(match ask("cancel the run as well? [y/N] ")?.map(|answer| answer.to_ascii_lowercase()).as_deref() {
                Some("y" | "yes") => Pressed::Line("cancel".to_owned()),
                Some(_) => Pressed::Wish(Wish::Quit),
                None => Pressed::Back,
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
            Pressed::Back | Pressed::Unknown => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_typed_key_by_key_and_can_be_left() {
        let mut line = String::new();
        assert_eq!(typed(&mut line, &Key::Char('é')), Typed::Shows("é".to_owned()));
        assert_eq!(typed(&mut line, &Key::Char('x')), Typed::Shows("x".to_owned()));
        assert_eq!(typed(&mut line, &Key::Backspace), Typed::Erases(1));
        assert_eq!(typed(&mut line, &Key::ArrowLeft), Typed::Nothing);
        assert_eq!((typed(&mut line, &Key::Enter), line.as_str()), (Typed::Done, "é"));
        for key in [Key::Escape, Key::CtrlC, Key::Char('\u{4}')] {
            assert_eq!(typed(&mut line, &key), Typed::Back, "{key:?}");
        }
        assert_eq!((typed(&mut line, &Key::Char('\u{15}')), line.as_str()), (Typed::Erases(1), ""));
        assert_eq!(typed(&mut line, &Key::Backspace), Typed::Nothing);
    }
}
