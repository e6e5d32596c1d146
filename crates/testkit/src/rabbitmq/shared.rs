//! A broker that many tests share.
//!
//! A broker takes seconds to start, so `make test` starts one for all tests (`with-rabbitmq`) and names it in the
//! environment; a test binary that is run alone starts its own, once. Tests keep apart by the names of their queues. Who
//! wants to kill, stop or freeze a broker starts one of its own.

use std::sync::OnceLock;

use super::server::RabbitMq;

/// The environment variable that names a running broker: `PORT USER PASSWORD`.
pub const SERVER_VARIABLE: &str = "BOWLINE_TEST_RABBITMQ";

/// Where a broker is and how to get in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    pub port: u16,
    pub user: String,
    pub password: String,
}

impl BrokerAddress {
    /// Without user and password. The virtual host is `/`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("amqp://127.0.0.1:{}", self.port)
    }

    /// As [`SERVER_VARIABLE`] has it.
    #[must_use]
    pub fn to_variable(&self) -> String {
        format!("{} {} {}", self.port, self.user, self.password)
    }

    fn from_variable(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (port, user, password) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        words.next().is_none().then(|| Self { port, user: user.to_owned(), password: password.to_owned() })
    }
}

impl RabbitMq {
    #[must_use]
    pub fn address(&self) -> BrokerAddress {
        BrokerAddress { port: self.port(), user: self.user().to_owned(), password: self.password().to_owned() }
    }
}

/// A broker that others use too: the one that `BOWLINE_TEST_RABBITMQ` names, otherwise one of this process.
///
/// # Panics
/// If there is no broker and none can be started. A test that silently skips is a test that never ran.
#[must_use]
pub fn shared_rabbitmq() -> BrokerAddress {
    static OWN: OnceLock<RabbitMq> = OnceLock::new();
    match std::env::var(SERVER_VARIABLE).ok().filter(|text| !text.is_empty()) {
        Some(text) => {
            BrokerAddress::from_variable(&text).unwrap_or_else(|| panic!("{SERVER_VARIABLE} is not PORT USER PASSWORD"))
        }
        // Never dropped: the kernel ends it with this process.
        None => OWN.get_or_init(RabbitMq::start).address(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_environment() {
        let address = BrokerAddress { port: 5672, user: "bowline".to_owned(), password: "x".to_owned() };
        assert_eq!(BrokerAddress::from_variable(&address.to_variable()), Some(address));
        for text in ["", "5672", "5672 a", "x a b", "5672 a b c"] {
            assert_eq!(BrokerAddress::from_variable(text), None, "{text:?}");
        }
    }
}
