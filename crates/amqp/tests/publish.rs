//! Messages out, against a real broker: what is called confirmed is there, and what is not is not called so.

#[allow(dead_code, reason = "each test program uses its part of it")]
mod common;

use std::time::Duration;

use bowline_amqp::{AmqpError, Broker, Message, MessageProperties, Published, Publisher};
use bowline_seal::SecretValue;
use bowline_testkit::{free_port, shared_rabbitmq};
use common::{Witness, broker, message, unique};
use futures_util::future::join_all;
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_message_is_in_the_queue_with_all_it_was_given() {
    let address = shared_rabbitmq();
    let (witness, queue) = (Witness::of(&address).await, unique("all"));
    witness.queue(&queue).await;
    let publisher = Publisher::new(broker(&address));
    let properties = MessageProperties {
        content_type: Some("application/json".to_owned()),
        correlation_id: Some("order 7".to_owned()),
        expiration_ms: Some(3_600_000),
        priority: Some(3),
        kind: Some("order.paid".to_owned()),
        headers: json!({"try": 1, "who": {"name": "ü"}}).as_object().cloned().expect("an object"),
        ..MessageProperties::new("job 1")
    };
    let sent = Message { properties, body: br#"{"a":1}"#.to_vec(), ..message(&queue, "") };
    assert_eq!(publisher.publish(&sent, LIMIT).await, Ok(Published::Confirmed));
    let got = witness.take(&queue).await.expect("it is there");
    let text = |value: &Option<lapin::types::ShortString>| value.as_ref().map(ToString::to_string).unwrap_or_default();
    let found = &got.properties;
    assert_eq!(got.data, br#"{"a":1}"#);
    assert_eq!(*found.delivery_mode(), Some(2), "durable unless it is said otherwise");
    assert_eq!(text(found.message_id()), "job 1");
    assert_eq!(text(found.content_type()), "application/json");
    assert_eq!(text(found.correlation_id()), "order 7");
    assert_eq!(text(found.expiration()), "3600000");
    assert_eq!(text(found.kind()), "order.paid");
    assert_eq!(*found.priority(), Some(3));
    assert!(found.headers().as_ref().is_some_and(|headers| headers.contains_key("try") && headers.contains_key("who")));
    assert_eq!(witness.waiting(&queue).await, 0, "it was there once");
}

/// Many at once, because answers come in an order that is the broker's own.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_wants_is_unroutable_and_never_taken_for_another_s_confirm() {
    let address = shared_rabbitmq();
    let (witness, queue) = (Witness::of(&address).await, unique("some"));
    witness.queue(&queue).await;
    let publisher = Publisher::new(broker(&address));
    let nowhere = unique("nobody-reads-this");
    let wishes: Vec<(bool, Message)> =
        (0..200).map(|n| (n % 3 == 0, message(if n % 3 == 0 { &nowhere } else { &queue }, &format!("m{n}")))).collect();
    let answers = join_all(wishes.iter().map(|(_, message)| publisher.publish(message, LIMIT))).await;
    for ((lost, message), answer) in wishes.iter().zip(answers) {
        match answer.expect("the broker answers") {
            Published::Confirmed => assert!(!lost, "{message:?} is nowhere"),
            Published::Unroutable { code, text } => {
                assert!(*lost, "{message:?} has a queue");
                assert_eq!((code, text.as_str()), (312, "NO_ROUTE"));
            }
        }
    }
    assert_eq!(witness.drain(&queue).await.len(), wishes.iter().filter(|(lost, _)| !lost).count());
    // Who does not ask is not told: that is what `mandatory` is for.
    let quiet = Message { mandatory: false, ..message(&nowhere, "quiet") };
    assert_eq!(publisher.publish(&quiet, LIMIT).await, Ok(Published::Confirmed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_exchange_is_permanent_and_takes_nobody_else_s_message_with_it() {
    let address = shared_rabbitmq();
    let (witness, queue) = (Witness::of(&address).await, unique("good"));
    witness.queue(&queue).await;
    let publisher = Publisher::new(broker(&address));
    let missing = unique("no-such-exchange");
    let bad = Message { exchange: missing.clone(), ..message(&queue, "bad") };
    let wishes: Vec<Message> =
        (0..120).map(|n| if n % 4 == 0 { bad.clone() } else { message(&queue, &format!("m{n}")) }).collect();
    let answers = join_all(wishes.iter().map(|message| publisher.publish(message, LIMIT))).await;
    for (message, answer) in wishes.iter().zip(answers) {
        if message.exchange.is_empty() {
            assert_eq!(answer, Ok(Published::Confirmed));
        } else {
            let error = answer.expect_err("there is no such exchange");
            assert!(!error.is_transient(), "{error}");
            assert!(matches!(&error, AmqpError::Refused { code: 404, text } if text.contains(&missing)), "{error}");
        }
    }
    assert_eq!(publisher.publish(&message(&queue, "after"), LIMIT).await, Ok(Published::Confirmed));
    assert_eq!(witness.drain(&queue).await.len(), 91);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_hears_it_without_the_password() {
    let address = shared_rabbitmq();
    let right = broker(&address);
    let wrong = Broker { password: SecretValue::new("hunter22"), ..right.clone() };
    let mut elsewhere = right.clone();
    elsewhere.url.vhost = "no such host".to_owned();
    for (broker, secret) in [(wrong, "hunter22"), (elsewhere, address.password.as_str())] {
        let publisher = Publisher::new(broker);
        let error = publisher.publish(&message("q", "m"), LIMIT).await.expect_err("it is not let in");
        assert!(matches!(error, AmqpError::NotLetIn { .. }), "{error}");
        assert!(!error.is_transient(), "{error}");
        let shown = format!("{error} {error:?} {publisher:?}");
        assert!(!shown.contains(secret), "{shown}");
    }
    let mut nobody = right;
    nobody.url.port = free_port();
    let error = Publisher::new(nobody).publish(&message("q", "m"), LIMIT).await.expect_err("nobody listens");
    assert!(matches!(error, AmqpError::Unreachable { .. }) && error.is_transient(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_amqp_cannot_say_is_named_before_the_broker_is_asked() {
    // Nobody listens there, so an answer about the message did not come from a broker.
    let mut nobody =
        broker(&bowline_testkit::BrokerAddress { port: 1, user: "u".to_owned(), password: "p".to_owned() });
    nobody.url.port = free_port();
    let publisher = Publisher::new(nobody);
    let good = message("q", "m");
    let long = "x".repeat(256);
    let with = |change: &dyn Fn(&mut MessageProperties)| {
        let mut message = good.clone();
        change(&mut message.properties);
        message
    };
    for (message, place) in [
        (Message { exchange: long.clone(), ..good.clone() }, "exchange"),
        (Message { routing_key: long.clone(), ..good.clone() }, "routing_key"),
        (with(&|p| p.message_id = long.clone()), "properties.message_id"),
        (with(&|p| p.correlation_id = Some(long.clone())), "properties.correlation_id"),
        (with(&|p| p.expiration_ms = Some(u64::MAX)), "properties.expiration_ms"),
        (with(&|p| drop(p.headers.insert("n".to_owned(), json!(u64::MAX)))), "headers.n"),
    ] {
        let error = publisher.publish(&message, LIMIT).await.expect_err("it cannot be said");
        assert!(matches!(&error, AmqpError::BadMessage { path, .. } if path == place), "{error}");
        assert!(!error.is_transient());
    }
}
