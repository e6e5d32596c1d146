//! `rabbitmq_publish`, from a job to a real broker and back to the job.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use bowline_testkit::{BrokerAddress, shared_rabbitmq};
use lapin::options::{BasicAckOptions, BasicGetOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use serde_json::{Value, json};

use crate::support::queue::BROKER_ALLOWED;
use crate::support::{Setup, TestServer};

/// The broker as a plain client sees it, with a queue of this test's own.
struct Eyes {
    _connection: Connection,
    channel: Channel,
    queue: String,
}

impl Eyes {
    async fn on(address: &BrokerAddress) -> Self {
        let url = format!("amqp://{}:{}@127.0.0.1:{}", address.user, address.password, address.port);
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.expect("the broker");
        let channel = connection.create_channel().await.expect("a channel");
        let queue = format!("it-{:016x}", rand::random::<u64>());
        let durable = QueueDeclareOptions::durable();
        channel.queue_declare(queue.as_str().into(), durable, FieldTable::default()).await.expect("a queue");
        Self { _connection: connection, channel, queue }
    }

    async fn take(&self) -> Option<(Vec<u8>, lapin::BasicProperties)> {
        let got =
            self.channel.basic_get(self.queue.as_str().into(), BasicGetOptions::default()).await.expect("the queue")?;
        assert!(got.ack(BasicAckOptions::default()).await.expect("an acknowledgement"));
        Some((got.data.clone(), got.properties.clone()))
    }
}

fn keep(server: &TestServer, name: &str, value: &str) {
    let directory = server.data_dir().join("secrets/default");
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join(name), value).expect("a file");
    fs::set_permissions(directory.join(name), Permissions::from_mode(0o600)).expect("its mode");
}

async fn put(server: &TestServer, path: &str, spec: Value) {
    let answer = server.send("PUT", &format!("/resources/{path}"), &server.admin(), Some(json!({"spec": spec}))).await;
    assert!(answer.status < 300, "{}", answer.body);
}

async fn publish(server: &TestServer, payload: Value) -> String {
    let policy = json!({"retry": {"max_attempts": 1}});
    server.submit(json!({"type": "rabbitmq_publish", "payload": payload, "policy": policy})).await
}

