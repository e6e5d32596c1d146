//! A real sshd for tests: private, reachable from this machine only, and free to be killed, frozen and started again
//! as somebody else.

mod binaries;
mod keys;
mod server;

pub use server::{Sshd, SshdOptions};
