//! RabbitMQ, in and out.
//!
//! Enters: messages to publish, with the key by which whoever reads them knows a message again; queues to consume, with
//! what to do about each delivery. Leaves: what the broker itself has confirmed, and acknowledgements of what was handled.
//! Never here: jobs, resources, the ledger; passwords in errors or log lines; a guess. What the broker did not confirm is
//! not published, and what was not handled is not acknowledged.
//!
//! *Confirmed*: of a message: the broker has taken responsibility for it; a durable one in a durable queue is on its disk.
//! *Unroutable*: of a message: the broker knows the exchange, and no queue behind it wants the message.
//! *Transient*: of a failure: the same attempt may succeed later. *Permanent*: somebody has to change something first.
//!
//! Both ways are at-least-once. A publisher whose connection breaks before the confirm does not know whether the broker has
//! the message, says so by a transient error, and publishes the same message id again. A consumer whose connection breaks
//! before its acknowledgement gets the delivery again.

mod broker;
mod connect;
mod consumer;
mod delivery;
mod error;
mod headers;
mod message;
mod publisher;

pub use broker::Broker;
pub use consumer::{ConsumerSettings, News, Verdict, consume, consume_telling};
pub use delivery::{Delivery, DeliveryKey};
pub use error::AmqpError;
pub use message::{Message, MessageProperties};
pub use publisher::{Published, Publisher};
