//! From a socket to a login.

use std::sync::Arc;

use russh::client::connect_stream;
use tokio::net::TcpStream;

use super::cord::Cord;
use super::gatekeeper::{Gatekeeper, HandshakeError};
use super::{Connection, Ties};
use crate::error::ConnectError;
use crate::identity::LoginError;
use crate::pool::Shared;
use crate::target::Endpoint;

pub(super) enum HandshakeFailed {
    /// The server broke off before the login. Servers do that when too many call at once.
    BrokenOff(String),
    Final(ConnectError),
}

/// Whoever gives this up, gives up the socket.
pub(super) async fn handshake(
    shared: &Shared,
    endpoint: &Endpoint,
    stream: TcpStream,
) -> Result<Connection, HandshakeFailed> {
    use HandshakeFailed::{BrokenOff, Final};
    // Whole packets are written at once, and each is waited for.
    let _ = stream.set_nodelay(true);
    let ties = Ties::default();
    // The task that speaks is not ours to end. Without this it would go on, if we left, until the server says something.
    let guard = ties.cut.clone().drop_guard();
    let host = endpoint.known_as();
    let config = {
        let (known_hosts, host) = (Arc::clone(&shared.known_hosts), host.clone());
        let known = tokio::task::spawn_blocking(move || known_hosts.algorithms(&host)).await.unwrap_or_default();
        shared.negotiation.config(&known)
    };
    let gatekeeper = Gatekeeper::new(Arc::clone(&shared.known_hosts), host, ties.clone());
    let cord = Cord::new(stream, ties.cut.clone());
    let mut handle = connect_stream(config, cord, gatekeeper).await.map_err(|error| match error {
        HandshakeError::HostKey(problem) => Final(ConnectError::HostKey(problem)),
        HandshakeError::Ssh(error) if is_loss(&error) => BrokenOff(error.to_string()),
        HandshakeError::Ssh(error) => Final(ConnectError::Protocol(error)),
    })?;
    let user = endpoint.user.clone();
    match shared.identities.log_in(&mut handle, &endpoint.user, &shared.settings).await {
        Ok(()) => {}
        Err(LoginError::Refused { tried, methods }) => {
            return Err(Final(ConnectError::Refused { user, tried, methods }));
        }
        Err(LoginError::Lost) => {
            // The reason is noted by the task that speaks, just before it ends.
            ties.ended.cancelled().await;
            return Err(Final(ConnectError::LostDuringLogin { user, reason: ties.reason() }));
        }
        Err(LoginError::Agent(error)) => return Err(Final(*error)),
    }
    guard.disarm();
    Ok(Connection::new(handle, ties, shared.settings.sessions_max))
}

/// Whether the connection went away, rather than that there was no agreement.
fn is_loss(error: &russh::Error) -> bool {
    matches!(error, russh::Error::Disconnect | russh::Error::HUP | russh::Error::IO(_))
}
