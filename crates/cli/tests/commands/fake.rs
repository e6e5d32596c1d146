//! A server made of answers, and a way to run a command against it.

use std::io::{Cursor, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::any;
use bowline_cli::{ClientCommand, Connection, Exit, Screen, run_on};
use clap::{Parser, Subcommand};
use hyper::body::{Bytes, Frame};
use tokio::sync::{mpsc, oneshot};

/// A request, as it arrived.
#[derive(Debug, Clone)]
pub struct Asked {
    /// `GET /jobs?limit=1`
    pub line: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.body))
    }

    pub fn path(&self) -> &str {
        self.line.split('?').next().unwrap()
    }
}

/// What to answer.
pub enum Reply {
    /// Status, and a body of JSON or whatever.
    Text(u16, String),
    /// The same with a `Retry-After`.
    Later(u16, u64),
    /// Pieces of a stream, which then ends or stays open.
    Stream { pieces: Vec<String>, stays: bool },
    /// Bytes, with the place where the next ones begin.
    Bytes { bytes: Vec<u8>, next_offset: Option<u64> },
    /// Bytes that one attempt wrote.
    Run { run: &'static str, bytes: String },
    /// The connection breaks after these bytes of an answer.
    Broken(Vec<u8>),
    /// The connection breaks before an answer.
    Hangup,
}

pub fn ok(json: impl Into<String>) -> Reply {
    Reply::Text(200, json.into())
}

pub fn refused(status: u16, code: &str, message: &str) -> Reply {
    let error = serde_json::json!({"code": code, "message": message, "details": {}});
    Reply::Text(status, serde_json::json!({"error": error, "request_id": "req-1", "trace_id": "t"}).to_string())
}

type Script = dyn Fn(&Asked, usize) -> Reply + Send + Sync;

pub struct Fake {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Fake {
    /// A server that answers by `script`, which also gets to know how many requests for the same path came before.
    pub fn start(script: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = oneshot::channel();
        let (seen, script): (_, Arc<Script>) = (Arc::clone(&asked), Arc::new(script));
        // A thread of its own, so that it ends with its runtime.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let app = axum::Router::new().fallback(any(move |request| answer(request, seen, script)));
                tokio::select! {
                    served = async { axum::serve(listener, app).await } => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self { url, asked, stop: Some(stop) }
    }

    /// A server with one answer for each path, such as `GET /jobs`.
    pub fn with(answers: &'static [(&'static str, &'static str)]) -> Self {
        Self::start(move |asked, _| match answers.iter().find(|(path, _)| *path == asked.path()) {
            Some((_, json)) => ok(*json),
            None => refused(404, "NOT_FOUND", "no such path"),
        })
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }

    /// Runs a command line against this server.
    pub async fn run(&self, args: &[&str]) -> Ran {
        self.run_answering(args, None).await
    }

    pub async fn run_answering(&self, args: &[&str], answer: Option<&str>) -> Ran {
        let line = ["bowline", "--server", &self.url, "--token", "t0ken"];
        run(line.into_iter().chain(args.iter().copied()), answer).await
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

async fn answer(request: axum::extract::Request, seen: Arc<Mutex<Vec<Asked>>>, script: Arc<Script>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 << 20).await.unwrap();
    let asked = Asked {
        line: format!("{} {}", parts.method, parts.uri),
        headers: parts.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    let before = {
        let mut seen = seen.lock().unwrap();
        let before = seen.iter().filter(|other: &&Asked| other.path() == asked.path()).count();
        seen.push(asked.clone());
        before
    };
    let answer = Response::builder().header("content-type", "application/json");
    match script(&asked, before) {
        Reply::Text(status, text) => answer.status(status).body(text.into()).unwrap(),
        Reply::Later(status, seconds) => answer
            .status(status)
            .header("retry-after", seconds)
            .body(
                r#"{"error":{"code":"OVERLOADED","message":"not now","details":{}},"request_id":"r","trace_id":"t"}"#
                    .into(),
            )
            .unwrap(),
        Reply::Stream { pieces, stays } => {
            let (sender, receiver) = mpsc::unbounded_channel();
            for piece in pieces {
                sender.send(piece).unwrap();
            }
            answer.body(Body::new(Pieces { receiver, _open: stays.then_some(sender) })).unwrap()
        }
        Reply::Bytes { bytes, next_offset } => {
            let answer = Response::builder().header("content-type", "text/plain; charset=utf-8");
            let answer = match next_offset {
                Some(next) => answer.header("x-next-offset", next),
                None => answer,
            };
            answer.body(bytes.into()).unwrap()
        }
        Reply::Run { run, bytes } => Response::builder().header("x-run-id", run).body(bytes.into()).unwrap(),
        Reply::Broken(bytes) => answer.body(Body::new(Breaks { bytes: Some(bytes.into()), wait: None })).unwrap(),
        Reply::Hangup => answer
            .status(StatusCode::OK)
            .header("content-length", 99)
            .body(Body::new(Pieces { receiver: mpsc::unbounded_channel().1, _open: None }))
            .unwrap(),
    }
}

/// A body that comes in pieces; while it holds its own sender, it never ends.
struct Pieces {
    receiver: mpsc::UnboundedReceiver<String>,
    _open: Option<mpsc::UnboundedSender<String>>,
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.receiver.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece.into()))))
    }
}

/// A body that breaks once its bytes are on their way.
struct Breaks {
    bytes: Option<Bytes>,
    wait: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl hyper::body::Body for Breaks {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(bytes) = self.bytes.take() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let wait = self.wait.get_or_insert_with(|| Box::pin(tokio::time::sleep(Duration::from_millis(50))));
        wait.as_mut().poll(cx).map(|()| Some(Err(std::io::ErrorKind::ConnectionReset.into())))
    }
}

/// What came of a command.
#[derive(Debug)]
pub struct Ran {
    pub exit: Exit,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {:?}", self.out))
    }
}

/// Stands for the binary.
#[derive(Parser)]
#[command(name = "bowline")]
pub struct Cli {
    #[command(flatten)]
    pub connection: Connection,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
#[expect(clippy::large_enum_variant, reason = "one value, taken apart at once")]
pub enum Command {
    /// Something that the binary does itself
    Serve,
    #[command(flatten)]
    Client(ClientCommand),
}

#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Paper {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs a command line at noon of 2026-01-03. `answer` is what somebody says to a question; `None` is nobody there.
pub async fn run<'a>(line: impl IntoIterator<Item = &'a str>, answer: Option<&str>) -> Ran {
    let cli = Cli::try_parse_from(line).unwrap_or_else(|error| panic!("{error}"));
    let (out, err) = (Paper::default(), Paper::default());
    let mut screen = Screen::to(Box::new(out.clone()), Box::new(err.clone()), &cli.connection)
        .at(|| "2026-01-03T12:00:00Z".parse().unwrap());
    if let Some(answer) = answer {
        screen = screen.answered_by(Box::new(Cursor::new(answer.to_owned().into_bytes())));
    }
    let Command::Client(command) = cli.command else { panic!("that is not for the client") };
    let running = run_on(&cli.connection, command, &mut screen);
    let exit = tokio::time::timeout(Duration::from_secs(30), running).await.expect("the command ends");
    drop(screen);
    Ran { exit, out: out.text(), err: err.text() }
}
