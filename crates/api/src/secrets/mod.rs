//! Secrets: whether they can be had. What a `secret_ref` says is read and written like every resource.

mod check;

pub use check::{CheckView, check};
