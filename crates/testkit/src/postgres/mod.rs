//! A real PostgreSQL for tests: private, durable as in production, and free to be stopped, frozen and started again.
//!
//! Most tests want only a database of their own: [`fresh_database`]. Tests that break the server start a [`Postgres`].

mod binaries;
mod client;
mod database;
mod server;
mod template;

pub use client::connect;
pub use database::{SERVER_VARIABLE, TestDatabase, fresh_database};
pub use server::{Postgres, PostgresOptions};
