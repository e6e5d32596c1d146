//! From a name to a connection: finds its addresses, tries each, and calls again when the server was too busy.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};

use super::Connection;
use super::backoff::pause_before;
use super::handshake::{HandshakeFailed, handshake};
use crate::error::ConnectError;
use crate::pool::Shared;
use crate::target::Endpoint;

/// Makes a connection within the connect timeout. The wait for a turn does not count.
pub(crate) async fn connect(shared: &Shared, endpoint: &Endpoint) -> Result<Connection, ConnectError> {
    let mut purse = Purse::new(shared.settings.connect_timeout);
    let addresses = purse.spend("its name was not resolved", resolve(endpoint)).await??;
    let mut broken_off = 0;
    loop {
        let stream = reach(&mut purse, &addresses).await?;
        let turn = shared.handshakes.acquire().await.map_err(|_| ConnectError::Closed)?;
        let failed = match purse.spend("the server did not answer", handshake(shared, endpoint, stream)).await? {
            Ok(connection) => return Ok(connection),
            Err(HandshakeFailed::Final(error)) => return Err(error),
            Err(HandshakeFailed::BrokenOff(reason)) => reason,
        };
        drop(turn);
        broken_off += 1;
        let pause = pause_before(broken_off, rand::random());
        if purse.left <= pause {
            let within = purse.all.saturating_sub(purse.left);
            return Err(ConnectError::BrokenOff { times: broken_off, within, reason: failed });
        }
        tracing::debug!("{endpoint} broke off before the login ({failed}); calling again in {pause:?}");
        tokio::time::sleep(pause).await;
        purse.left -= pause;
    }
}

async fn resolve(endpoint: &Endpoint) -> Result<Vec<SocketAddr>, ConnectError> {
    if let Some(address) = endpoint.literal() {
        return Ok(vec![SocketAddr::new(address, endpoint.port)]);
    }
    let name = || endpoint.host.clone();
    let found = lookup_host((endpoint.host.as_str(), endpoint.port)).await;
    let found: Vec<_> = found.map_err(|source| ConnectError::Unresolved { name: name(), source })?.collect();
    if found.is_empty() { Err(ConnectError::NoAddress(name())) } else { Ok(found) }
}

/// Tries one address after the other. None gets the time that the ones after it need.
async fn reach(purse: &mut Purse, addresses: &[SocketAddr]) -> Result<TcpStream, ConnectError> {
    let mut tried = Vec::new();
    for (n, address) in addresses.iter().enumerate() {
        let share = purse.left / u32::try_from(addresses.len() - n).unwrap_or(u32::MAX);
        let started_at = Instant::now();
        let answer = timeout(share, TcpStream::connect(address)).await;
        purse.pay(started_at);
        match answer {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => tried.push((*address, error)),
            Err(_) => tried.push((*address, std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer"))),
        }
    }
    Err(ConnectError::Unreachable(tried))
}

/// The time there is for a connection.
struct Purse {
    all: Duration,
    left: Duration,
}

impl Purse {
    fn new(all: Duration) -> Self {
        Self { all, left: all }
    }

    async fn spend<T>(&mut self, or_else: &str, work: impl Future<Output = T>) -> Result<T, ConnectError> {
        let started_at = Instant::now();
        // On the heap, as there may be many and most of them wait.
        let done = timeout(self.left, Box::pin(work)).await;
        self.pay(started_at);
        done.map_err(|_| ConnectError::Timeout { after: self.all, phase: or_else.to_owned() })
    }

    fn pay(&mut self, since: Instant) {
        self.left = self.left.saturating_sub(since.elapsed());
    }
}
