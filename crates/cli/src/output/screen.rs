//! Where everything ends: results on standard output, remarks on standard error.
//!
//! Programs read standard output, so nothing but results goes there. Remarks ("trying again in 2s"), questions, progress
//! bars and errors go to standard error. Whoever prints hands over text that is clean already; JSON is made safe here.

use std::io::{BufRead, BufWriter, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bowline_inventory::document::to_yaml;
use bowline_model::Timestamp;
use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::choice::Output;
use super::facts::Facts;
use super::paint::Paint;
use super::table::{Cell, Column, Table};
use super::text::{Text, json_safe};
use super::time;
use crate::connection::Connection;
use crate::failure::Failure;

/// The two outputs, what is known about the terminal, and what time it is.
pub struct Screen {
    out: Box<dyn Write + Send>,
    notes: Notes,
    /// Where answers to questions come from; `None` when nobody is there to answer.
    answers: Option<Box<dyn BufRead + Send>>,
    json: bool,
    /// Standard output is a terminal, whether or not it knows how wide it is: a serial line does not.
    terminal: bool,
    output: Option<Output>,
    /// JSON that becomes YAML once a document is complete.
    yaml: Option<String>,
    width: Option<usize>,
    color: bool,
    live: bool,
    /// What is to take the place of everything on the terminal, all at once.
    picture: Option<String>,
    now: fn() -> Timestamp,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("json", &self.json).field("width", &self.width).finish_non_exhaustive()
    }
}

impl Screen {
    /// The process's own outputs.
    pub fn stdio(connection: &Connection) -> Self {
        let (out, err) = (std::io::stdout(), std::io::stderr());
        let wanted = !connection.no_color && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let (out_terminal, err_terminal) = (out.is_terminal(), err.is_terminal());
        let asks = err_terminal && std::io::stdin().is_terminal();
        Self {
            terminal: out_terminal,
            width: out_terminal.then(|| Term::stdout().size_checked().map(|(_, columns)| columns.into())).flatten(),
            color: wanted && out_terminal && !connection.wants_json(),
            live: out_terminal && err_terminal && !connection.wants_json(),
            notes: Notes::to(Box::new(err), wanted && err_terminal),
            out: Box::new(BufWriter::new(out)),
            answers: asks.then(|| Box::new(std::io::BufReader::new(std::io::stdin())) as _),
            json: connection.wants_json(),
            output: connection.output(),
            yaml: (connection.output() == Some(Output::Yaml)).then(String::new),
            picture: None,
            now: wall_clock,
        }
    }

    /// Outputs of the caller's own: no terminal, no colours, nobody to ask.
    pub fn to(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>, connection: &Connection) -> Self {
        Self {
            out,
            notes: Notes::to(err, false),
            answers: None,
            terminal: false,
            json: connection.wants_json(),
            output: connection.output(),
            yaml: (connection.output() == Some(Output::Yaml)).then(String::new),
            width: None,
            color: false,
            live: false,
            picture: None,
            now: wall_clock,
        }
    }

    /// Somebody is there, and these are the answers.
    #[must_use]
    pub fn answered_by(mut self, answers: Box<dyn BufRead + Send>) -> Self {
        self.answers = Some(answers);
        self
    }

    /// It is always this moment.
    #[must_use]
    pub fn at(mut self, now: fn() -> Timestamp) -> Self {
        self.now = now;
        self
    }

    /// Results are wanted as JSON.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Standard output and standard error are one terminal, so a status line can be kept up to date.
    pub(crate) fn live(&self) -> bool {
        self.live
    }

