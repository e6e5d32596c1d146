//! Runs a command with a RabbitMQ broker at its side: `with-rabbitmq cargo nextest run`.
//!
//! The broker is private, named to the command in `BOWLINE_TEST_RABBITMQ`, and gone when the command is. If that variable
//! already names a broker, it is used as it is and none is started.

use std::process::ExitCode;

use bowline_testkit::companion;
use bowline_testkit::rabbitmq::{RabbitMq, SERVER_VARIABLE};

fn main() -> ExitCode {
    companion::run("with-rabbitmq", SERVER_VARIABLE, || {
        let broker = RabbitMq::options().try_start()?;
        let address = broker.address().to_variable();
        Ok((broker, address))
    })
}
