//! Whoever knows the addresses of names, and how the HTTP client asks the judge.

use std::io;
use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::error::EgressError;
use super::judge::Judge;

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

/// The judge in the place where the HTTP client asks for addresses: all that it gives out are allowed.
pub(super) struct JudgingResolver(pub Judge);

impl Resolve for JudgingResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let judge = self.0.clone();
        Box::pin(async move {
            match judge.resolve(name.as_str()).await {
                // Port 0 is replaced by the target's own.
                Ok(found) => Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs),
                Err(EgressError::Denied) => Err(NotAdmitted.into()),
                Err(_) => Err(NoAddress.into()),
            }
        })
    }
}
