//! How what was written is laid out: under headings, behind prefixes, or as JSON.

use super::pump::Source;
use crate::failure::Failure;
use crate::output::harmless::Harmless;
use crate::output::{Paint, Screen, Text};

/// A line longer than this is printed before its end is known.
const LINE_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Each stream under a heading; `host` says whether the first stream needs one.
    Headings { host: bool },
    /// Each line behind its host; `host` says whether there is more than one.
    Prefix { host: bool },
    /// A document for each piece.
    Json,
}

/// What is known about one source while it is printed.
#[derive(Debug)]
struct Column {
    host: Text,
    stream: &'static str,
    filter: Option<Harmless>,
    wrote: bool,
    /// The beginning of a line that has not ended.
    line: Vec<u8>,
}

/// Where everything is printed.
#[derive(Debug)]
pub struct Paper {
    layout: Layout,
    color: bool,
    columns: Vec<Column>,
    wrote: bool,
    /// The last thing printed ended its line.
    at_line_start: bool,
}

impl Paper {
    pub fn new(layout: Layout, screen: &Screen, raw: bool, sources: &[Source]) -> Self {
        let harmless = screen.is_terminal() && !raw;
        let columns = sources.iter().map(|source| Column {
            host: Text::new(&source.host),
            stream: source.stream,
            filter: harmless.then(|| Harmless::new(screen.color())),
            wrote: false,
            line: Vec::new(),
        });
        Self { layout, color: screen.color(), columns: columns.collect(), wrote: false, at_line_start: true }
    }

    pub fn wrote(&self) -> bool {
        self.wrote
    }

    /// Ends what stands under headings, so that what follows is apart from it.
    pub fn finish(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        screen.text(if self.at_line_start { "\n" } else { "\n\n" })
    }

    pub fn take(&mut self, screen: &mut Screen, at: usize, bytes: &[u8]) -> Result<(), Failure> {
        let Some(column) = self.columns.get_mut(at) else { return Ok(()) };
        let bytes = match (&mut column.filter, self.layout) {
            (Some(filter), Layout::Headings { .. } | Layout::Prefix { .. }) => filter.push(bytes).into_bytes(),
            _ => bytes.to_vec(),
        };
        self.put(screen, at, bytes)
    }

    /// One source is done.
    pub fn end(&mut self, screen: &mut Screen, at: usize) -> Result<(), Failure> {
        let Some(column) = self.columns.get_mut(at) else { return Ok(()) };
        let rest = column.filter.as_mut().map(Harmless::finish).unwrap_or_default();
        if !rest.is_empty() {
            self.put(screen, at, rest.into_bytes())?;
        }
        let line = self.columns.get_mut(at).map(|column| std::mem::take(&mut column.line)).unwrap_or_default();
        if !line.is_empty() {
            self.line(screen, at, &line)?;
        }
        Ok(())
    }

    fn put(&mut self, screen: &mut Screen, at: usize, bytes: Vec<u8>) -> Result<(), Failure> {
        if bytes.is_empty() {
            return Ok(());
        }
        let layout = self.layout;
        let Some(column) = self.columns.get_mut(at) else { return Ok(()) };
        match layout {
            Layout::Json => {
                let text = String::from_utf8_lossy(&bytes);
                let piece = serde_json::json!({ "host": column.host.as_str(), "stream": column.stream, "text": text });
                self.wrote = true;
                screen.json_line(&piece.to_string())
            }
            Layout::Prefix { .. } => {
                let mut bytes = bytes.as_slice();
                while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
                    let Some(column) = self.columns.get_mut(at) else { return Ok(()) };
                    let mut line = std::mem::take(&mut column.line);
                    line.extend_from_slice(&bytes[..end]);
                    self.line(screen, at, &line)?;
                    bytes = &bytes[end + 1..];
                }
                let Some(column) = self.columns.get_mut(at) else { return Ok(()) };
                column.line.extend_from_slice(bytes);
                if column.line.len() > LINE_BYTES_MAX {
                    let line = std::mem::take(&mut column.line);
                    self.line(screen, at, &line)?;
                }
                Ok(())
            }
            Layout::Headings { host } => {
                if !std::mem::replace(&mut column.wrote, true) && (host || (column.stream == "stderr" && self.wrote)) {
                    let stream = if column.stream == "stderr" { " stderr" } else { "" };
                    let heading = Paint::Strong.on(&format!("==> {}{stream} <==", column.host), self.color);
                    let apart = match (self.wrote, self.at_line_start) {
                        (false, _) => "",
                        (true, true) => "\n",
                        (true, false) => "\n\n",
                    };
                    screen.text(&format!("{apart}{heading}\n"))?;
                }
                self.wrote = true;
                self.at_line_start = bytes.ends_with(b"\n");
                screen.bytes(&bytes)
            }
        }
    }

    /// One line behind its prefix.
    fn line(&mut self, screen: &mut Screen, at: usize, line: &[u8]) -> Result<(), Failure> {
        let (Layout::Prefix { host }, Some(column)) = (self.layout, self.columns.get(at)) else { return Ok(()) };
        let mut words = Vec::new();
        if host {
            words.push(column.host.as_str());
        }
        if column.stream == "stderr" {
            words.push("stderr");
        }
        let mut out = match words.is_empty() {
            true => Vec::new(),
            false => Paint::Quiet.on(&format!("{} | ", words.join(" ")), self.color).into_bytes(),
        };
        out.extend_from_slice(line);
        out.push(b'\n');
        self.wrote = true;
        screen.bytes(&out)
    }
}
