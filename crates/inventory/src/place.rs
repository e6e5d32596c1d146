//! Where in an inventory something is: a line, a path, or both.

use std::fmt;

/// Where something is, to be shown to people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// Counted from 1.
    pub line: Option<usize>,
    /// Such as `all.children.web.hosts`.
    pub path: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, &self.path) {
            (Some(line), Some(path)) => write!(f, "line {line}, {path}"),
            (Some(line), None) => write!(f, "line {line}"),
            (None, Some(path)) => f.write_str(path),
            (None, None) => f.write_str("the inventory"),
        }
    }
}

/// Where a reader is right now. Costs nothing until somebody asks for the [`Place`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct At<'a> {
    /// 0 where lines are not known.
    pub line: u32,
    pub path: Option<&'a Path<'a>>,
}

/// The way from the top to here, from the last step to the first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path<'a> {
    before: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(crate) fn top(key: &'a str) -> Self {
        Self { before: None, step: Step::Key(key) }
    }

    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self { before: Some(self), step: Step::Key(key) }
    }

    pub(crate) fn index(&'a self, index: usize) -> Self {
        Self { before: Some(self), step: Step::Index(index) }
    }

    pub(crate) fn at(&'a self, line: u32) -> At<'a> {
        At { line, path: Some(self) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(before) = self.before {
            before.fmt(f)?;
        }
        match self.step {
            Step::Key(key) if self.before.is_some() => write!(f, ".{}", Shown(key)),
            Step::Key(key) => write!(f, "{}", Shown(key)),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl At<'_> {
    pub(crate) fn line(line: u32) -> At<'static> {
        At { line, path: None }
    }

    pub(crate) fn place(self) -> Place {
        let line = usize::try_from(self.line).ok().filter(|line| *line > 0);
        Place { line, path: self.path.map(ToString::to_string) }
    }
}

/// Somebody else's text inside a message of ours: without control characters, and not longer than a line.
pub(crate) struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX: usize = 80;
        for (count, character) in self.0.chars().enumerate() {
            if count == MAX {
                return f.write_str("…");
            }
            if harmless(character) {
                write!(f, "{character}")?;
            } else {
                write!(f, "{}", character.escape_unicode())?;
            }
        }
        Ok(())
    }
}

/// Neither moves the cursor nor turns the direction of the text.
fn harmless(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_said_with_what_is_known_of_it() {
        let (all, children) = (Path::top("all"), "children");
        let path = all.key(children);
        let path = path.key("web");
        let third = path.index(3);
        assert_eq!(third.at(7).place().to_string(), "line 7, all.children.web[3]");
        assert_eq!(third.at(0).place().to_string(), "all.children.web[3]");
        assert_eq!(At::line(7).place().to_string(), "line 7");
        assert_eq!(At::default().place().to_string(), "the inventory");
    }

    #[test]
    fn a_foreign_text_cannot_move_the_cursor_or_fill_the_screen() {
        assert_eq!(Shown("a\u{1b}[2Jb\u{202e}").to_string(), "a\\u{1b}[2Jb\\u{202e}");
        assert_eq!(Shown(&"x".repeat(200)).to_string().chars().count(), 81);
    }
}
