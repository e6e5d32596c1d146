//! Where a broker is and as whom we go there.

use bowline_connect::egress::Judge;
use bowline_model::broker::AmqpUrl;
use bowline_seal::SecretValue;

/// A broker, and how to get in. Its `Debug` shows no password, because a [`SecretValue`] shows none.
#[derive(Debug, Clone)]
pub struct Broker {
    pub url: AmqpUrl,
    pub username: String,
    pub password: SecretValue,
    /// Certificates, as PEM, of who may vouch for the broker, besides those the system trusts.
    pub ca: Option<String>,
    /// Says to which addresses we may go. It is asked for every connection, and what it answers is dialled.
    pub judge: Judge,
}

impl Broker {
    /// Whether the other one is reached in the same way. A changed password is another way. The rules about where we may go are
    /// the same for as long as the program runs.
    pub fn is_same(&self, other: &Self) -> bool {
        self.url == other.url
            && self.username == other.username
            && self.ca == other.ca
            && self.password.reveal() == other.password.reveal()
    }
}
