//! Where a command is to run: address, port, user.
//!
//! An address comes from people and inventories. It never reaches a command line here, but it is refused all the same if
//! some other tool would take it for an option or for two hosts: what is nonsense is best refused at every door.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The port of SSH.
const PORT: u16 = 22;
/// The longest name there can be (RFC 1035), and more than any literal address needs.
const ADDRESS_BYTES_MAX: usize = 253;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// A name or an IP address; IPv6 with or without brackets.
    pub address: String,
    pub port: u16,
    /// Whom to become there; the pool's default unless given.
    pub user: Option<String>,
}

impl Target {
    /// Port 22, default user.
    #[must_use]
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), port: PORT, user: None }
    }

    #[must_use]
    pub fn with_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    #[must_use]
    pub fn with_user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// Whether this can be a host at all. Looks nothing up.
    pub fn check(&self) -> Result<(), BadTarget> {
        Endpoint::of(self, "root").map(drop)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It may not have been checked yet, so it is shown without its control characters.
        let address = self.address.escape_debug();
        match self.address.parse::<Ipv6Addr>() {
            Ok(_) => write!(f, "[{address}]:{}", self.port),
            Err(_) => write!(f, "{address}:{}", self.port),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTarget {
    #[error("the address is empty")]
    Empty,
    #[error("the address is longer than {ADDRESS_BYTES_MAX} bytes")]
    TooLong,
    #[error("the address {0:?} begins with a dash")]
    Dash(String),
    #[error("the address {address:?} contains {character:?}, which is in no host name and no IP address")]
    Character { address: String, character: char },
    #[error("{0:?} is neither an IPv6 address nor a name")]
    NotAnAddress(String),
    #[error("port 0 cannot be connected to")]
    Port,
    #[error("{0:?} is not the name of a user")]
    User(String),
}

/// A checked target in the one spelling under which connections are shared and host keys are looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    /// Lower case; IPv6 without brackets.
    pub host: String,
    pub port: u16,
    pub user: String,
}

impl Endpoint {
    pub fn of(target: &Target, default_user: &str) -> Result<Self, BadTarget> {
        let user = target.user.as_deref().unwrap_or(default_user);
        if user.is_empty() || user.starts_with('-') || user.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(BadTarget::User(user.to_owned()));
        }
        if target.port == 0 {
            return Err(BadTarget::Port);
        }
        Ok(Self { host: host(&target.address)?, port: target.port, user: user.to_owned() })
    }

    /// How `known_hosts` spells it.
    pub fn known_as(&self) -> String {
        if self.port == PORT { self.host.clone() } else { format!("[{}]:{}", self.host, self.port) }
    }

    /// The address, if it is one and needs no looking up.
    pub fn literal(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.literal() {
            Some(IpAddr::V6(address)) => write!(f, "{}@[{address}]:{}", self.user, self.port),
            _ => write!(f, "{}@{}:{}", self.user, self.host, self.port),
        }
    }
}

fn host(address: &str) -> Result<String, BadTarget> {
    if address.is_empty() {
        return Err(BadTarget::Empty);
    }
    if address.len() > ADDRESS_BYTES_MAX {
        return Err(BadTarget::TooLong);
    }
    if address.starts_with('-') {
        return Err(BadTarget::Dash(address.to_owned()));
    }
    let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-:%".contains(c);
    if let Some(character) = bare.chars().find(|c| !allowed(*c)) {
        return Err(BadTarget::Character { address: address.to_owned(), character });
    }
    // Only IPv6 has colons or brackets; its zone, after a percent sign, is the resolver's business.
    if bare.contains([':', '%']) || bare.len() != address.len() {
        let (literal, _zone) = bare.split_once('%').unwrap_or((bare, ""));
        if literal.parse::<Ipv6Addr>().is_err() {
            return Err(BadTarget::NotAnAddress(address.to_owned()));
        }
    }
    Ok(bare.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known_as(address: &str, port: u16) -> String {
        Endpoint::of(&Target::new(address).with_port(port), "me").unwrap().known_as()
    }

    #[test]
    fn addresses_have_one_spelling() {
        assert_eq!(known_as("Web-1.Example.COM", 22), "web-1.example.com");
        assert_eq!(known_as("web_1", 2222), "[web_1]:2222");
        assert_eq!(known_as("10.0.0.1", 22), "10.0.0.1");
        assert_eq!(known_as("::1", 22), "::1");
        assert_eq!(known_as("[FE80::1%eth0]", 23), "[fe80::1%eth0]:23");
    }

    #[test]
    fn what_another_tool_would_take_for_something_else_is_refused() {
        for address in [
            "",
            "-oProxyCommand=id",
            "--help",
            "host,other",
            "a b",
            "a\tb",
            "a\nb",
            "a\0",
            "a;id",
            "$(id)",
            "user@host",
            "a/b",
            "[host]",
            "host:22",
            "[::1",
            "::1]",
            "é.example",
            "*",
        ] {
            assert!(Target::new(address).check().is_err(), "{address:?}");
        }
        assert!(Target::new("a".repeat(254)).check().is_err());
        assert_eq!(Target::new("a").with_port(0).check(), Err(BadTarget::Port));
        for user in ["", "a b", "a\n", "-l"] {
            assert!(Target::new("a").with_user(user).check().is_err(), "{user:?}");
        }
    }
}
