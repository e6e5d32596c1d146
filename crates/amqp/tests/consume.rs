//! Messages in, against a real broker: nothing is acknowledged before it was handled, and nothing is kept when we go.

#[allow(dead_code, reason = "each test program uses its part of it")]
mod common;

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_amqp::{
    ConsumerSettings, Delivery, DeliveryKey, MessageProperties, Published, Publisher, Verdict, consume,
};
use bowline_testkit::{BrokerAddress, shared_rabbitmq, until};
use common::{Witness, broker, message, unique};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const PATIENCE: Duration = Duration::from_secs(60);

fn settings(queue: &str, prefetch: u16) -> ConsumerSettings {
    ConsumerSettings::new(queue, NonZeroU16::new(prefetch).expect("not zero"))
}

async fn fill(address: &BrokerAddress, queue: &str, count: usize) {
    let publisher = Publisher::new(broker(address));
    for n in 0..count {
        assert_eq!(publisher.publish(&message(queue, &format!("m{n}")), PATIENCE).await, Ok(Published::Confirmed));
    }
}

/// Prefetch is respected, nothing is acknowledged while it is in hand, and stopping gives everything back.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_hand_is_bounded_and_goes_back_when_we_stop() {
    let address = shared_rabbitmq();
    let (witness, queue) = (Witness::of(&address).await, unique("held"));
    witness.queue(&queue).await;
    fill(&address, &queue, 10).await;
    let (stop, tasks, begun) = (CancellationToken::new(), TaskTracker::new(), Arc::new(AtomicUsize::new(0)));
    let reading = {
        let (broker, stop, begun) = (broker(&address), stop.clone(), Arc::clone(&begun));
        let settings = ConsumerSettings { grace: Duration::ZERO, ..settings(&queue, 3) };
        tasks.spawn(async move {
            let handle = |_| {
                begun.fetch_add(1, Ordering::SeqCst);
                std::future::pending::<Verdict>()
            };
            consume(&broker, &settings, handle, stop).await;
        })
    };
    until(PATIENCE, "three are in hand", async || begun.load(Ordering::SeqCst) == 3).await;
    // The broker gives nothing more, however long one waits for it: seven wait, three are neither waiting nor gone.
    assert_eq!(witness.waiting(&queue).await, 7);
    assert_eq!(begun.load(Ordering::SeqCst), 3);
    stop.cancel();
    reading.await.expect("it stops");
    until(PATIENCE, "all are back", async || {
        let waiting = witness.waiting(&queue).await;
        if waiting == 10 { Ok(()) } else { Err(waiting) }
    })
    .await;
    let first = witness.take(&queue).await.expect("a message");
    assert!(first.redelivered, "it was in somebody's hand");
}

/// What is in hand may end before the consumer leaves.
#[tokio::test(flavor = "multi_thread")]
async fn who_stops_lets_what_is_in_hand_end() {
    let address = shared_rabbitmq();
    let (witness, queue) = (Witness::of(&address).await, unique("graceful"));
    witness.queue(&queue).await;
    fill(&address, &queue, 5).await;
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let (begun, release) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let reading = {
        let (broker, stop, settings) = (broker(&address), stop.clone(), settings(&queue, 2));
        let (begun, release) = (Arc::clone(&begun), release.clone());
        tasks.spawn(async move {
            let handle = async |_: Delivery| {
                begun.fetch_add(1, Ordering::SeqCst);
                release.cancelled().await;
                Verdict::Ack
            };
            consume(&broker, &settings, handle, stop).await;
        })
    };
    until(PATIENCE, "two are in hand", async || begun.load(Ordering::SeqCst) == 2).await;
    stop.cancel();
    release.cancel();
    reading.await.expect("it stops");
    assert_eq!(begun.load(Ordering::SeqCst), 2, "nothing new was begun");
    until(PATIENCE, "three are left", async || {
        let waiting = witness.waiting(&queue).await;
        if waiting == 3 { Ok(()) } else { Err(waiting) }
    })
    .await;
}

