//! Where a broker is and as whom we go there.

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
}

impl Broker {
    /// Whether the other one is reached in the same way. A changed password is another way.
    pub fn is_same(&self, other: &Self) -> bool {
        self.url == other.url
            && self.username == other.username
            && self.ca == other.ca
            && self.password.reveal() == other.password.reveal()
    }
}
