//! The audit trail: who did what with authority, in chains that cannot be changed unnoticed.
//!
//! A *record* tells of one privileged wish: who, what, to which thing, why, and what became of it. Records stand in a
//! *chain*, one for each tenant and one for the system: each has the number after its predecessor's and the hash of it,
//! so that whoever changes, removes or swaps records breaks the chain at a place that can be named. What a chain alone
//! cannot show is that its end was cut off; for that there are signed *heads*, kept elsewhere.
//! Never here: storage, clocks, keys. The same functions judge a ledger, an answer over HTTP and a file.

mod author;
mod chain;
mod digest;
mod head;
mod record;

pub use author::Author;
pub use chain::{Chain, ChainFault, ChainWalk};
pub use digest::Digest;
pub use head::{Head, SignedHead};
pub use record::{Action, AuditRecord, Deed};
