//! What those who run the server allow beyond the public network, and how much an answer may be.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use reqwest::Url;

use super::address::{Sort, sort};
use super::error::EgressError;

/// The longest answer unless somebody says less.
pub const RESPONSE_MAX_BYTES: usize = 10 << 20;

/// Where calls may lead. Without more, to public addresses at ports 80, 443 and from 1024.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRules {
    /// Networks that may be reached although they are not public.
    pub allow_networks: Vec<IpNet>,
    /// Ports below 1024 that may be reached besides 80 and 443.
    pub allow_ports: BTreeSet<u16>,
    /// A longer answer is cut off, and is no answer.
    pub response_max_bytes: usize,
}

impl Default for EgressRules {
    fn default() -> Self {
        Self { allow_networks: Vec::new(), allow_ports: BTreeSet::new(), response_max_bytes: RESPONSE_MAX_BYTES }
    }
}

impl EgressRules {
    pub fn admits(&self, address: IpAddr) -> bool {
        // An IPv4 address in IPv6 clothes is connected to as what it is, so networks mean it, too.
        let address = address.to_canonical();
        if self.allow_networks.iter().any(|net| net.contains(&address)) {
            return true;
        }
        match sort(address) {
            Sort::Public => true,
            Sort::Closed => false,
            Sort::Carries(v4) => !v4.is_empty() && v4.into_iter().all(|v4| self.admits(v4.into())),
        }
    }

    pub fn admits_port(&self, port: u16) -> bool {
        matches!(port, 80 | 443 | 1024..) || self.allow_ports.contains(&port)
    }

    /// What can be said of a target before its name is resolved. A target that is an address is judged here, because no
    /// resolver is asked about it. So is the name that always means this machine (RFC 6761), whatever a resolver says.
    pub(super) fn check_target(&self, url: &Url) -> Result<(), EgressError> {
        let port = url.port_or_known_default().ok_or(EgressError::Denied)?;
        if !self.admits_port(port) {
            return Err(EgressError::DeniedPort(port));
        }
        let host = url.host_str().map(|host| host.trim_matches(['[', ']'])).ok_or(EgressError::Denied)?;
        let admitted = match host.parse::<IpAddr>() {
            Ok(address) => self.admits(address),
            Err(_) if host == "localhost" || host.ends_with(".localhost") => {
                self.admits(Ipv4Addr::LOCALHOST.into()) || self.admits(Ipv6Addr::LOCALHOST.into())
            }
            Err(_) => true,
        };
        if admitted { Ok(()) } else { Err(EgressError::Denied) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(networks: &[&str]) -> EgressRules {
        let allow_networks = networks.iter().map(|net| net.parse().unwrap()).collect();
        EgressRules { allow_networks, ..EgressRules::default() }
    }

    #[test]
    fn what_is_allowed_is_allowed_in_every_disguise_and_nothing_beside_it() {
        let rules = rules(&["10.1.0.0/16", "fd00:1::/32"]);
        let ask = |text: &str| rules.admits(text.parse().unwrap());
        for text in ["10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd00:1::1", "8.8.8.8"] {
            assert!(ask(text), "{text}");
        }
        for text in ["10.0.255.255", "10.2.0.0", "::ffff:10.2.0.0", "127.0.0.1", "fd00:2::1", "::1", "::10.1.2.3"] {
            assert!(!ask(text), "{text}");
        }
    }

    #[test]
    fn a_network_of_ipv6_does_not_allow_ipv4_in_disguise() {
        let rules = rules(&["::/8"]);
        assert!(!rules.admits("::ffff:127.0.0.1".parse().unwrap()));
        assert!(rules.admits("::1".parse().unwrap()));
    }

    #[test]
    fn the_name_of_this_machine_is_judged_without_asking_anybody() {
        let ask = |rules: &EgressRules, text: &str| rules.check_target(&Url::parse(text).unwrap()).is_ok();
        for text in ["http://localhost/", "http://LOCALHOST:8080/", "http://a.localhost/"] {
            assert!(!ask(&EgressRules::default(), text), "{text}");
            assert!(ask(&rules(&["127.0.0.0/8"]), text) && ask(&rules(&["::1/128"]), text), "{text}");
        }
        assert!(ask(&EgressRules::default(), "http://localhost.example/"));
    }

    #[test]
    fn ports_of_services_that_are_not_the_web_are_closed() {
        let rules = EgressRules { allow_ports: [25].into(), ..EgressRules::default() };
        for (port, open) in [(80, true), (443, true), (1024, true), (65535, true), (25, true)] {
            assert_eq!(rules.admits_port(port), open, "{port}");
        }
        for port in [0, 22, 81, 444, 1023] {
            assert!(!rules.admits_port(port), "{port}");
        }
    }
}
