//! The socket: accepting connections, with limits on everything a stranger can send, and closing them well.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use hyper::body::{Body, Incoming};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1::{self, UpgradeableConnection};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::connections::{Closed, Connection, Connections};
use crate::routes::router;
use crate::tls::ServerTls;
use crate::workers::Unwritten;

const HEADER_TIME: Duration = Duration::from_secs(10);
const HEADERS_MAX: usize = 100;
const HEADER_BYTES_MAX: usize = 32 * 1024;
/// A peer that takes nothing for this long is cut.
const STALL_MAX: Duration = Duration::from_secs(20);
/// How long requests in hand may take once the house closes.
const CLOSE_TIME: Duration = Duration::from_secs(20);

/// What a request came through.
#[derive(Debug, Clone)]
pub struct Socket {
    /// The address it came from. What a header says of that is anybody's word.
    pub peer: IpAddr,
    pub unwritten: Unwritten,
    /// For a WebSocket, which outlives the request.
    pub connection: Arc<Connection>,
}

/// Serves until `stop`, then finishes what is in hand. With `tls`, nothing else is spoken on this socket.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerTls>>,
    app: App,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let open = Connections::new(app.settings.connections, stop.clone());
    let uploads = app.uploads.clone();
    let service = router(app);
    let connections = TaskTracker::new();
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, most likely: those in hand will free some.
                tracing::warn!("a connection was not accepted: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(connection) = open.admit(peer.ip()) else {
            tracing::debug!(%peer, "refused a connection: too many are open, and none is idle");
            continue;
        };
        drop(stream.set_nodelay(true));
        let stream = Impatient::new(stream);
        let inside = TowerToHyperService::new(service.clone());
        let answering = Arc::clone(&connection);
        let unwritten = Unwritten::default();
        let socket = Socket { peer: peer.ip(), unwritten: unwritten.clone(), connection: Arc::clone(&connection) };
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(socket.clone());
            let (busy, answer) = (answering.busy(), inside.call(request));
            async move { answer.await.map(|response| response.map(|body| busy.until_sent(body))) }
        });
        let Some(tls) = &tls else {
            let http = builder.serve_connection(TokioIo::new(Flushed { stream, unwritten }), service);
            connections.spawn(drive(http.with_upgrades(), connection));
            continue;
        };
        // The peer has as long for its handshake as for its headers, and holds up no other.
        let (acceptor, builder) = (tls.acceptor(), builder.clone());
        connections.spawn(async move {
            let accepted = tokio::select! {
                accepted = tokio::time::timeout(HEADER_TIME, acceptor.accept(stream)) => accepted,
                _ = connection.closed() => return,
            };
            let stream = match accepted {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!("no TLS with {}: {error}", peer.ip()),
                Err(_) => return tracing::debug!("no TLS with {}: it took too long", peer.ip()),
            };
            let http = builder.serve_connection(TokioIo::new(Flushed { stream, unwritten }), service);
            drive(http.with_upgrades(), connection).await;
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(CLOSE_TIME, connections.wait()).await.is_err() {
        tracing::warn!("{} connections were cut while closing", connections.len());
    }
    if tokio::time::timeout(CLOSE_TIME, uploads.finish()).await.is_err() {
        tracing::warn!("uploads were cut while closing; what they left goes with its runs");
    }
    Ok(())
}

/// Answers requests on a connection until it ends. When the server stops, the request in hand is answered and no other.
async fn drive<I, S, B>(http: UpgradeableConnection<I, S>, connection: Arc<Connection>)
where
    I: Read + Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body + 'static,
    B::Error: Into<BoxError>,
{
    tokio::pin!(http);
    let mut closing = false;
    let ended = loop {
        tokio::select! {
            ended = http.as_mut() => break ended,
            closed = connection.closed(), if !closing => match closed {
                Closed::ForRoom => return,
                Closed::ByStop => {
                    closing = true;
                    http.as_mut().graceful_shutdown();
                }
            },
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// A stream that gives up on a peer that takes nothing.
struct Impatient {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    const fn new(stream: TcpStream) -> Self {
        Self { stream, stalled: None }
    }

    fn judge<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.stalled = None;
            return poll;
        }
        let timer = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + STALL_MAX)));
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Impatient {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.judge(cx, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.judge(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A stream that says when everything that was given to it has left this process.
struct Flushed<S> {
    stream: S,
    unwritten: Unwritten,
}

impl<S: AsyncRead + Unpin> AsyncRead for Flushed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Flushed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.unwritten.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
