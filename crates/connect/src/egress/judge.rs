//! The judge: from a name to the addresses that may be connected to, whatever is spoken there afterwards.
//!
//! Whoever makes a connection asks here and dials what it is given, nothing else. So there is no moment between the question
//! and the connection in which a name could change its mind.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::error::EgressError;
use super::resolver::{NoAddress, Resolver, SystemResolver};
use super::rules::EgressRules;

/// Rules, and whoever knows the addresses of names.
#[derive(Clone)]
pub struct Judge {
    rules: Arc<EgressRules>,
    resolver: Arc<dyn Resolver>,
}

impl Judge {
    pub fn new(rules: EgressRules) -> Self {
        Self::with_resolver(rules, Arc::new(SystemResolver))
    }

    /// With somebody else to ask for names.
    pub fn with_resolver(rules: EgressRules, resolver: Arc<dyn Resolver>) -> Self {
        Self { rules: Arc::new(rules), resolver }
    }

    pub fn rules(&self) -> &EgressRules {
        &self.rules
    }

    /// The addresses to dial for a host (a name, or an address without brackets) and a port. All of them are allowed.
    pub async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, EgressError> {
        if !self.rules.admits_port(port) {
            return Err(EgressError::DeniedPort(port));
        }
        let found = match host.parse::<IpAddr>() {
            Ok(address) if self.rules.admits(address) => vec![address],
            Ok(_) => return Err(EgressError::Denied),
            Err(_) => self.resolve(host).await?,
        };
        Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    /// All addresses of a name, if all of them are allowed.
    pub(super) async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, EgressError> {
        let found = self.resolver.resolve(name).await.unwrap_or_default();
        if found.is_empty() {
            return Err(EgressError::Transport(NoAddress.to_string()));
        }
        // One bad address among good ones is no accident of theirs.
        if !found.iter().all(|address| self.rules.admits(*address)) {
            return Err(EgressError::Denied);
        }
        Ok(found)
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge").field("rules", &self.rules).finish_non_exhaustive()
    }
}
