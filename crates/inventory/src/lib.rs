//! Inventories as others write them: from bytes to hosts and groups, and back.
//!
//! Enters: bytes, and the [`Format`] they are in; or an [`Inventory`](bowline_model::host::Inventory).
//! Leaves: an `Inventory` in which every name is checked, every group that somebody mentions is listed, no group is in
//! itself and no host is there twice; or a text, with a list of what the format could not say.
//! Never here: files, network, async, storage, templates. What an inventory says is data; nothing in it is carried out.
//!
//! Whoever writes an inventory may be careless or worse. So the size of what leaves is bounded by [`limits`], not only the
//! size of what enters: three bytes of a range can mean a hundred thousand hosts.

mod ansible;
mod connection;
mod csv;
pub mod document;
mod draft;
mod error;
mod export;
mod format;
pub mod limits;
mod lines;
mod nesting;
mod own;
mod owner;
mod place;
mod source;
mod tree;

pub use error::ImportError;
pub use export::{ExportError, Lost, Written, write};
pub use format::{Format, UnknownFormat};
pub use nesting::{Tangled, check_nesting};
pub use owner::Owner;
pub use place::Place;

use bowline_model::host::Inventory;

/// Reads an inventory. The caller bounds the number of bytes.
pub fn read(bytes: &[u8], format: Format) -> Result<Inventory, ImportError> {
    let text = source::text(bytes)?;
    match format {
        Format::Yaml => own::read(tree::yaml(text, tree::Schema::Core)?),
        Format::Json => own::read(tree::json(text)?),
        Format::Csv => csv::read(text),
        Format::AnsibleIni => ansible::read_ini(text),
        Format::AnsibleYaml => ansible::read_yaml(tree::yaml(text, tree::Schema::Ansible)?),
        Format::AnsibleJson => ansible::read_json(tree::json(text)?),
    }
}
