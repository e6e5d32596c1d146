//! Which paths an expression names, so that a definition can be checked before anything runs.

use std::fmt;

use super::{error::Place, scope::Root};

/// A path that stands in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub root: Root,
    /// The keys behind the root, as far as they are written down: `steps[variables.which].output` has none.
    pub keys: Vec<String>,
    /// Somebody thought of its absence: it is the first argument of `default`, or of `is defined`.
    pub optional: bool,
    pub place: Place,
}

impl Reference {
    /// The step that is named, if one is.
    pub fn step(&self) -> Option<&str> {
        self.first_key(Root::Steps)
    }

    /// The variable that is named, if one is.
    pub fn variable(&self) -> Option<&str> {
        self.first_key(Root::Variables)
    }

    fn first_key(&self, root: Root) -> Option<&str> {
        self.keys.first().filter(|_| self.root == root).map(String::as_str)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.root.name())?;
        self.keys.iter().try_for_each(|key| write!(f, ".{key}"))
    }
}

/// Counts the lines and columns of references that stand in the order of the text, all in one walk.
pub(super) fn count_lines(references: &mut [Reference], source: &str) {
    let (mut offset, mut line, mut column) = (0, 1, 1);
    for reference in references {
        let place = &mut reference.place;
        for character in source.get(offset..place.offset).unwrap_or_default().chars() {
            (line, column) = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        offset = place.offset;
        (place.line, place.column) = (line, column);
    }
}
