//! Jobs: one endpoint, one file.

mod batch;
mod cancel;
mod events;
mod get;
mod list;
mod order;
mod result;
mod retry;
mod submit;
mod why;

pub use batch::{BatchAnswer, BatchRequest, submit_batch};
pub use cancel::cancel;
pub use events::{EventsQuery, events};
pub use get::{JobAnswer, get, no_job};
pub use list::{JobPage, ListQuery, bounded, list};
pub use order::{OrderRequest, OrderView, reason_of};
pub use result::result;
pub use retry::{RetryRequest, retry};
pub use submit::{
    IdempotencyView, SubmitAnswer, SubmitRequest, header_key, key_conflict, key_of, misfit, pruned_word, submit,
};
pub use why::{WhyView, why};
