//! The built-in worker: runs handlers inside the server, under the same leases and rules as any other worker.

mod check;
mod handlers;
mod http_request;
mod outbox;
mod rabbitmq;
mod worker;

pub use check::{BadPayload, CheckFuture, Checked};
pub use handlers::{Handler, HandlerFuture, Handlers, Task};
pub use http_request::HttpRequest;
pub use rabbitmq::RabbitmqPublish;
pub use worker::{BuiltInWorker, NAME_PREFIX};
