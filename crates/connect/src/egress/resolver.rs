//! From names to addresses that may be connected to.
//!
//! The resolver that judges is the one the connection is made with. So there is no moment between the question and the
//! connection in which a name could change its mind.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::rules::EgressRules;

/// Whoever knows the addresses of a name.
#[async_trait]
pub trait Resolver: Send + Sync {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The machine's own: its files, its name servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect())
    }
}

/// The rules do not let us go to one of the addresses. Which one is nobody's business.
#[derive(Debug, thiserror::Error)]
#[error("the address is not allowed")]
pub(super) struct NotAdmitted;

#[derive(Debug, thiserror::Error)]
#[error("the name of the server cannot be resolved")]
pub(super) struct NoAddress;

/// Gives out addresses that are all allowed, or none.
pub(super) struct JudgingResolver {
    pub rules: Arc<EgressRules>,
    pub inner: Arc<dyn Resolver>,
}

impl Resolve for JudgingResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (rules, inner) = (Arc::clone(&self.rules), Arc::clone(&self.inner));
        Box::pin(async move {
            let found = inner.resolve(name.as_str()).await.map_err(|_| NoAddress)?;
            if found.is_empty() {
                return Err(NoAddress.into());
            }
            // One bad address among good ones is no accident of theirs.
            if !found.iter().all(|address| rules.admits(*address)) {
                return Err(NotAdmitted.into());
            }
            // Port 0 is replaced by the target's own.
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}
