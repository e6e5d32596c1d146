//! What may stand in an SSH connection.
//!
//! An address and a user end up as words of a command that opens a connection, ours or that of a tool which reads an export. A
//! word that begins with a dash is an option there, so none does; the rest is what addresses and users are made of.

const ADDRESS_MAX: usize = 253;
const USER_MAX: usize = 128;

/// Why a connection is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConnection {
    #[error("an address is a host name or an IP address, of at most {ADDRESS_MAX} characters; this is neither")]
    Address,
    #[error("a user begins with a letter, a digit or _, and has at most {USER_MAX} letters, digits and . _ @ \\ $ + -")]
    User,
    #[error("a port is a number from 1 to 65535")]
    Port,
}

impl InvalidConnection {
    /// The field of a connection that is wrong.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::User => "user",
            Self::Port => "port",
        }
    }
}

pub fn check_address(text: &str) -> Result<(), InvalidConnection> {
    let good_start = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == ':' || c == '_');
    let good = |c: char| c.is_ascii_alphanumeric() || "._:%-".contains(c);
    if good_start && text.len() <= ADDRESS_MAX && text.chars().all(good) {
        Ok(())
    } else {
        Err(InvalidConnection::Address)
    }
}

pub fn check_user(text: &str) -> Result<(), InvalidConnection> {
    let good_start = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let good = |c: char| c.is_ascii_alphanumeric() || "._@\\$+-".contains(c);
    if good_start && text.len() <= USER_MAX && text.chars().all(good) { Ok(()) } else { Err(InvalidConnection::User) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Connection;

    #[test]
    fn no_connection_holds_an_option_or_a_line_break() {
        let ssh = |address: Option<&str>, user: Option<&str>, port| Connection::Ssh {
            address: address.map(str::to_owned),
            port,
            user: user.map(str::to_owned),
            through: Default::default(),
        };
        assert_eq!(ssh(None, None, None).check(), Ok(()));
        assert_eq!(ssh(Some("fe80::1%eth0"), Some("DOMAIN\\svc$"), Some(22)).check(), Ok(()));
        for good in ["::1", "_ldap.example", "10.0.0.7", "web-1"] {
            assert_eq!(ssh(Some(good), None, None).check(), Ok(()), "{good}");
        }
        for good in ["_apt", "0day", "a.b@c+d"] {
            assert_eq!(ssh(None, Some(good), None).check(), Ok(()), "{good}");
        }
        for bad in ["", "-oProxyCommand=id", "a b", "a\nb", "user@host", "\u{1b}[2J"] {
            assert_eq!(ssh(Some(bad), None, None).check(), Err(InvalidConnection::Address), "{bad:?}");
        }
        for bad in ["", "-l", "a\nb", "a b", "`x`"] {
            assert_eq!(ssh(None, Some(bad), None).check(), Err(InvalidConnection::User), "{bad:?}");
        }
        assert_eq!(ssh(None, None, Some(0)).check(), Err(InvalidConnection::Port));
        assert_eq!(Connection::default().check(), Ok(()));
    }

    #[test]
    fn what_is_wrong_has_the_name_of_its_field() {
        let all = [InvalidConnection::Address, InvalidConnection::User, InvalidConnection::Port];
        assert_eq!(all.map(InvalidConnection::field), ["address", "user", "port"]);
    }
}
