//! A session on a connection to the target. Up to here nothing has been asked of the host, so whatever fails can be tried
//! again, and is, as long as it makes sense.

use std::sync::Arc;

use russh::client::Msg;
use russh::{Channel, ChannelOpenFailure};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::Order;
use crate::connection::{Lease, pause_before};
use crate::error::NotStarted;
use crate::pool::Shared;

/// Connections that are lost before the command is sent are replaced this many times.
const REPLACEMENTS_MAX: u32 = 2;

/// A server that refuses even one session is asked again this many times.
const REFUSALS_MAX: u32 = 3;

/// A session that has been sent its command.
pub(super) struct Session {
    pub channel: Channel<Msg>,
    pub lease: Lease,
    pub _turn: OwnedSemaphorePermit,
}

pub(super) async fn session(
    shared: &Arc<Shared>,
    order: &Order,
    stop: &CancellationToken,
) -> Result<Session, NotStarted> {
    let mut replaced = 0;
    loop {
        let lease = tokio::select! {
            lease = shared.lease(&order.endpoint) => lease?,
            () = stop.cancelled() => return Err(NotStarted::Canceled),
        };
        let lost = match on_connection(shared, lease, order, stop).await? {
            Opened::Session(session) => return Ok(session),
            Opened::Lost(lost) => lost,
        };
        replaced += 1;
        if replaced > REPLACEMENTS_MAX {
            return Err(lost);
        }
    }
}

enum Opened {
    Session(Session),
    /// The connection is of no use any more, but another one may be.
    Lost(NotStarted),
}

async fn on_connection(
    shared: &Arc<Shared>,
    lease: Lease,
    order: &Order,
    stop: &CancellationToken,
) -> Result<Opened, NotStarted> {
    let lost = |lease: &Lease| Ok(Opened::Lost(NotStarted::ConnectionLost { reason: lease.reason() }));
    let mut refused = 0;
    loop {
        let turn = tokio::select! {
            turn = Arc::clone(&lease.sessions).acquire_owned() => turn.map_err(|_| NotStarted::Closed)?,
            () = lease.ended() => return lost(&lease),
            () = stop.cancelled() => return Err(NotStarted::Canceled),
        };
        let connection = Arc::clone(lease.connection());
        let mut opening = Box::pin(async move { connection.open_session().await });
        let patience = shared.settings.connect_timeout;
        let opened = tokio::select! {
            opened = tokio::time::timeout(patience, &mut opening) => opened,
            () = stop.cancelled() => {
                // The server may open it yet; then it is to be closed.
                shared.start_after(async move {
                    if let Ok(Ok(channel)) = tokio::time::timeout(patience, opening).await {
                        let _ = channel.close().await;
                    }
                    drop((turn, lease));
                });
                return Err(NotStarted::Canceled);
            }
        };
        match opened {
            Ok(Ok(channel)) => {
                // If this fails it went nowhere: the task that would send it is gone.
                if channel.exec(true, order.line.as_str()).await.is_err() {
                    return lost(&lease);
                }
                return Ok(Opened::Session(Session { channel, _turn: turn, lease }));
            }
            // One that ends makes room for the next.
            Ok(Err(russh::Error::ChannelOpenFailure(_))) if lease.allows_fewer(turn) => {}
            Ok(Err(russh::Error::ChannelOpenFailure(reason))) => {
                refused += 1;
                if refused > REFUSALS_MAX {
                    return Err(NotStarted::SessionRefused(describe(&reason).to_owned()));
                }
                // The one before may not be quite gone on the other side.
                tokio::time::sleep(pause_before(refused, rand::random())).await;
            }
            Ok(Err(_)) => {
                lease.retired.cancel();
                return lost(&lease);
            }
            // Nobody is there any more, only that nobody told us.
            Err(_) => {
                lease.retired.cancel();
                return Ok(Opened::Lost(NotStarted::NoSession(patience)));
            }
        }
    }
}

fn describe(reason: &ChannelOpenFailure) -> &'static str {
    match reason {
        ChannelOpenFailure::AdministrativelyProhibited => "it is not allowed",
        ChannelOpenFailure::ConnectFailed => "it cannot open any more of them",
        ChannelOpenFailure::UnknownChannelType => "it does not know what a session is",
        ChannelOpenFailure::ResourceShortage => "it is short of resources",
        _ => "it does not say why",
    }
}
