//! Our own shape: what an [`Inventory`](bowline_model::host::Inventory) looks like in the API, as YAML or JSON.
//!
//! On the way in, `hosts` and `groups` can also be maps from names to the rest, which is how people like to write them. A
//! field that nobody knows is a mistake, and said with its place. In YAML a number where a text belongs is the text that
//! was written: the label `rack: 12` is `12`, and `version: 1.10` is `1.10`.

mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::{json, yaml};