    /// Somebody looks at it.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub(crate) fn color(&self) -> bool {
        self.color
    }

    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// How results are wanted, where that was said.
    pub(crate) fn output(&self) -> Option<Output> {
        self.output
    }

    /// The same, for a command that prints YAML of its own.
    pub(crate) fn take_output(&mut self) -> Option<Output> {
        if self.output == Some(Output::Yaml) {
            (self.json, self.yaml) = (false, None);
        }
        self.output
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.now)()
    }

    pub(crate) fn notes(&self) -> Notes {
        self.notes.clone()
    }

    /// `3s ago`.
    pub(crate) fn ago(&self, moment: &Text) -> String {
        time::relative(moment, self.now())
    }

    /// Clean text for people. Programs, which asked for documents, get it as one.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        if !self.json {
            return self.put(text);
        }
        match text.trim() {
            "" => Ok(()),
            text => self.json_line(&serde_json::json!({ "message": text }).to_string()),
        }
    }

    /// A piece of a JSON document; the last one ends its line.
    pub(crate) fn json_piece(&mut self, json: &str) -> Result<(), Failure> {
        self.put(json)
    }

    fn put(&mut self, text: &str) -> Result<(), Failure> {
        let converted;
        let text = match &mut self.yaml {
            None => text,
            Some(waiting) => {
                waiting.push_str(text);
                // A document ends with its line; a list comes in pieces.
                let Some(value) = waiting.ends_with('\n').then(|| serde_json::from_str(waiting).ok()).flatten() else {
                    return Ok(());
                };
                waiting.clear();
                converted = format!("---\n{}", to_yaml(&value));
                &converted
            }
        };
        if let Some(picture) = &mut self.picture {
            picture.push_str(text);
            return Ok(());
        }
        self.bytes(text.as_bytes())
    }

    /// What follows takes the place of what is on the terminal; elsewhere it comes after what was there before.
    pub(crate) fn start_picture(&mut self, again: bool) -> Result<(), Failure> {
        if self.terminal && !self.json {
            self.picture = Some(String::new());
        } else if again && !self.json {
            self.line("")?;
        }
        // A command may have taken the choice of the output for itself.
        if self.output == Some(Output::Yaml) {
            (self.json, self.yaml) = (true, Some(String::new()));
        }
        Ok(())
    }

    pub(crate) fn end_picture(&mut self) -> Result<(), Failure> {
        let Some(picture) = self.picture.take() else { return Ok(()) };
        // To the first line, with everything after the cursor gone.
        self.bytes(format!("\x1b[H\x1b[2J{picture}").as_bytes())
    }

    /// Bytes as they are. The caller has made them harmless, or nobody's terminal reads them.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let out = &mut self.out;
        self.notes.around_bar(|| out.write_all(bytes).and_then(|()| out.flush())).map_err(Failure::Output)
    }

    /// One line of clean text.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.text(&format!("{text}\n"))
    }

    /// JSON as the server wrote it, and the end of the line. The caller has seen that it is JSON.
    pub(crate) fn json_line(&mut self, json: &str) -> Result<(), Failure> {
        self.put(&format!("{}\n", json_safe(json.trim_end())))
    }

    pub(crate) fn facts(&mut self, facts: &Facts) -> Result<(), Failure> {
        self.text(&facts.render(self.color))
    }

    /// A whole table.
    pub(crate) fn table(&mut self, columns: &[Column], rows: &[Vec<Cell>]) -> Result<(), Failure> {
        let text = Table::new(columns).render(rows, self.width, self.color);
        self.text(&text)
    }

    /// A remark beside the results, in clean text.
    pub(crate) fn note(&self, text: &str) {
        self.notes.say(text);
    }

    /// Whether somebody says yes. Without anybody to ask, the command itself was the yes.
    pub(crate) fn confirm(&mut self, question: &str) -> Result<bool, Failure> {
        let Some(answers) = &mut self.answers else { return Ok(true) };
        self.notes.ask(&format!("{question} [y/N] "));
        let mut answer = String::new();
        answers.read_line(&mut answer).map_err(Failure::Output)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// A progress bar over `total` things; invisible without a terminal.
    pub(crate) fn progress(&self, total: u64, what: &str) -> LiveBar {
        let bar = ProgressBar::with_draw_target(Some(total), self.draw_target());
        let template = "{msg} {wide_bar:.green/dim} {human_pos}/{human_len} {rate:.dim} {eta:.dim}";
        let plain = "{msg} {wide_bar} {human_pos}/{human_len} {rate} {eta}";
        if let Ok(style) = ProgressStyle::with_template(if self.color { template } else { plain }) {
            bar.set_style(style.with_key("rate", rate));
        }
        bar.set_message(what.to_owned());
        LiveBar::shown(bar, &self.notes)
    }

    /// A status of one or more lines, kept up to date below everything else; invisible without a terminal.
    pub(crate) fn status(&self) -> LiveBar {
        let bar = ProgressBar::with_draw_target(None, self.draw_target());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        if self.live {
            bar.enable_steady_tick(std::time::Duration::from_millis(120));
        }
        LiveBar::shown(bar, &self.notes)
    }

    /// A bar over hosts with words about them; invisible without a terminal.
    pub(crate) fn hosts_bar(&self, total: u64) -> LiveBar {
        let bar = ProgressBar::with_draw_target(Some(total), self.draw_target());
        let (painted, plain) = ("{bar:24.green/dim}", "{bar:24}");
        let template = format!(
            "{{spinner}} {} {{human_pos}}/{{human_len}} {{wide_msg}}",
            if self.color { painted } else { plain }
        );
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        if self.live {
            bar.enable_steady_tick(std::time::Duration::from_millis(120));
        }
        LiveBar::shown(bar, &self.notes)
    }

    fn draw_target(&self) -> ProgressDrawTarget {
        if self.live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
    }
}

