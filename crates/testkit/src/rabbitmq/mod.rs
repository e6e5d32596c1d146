//! A real RabbitMQ for tests: private, reachable from this machine only, and free to be killed, frozen and started again.

mod binaries;
mod server;
mod shared;

pub use server::{RabbitMq, RabbitMqOptions};
pub use shared::{BrokerAddress, SERVER_VARIABLE, shared_rabbitmq};
