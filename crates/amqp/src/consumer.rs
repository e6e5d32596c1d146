//! Messages in: a queue is read for as long as it is asked for, over however many connections that takes.
//!
//! *In hand*: of a delivery: its handling has begun and the broker has not heard how it ended. Never more than `prefetch`
//! deliveries are in hand, over all connections: what was in hand when a connection broke is finished before the next one is
//! made, although the broker will deliver it again. Whoever handles is never cut off in the middle by a broken connection.

use std::num::NonZeroU16;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::types::FieldTable;
use rand::RngExt;
use tokio_util::sync::CancellationToken;

use crate::connect::connect;
use crate::message::short;
use crate::{AmqpError, Broker, Delivery};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerSettings {
    pub queue: String,
    /// How many deliveries may be in hand at once.
    pub prefetch: NonZeroU16,
    /// How long to wait after the first failure to connect. Doubled with each further one, up to `backoff_max`.
    pub backoff: Duration,
    pub backoff_max: Duration,
    /// How long what is in hand may take to end when the consumer is asked to stop. The rest goes back to the queue.
    pub grace: Duration,
}

impl ConsumerSettings {
    pub fn new(queue: impl Into<String>, prefetch: NonZeroU16) -> Self {
        Self {
            queue: queue.into(),
            prefetch,
            backoff: Duration::from_millis(200),
            backoff_max: Duration::from_secs(15),
            grace: Duration::from_secs(10),
        }
    }
}

/// What becomes of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was handled; the broker may forget it.
    Ack,
    /// Not now. It goes back to the queue after so long, and is in hand until then.
    Requeue(Duration),
    /// Never. It goes to the queue's dead-letter exchange, or is gone if there is none.
    Reject,
}

/// How the reading of a queue goes, for whoever wants to show it.
#[derive(Debug)]
pub enum News<'a> {
    /// The broker delivers from now on.
    Reading,
    /// It does not any more, or not yet. It is tried again.
    Interrupted(&'a AmqpError),
}

/// Reads the queue until `stop`, and asks `handle` about every delivery. The broker hears of a delivery only what `handle`
/// answered, and only after it has.
///
/// A broker that is away, and a queue that is missing, are waited for. A panic in `handle` ends the consumer, and everything
/// that was in hand goes back to the queue.
pub async fn consume<F, R>(broker: &Broker, settings: &ConsumerSettings, handle: F, stop: CancellationToken)
where
    F: Fn(Delivery) -> R,
    R: Future<Output = Verdict>,
{
    consume_telling(broker, settings, handle, stop, &|_| ()).await;
}

