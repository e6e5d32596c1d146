//! What these tests see of a broker with eyes of their own: queues are made, counted and emptied with plain library calls, not
//! with the code under test.

use bowline_amqp::{Broker, Message, MessageProperties};
use bowline_connect::egress::{EgressRules, Judge};
use bowline_seal::SecretValue;
use bowline_testkit::BrokerAddress;
use lapin::message::BasicGetMessage;
use lapin::options::{BasicAckOptions, BasicGetOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties};

pub struct Witness {
    _connection: Connection,
    pub channel: Channel,
}

impl Witness {
    pub async fn of(address: &BrokerAddress) -> Self {
        let url = format!("amqp://{}:{}@127.0.0.1:{}", address.user, address.password, address.port);
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.expect("the broker is there");
        let channel = connection.create_channel().await.expect("a channel");
        Self { _connection: connection, channel }
    }

    pub async fn queue(&self, name: &str) {
        self.queue_with(name, &[]).await;
    }

    pub async fn queue_with(&self, name: &str, arguments: &[(&str, &str)]) {
        let mut table = FieldTable::default();
        for (key, value) in arguments {
            table.insert((*key).into(), AMQPValue::LongString((*value).into()));
        }
        self.channel.queue_declare(name.into(), QueueDeclareOptions::durable(), table).await.expect("a queue");
    }

    /// How many messages wait in it. Those in somebody's hand are not among them.
    pub async fn waiting(&self, name: &str) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = self.channel.queue_declare(name.into(), options, FieldTable::default()).await.expect("the queue");
        queue.message_count()
    }

    pub async fn take(&self, name: &str) -> Option<BasicGetMessage> {
        let got = self.channel.basic_get(name.into(), BasicGetOptions::default()).await.expect("the queue")?;
        assert!(got.ack(BasicAckOptions::default()).await.expect("an acknowledgement"));
        Some(got)
    }

    /// Empties it and returns the ids of what was there.
    pub async fn drain(&self, name: &str) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(message) = self.take(name).await {
            ids.push(message.properties.message_id().as_ref().map(ToString::to_string).unwrap_or_default());
        }
        ids
    }
}

/// A name that no other test has, as the broker is shared.
pub fn unique(name: &str) -> String {
    format!("{name}-{:016x}", rand::random::<u64>())
}

pub fn broker(address: &BrokerAddress) -> Broker {
    Broker {
        url: address.url().parse().expect("an address"),
        username: address.user.clone(),
        password: SecretValue::new(address.password.as_str()),
        ca: None,
        judge: Judge::new(rules()),
    }
}

/// `127.0.0.1` and what `localhost` may be besides stand for the outside. No other address of this machine does.
pub fn rules() -> EgressRules {
    let allow_networks = ["127.0.0.1/32", "::1/128"].map(|net| net.parse().expect("a network")).into();
    EgressRules { allow_networks, ..EgressRules::default() }
}

/// To a queue by its name, mandatory.
pub fn message(queue: &str, id: &str) -> Message {
    Message {
        exchange: String::new(),
        routing_key: queue.to_owned(),
        properties: MessageProperties::new(id),
        body: format!("body of {id}").into_bytes(),
        mandatory: true,
    }
}
