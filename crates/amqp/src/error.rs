//! What can go wrong between us and a broker, and whether trying again can help.
//!
//! The texts go into runs and logs. They hold the broker's address and words of the broker, never a password or a body.

use bowline_model::broker::AmqpUrl;
use lapin::ErrorKind;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmqpError {
    /// The rules do not let us go there. Which of its addresses it was, and whether somebody is there, is not said.
    #[error(
        "EGRESS_DENIED: the broker at {address} has an address that this tenant may not reach; the operator of the server \
         allows networks with `allow_networks` under [egress] in its configuration"
    )]
    Denied { address: AmqpUrl },
    #[error(
        "EGRESS_DENIED: the broker at {address} has a port that this tenant may not reach; the operator of the server allows \
         ports below 1024 with `allow_ports` under [egress] in its configuration"
    )]
    DeniedPort { address: AmqpUrl },
    #[error("the broker at {address} cannot be reached: {why}")]
    Unreachable { address: AmqpUrl, why: String },
    /// The broker does not let us in: the user, the password or the virtual host is not one it knows.
    #[error("the broker at {address} does not let us in: {why}")]
    NotLetIn { address: AmqpUrl, why: String },
    /// Whether the broker has the message is not known.
    #[error("the broker has not confirmed the message in time{}", if *.blocked { "; it takes no messages just now, because it runs out of memory or disk" } else { "" })]
    TimedOut { blocked: bool },
    /// Whether the broker has the message is not known.
    #[error("the connection to the broker broke: {0}")]
    Lost(String),
    /// The broker could not keep the message (basic.nack).
    #[error("the broker could not take the message")]
    Nacked,
    /// The broker closed the channel because of what we asked for: there is no such exchange or queue, or it is not for us.
    #[error("the broker refuses it: {code} {text}")]
    Refused { code: u16, text: String },
    /// It cannot be written as AMQP, so the broker was not asked.
    #[error("{path}: {what}")]
    BadMessage { path: String, what: String },
}

impl AmqpError {
    /// Whether the same attempt may succeed later.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Lost(_) | Self::Nacked => true,
            Self::Refused { code, .. } => is_passing(*code),
            Self::Denied { .. } | Self::DeniedPort { .. } | Self::NotLetIn { .. } | Self::BadMessage { .. } => false,
        }
    }

    pub(crate) fn bad(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self::BadMessage { path: path.into(), what: what.into() }
    }
}

/// What the broker says about itself and not about what we asked for: it is being stopped, somebody else holds the queue,
/// it has run out of something, it broke.
const fn is_passing(code: u16) -> bool {
    matches!(code, 320 | 405 | 506 | 541)
}

impl From<lapin::Error> for AmqpError {
    fn from(error: lapin::Error) -> Self {
        match error.kind() {
            ErrorKind::ProtocolError(said) if said.get_id() != 320 => {
                Self::Refused { code: said.get_id(), text: said.get_message().to_string() }
            }
            _ => Self::Lost(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use lapin::protocol::AMQPError;

    use super::*;

    fn said(code: u16) -> AmqpError {
        lapin::Error::from(ErrorKind::ProtocolError(AMQPError::from_id(code, "words".into()).expect("a code"))).into()
    }

    #[test]
    fn the_broker_s_words_decide_whether_trying_again_helps() {
        for code in [320, 405, 506, 541] {
            assert!(said(code).is_transient(), "{code}");
        }
        for code in [311, 403, 404, 406, 530] {
            assert!(!said(code).is_transient(), "{code}");
        }
        assert_eq!(said(404), AmqpError::Refused { code: 404, text: "words".to_owned() });
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        assert!(AmqpError::from(lapin::Error::from(broken)).is_transient());
    }
}
