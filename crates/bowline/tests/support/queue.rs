//! A queue of a test's own on a real broker, with its dead letters, seen and filled by a plain client; and a server that knows
//! the broker.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use bowline_testkit::BrokerAddress;
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use serde_json::{Value, json};

use super::{Setup, TestServer};

/// The line of configuration that lets tenants reach the broker, which is not out in the public.
pub const BROKER_ALLOWED: &str = "[egress]\nallow_networks = [\"127.0.0.1/32\"]\n";

/// A server that may reach the broker.
pub async fn server_with_broker() -> TestServer {
    TestServer::with(Setup { config: BROKER_ALLOWED.to_owned(), ..Setup::default() }).await
}

pub struct TestQueue {
    _connection: Connection,
    channel: Channel,
    pub name: String,
    dead: String,
}

impl TestQueue {
    pub async fn on(address: &BrokerAddress) -> Self {
        let url = format!("amqp://{}:{}@127.0.0.1:{}", address.user, address.password, address.port);
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.expect("the broker");
        let channel = connection.create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        let name = format!("trigger-{:016x}", rand::random::<u64>());
        let dead = format!("{name}-dead");
        let mut arguments = FieldTable::default();
        for (key, value) in [("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", dead.as_str())] {
            arguments.insert(key.into(), AMQPValue::LongString(value.into()));
        }
        for (queue, arguments) in [(&name, arguments), (&dead, FieldTable::default())] {
            let declared = channel.queue_declare(queue.as_str().into(), QueueDeclareOptions::durable(), arguments);
            declared.await.expect("a queue");
        }
        Self { _connection: connection, channel, name, dead }
    }

    /// Puts a message into the queue; the broker has it when this returns.
    pub async fn publish(&self, id: Option<&str>, sort: Option<&str>, body: &[u8]) {
        let mut properties = BasicProperties::default().with_delivery_mode(2);
        if let Some(id) = id {
            properties = properties.with_message_id(id.into());
        }
        if let Some(sort) = sort {
            properties = properties.with_content_type(sort.into());
        }
        let options = BasicPublishOptions::default();
        let sent = self.channel.basic_publish("".into(), self.name.as_str().into(), options, body, properties);
        let confirm = sent.await.expect("the broker takes it").await.expect("the broker answers");
        assert!(confirm.is_ack(), "{confirm:?}");
    }

    /// How many messages wait. Those in somebody's hand are not among them.
    pub async fn waiting(&self) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = self.channel.queue_declare(self.name.as_str().into(), options, FieldTable::default());
        queue.await.expect("the queue").message_count()
    }

    /// Takes a dead letter: its id and its body.
    pub async fn take_dead(&self) -> Option<(String, Vec<u8>)> {
        let got = self.channel.basic_get(self.dead.as_str().into(), BasicGetOptions::default());
        let got = got.await.expect("the queue")?;
        assert!(got.ack(BasicAckOptions::default()).await.expect("an acknowledgement"));
        let id = got.properties.message_id().as_ref().map(ToString::to_string).unwrap_or_default();
        Some((id, got.data.clone()))
    }

    /// What a trigger of this queue says.
    pub fn trigger(&self, start: Value) -> Value {
        json!({"rabbitmq": {"broker": "mq", "queue": self.name}, "start": start})
    }
}

/// The documents of the broker `mq`, whose password the server finds from now on.
pub fn broker_documents(server: &TestServer, address: &BrokerAddress) -> Vec<Value> {
    let directory = server.data_dir().join("secrets/default");
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join("mq"), &address.password).expect("a file");
    fs::set_permissions(directory.join("mq"), Permissions::from_mode(0o600)).expect("its mode");
    let broker = json!({"url": address.url(), "username": address.user, "password": {"secret_ref": "mq"}});
    vec![
        json!({"kind": "secret_ref", "name": "mq", "spec": {"ref": "file://mq", "connectors": ["mq"], "hosts": ["127.0.0.1"]}}),
        json!({"kind": "rabbitmq", "name": "mq", "spec": broker}),
    ]
}
