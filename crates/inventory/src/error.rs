//! Why a text is not an inventory, in words for whoever wrote the text.
//!
//! A value that could be a secret is never repeated; names of hosts, groups, variables and fields are.

use bowline_model::host::GroupsInACircle;
use bowline_model::name::NotAName;

use crate::limits::{COPIED_BYTES_MAX, DEPTH_MAX};
use crate::owner::Owner;
use crate::place::{Place, Shown};

/// Why a text is not an inventory. Always says where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("{at}: the text is not UTF-8")]
    NotUtf8 { at: Place },
    #[error("{at}: this is not {format}: {what}")]
    Syntax { at: Place, format: &'static str, what: String },
    #[error("{at}: {} is there twice", Shown(key))]
    KeyTwice { at: Place, key: String },
    #[error("{at}: there is no field {}; {known}", Shown(field))]
    UnknownField { at: Place, field: String, known: &'static str },
    #[error("{at}: {field} is missing")]
    Missing { at: Place, field: &'static str },
    #[error("{at}: {expected} should be here, not {found}")]
    Unexpected { at: Place, expected: &'static str, found: &'static str },
    #[error("{at}: {:?} cannot be a name: {why}", Shown(name).to_string())]
    Name { at: Place, name: String, why: NotAName },
    #[error("{at}: the labels are not possible: {why}")]
    Labels { at: Place, why: NotAName },
    #[error("{at}: {what}")]
    Value { at: Place, what: String },
    #[error("{at}: {:?} is not a range of hosts: {why}", Shown(pattern).to_string())]
    Range { at: Place, pattern: String, why: &'static str },
    #[error("{at}: {what} {} is described twice, in different ways", Shown(name))]
    Contradiction { at: Place, what: &'static str, name: String },
    #[error("{at}: {}", why)]
    Circle { at: Place, why: GroupsInACircle },
    #[error("{at}: there are more than {max} {what}")]
    TooMany { at: Place, what: &'static str, max: usize },
    #[error("{at}: the groups are nested in too many ways")]
    Woven { at: Place },
    #[error("{at}: lists and maps are nested deeper than {DEPTH_MAX}")]
    TooDeep { at: Place },
    #[error("{at}: ranges, group labels or aliases repeat more than {} MiB of values", COPIED_BYTES_MAX >> 20)]
    Swollen { at: Place },
    #[error("{at}: the tag {} is not allowed here", Shown(tag))]
    Tag { at: Place, tag: String },
    #[error(
        "{at}: {} of {owner} is a secret, and an inventory is no place for one; store it as a secret, and take it out here",
        Shown(variable)
    )]
    Secret { at: Place, owner: Owner, variable: String },
    #[error(
        "{at}: {} of {owner} refers to a secret by a template or by Ansible Vault, which cannot be opened here; store it \
         as a secret, and take it out here",
        Shown(variable)
    )]
    SealedSecret { at: Place, owner: Owner, variable: String },
    #[error(
        "{at}: {} of {owner} is a template, and templates are not evaluated here; write its value",
        Shown(variable)
    )]
    Template { at: Place, owner: Owner, variable: String },
    #[error(
        "{at}: {owner} is reached by {} in Ansible, which is not possible here; only ssh and local are",
        Shown(via)
    )]
    Unreachable { at: Place, owner: Owner, via: String },
    #[error(
        "{at}: this configures the inventory plugin {}; import what ansible-inventory --list makes of it, as ansible-json",
        Shown(plugin)
    )]
    PluginConfiguration { at: Place, plugin: String },
}

impl ImportError {
    /// Where.
    pub fn place(&self) -> &Place {
        match self {
            Self::NotUtf8 { at }
            | Self::Syntax { at, .. }
            | Self::KeyTwice { at, .. }
            | Self::UnknownField { at, .. }
            | Self::Missing { at, .. }
            | Self::Unexpected { at, .. }
            | Self::Name { at, .. }
            | Self::Labels { at, .. }
            | Self::Value { at, .. }
            | Self::Range { at, .. }
            | Self::Contradiction { at, .. }
            | Self::Circle { at, .. }
            | Self::TooMany { at, .. }
            | Self::Woven { at }
            | Self::TooDeep { at }
            | Self::Swollen { at }
            | Self::Tag { at, .. }
            | Self::Secret { at, .. }
            | Self::SealedSecret { at, .. }
            | Self::Template { at, .. }
            | Self::Unreachable { at, .. }
            | Self::PluginConfiguration { at, .. } => at,
        }
    }
}
