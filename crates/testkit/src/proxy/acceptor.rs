//! The door of the proxy: takes connections, and closes all of them at once when told to cut.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::conduct::Shared;
use super::relay;

/// Where to say that an order was carried out, if anybody waits for it.
pub(super) type Done = Option<SyncSender<()>>;

pub(super) enum Order {
    Cut(Done),
    Listen(Done),
}

pub(super) async fn run(
    listener: StdListener,
    shared: Arc<Shared>,
    mut orders: UnboundedReceiver<Order>,
    stop: CancellationToken,
) {
    let address = listener.local_addr().expect("a bound listener has an address");
    listener.set_nonblocking(true).expect("a socket can be made non-blocking");
    let mut door = Some(TcpListener::from_std(listener).expect("a listener can join a runtime"));
    let mut connections = JoinSet::new();
    let mut scissors = CancellationToken::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(order) = orders.recv() => {
                let done = match order {
                    Order::Cut(done) => {
                        // A closed door refuses, as that of a dead server does. The port stays reserved for us.
                        door = None;
                        std::mem::take(&mut scissors).cancel();
                        while connections.join_next().await.is_some() {}
                        done
                    }
                    Order::Listen(done) => {
                        door = Some(match door.take() {
                            Some(door) => door,
                            None => listen(address).await,
                        });
                        done
                    }
                };
                if let Some(done) = done {
                    let _ = done.send(());
                }
            }
            client = accept(door.as_ref()) => {
                connections.spawn(serve(client, Arc::clone(&shared), scissors.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection, from its first byte to its end, counted.
async fn serve(mut client: TcpStream, shared: Arc<Shared>, scissors: CancellationToken) {
    shared.counters.accepted.fetch_add(1, Relaxed);
    shared.counters.open.fetch_add(1, Relaxed);
    let _counted = Leaving(Arc::clone(&shared));
    if bridge(&mut client, &shared, &scissors).await.is_err() {
        // Closing now sends a reset instead of a polite goodbye.
        let _ = client.set_zero_linger();
    }
}

async fn bridge(client: &mut TcpStream, shared: &Shared, scissors: &CancellationToken) -> io::Result<()> {
    let mut server = tokio::select! {
        server = TcpStream::connect(shared.upstream) => server?,
        () = scissors.cancelled() => return Err(relay::broken()),
    };
    // Latency is ours to add, not the kernel's.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ended = tokio::select! {
        ended = relay::carry(client, &mut server, shared) => ended,
        () = scissors.cancelled() => Err(relay::broken()),
    };
    if ended.is_err() {
        let _ = server.set_zero_linger();
    }
    ended
}

struct Leaving(Arc<Shared>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.counters.open.fetch_sub(1, Relaxed);
    }
}

async fn accept(door: Option<&TcpListener>) -> TcpStream {
    let Some(door) = door else { return std::future::pending().await };
    loop {
        // What fails here is a client that left while it waited, or a shortage of descriptors that will pass.
        match door.accept().await {
            Ok((client, _)) => return client,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// The port is reserved for us, but a connection that is not quite gone may hold it for a moment.
async fn listen(address: SocketAddr) -> TcpListener {
    for _ in 0..500 {
        if let Ok(listener) = TcpListener::bind(address).await {
            return listener;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the proxy could not listen on its own port {address} again");
}
