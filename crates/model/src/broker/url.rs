//! The address of a RabbitMQ broker: `amqp://host:port/vhost`, or `amqps://` for TLS. Never with a user or a password.

use std::fmt;
use std::str::FromStr;

/// Where a broker is, and which of its virtual hosts is meant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AmqpUrl {
    pub tls: bool,
    /// A name or an address; one of IPv6 without its brackets.
    pub host: String,
    pub port: u16,
    pub vhost: String,
}

/// Why a text is no address of a broker. The text itself is never repeated: it may have a password in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAmqpUrl {
    #[error("must begin with amqp:// or amqps://")]
    Scheme,
    #[error("a user or a password has no place in an address; they are fields of their own")]
    UserInfo,
    #[error("needs the name or address of a host, as in amqp://broker.example:5672")]
    Host,
    #[error("the port must be a number between 1 and 65535")]
    Port,
    #[error("nothing may come after the virtual host: no further /, no ? and no #")]
    Rest,
    #[error("names an empty virtual host; leave the last / off for the broker's first one, or write it as %2F")]
    EmptyVhost,
    #[error("the virtual host must be percent-encoded UTF-8 of at most 255 bytes, without control characters")]
    Vhost,
}

impl FromStr for AmqpUrl {
    type Err = NotAnAmqpUrl;

    fn from_str(text: &str) -> Result<Self, NotAnAmqpUrl> {
        let (tls, rest) = match (text.strip_prefix("amqp://"), text.strip_prefix("amqps://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(NotAnAmqpUrl::Scheme),
        };
        // Wherever it stands: an @ in a virtual host is written %40.
        if rest.contains('@') {
            return Err(NotAnAmqpUrl::UserInfo);
        }
        if rest.contains(['?', '#']) {
            return Err(NotAnAmqpUrl::Rest);
        }
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, Some(path)),
            None => (rest, None),
        };
        let (host, port) = split_port(authority)?;
        let port = match port {
            None => {
                if tls {
                    5671
                } else {
                    5672
                }
            }
            Some(text) => text.parse().ok().filter(|port| *port > 0).ok_or(NotAnAmqpUrl::Port)?,
        };
        let vhost = match path {
            None => "/".to_owned(),
            Some("") => return Err(NotAnAmqpUrl::EmptyVhost),
            Some(path) if path.contains('/') => return Err(NotAnAmqpUrl::Rest),
            Some(path) => decode(path).ok_or(NotAnAmqpUrl::Vhost)?,
        };
        if vhost.len() > 255 || vhost.chars().any(char::is_control) {
            return Err(NotAnAmqpUrl::Vhost);
        }
        Ok(Self { tls, host: host.to_owned(), port, vhost })
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<&str>), NotAnAmqpUrl> {
    if let Some(inside) = authority.strip_prefix('[') {
        let (host, rest) = inside.split_once(']').ok_or(NotAnAmqpUrl::Host)?;
        host.parse::<std::net::Ipv6Addr>().map_err(|_| NotAnAmqpUrl::Host)?;
        return match rest {
            "" => Ok((host, None)),
            rest => rest.strip_prefix(':').map(|port| (host, Some(port))).ok_or(NotAnAmqpUrl::Host),
        };
    }
    let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if host.is_empty() || host.len() > 253 || !host.chars().all(fits) {
        return Err(NotAnAmqpUrl::Host);
    }
    Ok((host, port))
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for AmqpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "amqps" } else { "amqp" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port)?,
            false => write!(f, "{scheme}://{}:{}", self.host, self.port)?,
        }
        if self.vhost == "/" {
            return Ok(());
        }
        f.write_str("/")?;
        for byte in self.vhost.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    write!(f, "{}", char::from(byte))?;
                }
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_written() {
        for (text, written, vhost) in [
            ("amqp://broker", "amqp://broker:5672", "/"),
            ("amqps://broker", "amqps://broker:5671", "/"),
            ("amqp://10.0.0.7:5673/orders", "amqp://10.0.0.7:5673/orders", "orders"),
            ("amqp://broker/%2F", "amqp://broker:5672", "/"),
            ("amqp://broker/a%2fb%40c", "amqp://broker:5672/a%2Fb%40c", "a/b@c"),
            ("amqp://[::1]:5672/x", "amqp://[::1]:5672/x", "x"),
        ] {
            let url: AmqpUrl = text.parse().expect(text);
            assert_eq!((url.to_string().as_str(), url.vhost.as_str()), (written, vhost), "{text}");
            assert_eq!(url.to_string().parse(), Ok(url), "{text}");
        }
    }

    #[test]
    fn addresses_are_read_up_to_their_limits_and_not_beyond() {
        let read = |text: String| text.parse::<AmqpUrl>();
        assert!(read(format!("amqp://{}", "h".repeat(253))).is_ok());
        assert_eq!(read(format!("amqp://{}", "h".repeat(254))), Err(NotAnAmqpUrl::Host));
        assert!(read(format!("amqp://broker/{}", "v".repeat(255))).is_ok());
        assert_eq!(read(format!("amqp://broker/{}", "v".repeat(256))), Err(NotAnAmqpUrl::Vhost));
        assert_eq!(read("amqp://broker:65535".to_owned()).map(|url| url.port), Ok(65_535));
        assert_eq!(read("amqp://broker:65536".to_owned()), Err(NotAnAmqpUrl::Port));
        assert_eq!(read("amqp://[::1]x".to_owned()), Err(NotAnAmqpUrl::Host));
    }

    #[test]
    fn what_is_no_address_is_refused_without_being_repeated() {
        use NotAnAmqpUrl as N;
        for (text, why) in [
            ("", N::Scheme),
            ("http://broker", N::Scheme),
            ("AMQP://broker", N::Scheme),
            ("amqp://ann:hunter22@broker", N::UserInfo),
            ("amqp://hunter22@broker/x", N::UserInfo),
            ("amqp://broker/x@y", N::UserInfo),
            ("amqp://", N::Host),
            ("amqp:///x", N::Host),
            ("amqp://a b", N::Host),
            ("amqp://[::1", N::Host),
            ("amqp://[nonsense]", N::Host),
            ("amqp://broker:", N::Port),
            ("amqp://broker:0", N::Port),
            ("amqp://broker:99999", N::Port),
            ("amqp://broker/", N::EmptyVhost),
            ("amqp://broker/a/b", N::Rest),
            ("amqp://broker/a?heartbeat=1", N::Rest),
            ("amqp://broker/%zz", N::Vhost),
            ("amqp://broker/%2", N::Vhost),
            ("amqp://broker/%FF", N::Vhost),
            ("amqp://broker/a%00b", N::Vhost),
        ] {
            assert_eq!(text.parse::<AmqpUrl>(), Err(why), "{text}");
            assert!(!why.to_string().contains("hunter22"));
        }
    }
}
