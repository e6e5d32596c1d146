//! The sink counts what arrived, before it answers.

use std::time::{Duration, Instant};

use bowline_testkit::{Sink, until};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

async fn send(sink: &Sink, method: Method, path: &str, key: Option<&str>, body: &'static str) -> StatusCode {
    let host = sink.url().replace("http://", "");
    let stream = TcpStream::connect(&host).await.expect("the sink takes connections");
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.expect("the sink speaks HTTP");
    let mut driver = JoinSet::new();
    driver.spawn(async move { drop(connection.await) });
    let mut request = Request::builder().method(method).uri(path).header("host", host);
    if let Some(key) = key {
        request = request.header("Idempotency-Key", key);
    }
    let request = request.body(Full::new(Bytes::from(body))).expect("the test writes proper requests");
    sender.send_request(request).await.expect("the sink answers").status()
}

#[tokio::test]
async fn it_counts_by_key_and_keeps_what_was_sent() {
    let sink = Sink::start();
    assert!(sink.lines().is_empty());
    for (key, body) in [(Some("a"), "one"), (Some("b"), "line\nbreak"), (Some("a"), "one again"), (None, "no key")] {
        assert_eq!(send(&sink, Method::POST, "/hook?x=1", key, body).await, StatusCode::OK);
    }
    assert_eq!(send(&sink, Method::GET, "/", None, "").await, StatusCode::METHOD_NOT_ALLOWED);
    let lines = sink.lines();
    assert_eq!(lines.len(), 4);
    assert_eq!((lines[1].path.as_str(), lines[1].body.as_str()), ("/hook?x=1", "line\nbreak"));
    assert_eq!(lines[3].idempotency_key, None);
    assert!(lines.windows(2).all(|pair| pair[0].at_ms <= pair[1].at_ms));
    let counts: Vec<_> = sink.by_key().into_iter().collect();
    assert_eq!(counts, [("".to_owned(), 1), ("a".to_owned(), 2), ("b".to_owned(), 1)]);
}

#[tokio::test]
async fn a_delayed_answer_comes_after_the_line_even_if_nobody_waits_for_it() {
    let sink = Sink::start();
    sink.delay(Duration::from_millis(300));
    let before = Instant::now();
    send(&sink, Method::POST, "/", Some("slow"), "").await;
    assert!(before.elapsed() >= Duration::from_millis(300));

    sink.delay(Duration::from_secs(600));
    let hasty = send(&sink, Method::POST, "/", Some("hasty"), "");
    assert!(tokio::time::timeout(Duration::from_millis(300), hasty).await.is_err());
    until(Duration::from_secs(10), "the hasty line", async || sink.by_key().contains_key("hasty")).await;
}
