//! Whose a variable is: what messages name, on the way in and on the way out.

use std::fmt;

use bowline_model::name::{GroupName, HostName};

/// Whose variable it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    Host(HostName),
    Group(GroupName),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) => write!(f, "the host {name}"),
            Self::Group(name) => write!(f, "the group {name}"),
        }
    }
}
