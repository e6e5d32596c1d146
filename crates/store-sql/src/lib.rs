//! The ledger on SQLite and PostgreSQL: one logic, two engines, group commit.
//!
//! A wish enters through a port ([`ledger`]), waits for the committer ([`committer`]), is decided and collected in its
//! batch ([`batch`], [`single`], [`write`], [`changes`]), and is answered after the commit. Questions go another way ([`read`]) and never wait for a
//! commit. Only [`db`] knows which engine it is.

mod batch;
mod changes;
mod channels;
mod command;
mod committer;
pub mod db;
mod failpoint;
mod host_row;
mod job_row;
mod keyed;
mod known;
mod ledger;
mod migrate;
mod ports;
mod postgres;
mod queue;
mod read;
mod searches;
mod shared;
mod single;
mod standing;
mod tenant_room;
mod write;

pub use db::{InvalidTarget, PgSettings, PgTarget, SslMode, with_defaults};
pub use ledger::{Driver, SqlLedger, SqlSettings};
pub use migrate::Migrated;
pub use queue::WriteShare;
