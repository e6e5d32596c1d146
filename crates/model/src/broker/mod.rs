//! Message brokers: where one is, and as whom to go there. How to speak to one is not known here.

mod spec;
mod url;

pub use spec::{PasswordRef, RabbitmqSpec};
pub use url::{AmqpUrl, NotAnAmqpUrl};
