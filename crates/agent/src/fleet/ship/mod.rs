//! Bringing what happened to the server, and freeing it when the server has confirmed it.
//!
//! Order is everything here: bytes of output go before the record that names them, and records before or with the end of
//! their run. So the ledger never refers to something it does not have, whenever the connection breaks.

mod book;
mod disk;
mod draft;
mod memory;
mod post;
mod upload;
mod uploads;

pub(crate) use book::Books;
pub use book::{AfterRefusal, Book, Sent};
pub(crate) use disk::disk_loop;
pub(crate) use memory::memory_loop;
pub(crate) use post::post;

/// The most that one request brings.
pub(crate) const RUNS_MAX: usize = 1_000;
pub(crate) const EVENTS_MAX: usize = 10_000;

/// Small letters, as `sha256sum` prints them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
