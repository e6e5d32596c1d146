//! The event stream as a WebSocket, read by a real client.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::support::TestServer;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

fn request(server: &TestServer, query: &str, header: (&'static str, &str)) -> Request {
    let url = server.url(&format!("/events/socket{query}")).replacen("http://", "ws://", 1);
    let mut request = url.into_client_request().expect("an address");
    request.headers_mut().insert(header.0, header.1.parse().expect("a header"));
    request
}

async fn open(server: &TestServer, query: &str) -> Socket {
    let bearer = format!("Bearer {}", server.admin());
    connect_async(request(server, query, ("authorization", &bearer))).await.expect("a WebSocket").0
}

async fn next(socket: &mut Socket) -> Message {
    let message = tokio::time::timeout(Duration::from_secs(20), socket.next()).await;
    message.expect("a message in time").expect("the socket is open").expect("a message")
}

/// Reads until this job has succeeded: the events, and the last id.
async fn until_success(socket: &mut Socket, job: &str) -> (Vec<Value>, String) {
    let mut events = Vec::new();
    loop {
        let Message::Text(text) = next(socket).await else { continue };
        let message: Value = serde_json::from_str(&text).expect("JSON");
        let event = message["event"].clone();
        let is_last = event["type"] == "job_succeeded" && event["data"]["job_id"] == job;
        events.push(event);
        if is_last {
            return (events, message["id"].as_str().expect("an id").to_owned());
        }
    }
}

/// Why the server closes the socket, whatever it sends before.
async fn farewell(socket: &mut Socket) -> CloseCode {
    loop {
        if let Message::Close(said) = next(socket).await {
            return said.expect("a reason").code;
        }
    }
}

/// The status of a handshake that was refused.
async fn refusal(request: Request) -> u16 {
    match connect_async(request).await {
        Err(Error::Http(answer)) => answer.status().as_u16(),
        Err(other) => panic!("expected an HTTP answer, not {other}"),
        Ok(_) => panic!("expected a refusal"),
    }
}

#[tokio::test]
async fn a_client_that_comes_back_misses_nothing_and_gets_nothing_twice() {
    let server = TestServer::start().await;
    let first = server.submit(json!({"type": "noop"})).await;
    let mut socket = open(&server, "?since=2020-01-01T00:00:00Z").await;
    let (before, last) = until_success(&mut socket, &first).await;
    socket.close(None).await.expect("a farewell");
    let second = server.submit(json!({"type": "noop"})).await;
    server.until_status(&second, "success").await;
    let mut socket = open(&server, &format!("?last_event_id={last}&type=job_enqueued,job_succeeded")).await;
    let (after, _) = until_success(&mut socket, &second).await;
    let types: Vec<&str> = after.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    assert_eq!(types, ["job_enqueued", "job_succeeded"], "only what was missed, and only what was asked for");
    assert!(before.iter().all(|event| !after.contains(event)));
    // Live, on the same socket.
    let third = server.submit(json!({"type": "noop"})).await;
    assert_eq!(until_success(&mut socket, &third).await.0.len(), 2);
}

#[tokio::test]
async fn a_browser_authenticates_by_a_subprotocol() {
    let server = TestServer::start().await;
    let offered = format!("bowline.events, bearer.{}", server.admin());
    let request_of =
        |offered: &str| request(&server, "?since=2020-01-01T00:00:00Z", ("sec-websocket-protocol", offered));
    let (mut socket, answer) = connect_async(request_of(&offered)).await.expect("a WebSocket");
    assert_eq!(answer.headers()["sec-websocket-protocol"], "bowline.events", "the token is not sent back");
    let job = server.submit(json!({"type": "noop"})).await;
    until_success(&mut socket, &job).await;
    assert_eq!(refusal(request_of("bowline.events, bearer.nobody")).await, 401);
    assert_eq!(refusal(request_of("bowline.events")).await, 401);
    // No other path takes it.
    let answer = server.http().get(server.url("/jobs")).header("sec-websocket-protocol", offered).send().await;
    assert_eq!(answer.expect("an answer").status(), 401);
}

#[tokio::test]
async fn a_socket_ends_with_its_credential_and_for_clients_that_talk() {
    let server = TestServer::start().await;
    let made = server.post("/tokens", json!({"kind": "api", "name": "reader", "scopes": ["events.read"]})).await;
    let made = made.expect(201);
    let bearer = format!("Bearer {}", made["token"].as_str().expect("a token"));
    let (mut socket, _) = connect_async(request(&server, "", ("authorization", &bearer))).await.expect("a WebSocket");
    let id = made["id"].as_str().expect("an id");
    server.post(&format!("/tokens/{id}/revoke"), json!({})).await.expect(200);
    assert_eq!(farewell(&mut socket).await, CloseCode::Away);
    let mut socket = open(&server, "").await;
    socket.send(Message::Text("hello".into())).await.expect("it is sent");
    assert_eq!(farewell(&mut socket).await, CloseCode::Unsupported);
}

#[tokio::test]
async fn what_is_no_websocket_and_bad_parameters_are_refused() {
    let mut server = TestServer::start().await;
    let plain = server.get("/events/socket").await;
    assert_eq!((plain.status, plain.code()), (400, "VALIDATION_ERROR"));
    let bearer = format!("Bearer {}", server.admin());
    for query in ["?last_event_id=x", "?typ=x", "?type=x"] {
        assert_eq!(refusal(request(&server, query, ("authorization", &bearer))).await, 400, "{query}");
    }
    let missing = server.get("/events?last_event_id=0-1").await;
    assert_eq!((missing.status, missing.code()), (400, "VALIDATION_ERROR"), "a list has a cursor");
    // A server that stops says so.
    let mut socket = open(&server, "").await;
    let (farewell, stopped) = tokio::join!(farewell(&mut socket), server.stop());
    assert_eq!(farewell, CloseCode::Away);
    assert!(stopped.success());
}