/// The same, and `tell` hears how it goes.
pub async fn consume_telling<F, R>(
    broker: &Broker,
    settings: &ConsumerSettings,
    handle: F,
    stop: CancellationToken,
    tell: &(dyn Fn(News<'_>) + Sync),
) where
    F: Fn(Delivery) -> R,
    R: Future<Output = Verdict>,
{
    let mut failures = 0;
    while !stop.is_cancelled() {
        let mut session = Session { broker, settings, handle: &handle, stop: &stop, tell, was_up: false };
        let ended = session.run().await;
        if session.was_up {
            failures = 0;
        }
        let Err(error) = ended else { return };
        tell(News::Interrupted(&error));
        let pause = pause(settings, failures);
        failures = failures.saturating_add(1);
        let (queue, address) = (&settings.queue, &broker.url);
        tracing::warn!(
            amqp.queue = %queue, amqp.broker = %address,
            "queue {queue} is not read just now, next try in {} ms: {error}", pause.as_millis()
        );
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Between a half and the whole of what doubling gives, so that not everybody comes back at the same moment.
fn pause(settings: &ConsumerSettings, failures: u32) -> Duration {
    let whole = settings.backoff.saturating_mul(2_u32.saturating_pow(failures.min(20))).min(settings.backoff_max);
    whole.mul_f64(rand::rng().random_range(0.5..=1.0))
}

/// One connection's worth of deliveries.
struct Session<'a, F> {
    broker: &'a Broker,
    settings: &'a ConsumerSettings,
    handle: &'a F,
    stop: &'a CancellationToken,
    tell: &'a (dyn Fn(News<'_>) + Sync),
    /// Whether the queue could be read at all.
    was_up: bool,
}

impl<F, R> Session<'_, F>
where
    F: Fn(Delivery) -> R,
    R: Future<Output = Verdict>,
{
    /// Ends well only when it was asked to stop.
    async fn run(&mut self) -> Result<(), AmqpError> {
        let queue = short("queue", &self.settings.queue)?;
        let begin = async {
            let connection = connect(self.broker, "bowline consumer").await?;
            let channel = connection.create_channel().await?;
            channel.basic_qos(self.settings.prefetch.get(), BasicQosOptions::default()).await?;
            let options = BasicConsumeOptions::default();
            let consumer = channel.basic_consume(queue, "".into(), options, FieldTable::default()).await?;
            Ok::<_, AmqpError>((connection, channel, consumer))
        };
        let (connection, channel, mut consumer) = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Ok(()),
            begun = begin => begun?,
        };
        self.was_up = true;
        (self.tell)(News::Reading);
        let ending = CancellationToken::new();
        let mut in_hand = FuturesUnordered::new();
        let places = usize::from(self.settings.prefetch.get());
        let ended = loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break Ok(()),
                Some(()) = in_hand.next(), if !in_hand.is_empty() => {}
                next = consumer.next(), if in_hand.len() < places => match next {
                    Some(Ok(delivery)) => in_hand.push(self.one(delivery, &ending)),
                    Some(Err(error)) => break Err(error.into()),
                    None => break Err(AmqpError::Lost("the broker ended the reading of the queue".to_owned())),
                },
            }
        };
        // Nobody waits for a delay any more: the delivery goes back now, or is back already.
        ending.cancel();
        if ended.is_ok() {
            // Nothing more should come. If this fails the connection is gone, and that ends it too.
            let _ = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await;
        }
        let finish = async { while in_hand.next().await.is_some() {} };
        let patience = async {
            self.stop.cancelled().await;
            tokio::time::sleep(self.settings.grace).await;
        };
        tokio::select! {
            biased;
            () = finish => {}
            () = patience => tracing::warn!(
                amqp.queue = %self.settings.queue,
                "{} deliveries of queue {} were not handled in time and go back to it", in_hand.len(), self.settings.queue
            ),
        }
        // What is in hand, and what had come and was not begun, goes back to the queue with the connection.
        drop(in_hand);
        if connection.status().connected() {
            let _ = tokio::time::timeout(Duration::from_secs(5), connection.close(200, "OK".into())).await;
        }
        ended
    }

    async fn one(&self, mut from: lapin::message::Delivery, ending: &CancellationToken) {
        let delivery = Delivery::read(&self.settings.queue, &mut from);
        let tag = delivery.delivery_tag;
        let verdict = (self.handle)(delivery).await;
        let told = match verdict {
            Verdict::Ack => from.ack(BasicAckOptions::default()).await,
            Verdict::Requeue(after) => {
                tokio::select! {
                    () = ending.cancelled() => {}
                    () = tokio::time::sleep(after) => {}
                }
                from.reject(BasicRejectOptions { requeue: true }).await
            }
            Verdict::Reject => from.reject(BasicRejectOptions { requeue: false }).await,
        };
        // Not a failure of its own: the connection broke, and the consumer hears of that by itself.
        if !matches!(told, Ok(true)) {
            tracing::info!(
                amqp.queue = %self.settings.queue,
                "the broker did not hear how delivery {tag} of queue {} ended, and will deliver it again", self.settings.queue
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_limit() {
        let settings = ConsumerSettings::new("q", NonZeroU16::MIN);
        for (failures, whole) in [(0, 200), (1, 400), (4, 3_200), (7, 15_000), (u32::MAX, 15_000)] {
            let pause = pause(&settings, failures).as_millis();
            assert!((whole / 2..=whole).contains(&pause), "{failures}: {pause}");
        }
    }
}
