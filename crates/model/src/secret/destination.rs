//! Where a secret may be sent: what an entry of `hosts` means, and whether it covers a destination.
//!
//! An entry is `[scheme://]host[:port]`. One that says its scheme means exactly that scheme and port. One that does not means an
//! encrypted connection, to the default port of its scheme unless it says another. A destination on the server's own machine
//! need not be encrypted: what goes there passes no wire.

use std::fmt;

/// Every host.
const ANY: &str = "*";
const HOST_MAX: usize = 253;

/// Where something of the server is about to send a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination<'a> {
    /// `https`, `http`, `amqps` or `amqp`.
    pub scheme: &'a str,
    pub host: &'a str,
    pub port: u16,
}

impl fmt::Display for Destination<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, host, port } = self;
        match host.contains(':') && !host.starts_with('[') {
            true => write!(f, "{scheme}://[{host}]:{port}"),
            false => write!(f, "{scheme}://{host}:{port}"),
        }
    }
}

/// A scheme: its name, its default port, and whether it encrypts.
const SCHEMES: [(&str, u16, bool); 4] =
    [("https", 443, true), ("http", 80, false), ("amqps", 5671, true), ("amqp", 5672, false)];

fn scheme(name: &str) -> Option<(&'static str, u16, bool)> {
    SCHEMES.into_iter().find(|(known, ..)| *known == name)
}

/// An entry of `hosts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRule<'a> {
    scheme: Option<(&'static str, u16, bool)>,
    /// A name, an address without brackets, `*.example.com` or `*`.
    host: &'a str,
    port: Option<u16>,
}

/// Why a text is not an entry of `hosts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a destination: a host name, an address, `*.example.com` or `*`, with a port (`api.example.com:8443`) and a scheme \
     (https, http, amqps, amqp) if you like, and without a path"
)]
pub struct InvalidHostRule;

impl<'a> HostRule<'a> {
    pub fn parse(text: &'a str) -> Result<Self, InvalidHostRule> {
        let (scheme, rest) = match text.split_once("://") {
            Some((name, rest)) => (Some(scheme(name).ok_or(InvalidHostRule)?), rest),
            None => (None, text),
        };
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or(InvalidHostRule)?;
                match after {
                    "" => (host, None),
                    after => (host, Some(after.strip_prefix(':').ok_or(InvalidHostRule)?)),
                }
            }
            // An address of IPv6 without brackets has more than one colon, and no port.
            None => match rest.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (rest, None),
            },
        };
        let port = match port {
            None => None,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok().filter(|port| *port > 0).ok_or(InvalidHostRule)?)
            }
            Some(_) => return Err(InvalidHostRule),
        };
        let name = host.strip_prefix("*.").unwrap_or(host);
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host != ANY && (name.is_empty() || name.len() > HOST_MAX || !name.chars().all(known)) {
            return Err(InvalidHostRule);
        }
        Ok(Self { scheme, host, port })
    }

    /// Whether a secret may go there.
    pub fn covers(&self, to: Destination<'_>) -> bool {
        let host = to.host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        if !self.names(host) {
            return false;
        }
        let meant = self.port.is_none_or(|port| port == to.port);
        match (self.scheme, scheme(to.scheme)) {
            (Some((name, default, _)), _) => name == to.scheme && self.port.unwrap_or(default) == to.port,
            (None, _) if is_this_machine(host) => meant,
            (None, Some((_, default, true))) => {
                meant && (self.port.is_some() || self.host == ANY || to.port == default)
            }
            (None, _) => false,
        }
    }

    fn names(&self, host: &str) -> bool {
        match self.host.strip_prefix("*.") {
            _ if self.host == ANY => true,
            None => self.host.eq_ignore_ascii_case(host),
            Some(parent) => {
                let (host, parent) = (host.to_ascii_lowercase(), parent.to_ascii_lowercase());
                host.strip_suffix(&parent).is_some_and(|below| below.len() > 1 && below.ends_with('.'))
            }
        }
    }
}

