//! Output without secrets: what a secret may look like, and finding it in a stream.

mod forms;
mod redactor;

pub use forms::{VALUE_MIN_BYTES, forms};
pub use redactor::{MARK, Redactor};
