//! Talking to the server: requests and their retries, and the stream of events.

mod follow;
mod http;
mod raw;
mod retry;
mod sse;

pub use follow::{Follower, News};
pub use http::{Answer, Client, Request};
pub use retry::Again;