/// Whether a host is the machine that the server runs on, whatever a name server says. `127.2` is one, too.
fn is_this_machine(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    let short = host.starts_with("127.") && host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    address || short || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(entry: &str, url: &str) -> bool {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (host, port) = rest.rsplit_once(':').unwrap();
        HostRule::parse(entry).unwrap().covers(Destination { scheme, host, port: port.parse().unwrap() })
    }

    /// Security: plain connections to other machines are named, or are not made.
    #[test]
    fn an_entry_without_a_scheme_means_an_encrypted_connection() {
        for (entry, good) in [
            ("api.example", "https://api.example:443"),
            ("api.example", "https://API.Example.:443"),
            ("api.example", "amqps://api.example:5671"),
            ("api.example:8443", "https://api.example:8443"),
            ("*.shop.example", "https://a.b.shop.example:443"),
            ("*.shop.example:8443", "https://a.shop.example:8443"),
            ("*", "https://anything.example:9999"),
            ("2001:db8::1", "https://[2001:db8::1]:443"),
            ("[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
            ("127.0.0.1", "http://127.0.0.1:8080"),
            ("127.2", "amqp://127.2:5672"),
            ("localhost", "http://localhost:80"),
            ("::1", "http://[::1]:8080"),
            ("*", "http://127.0.0.1:8080"),
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ] {
            assert!(covers(entry, good), "{entry} {good}");
        }
        for (entry, bad) in [
            ("api.example", "http://api.example:80"),
            ("api.example", "http://api.example:443"),
            ("api.example", "https://api.example:8443"),
            ("api.example", "amqp://api.example:5672"),
            ("api.example", "https://api.example.evil:443"),
            ("api.example", "ftp://api.example:443"),
            ("api.example:8443", "https://api.example:443"),
            ("api.example:80", "http://api.example:80"),
            ("*.shop.example", "https://shop.example:443"),
            ("*.shop.example", "https://evilshop.example:443"),
            ("*.shop.example", "https://.shop.example:443"),
            ("*", "http://api.example:80"),
            ("*:8443", "https://api.example:443"),
            ("127.evil.example", "http://127.evil.example:80"),
            ("127.0.0.1:8080", "http://127.0.0.1:8081"),
            ("localhost", "http://127.0.0.1:80"),
        ] {
            assert!(!covers(entry, bad), "{entry} {bad}");
        }
    }

    #[test]
    fn an_entry_with_a_scheme_means_exactly_that() {
        for (entry, good) in [
            ("https://api.example:8443", "https://api.example:8443"),
            ("https://api.example", "https://api.example:443"),
            ("http://api.example", "http://api.example:80"),
            ("http://10.0.0.7:8080", "http://10.0.0.7:8080"),
            ("amqp://mq.example", "amqp://mq.example:5672"),
            ("http://*", "http://api.example:80"),
        ] {
            assert!(covers(entry, good), "{entry} {good}");
        }
        for (entry, bad) in [
            ("https://api.example:8443", "https://api.example:443"),
            ("https://api.example:8443", "http://api.example:8443"),
            ("http://api.example", "https://api.example:443"),
            ("http://api.example", "http://api.example:8080"),
            ("https://127.0.0.1", "http://127.0.0.1:443"),
            ("https://localhost:8443", "https://localhost:443"),
        ] {
            assert!(!covers(entry, bad), "{entry} {bad}");
        }
    }

    #[test]
    fn what_is_no_destination_is_refused() {
        for bad in [
            "",
            "https://",
            "ftp://a.example",
            "a.example/path",
            "https://a.example/",
            "a.example:",
            "a.example:0",
            "a.example:65536",
            "a.example:+80",
            "a.example:8 0",
            "[::1",
            "[::1]80",
            "a b",
            "user@a.example",
            "*.",
            "a*.example",
            "HTTPS://a.example",
        ] {
            assert_eq!(HostRule::parse(bad), Err(InvalidHostRule), "{bad}");
        }
    }

    #[test]
    fn a_destination_reads_like_an_address() {
        let shown = |scheme, host, port| Destination { scheme, host, port }.to_string();
        assert_eq!(shown("https", "a.example", 443), "https://a.example:443");
        assert_eq!(shown("amqp", "::1", 5672), "amqp://[::1]:5672");
        assert_eq!(shown("http", "[::1]", 80), "http://[::1]:80");
    }
}
