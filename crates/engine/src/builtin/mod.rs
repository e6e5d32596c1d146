//! The built-in worker: runs handlers inside the server, under the same leases and rules as any other worker.

mod handlers;
mod outbox;
mod rabbitmq;
mod worker;

pub use handlers::{Handler, HandlerFuture, Handlers, Task};
pub use rabbitmq::RabbitmqPublish;
pub use worker::{BuiltInWorker, NAME_PREFIX};
