//! Messages out: one connection, made when it is first needed and again when it broke, and the broker's own word for every
//! message.
//!
//! A channel carries one message at a time. A broker answers "nobody wants it" and "I have it" one after the other and by
//! channel, so with two messages on the way the first answer could be taken for the other's; and a channel that the broker
//! closes, because an exchange is missing, takes nobody else's message with it. Channels that came back are used again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{Channel, Confirmation, Connection};
use tokio::sync::Semaphore;

use crate::connect::connect;
use crate::message::short;
use crate::{AmqpError, Broker, Message};

/// How many messages may be on their way at once. Whoever comes later waits, within its own time.
const ON_THE_WAY_MAX: usize = 64;
/// How many channels are kept for later.
const KEPT_MAX: usize = 16;

/// What the broker said about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// It has it.
    Confirmed,
    /// No queue wants it. Said only about messages that are `mandatory`.
    Unroutable { code: u16, text: String },
}

#[derive(Debug)]
pub struct Publisher {
    broker: Broker,
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    /// The same connection, for whoever only wants to look at it.
    seen: Mutex<Option<Arc<Connection>>>,
    kept: Mutex<Vec<Channel>>,
    places: Semaphore,
}

impl Publisher {
    /// Nothing is connected yet.
    pub fn new(broker: Broker) -> Self {
        Self {
            broker,
            connection: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
            kept: Mutex::default(),
            places: Semaphore::new(ON_THE_WAY_MAX),
        }
    }

    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Publishes and waits for the broker's confirm, for at most `limit`. After an error that is transient the broker may have
    /// the message all the same; the message id is how whoever reads it knows the second one.
    pub async fn publish(&self, message: &Message, limit: Duration) -> Result<Published, AmqpError> {
        match tokio::time::timeout(limit, self.try_publish(message)).await {
            Ok(answer) => answer,
            // The channel went with the attempt: a late answer must not be taken for the next one's.
            Err(_) => Err(AmqpError::TimedOut { blocked: self.is_blocked() }),
        }
    }

    async fn try_publish(&self, message: &Message) -> Result<Published, AmqpError> {
        let exchange = short("exchange", &message.exchange)?;
        let routing_key = short("routing_key", &message.routing_key)?;
        let properties = message.properties.to_amqp()?;
        let Ok(_place) = self.places.acquire().await else { return Err(AmqpError::Lost("closed".to_owned())) };
        let channel = self.channel().await?;
        let options = BasicPublishOptions { mandatory: message.mandatory, ..BasicPublishOptions::default() };
        let sent = channel.basic_publish(exchange, routing_key, options, &message.body, properties).await?;
        let answer = match sent.await? {
            Confirmation::Ack(None) => Ok(Published::Confirmed),
            Confirmation::Ack(Some(back)) | Confirmation::Nack(Some(back)) => {
                Ok(Published::Unroutable { code: back.reply_code, text: back.reply_text.to_string() })
            }
            Confirmation::Nack(None) => Err(AmqpError::Nacked),
            // The channel is not in the mode we put it in, so nothing it says is a confirm.
            Confirmation::NotRequested => Err(AmqpError::Lost("the broker was not asked to confirm".to_owned())),
        };
        self.keep(channel);
        answer
    }

    async fn channel(&self) -> Result<Channel, AmqpError> {
        while let Some(channel) = lock(&self.kept).pop() {
            if channel.status().connected() {
                return Ok(channel);
            }
        }
        let channel = self.connection().await?.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    }

    fn keep(&self, channel: Channel) {
        let mut kept = lock(&self.kept);
        if channel.status().connected() && kept.len() < KEPT_MAX {
            kept.push(channel);
        }
    }

    /// The connection, made anew if there is none that works. Whoever comes meanwhile waits for the one who makes it.
    async fn connection(&self) -> Result<Arc<Connection>, AmqpError> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = &*held
            && connection.status().connected()
        {
            return Ok(Arc::clone(connection));
        }
        *held = None;
        let made = Arc::new(connect(&self.broker, "bowline publisher").await?);
        *held = Some(Arc::clone(&made));
        *lock(&self.seen) = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Whether the broker has said that it takes no messages just now.
    fn is_blocked(&self) -> bool {
        lock(&self.seen).as_ref().is_some_and(|connection| connection.status().blocked())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
