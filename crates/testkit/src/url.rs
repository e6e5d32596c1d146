//! The parts of a URL that tests exchange: the address (to put a proxy in between) and the path (to name a database).

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, bail};

/// `scheme://userinfo@host:port/path?query`, where only host is required. A bare `host:port` is fine too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    /// With its `://`, or empty.
    scheme: String,
    /// With its `@`, or empty.
    userinfo: String,
    authority: String,
    path: String,
    /// With its `?`, or empty.
    query: String,
}

impl Url {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (format!("{scheme}://"), rest),
            None => (String::new(), text),
        };
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (rest, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (userinfo, authority) = rest.split_at(rest.rfind('@').map_or(0, |at| at + 1));
        if authority.is_empty() || authority.contains(',') {
            bail!("{text:?} must name one host");
        }
        let [userinfo, authority, path, query] = [userinfo, authority, path, query].map(str::to_owned);
        Ok(Self { scheme, userinfo, authority, path, query })
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self.scheme.as_str(), "postgres://" | "postgresql://")
    }

    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        let default = if self.is_postgres() { 5432 } else { 80 };
        let has_port = self.authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host = if has_port { self.authority.clone() } else { format!("{}:{default}", self.authority) };
        let mut found = host.to_socket_addrs().with_context(|| format!("cannot resolve {host}"))?;
        found.next().with_context(|| format!("{host} has no address"))
    }

    pub fn at(&self, address: SocketAddr) -> Self {
        Self { authority: address.to_string(), ..self.clone() }
    }

    pub fn with_database(&self, name: &str) -> Self {
        Self { path: format!("/{name}"), ..self.clone() }
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}{}{}{}", self.scheme, self.userinfo, self.authority, self.path, self.query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_changes_and_all_else_stays() {
        let url = Url::parse("postgres://me:p@ss@localhost:5433/orders?sslmode=disable").unwrap();
        let proxied = url.at("127.0.0.1:1".parse().unwrap());
        assert_eq!(proxied.to_string(), "postgres://me:p@ss@127.0.0.1:1/orders?sslmode=disable");
        assert_eq!(url.with_database("x").to_string(), "postgres://me:p@ss@localhost:5433/x?sslmode=disable");
    }

    #[test]
    fn the_port_has_a_default_and_the_scheme_is_optional() {
        assert_eq!(Url::parse("postgres://127.0.0.1/x").unwrap().address().unwrap().port(), 5432);
        assert_eq!(Url::parse("http://127.0.0.1").unwrap().address().unwrap().port(), 80);
        let bare = Url::parse("127.0.0.1:81").unwrap();
        assert_eq!((bare.address().unwrap().port(), bare.is_postgres()), (81, false));
        assert_eq!(bare.to_string(), "127.0.0.1:81");
    }

    #[test]
    fn two_hosts_or_none_are_refused() {
        assert!(Url::parse("postgres:///x").is_err());
        assert!(Url::parse("postgres://a,b/x").is_err());
    }
}
