//! What is wrong with documents: told to people a line each, to programs as the list `errors`.

use std::fmt;

use serde_json::{Value, json};

use super::documents::{Document, Place};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Screen, Text};

/// One thing that is wrong, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub place: Place,
    /// Kind and name of the document, where it has them.
    pub about: Option<(String, String)>,
    /// Where in the document, from its top.
    pub path: Option<String>,
    pub what: String,
}

impl Wrong {
    /// Something about a document; `path` leads to it from the top, where that is known.
    pub fn with(document: &Document, path: Option<String>, what: String) -> Self {
        // The server's sentence often begins with the path.
        let said = path.as_ref().and_then(|path| what.strip_prefix(path.as_str())?.strip_prefix(": "));
        let what = said.unwrap_or(&what).to_owned();
        let about = Some((document.kind.clone(), document.name.clone()));
        Self { place: document.place_of(path.as_deref()), about, path, what }
    }

    fn as_json(&self) -> Value {
        let (kind, name) = self.about.as_ref().map(|(kind, name)| (kind, name)).unzip();
        json!({
            "file": self.place.file, "line": self.place.line, "kind": kind, "name": name, "path": self.path,
            "what": self.what,
        })
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What somebody wrote may be in it, but each error is one line.
        let what = self.what.replace(['\n', '\r'], " ");
        match &self.about {
            Some((kind, name)) => {
                let path = self.path.as_ref().map_or_else(String::new, |path| format!("{path}: "));
                write!(f, "{}: {kind} {name}: {path}{what}", self.place)
            }
            None => write!(f, "{}: {what}", self.place),
        }
    }
}

/// The list as programs get it.
pub fn as_json(wrong: &[Wrong]) -> Value {
    wrong.iter().map(Wrong::as_json).collect()
}

/// How it ends: a file that holds no documents is a wrong use of the command, the rest is refused by the server.
pub const fn exit(unreadable: &[Wrong]) -> Exit {
    if unreadable.is_empty() { Exit::Refused } else { Exit::Usage }
}

/// Tells all of it. To programs `result` is what else the command says.
pub fn tell(screen: &mut Screen, wrong: &[Wrong], mut result: Value, exit: Exit) -> Result<Exit, Failure> {
    if screen.json() {
        result["errors"] = as_json(wrong);
        screen.json_line(&result.to_string())?;
    } else {
        for one in wrong {
            screen.note(Text::new(&one.to_string()).as_str());
        }
        screen.note("nothing was changed");
    }
    Ok(exit)
}
