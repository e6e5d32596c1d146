//! An HTTP server that does what a test says: answers late, badly, too much, or not at all.
//!
//! The script gets a request as text and the bare connection it came on, so that it can do what no decent server does. Each
//! connection has one request and its own thread. What arrived is remembered, and so is how many connections there were:
//! where nothing may arrive, that nothing did is the evidence.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

type Script = dyn Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync;

#[derive(Default)]
struct Memory {
    connections: AtomicUsize,
    requests: Mutex<Vec<String>>,
    over: AtomicBool,
}

/// A running server. It takes no more connections once this guard is dropped.
pub struct ScriptedServer {
    address: SocketAddr,
    memory: Arc<Memory>,
}

impl ScriptedServer {
    /// On a free port of `127.0.0.1`.
    ///
    /// # Panics
    /// If this machine has no loopback.
    #[must_use]
    pub fn start(script: impl Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", script)
    }

    /// # Panics
    /// If this address is taken.
    #[must_use]
    pub fn start_at(
        address: &str,
        script: impl Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("the address is free");
        let address = listener.local_addr().expect("a bound listener has an address");
        let memory = Arc::<Memory>::default();
        let (kept, script): (_, Arc<Script>) = (Arc::clone(&memory), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if kept.over.load(Ordering::SeqCst) {
                    return;
                }
                kept.connections.fetch_add(1, Ordering::SeqCst);
                let (memory, script) = (Arc::clone(&kept), Arc::clone(&script));
                std::thread::spawn(move || serve(stream, &*script, &memory));
            }
        });
        Self { address, memory }
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// `http://ADDRESS:PORT` and a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Every whole request, head and body, in the order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.memory.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[must_use]
    pub fn connections(&self) -> usize {
        self.memory.connections.load(Ordering::SeqCst)
    }

    /// What a request says under a header, which is written in lower case.
    #[must_use]
    pub fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
        let head = request.split("\r\n\r\n").next()?;
        head.lines().skip(1).find_map(|line| line.split_once(": ").filter(|(n, _)| *n == name).map(|(_, v)| v))
    }

    /// A plain answer. `headers` are whole lines, each with its end.
    ///
    /// # Errors
    /// If the other side has gone.
    pub fn answer(stream: &mut TcpStream, status: &str, headers: &str, body: &str) -> io::Result<()> {
        write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
    }

    /// Waits until the other side hangs up, without having been answered.
    ///
    /// # Errors
    /// If it says something more instead.
    pub fn until_hung_up(stream: &mut TcpStream) -> io::Result<()> {
        match stream.read(&mut [0; 16]) {
            Ok(1..) => Err(io::Error::other("more was said after the request")),
            Ok(0) | Err(_) => Ok(()),
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.memory.over.store(true, Ordering::SeqCst);
        // Wakes the one who waits for connections.
        drop(TcpStream::connect(self.address));
    }
}

fn serve(mut stream: TcpStream, script: &Script, memory: &Memory) {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let Ok(n @ 1..) = stream.read(&mut buffer) else { return };
        text.extend_from_slice(&buffer[..n]);
        let seen = String::from_utf8_lossy(&text).into_owned();
        let Some((_, body)) = seen.split_once("\r\n\r\n") else { continue };
        let length = ScriptedServer::header(&seen, "content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
        if body.len() >= length {
            memory.requests.lock().unwrap_or_else(PoisonError::into_inner).push(seen.clone());
            // Whoever leaves early is part of the game.
            let _ = script(&seen, &mut stream);
            return;
        }
    }
}
