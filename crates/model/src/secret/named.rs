//! How a command names a secret it needs.

use crate::name::ResourceName;

/// A secret as a command names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedSecret {
    /// `NAME` or `agent://NAME`: the executing agent has a file of this name.
    Agent(String),
    /// `secret://NAME`: the server has a resource of kind `secret_ref` that says where the value is.
    Server(ResourceName),
}

/// Why a text names no secret. The text is not repeated: it may be the secret itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotASecretName {
    #[error("the name of a secret has letters, digits and . _ : @ -")]
    Name,
    #[error(
        "a command names a secret as secret://NAME (a secret_ref of the server) or agent://NAME (a file of the agent); \
         where the value is kept is said by the secret_ref"
    )]
    Place,
}

impl NamedSecret {
    const SERVER: &'static str = "secret://";
    const AGENT: &'static str = "agent://";

    pub fn parse(text: &str) -> Result<Self, NotASecretName> {
        if let Some(name) = text.strip_prefix(Self::SERVER) {
            return ResourceName::new(name).map(Self::Server).map_err(|_| NotASecretName::Name);
        }
        let name = text.strip_prefix(Self::AGENT).unwrap_or(text);
        if name.contains("://") {
            return Err(NotASecretName::Place);
        }
        if ResourceName::new(name).is_err() || name.contains('/') {
            return Err(NotASecretName::Name);
        }
        Ok(Self::Agent(name.to_owned()))
    }

    /// Whether the value comes from the server.
    pub fn is_servers(text: &str) -> bool {
        text.starts_with(Self::SERVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_whose_secret_it_means() {
        let agent = |name: &str| Ok(NamedSecret::Agent(name.to_owned()));
        let server = |name: &str| Ok(NamedSecret::Server(ResourceName::new(name).unwrap()));
        assert_eq!(NamedSecret::parse("db"), agent("db"));
        assert_eq!(NamedSecret::parse("agent://db"), agent("db"));
        assert_eq!(NamedSecret::parse("secret://db"), server("db"));
        assert_eq!(NamedSecret::parse("secret://billing/stripe"), server("billing/stripe"));
        for text in ["", "agent://", "secret://", "../db", "agent://a/b", "secret://../x", "secret://a b", "a b"] {
            assert_eq!(NamedSecret::parse(text), Err(NotASecretName::Name), "{text}");
        }
        for text in ["file://db", "env://PATH", "vault://x", "agent://file://x"] {
            assert_eq!(NamedSecret::parse(text), Err(NotASecretName::Place), "{text}");
        }
    }
}
