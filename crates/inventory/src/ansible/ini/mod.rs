//! Ansible's `hosts` files: sections of hosts, of groups and of variables.

mod literal;
mod read;
mod words;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;
