//! What carries things between the planes that are too large for the ledger.
//!
//! *Object*: bytes under a key, written whole, never changed. It is durable when `put` returns, and the ledger then says
//! where it is. Objects that nobody refers to are waste, not damage.
//! Never here: what the bytes mean.

mod blob;
mod files;
mod memory;

pub use blob::{BadKey, BlobError, BlobStore, Key};
pub use files::FileBlobs;
pub use memory::MemoryBlobs;
