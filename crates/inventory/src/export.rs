//! The way out: a text in some format, and an honest list of what the format could not say.

use std::fmt;

use bowline_model::host::{GroupsInACircle, Inventory};
use bowline_model::name::{GroupName, HostName};

use crate::format::Format;
use crate::owner::Owner;
use crate::place::Shown;
use crate::{ansible, csv, own};

/// An inventory in some format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub text: String,
    /// What the text does not say, though the inventory does.
    pub lost: Vec<Lost>,
}

/// Something that a format cannot say. Reads as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// Tables say nothing about groups.
    GroupVariables { group: GroupName },
    /// Tables say nothing about groups.
    GroupMembers { group: GroupName },
    /// Tables know a group only by its hosts.
    EmptyGroup { group: GroupName },
    /// Left out, because it would mean something else there.
    Variable { owner: Owner, variable: String, why: &'static str },
    /// Left out, because its name would be taken for something else.
    Host { host: HostName, why: &'static str },
    /// Left out, because its name would be taken for something else.
    Group { group: GroupName, why: &'static str },
    /// Written, and yet misread there.
    SharedName { host: HostName },
    /// Every Ansible inventory has a group `all`. It comes back only if it has variables.
    AllGroup { group: GroupName },
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GroupVariables { group } => {
                write!(f, "the variables of the group {group} are left out: a table has no place for them")
            }
            Self::GroupMembers { group } => {
                write!(f, "which groups are in the group {group} is left out: a table has no place for it")
            }
            Self::EmptyGroup { group } => write!(f, "the group {group} is left out: no host is in it directly"),
            Self::Variable { owner, variable, why } => {
                write!(f, "the variable {} of {owner} is left out: {why}", Shown(variable))
            }
            Self::Host { host, why } => write!(f, "the host {host} is left out: {why}"),
            Self::Group { group, why } => write!(f, "the group {group} is left out: {why}"),
            Self::SharedName { host } => {
                write!(f, "Ansible gives the variables of the host {host} to the group that has the same name")
            }
            Self::AllGroup { group } => {
                write!(
                    f,
                    "the group {group} has no variables, and Ansible has one of that name anyway; it is not kept as one of ours"
                )
            }
        }
    }
}

/// Why an inventory cannot be written in a format at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    #[error("there are two hosts {0}")]
    HostTwice(HostName),
    #[error("there are two groups {0}")]
    GroupTwice(GroupName),
    #[error(transparent)]
    Circle(#[from] GroupsInACircle),
    #[error("the groups are nested in too many ways")]
    Woven,
    #[error("in Ansible the group {group} has {holds}; this one has not, so it needs another name")]
    ReservedGroup { group: GroupName, holds: &'static str },
}

/// Writes an inventory.
pub fn write(inventory: &Inventory, format: Format) -> Result<Written, ExportError> {
    let kept = |text: String| Ok(Written { text, lost: Vec::new() });
    match format {
        Format::Yaml => kept(own::yaml(inventory)),
        Format::Json => kept(own::json(inventory)),
        Format::Csv => {
            let (text, lost) = csv::write(inventory);
            Ok(Written { text, lost })
        }
        Format::AnsibleIni => ansible::write_ini(inventory),
        Format::AnsibleYaml => ansible::write_yaml(inventory),
        Format::AnsibleJson => ansible::write_json(inventory),
    }
}
