//! One connection: two streams of bytes, each read, perhaps inspected, perhaps kept waiting, and written.
//!
//! Reading and writing are two sides of a queue, so that latency delays bytes without limiting how many are under way.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

use super::conduct::{Conduct, Shared};
use super::wire::{Passed, Session};

/// How many pieces may be under way in one direction: what the network between the two would hold.
const QUEUE_LENGTH: usize = 64;
const PIECE_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

enum Piece {
    Bytes(Bytes),
    /// The sender has said all it had to say.
    End,
    /// The connection breaks here.
    Break,
}

/// Carries bytes both ways. `Ok` when both sides have ended politely, an error when the connection is to be reset.
pub(super) async fn carry(client: &mut TcpStream, server: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    let session = shared.postgres.then(|| Mutex::new(Session::new(&shared.faults)));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::try_join!(
        pump(from_client, to_server, Way::ToServer, session.as_ref(), shared),
        pump(from_server, to_client, Way::ToClient, session.as_ref(), shared),
    )?;
    Ok(())
}

pub(super) fn broken() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

async fn pump(
    from: ReadHalf<'_>,
    to: WriteHalf<'_>,
    way: Way,
    session: Option<&Mutex<Session<'_>>>,
    shared: &Shared,
) -> io::Result<()> {
    let (sender, receiver) = channel(QUEUE_LENGTH);
    tokio::try_join!(read(from, sender, way, session, shared), write(to, receiver, way, shared))?;
    Ok(())
}

/// Never fails by itself: the end of a stream, good or bad, arrives in the queue like everything else.
async fn read(
    mut from: ReadHalf<'_>,
    queue: Sender<(Instant, Piece)>,
    way: Way,
    session: Option<&Mutex<Session<'_>>>,
    shared: &Shared,
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let count = from.read(&mut buffer).await;
        let due = Instant::now() + shared.conduct.borrow().latency;
        let last = match count {
            Ok(0) => Piece::End,
            Ok(count) => {
                let Passed { bytes, then_break } = inspect(&buffer[..count], way, session);
                if !bytes.is_empty() {
                    queue.send((due, Piece::Bytes(bytes))).await.map_err(|_| broken())?;
                }
                if !then_break {
                    continue;
                }
                Piece::Break
            }
            Err(_) => Piece::Break,
        };
        return queue.send((due, last)).await.map_err(|_| broken());
    }
}

fn inspect(bytes: &[u8], way: Way, session: Option<&Mutex<Session<'_>>>) -> Passed {
    let Some(session) = session else { return Passed { bytes: Bytes::copy_from_slice(bytes), then_break: false } };
    let mut session = session.lock().expect("reading along does not panic");
    match way {
        Way::ToServer => session.read_client(bytes),
        Way::ToClient => session.read_server(bytes),
    }
}

async fn write(
    mut to: WriteHalf<'_>,
    mut queue: Receiver<(Instant, Piece)>,
    way: Way,
    shared: &Shared,
) -> io::Result<()> {
    let mut conduct = shared.conduct.subscribe();
    let counter = match way {
        Way::ToServer => &shared.counters.to_server,
        Way::ToClient => &shared.counters.to_client,
    };
    while let Some((due, piece)) = queue.recv().await {
        tokio::time::sleep_until(due).await;
        conduct.wait_for(|conduct| !holds(conduct, way)).await.map_err(|_| broken())?;
        match piece {
            Piece::Bytes(bytes) => {
                let spent = shared.spend(bytes.len());
                to.write_all(&bytes[..spent.pass]).await?;
                counter.fetch_add(spent.pass as u64, Relaxed);
                if spent.then_break {
                    return Err(broken());
                }
            }
            Piece::End => return to.shutdown().await,
            Piece::Break => return Err(broken()),
        }
    }
    Ok(())
}

fn holds(conduct: &Conduct, way: Way) -> bool {
    match way {
        Way::ToServer => conduct.hold_to_server,
        Way::ToClient => conduct.hold_to_client,
    }
}
