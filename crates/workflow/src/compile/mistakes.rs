//! What is wrong, gathered; and how to say where and what was meant.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::MISTAKES_MAX;
use crate::program::DefinitionMistake;

/// What is wrong with a definition, as far as it fits.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(Vec<DefinitionMistake>);

impl Mistakes {
    pub fn add(&mut self, path: impl Into<String>, what: impl Into<String>) {
        if !self.is_full() {
            self.0.push(DefinitionMistake { path: path.into(), what: what.into() });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether nobody will read more. Whoever would have to work for a mistake need not.
    pub fn is_full(&self) -> bool {
        self.0.len() >= MISTAKES_MAX
    }

    pub fn into_list(self) -> Vec<DefinitionMistake> {
        self.0
    }
}

/// The path to what a JSON pointer points to: `nodes[3].config` and `/lines/0/name` is `nodes[3].config.lines[0].name`.
pub(crate) fn path_under(base: &str, pointer: &str) -> String {
    let mut path = base.to_owned();
    for key in pointer.split('/').skip(1) {
        let key = key.replace("~1", "/").replace("~0", "~");
        if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit()) {
            path.push_str(&format!("[{key}]"));
        } else {
            path.push('.');
            path.push_str(&key);
        }
    }
    path
}

/// Reads what stands at a path. The place of a mistake goes as deep as the reader came.
pub(crate) fn read_at<T: DeserializeOwned>(base: &str, value: Value, mistakes: &mut Mistakes) -> Option<T> {
    match serde_path_to_error::deserialize(value) {
        Ok(read) => Some(read),
        Err(error) => {
            let inner = error.path().to_string();
            let path = match inner.as_str() {
                "." => base.to_owned(),
                inner if base.is_empty() || inner.starts_with('[') => format!("{base}{inner}"),
                inner => format!("{base}.{inner}"),
            };
            mistakes.add(path, bowline_model::wording::in_plain_words(&error.inner().to_string()));
            None
        }
    }
}

/// Says that there is no such name, and which one may have been meant.
pub(crate) fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    unknown_or(what, name, known, "")
}

/// The same, with something to say if nothing else is near.
pub(super) fn unknown_or<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>, or: &str) -> String {
    match nearest(name, known) {
        Some(near) => format!("{what} `{}`; did you mean `{near}`?", shown(name)),
        None => format!("{what} `{}`{or}", shown(name)),
    }
}

/// The known name that is nearest, if one is near. Looks at few and short ones only: a definition may have many.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const BYTES_MAX: usize = 48;
    const LOOKED_AT_MAX: usize = 500;
    if name.len() > BYTES_MAX {
        return None;
    }
    let far = (name.chars().count() / 3).clamp(1, 3);
    let near =
        known.into_iter().filter(|known| known.len() <= BYTES_MAX && known.len().abs_diff(name.len()) <= 2 * far);
    near.take(LOOKED_AT_MAX)
        .map(|known| (strsim::osa_distance(name, known), known))
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// What somebody wrote, short enough for a message.
pub(super) fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 80;
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((cut, _)) => text[..cut].chars().map(printable).chain(['…']).collect(),
        None => text.chars().map(printable).collect(),
    }
}
