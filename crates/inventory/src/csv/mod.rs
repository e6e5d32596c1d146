//! Tables: a host in each row, and the first row says what the columns are.
//!
//! | column | cell |
//! |---|---|
//! | `name` | the only one that must be there |
//! | `groups` | names, separated by `;` or spaces |
//! | `via` | `agent`, `ssh` or `simulate`; without it, `ssh` if there is an address, a port or a user, else `agent` |
//! | `address`, `port`, `user` | of `ssh` |
//! | `agent` | of `agent` |
//! | `through` | of `ssh` and `simulate`: labels, as in `labels` |
//! | `labels` | `role=web;site=fra` |
//! | `label:KEY` | the value of one label |
//! | `var:KEY` | the value of one variable |
//! | `vars` | variables as a JSON object |
//!
//! An empty cell says nothing. A variable is JSON where the cell is JSON, else the text of the cell: see [`cell`]. A table
//! cannot say what a group contains or which variables it has.

mod cell;
mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;