/// Poison goes to the dead-letter queue, what is not for now comes again with the same key, and the rest is gone.
#[tokio::test(flavor = "multi_thread")]
async fn each_verdict_is_what_the_broker_hears() {
    let address = shared_rabbitmq();
    let (witness, queue) = (Witness::of(&address).await, unique("verdicts"));
    let dead = format!("{queue}-dead");
    witness.queue(&dead).await;
    witness.queue_with(&queue, &[("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", &dead)]).await;
    let publisher = Publisher::new(broker(&address));
    for id in ["good", "later", "poison"] {
        let properties = MessageProperties {
            content_type: Some("text/plain".to_owned()),
            correlation_id: Some("c".to_owned()),
            headers: serde_json::json!({"n": 1}).as_object().cloned().expect("an object"),
            ..MessageProperties::new(id)
        };
        let message = bowline_amqp::Message { properties, ..message(&queue, id) };
        assert_eq!(publisher.publish(&message, PATIENCE).await, Ok(Published::Confirmed));
    }
    let seen: Arc<Mutex<Vec<Delivery>>> = Arc::default();
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let reading = {
        let (broker, stop, settings, seen) = (broker(&address), stop.clone(), settings(&queue, 8), Arc::clone(&seen));
        tasks.spawn(async move {
            let handle = async |delivery: Delivery| {
                let verdict = match delivery.message_id.as_deref() {
                    Some("poison") => Verdict::Reject,
                    Some("later") if !delivery.redelivered => Verdict::Requeue(Duration::from_millis(1)),
                    _ => Verdict::Ack,
                };
                seen.lock().expect("nobody panics").push(delivery);
                verdict
            };
            consume(&broker, &settings, handle, stop).await;
        })
    };
    until(PATIENCE, "four deliveries", async || seen.lock().expect("nobody panics").len() == 4).await;
    let poison = until(PATIENCE, "the poison", async || witness.take(&dead).await).await;
    assert_eq!(poison.properties.message_id().as_ref().map(ToString::to_string).as_deref(), Some("poison"));
    assert!(poison.properties.headers().as_ref().is_some_and(|headers| headers.contains_key("x-death")));
    stop.cancel();
    reading.await.expect("it stops");
    assert_eq!(witness.waiting(&queue).await, 0, "everything was answered for");
    assert_eq!(witness.waiting(&dead).await, 0, "nothing else was rejected");
    let seen = seen.lock().expect("nobody panics");
    let later: Vec<&Delivery> = seen.iter().filter(|d| d.message_id.as_deref() == Some("later")).collect();
    let [first, second] = later.as_slice() else { panic!("{later:?}") };
    assert!(!first.redelivered && second.redelivered);
    assert_eq!(first.key, second.key, "the same message is known again");
    assert_eq!(first.key, DeliveryKey::MessageId("later".to_owned()));
    assert_eq!(first.body, b"body of later");
    assert_eq!((first.content_type.as_deref(), first.correlation_id.as_deref()), (Some("text/plain"), Some("c")));
    assert_eq!(serde_json::Value::from(first.headers.clone()), serde_json::json!({"n": 1}));
    assert_eq!((first.exchange.as_str(), &first.routing_key, &first.queue), ("", &queue, &queue));
}

/// A queue that is not there yet is waited for; and messages without an id are never taken for one another.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_missing_is_waited_for() {
    let address = shared_rabbitmq();
    let (witness, queue) = (Witness::of(&address).await, unique("late"));
    let keys: Arc<Mutex<Vec<DeliveryKey>>> = Arc::default();
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let reading = {
        let (broker, stop, keys) = (broker(&address), stop.clone(), Arc::clone(&keys));
        let settings = ConsumerSettings { backoff_max: Duration::from_millis(200), ..settings(&queue, 8) };
        tasks.spawn(async move {
            let handle = async |delivery: Delivery| {
                keys.lock().expect("nobody panics").push(delivery.key);
                Verdict::Ack
            };
            consume(&broker, &settings, handle, stop).await;
        })
    };
    // Whether it has looked in vain before the queue is there is up to the machine; it must find it in either case.
    tokio::time::sleep(Duration::from_millis(500)).await;
    witness.queue(&queue).await;
    let publisher = Publisher::new(broker(&address));
    for _ in 0..2 {
        let twin = bowline_amqp::Message { body: b"same".to_vec(), ..message(&queue, "") };
        assert_eq!(publisher.publish(&twin, PATIENCE).await, Ok(Published::Confirmed));
    }
    until(PATIENCE, "both twins", async || keys.lock().expect("nobody panics").len() == 2).await;
    stop.cancel();
    reading.await.expect("it stops");
    let keys = keys.lock().expect("nobody panics");
    assert!(keys[0] != keys[1] && !keys[0].is_exact() && !keys[1].is_exact(), "{keys:?}");
}
