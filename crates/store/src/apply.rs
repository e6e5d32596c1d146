//! Several documents at once: all of them are made true, or none is.

use bowline_model::GroupName;

use crate::{InventoryPut, PutCounts, ResourcePut, ResourceStored};

/// A document that somebody wants to be true.
#[derive(Debug, Clone)]
pub enum Applying {
    Resource(ResourcePut),
    Inventory(InventoryPut),
}

/// What became of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppliedOne {
    /// Never [`ResourceStored::Overtaken`].
    Resource(ResourceStored),
    Inventory(PutCounts),
}

/// What became of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// In the order of the documents.
    Done(Vec<AppliedOne>),
    /// Nothing was changed, because of this document.
    Refused { document: usize, why: NotApplied },
}

/// Why a document cannot be made true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotApplied {
    /// Somebody stored this version meanwhile.
    Overtaken { latest: u32 },
    /// With the groups that are there already, this one would be in itself.
    Circle(GroupName),
}