async fn server(address: &BrokerAddress) -> TestServer {
    let config = format!("[log]\nlevel = \"debug\"\n{BROKER_ALLOWED}");
    let server = TestServer::with(Setup { config, ..Setup::default() }).await;
    keep(&server, "mq", &address.password);
    put(&server, "secret_ref/mq", json!({"ref": "file://mq", "connectors": ["orders", "wrong", "away", "inside", "named", "smtp"], "hosts": ["127.0.0.1", "127.0.0.2", "127.2"]})).await;
    let broker = json!({"url": address.url(), "username": address.user, "password": {"secret_ref": "mq"}});
    put(&server, "rabbitmq/orders", broker).await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_succeeds_when_the_broker_has_confirmed_and_the_message_carries_the_job_s_id() {
    let address = shared_rabbitmq();
    let (eyes, server) = (Eyes::on(&address).await, server(&address).await);
    let payload = json!({
        "broker": "orders", "routing_key": eyes.queue, "body": {"order": 7}, "headers": {"tries": 1},
        "properties": {"correlation_id": "c7", "type": "order.paid"},
    });
    let job = publish(&server, payload).await;
    let done = server.until_status(&job, "success").await;
    assert_eq!(done["job"]["result"], json!({"confirmed": true, "message_id": job}), "{done}");
    let (body, properties) = eyes.take().await.expect("the message");
    assert_eq!(body, br#"{"order":7}"#);
    let text = |value: &Option<lapin::types::ShortString>| value.as_ref().map(ToString::to_string).unwrap_or_default();
    assert_eq!(text(properties.message_id()), job);
    assert_eq!(text(properties.correlation_id()), "c7");
    assert_eq!(text(properties.kind()), "order.paid");
    assert_eq!(*properties.delivery_mode(), Some(2));
    let headers = properties.headers().as_ref().expect("headers").inner();
    assert!(headers.contains_key("tries"), "{headers:?}");
    let trace = done["job"]["trace_id"].as_str().expect("a trace");
    let parent = headers.get("traceparent").and_then(|value| value.as_long_string()).map(ToString::to_string);
    assert!(parent.is_some_and(|parent| parent.starts_with(&format!("00-{trace}-"))), "{headers:?}");
    assert!(eyes.take().await.is_none(), "it was published once");
    // Nobody takes the password from under the broker, and it is in no log line; nor is a body.
    let gone = server.send("DELETE", "/resources/secret_ref/mq?reason=tidying+up", &server.admin(), None).await;
    assert_eq!(gone.status, 409, "{}", gone.body);
    assert!(gone.body.to_string().contains("the broker orders"), "{}", gone.body);
    let log = server.child().log();
    assert!(!log.contains(&address.password), "the password is in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_published_fails_the_job_with_the_reason_and_no_password() {
    let address = shared_rabbitmq();
    let (eyes, server) = (Eyes::on(&address).await, server(&address).await);
    keep(&server, "wrong", "hunter22-is-not-it");
    put(&server, "secret_ref/wrong", json!({"ref": "file://wrong", "connectors": ["wrong"], "hosts": ["127.0.0.1"]}))
        .await;
    let with =
        |url: String, secret: &str| json!({"url": url, "username": address.user, "password": {"secret_ref": secret}});
    put(&server, "rabbitmq/wrong", with(address.url(), "wrong")).await;
    put(&server, "rabbitmq/unkept", with(address.url(), "nowhere")).await;
    put(&server, "rabbitmq/away", with(format!("amqp://127.0.0.1:{}", bowline_testkit::free_port()), "mq")).await;
    // Not allowed: another address of the machine, the same in a spelling that only a resolver knows, a port of the mail.
    put(&server, "rabbitmq/inside", with(format!("amqp://127.0.0.2:{}", address.port), "mq")).await;
    put(&server, "rabbitmq/named", with(format!("amqp://127.2:{}", address.port), "mq")).await;
    put(&server, "rabbitmq/smtp", with("amqp://127.0.0.1:25".to_owned(), "mq")).await;
    let marked = "a body that nobody may log 8f3a";
    let to = |broker: &str| json!({"broker": broker, "routing_key": eyes.queue, "body": marked});
    let mut lost = to("orders");
    lost["routing_key"] = json!("no-queue-has-this-name");
    let mut missing = to("orders");
    missing["exchange"] = json!("no-such-exchange");
    let mut odd = to("orders");
    odd["queue"] = json!("x");
    let refused = server.post("/jobs", json!({"type": "rabbitmq_publish", "payload": odd})).await;
    assert_eq!(refused.status, 400, "what could never be published is refused at the door: {refused:?}");
    assert!(refused.body.to_string().contains("payload.queue: unknown field `queue`"), "{refused:?}");
    for (payload, class, words) in [
        (lost, "permanent", "312 NO_ROUTE"),
        (missing, "permanent", "404 NOT_FOUND - no exchange 'no-such-exchange'"),
        (to("nobody"), "permanent", "there is no resource rabbitmq nobody"),
        (to("wrong"), "permanent", "does not let us in"),
        (to("unkept"), "permanent", "no secret_ref nowhere"),
        (to("away"), "transient", "cannot be reached"),
        (to("inside"), "permanent", "EGRESS_DENIED: the broker at amqp://127.0.0.2:"),
        (to("named"), "permanent", "EGRESS_DENIED: the broker at amqp://127.2:"),
        (to("smtp"), "permanent", "EGRESS_DENIED: the broker at amqp://127.0.0.1:25 "),
    ] {
        let job = publish(&server, payload.clone()).await;
        let done = server.until_status(&job, "dead").await;
        let error = &done["runs"][0]["error"];
        assert_eq!(error["class"], class, "{done}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(words)), "{done}");
        assert!(!done["runs"].to_string().contains("hunter22"), "{done}");
    }
    assert!(eyes.take().await.is_none(), "nothing was published");
    let log = server.child().log();
    for secret in ["hunter22-is-not-it", address.password.as_str(), marked] {
        assert!(!log.contains(secret), "`{secret}` is in the log");
    }
    // A password that is put right counts for the next job, without a restart.
    put(&server, "rabbitmq/wrong", with(address.url(), "mq")).await;
    let job = publish(&server, to("wrong")).await;
    server.until_status(&job, "success").await;
    let (body, _) = eyes.take().await.expect("the message");
    assert_eq!(body, marked.as_bytes());
}

#[tokio::test]
async fn a_broker_with_a_password_in_its_address_is_refused_and_not_repeated() {
    let server = TestServer::start().await;
    let good = json!({"url": "amqp://mq", "username": "ann", "password": {"secret_ref": "mq"}});
    for (field, value, place) in [
        ("url", json!("amqp://ann:hunter22@mq"), "url"),
        ("password", json!("hunter22"), "password"),
        ("vhost", json!("hunter22"), "vhost"),
    ] {
        let mut spec = good.clone();
        spec[field] = value;
        let answer = server.send("PUT", "/resources/rabbitmq/mq", &server.admin(), Some(json!({"spec": spec}))).await;
        assert!((400..500).contains(&answer.status), "{}", answer.body);
        let text = answer.body.to_string();
        assert!(text.contains(place) && !text.contains("hunter22"), "{text}");
    }
    // None of them was stored.
    server.get("/resources/rabbitmq/mq").await.expect(404);
}