/// How fast a bar moves, in whole things.
fn rate(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    let _ = write!(out, "{}/s", time::thousands(state.per_sec() as u64));
}

/// Something that moves at the bottom of the terminal. It disappears when it is dropped.
pub struct LiveBar {
    bar: ProgressBar,
    notes: Notes,
}

impl LiveBar {
    fn shown(bar: ProgressBar, notes: &Notes) -> Self {
        notes.with(|inner| inner.bar = Some(bar.clone()));
        Self { bar, notes: notes.clone() }
    }

    pub fn advance(&self, by: u64) {
        self.bar.inc(by);
    }

    pub fn say(&self, message: String) {
        self.bar.set_message(message);
    }

    /// How far it is, and what to say about it.
    pub fn at(&self, position: u64, message: String) {
        self.bar.set_position(position);
        self.bar.set_message(message);
    }
}

impl Drop for LiveBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        self.notes.with(|inner| inner.bar = None);
    }
}

/// Standard error, shared by whoever has something to remark.
#[derive(Clone)]
pub struct Notes(Arc<Mutex<NotesInner>>);

struct NotesInner {
    err: Box<dyn Write + Send>,
    color: bool,
    bar: Option<ProgressBar>,
}

impl Notes {
    fn to(err: Box<dyn Write + Send>, color: bool) -> Self {
        Self(Arc::new(Mutex::new(NotesInner { err, color, bar: None })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut NotesInner) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `write` while the bar is out of the way.
    fn around_bar<T>(&self, write: impl FnOnce() -> T) -> T {
        match self.with(|inner| inner.bar.clone()) {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// A remark in clean text. Where standard error is gone there is nobody left to tell.
    pub fn say(&self, text: &str) {
        self.say_as(Paint::Quiet, text);
    }

    /// Bytes as they are. The caller has made them harmless, or no terminal reads them.
    pub fn bytes(&self, bytes: &[u8]) {
        self.around_bar(|| {
            self.with(|inner| {
                let _ = inner.err.write_all(bytes);
                let _ = inner.err.flush();
            });
        });
    }

    /// A remark that looks like what it says.
    pub fn say_as(&self, paint: Paint, text: &str) {
        self.around_bar(|| {
            self.with(|inner| {
                let text = paint.on(text, inner.color);
                let _ = writeln!(inner.err, "{text}");
                let _ = inner.err.flush();
            });
        });
    }

    fn ask(&self, question: &str) {
        self.around_bar(|| {
            self.with(|inner| {
                let _ = write!(inner.err, "{question}");
                let _ = inner.err.flush();
            });
        });
    }

    /// What went wrong, and what may help.
    pub(crate) fn failure(&self, failure: &Failure, json: bool) {
        self.around_bar(|| {
            self.with(|inner| {
                let text = if json { failure.as_json() } else { failure.explain(inner.color) };
                let _ = writeln!(inner.err, "{}", text.trim_end());
                let _ = inner.err.flush();
            });
        });
    }
}

#[expect(clippy::disallowed_methods, reason = "the client's clock; what tests see of it comes in through `Screen::at`")]
fn wall_clock() -> Timestamp {
    Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
}
