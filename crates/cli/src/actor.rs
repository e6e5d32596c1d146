//! Who did something, as the server names them.

use serde::Deserialize;

use crate::output::Text;

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub struct ActorView {
    pub name: Text,
}

impl ActorView {
    /// The name; the id where the server does not give a name.
    pub fn or<'a>(&'a self, id: &'a Text) -> &'a Text {
        if self.name.is_empty() { id } else { &self.name }
    }
}
