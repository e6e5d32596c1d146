//! The proxy does what it is told to a connection, says how often, and heals without a scar.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use bowline_testkit::{ChaosProxy, Direction, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const SOON: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_millis(200);

/// A server that sends everything back, for as long as the set lives.
async fn echo_server() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound listener has an address").to_string();
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
        }
    });
    (address, server)
}

async fn echoes(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    stream.write_all(text.as_bytes()).await?;
    hears(stream, text).await
}

async fn hears(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    let mut heard = vec![0; text.len()];
    stream.read_exact(&mut heard).await?;
    assert_eq!(heard, text.as_bytes());
    Ok(())
}

#[tokio::test]
async fn it_passes_and_counts() {
    let (address, _server) = echo_server().await;
    let proxy = ChaosProxy::start(&address);
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    echoes(&mut stream, "hello").await.unwrap();
    let big = "x".repeat(1 << 20);
    let (mut from, mut to) = stream.split();
    let mut heard = vec![0; big.len()];
    let (sent, got) = tokio::join!(to.write_all(big.as_bytes()), from.read_exact(&mut heard));
    sent.unwrap();
    got.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "the end of a stream passes too");
    until(SOON, "the end of the connection", async || proxy.open_connections() == 0).await;
    let carried = (1 << 20) + 5;
    assert_eq!((proxy.connections(), proxy.bytes_to_server(), proxy.bytes_to_client()), (1, carried, carried));
}

#[tokio::test]
async fn it_cuts_with_a_reset_refuses_and_heals() {
    let (address, _server) = echo_server().await;
    let proxy = ChaosProxy::start(&address);
    for _ in 0..3 {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        echoes(&mut stream, "before").await.unwrap();
        proxy.cut();
        assert_eq!(proxy.open_connections(), 0);
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(TcpStream::connect(proxy.address()).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        proxy.cut();
        proxy.heal();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        echoes(&mut stream, "after").await.unwrap();
    }
    assert_eq!(proxy.connections(), 6);
}

#[tokio::test]
async fn a_black_hole_holds_one_direction_and_loses_nothing() {
    let (address, _server) = echo_server().await;
    let proxy = ChaosProxy::start(&address);
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    echoes(&mut stream, "hello").await.unwrap();

    proxy.black_hole(Direction::ToClient);
    stream.write_all(b"lost?").await.unwrap();
    assert!(tokio::time::timeout(SILENCE, hears(&mut stream, "lost?")).await.is_err());
    assert_eq!((proxy.bytes_to_server(), proxy.bytes_to_client()), (10, 5));
    proxy.heal();
    hears(&mut stream, "lost?").await.unwrap();

    proxy.black_hole(Direction::ToServer);
    stream.write_all(b"again").await.unwrap();
    assert!(tokio::time::timeout(SILENCE, hears(&mut stream, "again")).await.is_err());
    assert_eq!(proxy.bytes_to_server(), 10);
    proxy.heal();
    hears(&mut stream, "again").await.unwrap();

    proxy.black_hole(Direction::Both);
    let mut late = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(tokio::time::timeout(SILENCE, echoes(&mut late, "late")).await.is_err());
    proxy.heal();
    hears(&mut late, "late").await.unwrap();
}

#[tokio::test]
async fn latency_delays_each_way_and_keeps_the_order() {
    let (address, _server) = echo_server().await;
    let proxy = ChaosProxy::start(&address);
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.latency(Duration::from_millis(100));
    let before = Instant::now();
    for piece in ["a", "b", "c", "d", "e"] {
        stream.write_all(piece.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    hears(&mut stream, "abcde").await.unwrap();
    assert!(before.elapsed() >= Duration::from_millis(200), "took {:?}", before.elapsed());
    proxy.latency(Duration::from_secs(600));
    proxy.latency(Duration::ZERO);
    tokio::time::timeout(SOON, echoes(&mut stream, "fast")).await.expect("no latency is left").unwrap();
}

#[tokio::test]
async fn a_cut_after_bytes_breaks_in_the_middle_of_a_message() {
    let (address, _server) = echo_server().await;
    let proxy = ChaosProxy::start(&address);
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.cut_after_bytes(7);
    stream.write_all(b"hello").await.unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).await.unwrap_err();
    assert!(b"he".starts_with(&heard[..]), "{heard:?}");
    assert_eq!((proxy.bytes_to_server(), proxy.bytes_to_client()), (5, 2));
    until(SOON, "the cut", async || TcpStream::connect(proxy.address()).await.is_err()).await;
    proxy.heal();
    echoes(&mut TcpStream::connect(proxy.address()).await.unwrap(), "healed").await.unwrap();
}

#[tokio::test]
async fn without_a_server_behind_it_clients_are_reset() {
    let proxy = ChaosProxy::start(&format!("127.0.0.1:{}", bowline_testkit::free_port()));
    // The reset may come so fast that connecting itself fails.
    let error = match TcpStream::connect(proxy.address()).await {
        Ok(mut stream) => stream.read(&mut [0; 1]).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}
